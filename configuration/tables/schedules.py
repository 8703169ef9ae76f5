"""`[schedules.NAME]`: what happens when, as a `pyrometer.toml` says it."""

from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Literal, cast
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from ..fields import COUNT, SECONDS, Count, Seconds, Table, Text, Texts

Job = Literal["measure", "upgrade", "discover", "detect", "digest", "prune", "check"]
MEASURE: Job = "measure"


def zone(name: str) -> tzinfo:
    """The time zone of that name; raises ValueError for one that this machine does not know."""
    if name == "UTC":
        # Also on a machine without a database of time zones.
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise ValueError(f"{name} is no time zone that this machine knows") from None


def _zone_name(name: str) -> str:
    zone(name)
    return name


def _cron(text: str) -> str:
    # A sixth field would be seconds, which have other rules when clocks change.
    if len(text.split()) != 5:
        raise ValueError("not five fields")
    try:
        CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        raise ValueError("not a cron expression") from None
    return text


def _listed(value: object) -> object:
    # A variable of the environment has no lists.
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


ZoneName = Annotated[str, AfterValidator(_zone_name)]
#: One that a machine is asked by; parts of tasks end with it.
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+=-]*$")]
#: Where a machine lends itself: a name, an address, or one of IPv6 in brackets.
Labels = Annotated[tuple[Label, ...], BeforeValidator(_listed)]
Some = Annotated[Texts, Field(min_length=1)]


class ScheduleSettings(Table):
    """`[schedules.NAME]`: what is done at each fire time, in the configured time zone.

    `measure` follows the `environments` over the nights, one task for each and for each label of
    `machines` (default: any machine); `latest` is the newest release. `baseline` is the pinned one.
    `watch` are the metrics that are judged. `upgrade` compares `new` with `old`. `case_files` are
    relative to the `pyrometer.toml` of the machine that measures. `nodes` is how many nodes a fleet gives to
    each run, for cases with axis `nodes`. Anything else is left to the suite by default. `enabled = false`
    keeps a schedule for being triggered by hand.
    """

    cron: Annotated[str, AfterValidator(_cron)] = Field(
        description='a cron expression of five fields such as "30 2 * * *"'
    )
    job: Job = Field(
        default=MEASURE, description="one of measure, upgrade, discover, detect, digest, prune and check"
    )
    enabled: bool = Field(default=True, description="true or false")
    suite: Text | None = Field(default=None, description="the name of a suite")
    environments: Some = Field(
        default=("default",), description='a list of environments such as "2.13.0", "latest" or "nightly"'
    )
    baseline: Text | None = Field(default=None, description="one of the schedule's environments")
    machines: Annotated[tuple[Label, ...], Field(min_length=1)] | None = Field(
        default=None, description="a list of machine labels, at least one"
    )
    profile: Text | None = Field(default=None, description="the name of a profile")
    cases: Some | None = Field(default=None, description="a list of case keys or globs, at least one")
    case_files: Some | None = Field(
        default=None, description="a list of files with cases of your own, at least one"
    )
    nodes: Annotated[Count, Field(ge=2)] | None = Field(default=None, description="a whole number, 2 or more")
    replicates: Count | None = Field(default=None, description=COUNT)
    budget_seconds: Seconds | None = Field(default=None, description=SECONDS)
    device: Literal["auto", "cpu"] | None = Field(default=None, description='"auto" or "cpu"')
    watch: Some | None = Field(default=None, description="a list of metrics, at least one")
    old: Text | None = Field(default=None, description="an environment")
    new: Text | None = Field(default=None, description="an environment")


_ALWAYS = frozenset({"cron", "job", "enabled"})
_RUN = frozenset({"suite", "machines", "profile", "cases", "case_files", "budget_seconds", "device"})
_KEYS: dict[Job, frozenset[str]] = {
    MEASURE: _ALWAYS | _RUN | {"environments", "baseline", "nodes", "replicates", "watch"},
    "upgrade": _ALWAYS | _RUN | {"old", "new"},
}


def keys_of(job: Job) -> frozenset[str]:
    """The keys that a schedule of that job may have."""
    return _KEYS.get(job, _ALWAYS)


#: What happens even where nobody wrote it down, unless a schedule of that job was.
BUILT_IN: dict[str, ScheduleSettings] = {
    "digest": ScheduleSettings(cron="0 8 * * *", job="digest"),
    "discover": ScheduleSettings(cron="0 */6 * * *", job="discover"),
    "check": ScheduleSettings(cron="*/10 * * * *", job="check"),
    "prune": ScheduleSettings(cron="0 12 * * 0", job="prune"),
}
