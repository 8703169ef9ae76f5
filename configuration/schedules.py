"""`[schedules.NAME]`: the jobs of a `pyrometer.toml` and their times."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Literal, cast
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from .errors import Origin, UnknownKey, WrongValue
from .fields import COUNT, SECONDS, ConfigTable, Count, Seconds, Text, Texts
from .suggestions import unknown

Job = Literal["measure", "upgrade", "discover", "detect", "digest", "prune", "check"]
MEASURE: Job = "measure"


def zone(name: str) -> tzinfo:
    """The time zone of that name; raises ValueError for one that this machine does not have."""
    if name == "UTC":
        # UTC also works on a machine without a time zone database.
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise ValueError(f"{name} is not a time zone of this machine") from None


def _zone_name(name: str) -> str:
    zone(name)
    return name


def _cron(text: str) -> str:
    # Six fields are refused: the sixth would be seconds, which have other rules when clocks change.
    if len(text.split()) != 5:
        raise ValueError("not five fields")
    try:
        CronSim(text, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        raise ValueError("not a cron expression") from None
    return text


def _split_labels(value: object) -> object:
    # A list may be written as text, because an environment variable cannot hold a list.
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


ZoneName = Annotated[str, AfterValidator(_zone_name)]
#: A label of machines; the name of a task's part ends with it.
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+=-]*$")]
#: Labels of machines, as a list or as a text with commas.
Labels = Annotated[tuple[Label, ...], BeforeValidator(_split_labels)]
Some = Annotated[Texts, Field(min_length=1)]
Reason = Annotated[str, StringConstraints(pattern=r"\S")]
#: The number of pairs must be even, because each side starts first in half of them; larger plans are refused.
EvenPairs = Annotated[Count, Field(ge=4, le=10_000, multiple_of=2)]


class ScheduleSettings(ConfigTable):
    """`[schedules.NAME]`: the job that runs at each fire time, in the configured time zone.

    `measure` follows the `environments` over the nights, one task for each and for each label of `machines`
    (default: any machine); `latest` is the newest release. `baseline` is the pinned environment. `watch` are
    the metrics that are judged. `upgrade` compares `new` with `old` by `policy`, in at most `pairs` of each
    case, without the cases of `waive`. `case_files` are relative to the `pyrometer.toml` of the machine that
    measures. `nodes` is the number of machines of each run, for cases with axis `nodes`. The suite sets the
    defaults of the other keys. With `enabled = false` it runs only when triggered.
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
    preset: Text | None = Field(default=None, description="the name of a preset")
    cases: Some | None = Field(default=None, description="a list of case keys or globs, at least one")
    case_files: Some | None = Field(
        default=None, description="a list of files with cases of your own, at least one"
    )
    nodes: Annotated[Count, Field(ge=2)] | None = Field(default=None, description="a whole number, 2 or more")
    replicates: Count | None = Field(default=None, description=COUNT)
    budget_seconds: Seconds | None = Field(default=None, description=SECONDS)
    device: Literal["auto", "cpu", "cuda"] | None = Field(default=None, description='"auto", "cpu" or "cuda"')
    lock_clocks: Count | None = Field(default=None, description="MHz, a whole number, 1 or more")
    watch: Some | None = Field(default=None, description="a list of metrics, at least one")
    old: Text | None = Field(default=None, description="an environment")
    new: Text | None = Field(default=None, description="an environment")
    policy: Text | None = Field(default=None, description="the name of a policy")
    pairs: EvenPairs | None = Field(default=None, description="an even number from 4 to 10000")
    waive: Mapping[Text, Reason] | None = Field(
        default=None, description="a table of reasons, one for each glob over case keys"
    )


_ALWAYS = frozenset({"cron", "job", "enabled"})
_RUN = frozenset(
    {"suite", "machines", "preset", "cases", "case_files", "budget_seconds", "device", "lock_clocks"}
)
_KEYS: dict[Job, frozenset[str]] = {
    MEASURE: _ALWAYS | _RUN | {"environments", "baseline", "nodes", "replicates", "watch"},
    "upgrade": _ALWAYS | _RUN | {"old", "new", "policy", "pairs", "waive"},
}


def keys_of(job: Job) -> frozenset[str]:
    """The keys that a schedule of that job may have."""
    return _KEYS.get(job, _ALWAYS)


#: Default schedules; a configured schedule of the same job replaces one.
BUILT_IN: dict[str, ScheduleSettings] = {
    "digest": ScheduleSettings(cron="0 8 * * *", job="digest"),
    "discover": ScheduleSettings(cron="0 */6 * * *", job="discover"),
    "check": ScheduleSettings(cron="*/10 * * * *", job="check"),
    "prune": ScheduleSettings(cron="0 12 * * 0", job="prune"),
}


def resolve_schedules(
    written: Mapping[str, ScheduleSettings], policies: Collection[str], origin: Origin
) -> tuple[dict[str, ScheduleSettings], frozenset[str]]:
    """All schedules by name, and the names of those that are built in.

    Raises WrongValue for a schedule with keys of another job or without a required key, and UnknownKey for a
    policy that is not in `policies`.
    """
    for name, schedule in written.items():
        _check(name, schedule, origin)
        if schedule.policy is not None and schedule.policy not in policies:
            where = origin.of(("schedules", name, "policy"))
            raise UnknownKey(f"{where}: {unknown('policy', schedule.policy, policies)}")
    jobs = {schedule.job for schedule in written.values()}
    built_in = {name: one for name, one in BUILT_IN.items() if one.job not in jobs}
    for name in built_in.keys() & written.keys():
        job, given = BUILT_IN[name].job, written[name].job
        raise WrongValue(
            f"{origin.table(('schedules', name, 'job'))}: its job is {given}, but the built-in schedule for "
            f"{job} has this name: choose another name"
        )
    return {**written, **built_in}, frozenset(built_in)


def _check(name: str, schedule: ScheduleSettings, origin: Origin) -> None:
    allowed = keys_of(schedule.job)
    if strange := sorted(schedule.model_fields_set - allowed):
        where = origin.of(("schedules", name, strange[0]))
        raise WrongValue(
            f"{where} is not a key of job {schedule.job} (it takes {', '.join(sorted(allowed))})"
        )
    if schedule.job == "upgrade" and not (schedule.old and schedule.new):
        missing = "new" if schedule.old else "old"
        raise WrongValue(
            f'{origin.table(("schedules", name, missing))}: "{missing}" is missing: job upgrade compares a '
            "new environment with an old one"
        )
    if schedule.lock_clocks is not None and (schedule.device == "cpu" or schedule.nodes is not None):
        other = 'device = "cpu"' if schedule.device == "cpu" else "nodes"
        raise WrongValue(
            f"{origin.of(('schedules', name, 'lock_clocks'))} cannot be combined with {other}: "
            "it holds the clocks of the GPUs of one machine"
        )
    if schedule.job != MEASURE:
        return
    if schedule.baseline is not None and schedule.baseline not in schedule.environments:
        where = origin.of(("schedules", name, "baseline"))
        raise WrongValue(
            f'{where} is "{schedule.baseline}", expected one of its environments '
            f"({', '.join(schedule.environments)})"
        )
    for key in ("environments", "machines"):
        values = getattr(schedule, key) or ()
        if twice := [value for value in values if list(values).count(value) > 1]:
            raise WrongValue(f'{origin.of(("schedules", name, key))} has "{twice[0]}" twice')
