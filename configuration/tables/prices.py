"""`[prices]`: what an hour of a machine costs, to compute what a sample costs on it."""

from collections.abc import Mapping

from pydantic import Field

from ..fields import ConfigTable, Positive, Text


class PriceSettings(ConfigTable):
    """`[prices]`: what an hour of hardware costs, all in one `currency`; nothing is converted.

    `per_hour` maps labels of hardware, as the page Hardware shows them, to the price of an hour of all that
    the label names: of `8 x H200` the price of the machine with its eight GPUs. A case costs the share of
    the GPUs that it uses.
    """

    currency: Text = Field(default="USD", description='a word such as "EUR"')
    per_hour: Mapping[Text, Positive] = Field(
        default_factory=dict[str, float],
        description="a table of prices above 0, one for each label of hardware",
    )
