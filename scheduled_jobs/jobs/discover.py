"""Job `discover`: find releases newer than a pinned baseline, and enqueue one upgrade for each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from configuration.schedules import MEASURE, ScheduleSettings
from configuration.settings import Settings
from db.connection.engine import Database
from db.findings import notices
from db.queue.queries import scheduled_runs
from records.findings import Notice
from records.tasks import NewTask, Task
from runner.environments.interpreter import BasePython, look_at
from runner.environments.package_index import list_versions
from runner.environments.recipe import NIGHTLY, Recipe
from runner.environments.versions import date_of, nightlies, parse
from runner.errors import IndexFailed
from scheduled_jobs.jobs.context import FollowUp, JobContext, JobResult
from scheduled_jobs.scheduler.planner import labels_of, measure_spec

#: The kind of the notice about a found release; there is one for each release, kept for ever.
RELEASE = "release"
UPGRADE = "upgrade"
#: Options of a nightly run that an upgrade does not have: it runs on one node and plans its own pairs.
_OF_NIGHTS = ("track", "baseline", "replicates", "nodes")


@dataclass(frozen=True, slots=True)
class _NewRelease:
    """A release that is new for a schedule: `judged` is whether it is compared with the baseline."""

    schedule: str
    baseline: str
    version: str
    judged: bool

    @property
    def run_name(self) -> str:
        """The schedule name of its upgrade; if a run of that name exists, the upgrade was enqueued before."""
        return f"{UPGRADE}:{self.schedule}:{self.baseline}:{self.version}"

    @property
    def run_name_before(self) -> str:
        """The name that 0.1.0 gave to that schedule; it does not name the baseline, but its tasks do."""
        return f"{UPGRADE}:{self.schedule}:{self.version}"

    @property
    def key(self) -> str:
        """The key of its notice."""
        return f"{self.schedule}/{self.baseline}/{self.version}"


def discover(task: Task, context: JobContext) -> JobResult:
    """Query the package index and enqueue an upgrade for each release newer than a schedule's baseline.

    The first time only the newest release is compared: the older ones were not adopted then. Of nightlies
    only the newest is reported, since schedules measure them anyway. Raises IndexFailed, DatabaseUnavailable.
    """
    base = look_at("")
    releases = _public(list_versions(Recipe(), base))
    with context.open_database() as database:
        found = [
            one
            for name, schedule in context.settings.schedules.items()
            if schedule.job == MEASURE and schedule.baseline
            for one in _new_releases(database, context, name, schedule, releases)
        ]
        enqueued = [one for one in found if one.judged and not _was_enqueued(database, one)]
        for one in found:
            # Only after its upgrade is enqueued: a release with a notice is not enqueued again.
            if one not in enqueued:
                _note(database, one, context)
    follow_ups = [
        FollowUp(one.run_name, _upgrades(context.settings.schedules[one.schedule], one), task.due_at)
        for one in enqueued
    ]
    new = list(dict.fromkeys(one.version for one in found))
    newest = releases[-1] if releases else ""
    upgrades = [f"{one.baseline} -> {one.version}" for one in enqueued]
    result = {
        "newest": newest,
        "new": new,
        "nightly": _nightly(context.settings, base),
        "upgrades": upgrades,
        "summary": _summary(newest, new, upgrades),
    }
    return JobResult(result=result, follow_ups=tuple(follow_ups))


def _new_releases(
    database: Database, context: JobContext, name: str, schedule: ScheduleSettings, releases: Sequence[str]
) -> list[_NewRelease]:
    """The releases newer than a schedule's baseline that have no notice yet."""
    baseline = schedule.baseline or ""
    pinned = pinned_version(baseline, context.settings)
    if pinned is None:
        return []
    newer = [text for text in releases if Version(text) > pinned]
    has_notice = {
        text: notices.notice(database, RELEASE, f"{name}/{baseline}/{text}") is not None for text in newer
    }
    first = not any(has_notice.values())
    return [
        _NewRelease(name, baseline, text, judged=not first or text == newer[-1])
        for text in newer
        if not has_notice[text]
    ]


def _was_enqueued(database: Database, one: _NewRelease) -> bool:
    """Whether an upgrade from this baseline to the release was enqueued before.

    An upgrade from another baseline does not count.
    """
    tasks = (task for run in scheduled_runs(database, one.run_name_before) for task in run.tasks)
    return bool(scheduled_runs(database, one.run_name, newest=1)) or any(
        task.spec.get("old") == one.baseline for task in tasks
    )


def pinned_version(baseline: str, settings: Settings) -> Version | None:
    """The release of a baseline; None for a nightly, a wheel, or an interpreter."""
    declared = settings.environments.get(baseline)
    version = parse((declared.torch or "") if declared else baseline)
    return None if version is None or date_of(version) else Version(version.public)


def _public(texts: Iterable[str]) -> list[str]:
    """Releases without their local parts, the oldest first."""
    versions = {Version(version.public) for text in texts if (version := parse(text))}
    return [str(version) for version in sorted(versions) if not version.is_prerelease]


def _upgrades(schedule: ScheduleSettings, one: _NewRelease) -> tuple[NewTask, ...]:
    how = {name: value for name, value in measure_spec(schedule, "").items() if name not in _OF_NIGHTS}
    spec = {"schedule": one.schedule, "old": one.baseline, "new": one.version, **how}
    return tuple(NewTask(label, UPGRADE, spec, label=label) for label in labels_of(schedule))


def _note(database: Database, one: _NewRelease, context: JobContext) -> None:
    what = f"PyTorch {one.version} is out; schedule {one.schedule} is pinned to {one.baseline}."
    how = (
        "The two are compared."
        if one.judged
        else "It is older than the first check for this schedule and is not compared."
    )
    facts: Mapping[str, str] = {"schedule": one.schedule, "baseline": one.baseline, "version": one.version}
    title = f"PyTorch {one.version} is out"
    notices.save_notice(database, Notice(RELEASE, one.key, context.now(), title, f"{what} {how}", facts))


def _nightly(settings: Settings, base: BasePython) -> str:
    """The newest nightly of the index if a schedule follows nightlies; None otherwise."""
    if not any(NIGHTLY in one.environments for one in settings.schedules.values() if one.job == MEASURE):
        return ""
    try:
        found = nightlies(list_versions(Recipe(torch=NIGHTLY), base, pre=True))
    except IndexFailed:
        # Releases are still reported; the task that measures the nightly reports this failure.
        return ""
    return found[-1] if found else ""


def _summary(newest: str, new: Sequence[str], upgrades: Sequence[str]) -> str:
    summary = f"newest release {newest or 'unknown'}"
    summary += f", new: {', '.join(new)}" if new else ", nothing new"
    return summary + (f"; judged by itself: {', '.join(upgrades)}" if upgrades else "")
