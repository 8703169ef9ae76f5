"""Runs made of the points of other tools' files, and the problems found on the way."""

import hashlib
import json
import string
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from analysis.metrics import METRICS, Better
from analysis.replicates import summarise
from records.environments import Environment
from records.kinds import EnvironmentKind, RunSource, RunState
from records.machines import Hardware, Machine
from records.outcomes import Measurement, MetricDefinition, Outcome, OutcomeStatus
from records.runs import Run, RunPreset

from .errors import BadFile, SourcePlace
from .runs import MOST_PROBLEMS, ImportBatch, ImportedRun, ImportProblem, ProblemLog
from .units import objection, slug

#: The beginning of the name of a run whose time is unknown.
_UNDATED = "undated"
#: The format of runs that scripts submit.
SUBMITTED = "submitted"
#: Characters of a part of a case key; others are escaped as in a URL, so that no two names become equal.
_PLAIN = frozenset(string.ascii_letters + string.digits + "._-+:()[]{}<>@#*!~|^$&;'\"?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignOrigin:
    """What all points of one foreign run share.

    `identity` distinguishes the run from others of its format, suite, machine and time: a commit, a job. The
    same origin is the same run, so that what is imported twice is stored once. `hardware` is a label, and
    machines that share it are compared.

    If the time is unknown, `dated` is False and `started_at` a substitute: each copy of the file has
    another, so that it identifies no run, and `identity` holds a digest of all that was measured.
    """

    format: str
    suite: str
    started_at: datetime
    dated: bool = True
    identity: str = ""
    machine: str = "unknown"
    hardware: str = "unknown"
    torch_version: str = ""
    environment: str = ""
    python_version: str = ""
    environment_facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One metric of one case: a finite value for each fresh process.

    `case` is made by `case_key`. A metric of our own catalogue must be the same statistic in the same unit;
    any other has a name that no other format uses for something else. Its values are those that its unit lets
    stand (see `units.objection`), unless `unbound`: who measured it says what it may be.
    """

    case: str
    metric: str
    unit: str
    better: Better
    values: tuple[float, ...]
    place: SourcePlace
    title: str = ""
    unbound: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The status of a case without numbers, and the reason that the file states."""

    case: str
    status: OutcomeStatus
    reason: str


def case_key(
    name: str, phase: str, parameters: Mapping[str, Any] | None = None, technique: str = "eager"
) -> str:
    """The key of a foreign case, `name/phase/parameters/technique`, spelled so that it can be parsed.

    `phase` is `infer`, `train`, or `call` for what is neither. Parameters are sorted; those that are None
    are left out.
    """
    given = {plain(key): plain(str(value)) for key, value in (parameters or {}).items() if value is not None}
    pairs = ",".join(f"{key}={value}" for key, value in sorted(given.items()) if key and value)
    return f"{plain(name) or '-'}/{phase}/{pairs or '-'}/{technique}"


def plain(text: str) -> str:
    """A text as a part of a case key: separators, spaces and the unprintable as `%` and hexadecimal bytes."""
    if _PLAIN.issuperset(text):
        return text
    return "".join(
        each if each in _PLAIN else "".join(f"%{byte:02X}" for byte in each.encode(errors="replace"))
        for each in text
    )


def assemble_run(
    origin: ForeignOrigin, points: Iterable[Point], failures: Iterable[Failure] = ()
) -> tuple[ImportedRun, tuple[MetricDefinition, ...], tuple[ImportProblem, ...]]:
    """One run from its points; with the metrics that are not in our catalogue, and with the problems.

    Of two points of one case and metric the first counts. A metric in another unit or direction than in our
    catalogue, or than before, is set aside, for it is not the same metric, and so is a number that its unit
    does not let stand.
    """
    usable: dict[tuple[str, str], Point] = {}
    definitions: dict[str, MetricDefinition] = {}
    problems: list[ImportProblem] = []
    for point in points:
        if reason := _unusable(point, usable, definitions):
            problems.append(ImportProblem(point.place, reason))
            continue
        usable[point.case, point.metric] = point
        if point.metric not in METRICS:
            definition = MetricDefinition(point.metric, point.title or point.metric, point.unit, point.better)
            definitions.setdefault(point.metric, definition)
    environment = _environment(origin)
    good = _outcomes(origin, environment, usable.values())
    outcomes = (*good, *_failure_outcomes(origin, environment, failures, good))
    measurements = tuple(_measurement(point, environment) for point in usable.values())
    run = _run(origin, environment, len(outcomes))
    return ImportedRun(run, outcomes, measurements), tuple(definitions.values()), tuple(problems)


def _unusable(
    point: Point, usable: Mapping[tuple[str, str], Point], definitions: Mapping[str, MetricDefinition]
) -> str:
    if not point.values:
        return "there is no value"
    if (point.case, point.metric) in usable:
        return f"{point.metric} of {point.case} is in the file twice; the first one is used"
    definition = METRICS.get(point.metric) or definitions.get(point.metric)
    if definition is not None and definition.unit != point.unit:
        return f"{point.metric} is in {definition.unit}, not in {point.unit}"
    if definition is not None and definition.better != point.better:
        return f"of {point.metric} {definition.better} is better, not {point.better}"
    if point.unbound:
        return ""
    name = f"{point.metric} {point.case}"
    return next(filter(None, (objection(name, point.unit, point.better, each) for each in point.values)), "")


def _run(origin: ForeignOrigin, environment: Environment, planned: int) -> Run:
    machine = machine_called(origin.machine, origin.hardware)
    started = origin.started_at.astimezone(UTC)
    time = started.isoformat() if origin.dated else _UNDATED
    own = digest(origin.format, origin.suite, time, origin.identity, machine.fingerprint)
    source = RunSource.SUBMITTED if origin.format == SUBMITTED else RunSource.IMPORTED
    # The word `profile` is part of identities that are stored.
    preset = RunPreset(digest("profile", origin.format), origin.format, {"imported_from": origin.format})
    return Run(
        id=run_id(started if origin.dated else None, origin.format, own),
        suite=origin.suite,
        started_at=started,
        ended_at=None,
        state=RunState.COMPLETE,
        machine=machine,
        environments=(environment,),
        preset=preset,
        harness=origin.format,
        planned=planned,
        command=f"pyrometer import --format {origin.format}",
        notes=tuple(map(str, origin.facts.get("notes", ()))),
        facts={**origin.facts, "imported_from": origin.format},
        source=source,
        source_format=format_name(origin.format) if source == RunSource.IMPORTED else "",
    )


def machine_called(name: str, hardware: str, facts: Mapping[str, Any] | None = None) -> Machine:
    """A machine of which only names are known; those whose `hardware` is the same label are compared."""
    made = Hardware(digest("hardware", hardware), hardware, {"imported": True})
    return Machine(digest("machine", name, hardware), name, made, facts or {})


def run_id(started_at: datetime | None, format: str, own: str) -> str:
    """The name of a foreign run, by the digest `own`; `started_at` is None if the time is unknown."""
    name = format_name(format)
    if started_at is None:
        # Without a time nothing else distinguishes two runs.
        return f"{_UNDATED}-{name}-{own[:16]}"
    at = started_at.astimezone(UTC)
    # Not %Y, which leaves out the zeros of early years.
    return f"{at.year:04d}{at:%m%d-%H%M%S}-{name}-{own[:8]}"


def format_name(format: str) -> str:
    """A format as the id of a run and its `source_format` spell it."""
    return slug(format).replace("_", "-")


def is_undated(run: str) -> bool:
    """Whether the name is that of a run without a time."""
    return run.startswith(f"{_UNDATED}-")


def _environment(origin: ForeignOrigin) -> Environment:
    name = origin.environment or origin.torch_version or "unknown"
    facts = dict(origin.environment_facts)
    about = json.dumps(
        [origin.torch_version, origin.python_version, name, facts], sort_keys=True, default=str
    )
    return Environment(
        digest("environment", about),
        name,
        origin.torch_version,
        origin.python_version,
        facts,
        EnvironmentKind.FOREIGN,
    )


def _outcomes(origin: ForeignOrigin, environment: Environment, points: Iterable[Point]) -> list[Outcome]:
    by_case: dict[str, list[Point]] = {}
    for point in points:
        by_case.setdefault(point.case, []).append(point)
    return [
        _outcome(origin, environment, case, replicate, OutcomeStatus.OK, "", _nth(replicate, own))
        for case, own in by_case.items()
        for replicate in range(max(len(point.values) for point in own))
    ]


def _nth(replicate: int, points: Iterable[Point]) -> dict[str, float]:
    return {point.metric: point.values[replicate] for point in points if replicate < len(point.values)}


def _failure_outcomes(
    origin: ForeignOrigin, environment: Environment, failures: Iterable[Failure], good: Iterable[Outcome]
) -> list[Outcome]:
    """The failed replicates, numbered after the successful ones."""
    taken = Counter(outcome.case for outcome in good)
    failed: list[Outcome] = []
    for each in dict.fromkeys(failures):
        number = taken[each.case]
        if number and each.status == OutcomeStatus.OK:
            # It was successful, and has its numbers already.
            continue
        taken[each.case] += 1
        failed.append(_outcome(origin, environment, each.case, number, each.status, each.reason, {}))
    return failed


def _outcome(
    origin: ForeignOrigin,
    environment: Environment,
    case: str,
    replicate: int,
    status: OutcomeStatus,
    reason: str,
    metrics: Mapping[str, float],
) -> Outcome:
    started = origin.started_at.astimezone(UTC)
    return Outcome(case, environment.fingerprint, replicate, status, reason, "", started, 0.0, metrics)


def _measurement(point: Point, environment: Environment) -> Measurement:
    return Measurement(point.case, environment.fingerprint, point.metric, **asdict(summarise(point.values)))


def digest(*parts: str) -> str:
    """Sixteen hexadecimal digits for these texts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


@dataclass(slots=True)
class RunAccumulator:
    """Collects runs while a file is read; `build_batch` returns them."""

    format: str
    runs: dict[str, ImportedRun] = field(default_factory=dict[str, ImportedRun])
    metrics: dict[str, MetricDefinition] = field(default_factory=dict[str, MetricDefinition])
    log: ProblemLog = field(default_factory=ProblemLog)
    repeats: list[ImportProblem] = field(default_factory=list[ImportProblem])

    def aside(self, place: SourcePlace, sentence: str) -> None:
        """Record a problem."""
        self.log.add(place, sentence)

    @contextmanager
    def setting_aside(self) -> Generator[None]:
        """Record a BadFile that is raised within as a problem."""
        try:
            yield
        except BadFile as error:
            self.aside(error.place, error.sentence)

    def add(
        self,
        origin: ForeignOrigin,
        place: SourcePlace,
        points: Iterable[Point],
        failures: Iterable[Failure] = (),
    ) -> None:
        """A run from its points; an empty run, or one that was read before with other values, is skipped."""
        run, metrics, problems = assemble_run(origin, list(self._consistent_points(points)), failures)
        for problem in problems:
            self.aside(problem.place, problem.sentence)
        if not run.outcomes:
            self.aside(place, "holds no result")
        elif first := self.runs.get(run.run.id):
            if _results(first) == _results(run):
                self.repeats.append(ImportProblem(place, f"repeats run {run.run.id}"))
            else:
                self.aside(place, f"has other values of run {run.run.id}; the first ones are used")
        else:
            self.runs[run.run.id] = run
            self.metrics |= {metric.name: metric for metric in metrics}

    def _consistent_points(self, points: Iterable[Point]) -> Iterable[Point]:
        """The points whose metric has the same definition as in the runs before."""
        for point in points:
            definition = self.metrics.get(point.metric)
            if definition is not None and (definition.unit, definition.better) != (point.unit, point.better):
                self.aside(
                    point.place,
                    f"{point.metric} is in {definition.unit} and {definition.better} is better, "
                    f"not in {point.unit} and {point.better}",
                )
            else:
                yield point

    def build_batch(self, place: SourcePlace) -> ImportBatch:
        """All runs; raises BadFile if there is none, with the first reason."""
        if not self.runs:
            first = next(iter(self.log.problems), ImportProblem(place, "holds no result"))
            raise BadFile(first.place, first.sentence)
        return ImportBatch(
            self.format,
            tuple(self.runs.values()),
            tuple(self.metrics.values()),
            tuple(self.log.problems),
            self.log.many_more,
            tuple(self.repeats[:MOST_PROBLEMS]),
        )


def _results(one: ImportedRun) -> tuple[object, ...]:
    """A text of all measurements, which identifies a run without a time."""
    started = one.run.started_at
    return tuple(replace(each, started_at=started) for each in one.outcomes), one.measurements
