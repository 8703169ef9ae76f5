"""Measurements of a team's own script, as the JSON that `pyrometer submit` reads; docs/import.md describes
it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from analysis.metrics import DIRECTIONS, METRICS, Better
from records.json_values import name_in
from records.machines import Machine
from records.outcomes import MetricDefinition, Outcome, OutcomeStatus
from records.runs import RunPreset

from ..errors import BadFile
from ..foreign_runs import SUBMITTED, Failure, ForeignOrigin, Point, assemble_run, case_key, plain
from ..runs import ImportBatch, ImportedRun, ImportProblem
from ..source_file import Value
from ..units import objection

NAME = SUBMITTED

PHASES = ("infer", "train", "call")
#: The statuses of a script's case: nothing looks for interference while it runs.
STATUSES = tuple(
    status for status in OutcomeStatus if status not in (OutcomeStatus.CONTENDED, OutcomeStatus.THROTTLED)
)
_FIELDS = (
    *("suite", "case", "started_at", "torch", "python", "environment", "preset", "gpus"),
    *("metrics", "status", "reason", "facts"),
)
_OF_A_METRIC = ("value", "values", "unit", "better", "title")
#: The permitted names of own metrics: they are part of addresses.
_METRIC = re.compile(r"[a-z][a-z0-9_.]*")

#: Two clocks may differ by so much.
_AHEAD = timedelta(minutes=5)

#: What `runner.machine.describe` needs of a device: name and memory_mib.
Gpu = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Submission:
    """One element of the file, checked. `gpus` are the devices that the script's PyTorch saw."""

    suite: str
    case: str
    started_at: datetime
    torch: str
    python: str
    environment: str
    preset: str
    gpus: tuple[Gpu, ...]
    points: tuple[Point, ...]
    status: OutcomeStatus
    reason: str
    facts: Mapping[str, Any]

    @property
    def run(self) -> tuple[str, ...]:
        """What submissions share that belong to one run."""
        gpus = json.dumps(self.gpus, sort_keys=True)
        started = self.started_at.isoformat()
        return self.suite, started, self.torch, self.python, self.environment, self.preset, gpus


def submissions(
    document: Value, default_time: datetime | None, now: datetime | None = None
) -> list[Submission]:
    """The elements of a document: one object, or a list of them; raises BadFile for the first mistake.

    `default_time` is for those that do not say when they were measured; with None they have to. `now` is the
    clock's time where it is None: nothing was measured after it.
    """
    latest = (now or datetime.now(UTC)) + _AHEAD
    elements = document.list() if isinstance(document.value, list) else [document]
    if not elements:
        raise BadFile(document.place, "holds no result")
    found = [_submission(element, default_time, latest) for element in elements]
    _check_definitions(found)
    return found


def _check_definitions(parts: Sequence[Submission]) -> None:
    """Raise BadFile where a metric has two units or directions: in two runs of the file as well as in one."""
    first_points: dict[str, Point] = {}
    for point in (point for part in parts for point in part.points):
        first = first_points.setdefault(point.metric, point)
        if (point.unit, point.better) != (first.unit, first.better):
            raise BadFile(
                point.place,
                f'is in "{point.unit}" ({point.better}), and "{first.unit}" ({first.better}) before',
            )


def group_submissions(parts: list[Submission], machine: Callable[[Sequence[Gpu]], Machine]) -> ImportBatch:
    """The submissions as runs; those that share suite, time, environment and GPUs are one run.

    `machine` is the one that has these GPUs.
    """
    runs: dict[tuple[str, ...], list[Submission]] = {}
    for part in parts:
        runs.setdefault(part.run, []).append(part)
    done: list[ImportedRun] = []
    metrics: dict[str, MetricDefinition] = {}
    problems: list[ImportProblem] = []
    for own in runs.values():
        run, definitions, aside = _build_run(own, machine(own[0].gpus))
        done.append(run)
        problems += aside
        metrics |= {each.name: each for each in definitions}
    return ImportBatch(NAME, tuple(done), tuple(metrics.values()), tuple(problems))


