"""`[prices]`: what an hour of a machine costs, to compute what a sample costs on it."""

from collections.abc import Mapping

from pydantic import Field

from .fields import Positive, Table, Text


class PriceSettings(Table):
    """`[prices]`: hardware and what an hour of it costs, all in one `currency`.

    `per_hour` maps labels of hardware, as the dashboard shows them, to prices of an hour of **all** that the
    label names: of `8 x H200` the price of the machine with its eight GPUs, as clouds list it, and not of one
    GPU. What a case costs is made of the GPUs it uses. The currency is a word that is shown beside the
    prices; nothing is ever converted.
    """

    currency: Text = Field(default="USD", description='a word such as "EUR"')
    per_hour: Mapping[Text, Positive] = Field(
        default_factory=dict[str, float],
        description="a table of prices above 0, one for each label of hardware",
    )
