"""`[alerts]`: whom to tell of a night, and what is loud enough to be told."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from .fields import COUNT, SHARE, Address, Count, PathText, Share, Table

Target = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+.-]+://")]


class AlertSettings(Table):
    """`[alerts]`: who is told, and when something counts as silent.

    `targets` are Apprise URLs, and so are the lines of `targets_file`; both may hold passwords. With
    `dashboard_url` what is told links to its pages. A night with nothing to tell is told in one line, unless
    `quiet` is "skip". A machine is silent that nobody has seen for `silent_minutes`, a night is missing that
    nobody has begun `overdue_hours` after it was due. Outcomes that the machine spoiled (throttled,
    contended) are told from `disturbed_share` on.
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