def _build_run(
    own: list[Submission], machine: Machine
) -> tuple[ImportedRun, tuple[MetricDefinition, ...], tuple[ImportProblem, ...]]:
    first = own[0]
    origin = ForeignOrigin(
        format=NAME,
        suite=first.suite,
        started_at=first.started_at,
        # The label alone names no hardware: the machine's fingerprint does, and it takes its place below.
        identity=json.dumps([*first.run, machine.fingerprint, machine.hardware.fingerprint]),
        machine=machine.name,
        hardware=machine.hardware.label,
        torch_version=first.torch,
        python_version=first.python,
        environment=first.environment,
    )
    points = [point for each in own for point in each.points]
    failures = [
        Failure(each.case, each.status, each.reason) for each in own if each.status != OutcomeStatus.OK
    ]
    made, definitions, problems = assemble_run(origin, points, failures)
    settings = {"submitted_as": first.preset}
    # Distinct from our preset of that name: the settings of a submission are not known.
    fingerprint = hashlib.sha256(f"{NAME}/{first.preset}".encode()).hexdigest()[:16]
    preset = RunPreset(fingerprint, first.preset, settings) if first.preset else made.run.preset
    run = replace(made.run, machine=machine, preset=preset, command="pyrometer submit")
    facts: dict[str, dict[str, Any]] = {}
    for each in own:
        facts.setdefault(each.case, {}).update(each.facts)
    outcomes = tuple(_with_facts(outcome, facts[outcome.case]) for outcome in made.outcomes)
    return ImportedRun(run, outcomes, made.measurements), definitions, problems


def _with_facts(outcome: Outcome, facts: Mapping[str, Any]) -> Outcome:
    return replace(outcome, facts={**outcome.facts, **facts})


def _submission(at: Value, default_time: datetime | None, latest: datetime) -> Submission:
    members = at.object()
    preset = name_in(at, "preset", "profile")
    _check_fields(at, tuple(preset if name == "preset" else name for name in _FIELDS))
    case = _case(at.need("case"))
    status, reason = _outcome_status(at)
    points = tuple(_points(case, members["metrics"])) if at.get("metrics") else ()
    if status == OutcomeStatus.OK and not points:
        raise BadFile(at.place.at("metrics"), "is missing: a case with status ok has at least one")
    if status != OutcomeStatus.OK and points:
        raise BadFile(members["metrics"].place, f"a case with status {status} has no metrics")
    facts = at.get("facts")
    return Submission(
        suite=at.need("suite").text(),
        case=case,
        started_at=_time(at, default_time, latest),
        torch=_text(at, "torch"),
        python=_text(at, "python"),
        environment=_text(at, "environment"),
        preset=_text(at, preset),
        gpus=tuple(_gpu(gpu) for gpu in _list(at, "gpus")),
        points=points,
        status=status,
        reason=reason,
        facts={name: each.value for name, each in facts.object().items()} if facts else {},
    )


def _check_fields(at: Value, fields: tuple[str, ...]) -> None:
    for name, member in at.object().items():
        if name not in fields:
            raise BadFile(member.place, f"is not a field: the fields are {', '.join(fields)}")


def _text(at: Value, name: str) -> str:
    member = at.get(name)
    return member.text() if member else ""


def _list(at: Value, name: str) -> Sequence[Value]:
    member = at.get(name)
    return member.list() if member else []


def _case(at: Value) -> str:
    """The key of `name/phase/parameters/technique`, of which the last two may be left out."""
    parts = at.text().split("/")
    if not 2 <= len(parts) <= 4 or not all(parts):
        raise at.wrong("a case such as my_model/train/batch=8")
    name, phase = parts[:2]
    parameters = parts[2] if len(parts) > 2 else "-"
    technique = parts[3] if len(parts) > 3 else "eager"
    if phase not in PHASES:
        raise at.wrong(f"a phase ({', '.join(PHASES)}) after the first /")
    pairs = _pairs(at, parameters) if parameters != "-" else {}
    axes = _pairs(at, technique) if technique != "eager" else {}
    spelled = ",".join(f"{plain(axis)}={plain(value)}" for axis, value in sorted(axes.items()))
    return case_key(name, phase, pairs, spelled or "eager")


