"""`[alerts]`: the notification targets, and what is reported to them."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ..fields import COUNT, SHARE, Address, ConfigTable, Count, PathText, Share

Target = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+.-]+://")]


class AlertSettings(ConfigTable):
    """`[alerts]`: who receives reports, and when something counts as silent.

    `targets` and the lines of `targets_file` are Apprise URLs. `dashboard_url` is used for links. `quiet`
    says whether a digest without problems or changes is sent. A machine is silent after `silent_minutes`
    without a sign of life; a night is missing if it was not begun `overdue_hours` after it was due.
    `disturbed_share` is the share of throttled and contended outcomes that is reported.
    """

    targets: tuple[Target, ...] = Field(default=(), description="a list of Apprise URLs", repr=False)
    targets_file: PathText | None = Field(
        default=None, description="the path of a file with an Apprise URL a line"
    )
    dashboard_url: Address | None = Field(default=None, description="the URL of the dashboard")
    quiet: Literal["send", "skip"] = Field(default="send", description='"send" or "skip"')
    silent_minutes: Count = Field(default=30, description=COUNT)
    overdue_hours: Count = Field(default=12, description=COUNT)
    disturbed_share: Share = Field(default=0.05, description=SHARE)