def _pairs(at: Value, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if not (name and equals and value) or name in found:
            raise at.wrong("name=value pairs with commas, each name once, after phase and parameters")
        found[name] = value
    return found


def _outcome_status(at: Value) -> tuple[OutcomeStatus, str]:
    given = at.get("status")
    if given and given.text() not in STATUSES:
        raise given.wrong(f"one of {', '.join(STATUSES)}")
    status = OutcomeStatus(given.text()) if given else OutcomeStatus.OK
    reason = _text(at, "reason")
    if status != OutcomeStatus.OK and not reason:
        raise BadFile(at.place.at("reason"), f"is missing: state the reason of status {status}")
    return status, reason


def _time(at: Value, default: datetime | None, latest: datetime) -> datetime:
    given = at.get("started_at")
    if given is None:
        if default is None:
            raise BadFile(at.place.at("started_at"), "is missing")
        return default
    expected = 'a time with its zone such as "2026-11-21T20:15:00+00:00", or seconds since 1970'
    try:
        if isinstance(given.value, str):
            found = datetime.fromisoformat(given.text())
        else:
            seconds = given.number()
            if 1e12 <= seconds < 1e13:
                raise given.wrong("seconds since 1970 (milliseconds?)")
            found = datetime.fromtimestamp(seconds, UTC)
        if found.tzinfo is None:
            raise given.wrong(expected)
        found = found.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise given.wrong(expected) from None
    if found > latest:
        raise BadFile(given.place, f"{found:%Y-%m-%d %H:%M:%S} UTC is in the future, by this machine's clock")
    return found


def _gpu(at: Value) -> dict[str, Any]:
    _check_fields(at, ("name", "memory_mib"))
    memory = at.need("memory_mib").number()
    return {"name": at.need("name").text(), "memory_mib": int(memory)}


def _points(case: str, at: Value) -> Iterator[Point]:
    for name, metric in at.object().items():
        if not _METRIC.fullmatch(name):
            raise BadFile(
                metric.place, "is not a valid name of a metric: small letters, digits, dots and underscores"
            )
        _check_fields(metric, _OF_A_METRIC)
        unit, better = _unit_and_direction(name, metric)
        values = _values(metric)
        for value in values:
            # The script that names a metric knows whether it may be 0.
            if reason := objection(name, unit, better, value, nought=name not in METRICS):
                raise BadFile(metric.place, reason)
        yield Point(
            case=case,
            metric=name,
            unit=unit,
            better=better,
            values=values,
            place=metric.place,
            title=_text(metric, "title"),
            unbound=True,
        )


def _unit_and_direction(name: str, at: Value) -> tuple[str, Better]:
    definition = METRICS.get(name)
    unit = at.get("unit") if definition else at.need("unit")
    better = at.get("better") if definition else at.need("better")
    # A number of things may have no unit, and says so.
    given = unit.value if unit is not None and unit.value == "" else unit and unit.text()
    if better is not None and better.value not in DIRECTIONS:
        raise better.wrong(f"one of {', '.join(DIRECTIONS)}")
    if definition is None:
        assert better is not None
        return str(given), cast("Better", better.value)
    if unit is not None and given != definition.unit:
        raise unit.wrong(f'"{definition.unit}", the unit of {name}')
    if better is not None and better.value != definition.better:
        raise better.wrong(f'"{definition.better}", as {name} is')
    return definition.unit, definition.better


def _values(at: Value) -> tuple[float, ...]:
    one, several = at.get("value"), at.get("values")
    if (one is None) == (several is None):
        raise BadFile(at.place, "needs either `value`, or `values` with one for each process")
    found = (one,) if one is not None else cast("Value", several).list()
    if not found:
        raise BadFile(at.place.at("values"), "holds no value")
    return tuple(each.number() for each in found)
