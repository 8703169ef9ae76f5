"""Records of the OSS benchmark database, version 3, in the shapes that its uploader takes."""

import hashlib
import json
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, count, islice
from pathlib import Path
from statistics import median
from typing import Any

from analysis.replicates import Summary
from records.machines import Machine
from records.outcomes import Measurement, Outcome, OutcomeStatus
from records.runs import RunPreset

from ..errors import BadFile, SourcePlace
from ..foreign_runs import Failure, ForeignOrigin, Point, RunAccumulator, digest, plain
from ..runs import ImportBatch, ImportedRun
from ..source_file import (
    MOST_CELLS,
    Value,
    head,
    identity_of,
    json_of,
    made_at,
    refuse_much,
    text_lines,
    text_of,
)
from ..units import slug
from .dynamo_table import status_of
from .oss_v3_record import NAME, FileTime, MetricMeaning, OssRecord, extra, extra_text

TITLE = "PyTorch OSS benchmark database, version 3 (JSON)"

__all__ = ["NAME", "TITLE", "knows", "read_runs"]


#: The database keeps values as 32-bit floats, and what describes them as text.
_AGREEING = 1e-6
_PROCESSES = "one per fresh process"
_STATUSES = "status of each fresh process"


@dataclass(frozen=True, slots=True)
class _ProcessEnd:
    """How one process ended."""

    status: OutcomeStatus
    reason: str
    replicate: int


@dataclass(slots=True)
class ExporterExtras:
    """Facts about a run's measurements, by case and metric, and about its processes, by case."""

    measurements: dict[tuple[str, str], Summary] = field(default_factory=dict[tuple[str, str], Summary])
    endings: dict[str, list[_ProcessEnd]] = field(default_factory=dict[str, list[_ProcessEnd]])
    replicates: dict[str, dict[str, list[int]]] = field(default_factory=dict[str, dict[str, list[int]]])
    """The processes of its values, by case and metric."""
    preset: tuple[str, str] | None = None
    """The fingerprint and the name of its preset."""
    hardware: str = ""
    """The fingerprint of its hardware."""

    def keep_conditions(self, record: OssRecord) -> None:
        """Keep the preset and the hardware that a record of ours names."""
        if record.is_ours and record.preset[0]:
            self.preset = record.preset
        self.hardware = record.hardware_fingerprint or self.hardware

    def stated(self, record: OssRecord, case: str, metric: str, values: Sequence[float]) -> bool:
        """Keep the facts of our own record about its measurement; whether its values are those of processes.

        Raises BadFile where that contradicts itself or the values.
        """
        if not record.is_ours:
            return False
        about = extra(record.metric)
        processes = extra_text(record.metric, "value_kind") == _PROCESSES
        numbers = [_process(each) for each in _list(about, "replicates")] if processes else []
        if numbers and not len(set(numbers)) == len(numbers) == len(values):
            sentence = f"has {len(values)} values of {len(set(numbers))} processes"
            raise BadFile(record.place.at("metric"), sentence)
        _ended_well(numbers, self.endings.get(case), record.place)
        if "point" in about:
            stated = _parse_summary(about)
            if processes and stated.n != len(values):
                raise BadFile(record.place.at("metric"), f"has {len(values)} values of {stated.n} processes")
            if not _is_close(stated.point, median(values)):
                raise about["point"].wrong(f"the median of its values, {median(values):g}")
            self.measurements.setdefault((case, metric), stated)
        if numbers:
            self.replicates.setdefault(case, {}).setdefault(metric, numbers)
        return processes

    def keep_endings(self, record: OssRecord, case: str) -> list[Failure]:
        """Keep how the processes of a case ended, and return the first that did not end well.

        Raises BadFile where that is not written as our exporter writes it.
        """
        about = extra(record.metric)
        columns = [_list(about, name) for name in ("benchmark_values", "reasons", "replicates")]
        if len({len(column) for column in columns}) != 1:
            raise BadFile(record.place.at("metric").at("extra_info"), "has lists of different lengths")
        endings = [_process_end(*row) for row in zip(*columns, strict=True)]
        if case in self.endings:
            raise BadFile(record.place, f"states the ends of the processes of {case} a second time")
        if len({each.replicate for each in endings}) != len(endings):
            raise BadFile(record.place, f"states the end of a process of {case} twice")
        for numbers in self.replicates.get(case, {}).values():
            _ended_well(numbers, endings, record.place)
        self.endings[case] = endings
        bad = next((each for each in endings if each.status != OutcomeStatus.OK), None)
        return [Failure(case, bad.status, bad.reason)] if bad else []


@dataclass(slots=True)
class _Group:
    """The records of one run."""

    origin: ForeignOrigin
    place: SourcePlace
    points: list[Point] = field(default_factory=list[Point])
    failures: list[Failure] = field(default_factory=list[Failure])
    ended: set[str] = field(default_factory=set[str])
    ours: ExporterExtras = field(default_factory=ExporterExtras)
    values: list[float] = field(default_factory=list[float])


def knows(path: Path) -> bool:
    """Whether a file begins like one of records."""
    start = head(path)
    metric = re.search(r'"metric"\s*:\s*(\{|\[\s*"[^"]*"\s*,\s*\[)', start)
    # Where a metric is a list, as the database writes it, its members have no names.
    named = '"benchmark_values"' in start or (metric is not None and metric[1] != "{")
    return start.lstrip()[:1] in ("[", "{") and metric is not None and named


def read_runs(path: Path) -> ImportBatch:
    """The runs that the records of a file make up: those of one job, time, benchmark, runner and environment.

    A record whose metric is missing, or is none, is set aside. Raises BadFile where no record is usable.
    """
    accumulator = RunAccumulator(NAME)
    text = text_of(path)
    made, note, dated = made_at(path)
    file = FileTime(made, note, dated, identity_of(path, text, dated=dated))
    groups: dict[str, _Group] = {}
    for at in _records(text, path.name, accumulator):
        with accumulator.setting_aside():
            _take(OssRecord.of(at), file, groups)
    for group in groups.values():
        _add(group, accumulator)
    return accumulator.build_batch(SourcePlace(path.name))


def _records(text: str, name: str, accumulator: RunAccumulator) -> Iterator[Value]:
    """The elements of a list, a single object, or on each line an object or a list of them.

    A line that is no JSON is set aside.
    """
    refuse_much(text, SourcePlace(name))
    lines = ((number, line) for number, line in enumerate(text_lines(text), start=1) if line.strip())
    first = list(islice(lines, 2))
    if len(first) > 1 and _is_whole(first[0][1]):
        for number, line in chain(first, lines):
            if number > MOST_CELLS:
                raise BadFile(SourcePlace(name, number), f"has more than {MOST_CELLS:,} lines")
            with accumulator.setting_aside():
                yield from _elements(json_of(line, SourcePlace(name, number)))
        return
    yield from _elements(json_of(text, SourcePlace(name)))


def _is_whole(line: str) -> bool:
    """Whether a line is a JSON document: no first line of a longer one is."""
    try:
        json_of(line, SourcePlace(""))
    except BadFile:
        return False
    return True


def _elements(at: Value) -> Sequence[Value]:
    return at.list() if isinstance(at.value, list) else [at]


def _take(record: OssRecord, file: FileTime, groups: dict[str, _Group]) -> None:
    origin, case = record.origin(file), record.case()
    about = (origin.suite, origin.identity, origin.machine, origin.hardware)
    key = json.dumps([origin.started_at.isoformat(), *about])
    group = groups.get(key) or _Group(origin, record.place)
    if is_status(record):
        group.failures += group.ours.keep_endings(record, case)
    else:
        _take_values(record, case, group)
    group.ours.keep_conditions(record)
    groups[key] = group


def _take_values(record: OssRecord, case: str, group: _Group) -> None:
    meaning = record.meaning()
    found = record.metric.get("benchmark_values")
    place = record.place.at("metric").at("benchmark_values")
    elements = found.list() if found else []
    if not elements or all(isinstance(each.value, str) for each in elements):
        texts = elements or _texts(record)
        if not texts:
            raise BadFile(place, "holds no value")
        failure = _failure(texts, case, meaning)
        if failure.case in group.ended:
            raise BadFile(texts[0].place, f"{failure.case} has a result already; the first one is used")
        group.ended.add(failure.case)
        group.failures.append(failure)
        return
    values = [each.number() for each in elements]
    if _texts(record):
        raise BadFile(record.place.at("metric"), "holds both numbers and texts")
    if meaning.positive and median(values) <= 0:
        raise BadFile(place, f"{median(values):g} is no measurement")
    own = [value / meaning.divisor for value in values]
    group.points += _points(record, case, meaning, own, group.ours)
    group.values += values


def _points(
    record: OssRecord, case: str, meaning: MetricMeaning, values: list[float], ours: ExporterExtras
) -> list[Point]:
    """The point of a record, and one for its target where it has one.

    Only our own exporter says whether a value is that of a fresh process; of others the median is one.
    """
    target = record.metric.get("target_value")
    aim = target.number() / meaning.divisor if target is not None else 0.0
    processes = ours.stated(record, case, meaning.metric, values)
    several = "" if processes or len(values) == 1 else ", median of the record's values"
    place = record.place.at("metric").at("benchmark_values")
    about: dict[str, Any] = {
        "case": case,
        "unit": meaning.unit,
        "place": place,
        "unbound": record.is_ours,
    }
    point = Point(
        metric=meaning.metric,
        better=meaning.better,
        values=tuple(values) if processes else (median(values),),
        title=meaning.title + several,
        **about,
    )
    if aim == 0:
        return [point]
    title = f"Target: {meaning.title}"
    return [
        point,
        Point(metric=f"{meaning.metric}.target", better="neither", values=(aim,), title=title, **about),
    ]


def _texts(record: OssRecord) -> Sequence[Value]:
    """The results that are texts: a list, the same as JSON, or one text."""
    at = extra(record.metric).get("benchmark_values")
    if at is None:
        return []
    if isinstance(at.value, str) and at.value.lstrip().startswith("["):
        at = json_of(at.value, at.place)
    return _elements(at)


def _failure(texts: Sequence[Value], case: str, meaning: MetricMeaning) -> Failure:
    """The outcome of a result that is a text; a case of its own, apart from that of the numbers.

    A check that fails would else be hidden by a speed-up of the same model.
    """
    words = [each.text() for each in texts]
    statuses = [status_of(word) for word in words]
    for at, status in zip(texts, statuses, strict=True):
        if status is None:
            raise at.wrong("a known status")
    worst = next((number for number, status in enumerate(statuses) if status != OutcomeStatus.OK), 0)
    workload, _, technique = case.rpartition("/")
    name, phase, parameters = workload.split("/")
    result = f"result={plain(slug(meaning.metric.removeprefix('oss.')))}"
    pairs = sorted(each for each in (*parameters.split(","), result) if each != "-")
    key = f"{name}/{phase}/{','.join(pairs)}/{technique}"
    return Failure(key, statuses[worst] or OutcomeStatus.CRASHED, words[worst])


def _add(group: _Group, accumulator: RunAccumulator) -> None:
    notes = group.origin.facts["notes"]
    if group.values and all(_is_single(value) for value in group.values):
        notes.append("every value is a 32-bit float: digits after the seventh may have been lost")
    before = len(accumulator.runs)
    accumulator.add(group.origin, group.place, group.points, group.failures)
    if len(accumulator.runs) > before:
        run = list(accumulator.runs)[-1]
        accumulator.runs[run] = restore_run(accumulator.runs[run], group.ours)


def _is_single(value: float) -> bool:
    try:
        return struct.unpack("f", struct.pack("f", value))[0] == value
    except OverflowError:
        return False


def is_status(record: OssRecord) -> bool:
    """Whether a record of ours states how processes ended, and no number."""
    return record.is_ours and extra_text(record.metric, "value_kind") == _STATUSES


def restore_run(run: ImportedRun, ours: ExporterExtras) -> ImportedRun:
    """The run with the fields of our exporter: the summaries in full, and the failed processes."""
    measurements = tuple(_measurement(each, ours.measurements) for each in run.measurements)
    found: dict[str, list[Outcome]] = {}
    for each in run.outcomes:
        found.setdefault(each.case, []).append(each)
    outcomes = [
        outcome
        for case, own in found.items()
        for outcome in _outcomes(own, ours.endings.get(case, ()), ours.replicates.get(case, {}))
    ]
    preset = _preset(run.run.preset, ours.preset) if ours.preset else run.run.preset
    machine = _machine(run.run.machine, ours.hardware) if ours.hardware else run.run.machine
    restated = replace(run.run, planned=len(outcomes), preset=preset, machine=machine)
    return ImportedRun(restated, tuple(outcomes), measurements)


def _preset(imported: RunPreset, measured: tuple[str, str]) -> RunPreset:
    """What was measured under two presets is never one series, here as little as where it comes from."""
    fingerprint, name = measured
    own = hashlib.sha256(f"{imported.fingerprint} {fingerprint}".encode(errors="replace")).hexdigest()[:16]
    return replace(imported, fingerprint=own, name=f"{imported.name} {name}".strip())


def _machine(imported: Machine, fingerprint: str) -> Machine:
    """Hardware whose labels name only the same GPUs is not one series, as little as where it comes from."""
    hardware = replace(imported.hardware, fingerprint=digest(imported.hardware.fingerprint, fingerprint))
    return replace(imported, fingerprint=digest(imported.fingerprint, fingerprint), hardware=hardware)


def _measurement(each: Measurement, stated: Mapping[tuple[str, str], Summary]) -> Measurement:
    summary = stated.get((each.case, each.metric))
    return each if summary is None else replace(each, **asdict(summary))


def _outcomes(
    found: Sequence[Outcome], endings: Sequence[_ProcessEnd], numbered: Mapping[str, Sequence[int]]
) -> list[Outcome]:
    """The outcomes of a case, each under its replicate's own number; `found` are those that values made.

    `numbered` has the numbers of a metric's processes. Older exports lack them; the values are then
    those of the processes that ended well, in turn.
    """
    good = [each for each in found if each.status == OutcomeStatus.OK]
    if not endings and len(good) < len(found):
        return list(found)
    metrics: dict[int, dict[str, float]] = {}
    for name in dict.fromkeys(name for each in good for name in each.metrics):
        values = [each.metrics[name] for each in good if name in each.metrics]
        numbers = numbered.get(name, ())
        own = numbers if len(numbers) == len(values) else _in_turn(endings)
        for number, value in zip(own, values, strict=False):
            metrics.setdefault(number, {})[name] = value
    ended = [
        replace(
            found[0],
            status=each.status,
            reason=each.reason,
            replicate=each.replicate,
            metrics=metrics.pop(each.replicate, {}),
        )
        for each in endings
    ]
    return ended + [replace(good[0], replicate=number, metrics=metrics[number]) for number in sorted(metrics)]


def _in_turn(endings: Sequence[_ProcessEnd]) -> Iterator[int]:
    """The numbers of the processes that ended well, then those that no process has."""
    yield from (each.replicate for each in endings if each.status == OutcomeStatus.OK)
    used = {each.replicate for each in endings}
    yield from (number for number in count() if number not in used)


def _ended_well(numbers: Iterable[int], endings: Sequence[_ProcessEnd] | None, place: SourcePlace) -> None:
    """Raise BadFile where a process has a value that did not end well, or that is not among the `endings`."""
    well = {each.replicate for each in endings or () if each.status == OutcomeStatus.OK}
    for number in numbers:
        if endings is not None and number not in well:
            raise BadFile(place, f"has a value of process {number}, which did not end well")


def _parse_summary(about: Mapping[str, Value]) -> Summary:
    numbers = {
        name: _value(about[name]).number()
        for name in ("point", "low", "high", "smallest", "largest", "spread_log", "n")
        if name in about
    }
    point = numbers["point"]
    n = numbers.get("n", 1.0)
    if n < 1 or not n.is_integer() or n >= 2**31:
        raise about["n"].wrong("a number of processes")
    smallest, largest = numbers.get("smallest", point), numbers.get("largest", point)
    low, high = numbers.get("low"), numbers.get("high")
    order = [smallest, point, largest]
    interval = [each for each in (low, point, high) if each is not None]
    if order != sorted(order) or interval != sorted(interval) or (low is None) != (high is None):
        raise about["point"].wrong("a point within its range and its interval")
    return Summary(point, low, high, smallest, largest, numbers.get("spread_log"), int(n))


def _process_end(status: Value, reason: Value, replicate: Value) -> _ProcessEnd:
    if status.value not in tuple(OutcomeStatus):
        raise status.wrong(f"one of {', '.join(OutcomeStatus)}")
    return _ProcessEnd(
        OutcomeStatus(status.value), "" if reason.value == "" else reason.text(), _process(replicate)
    )


def _process(at: Value) -> int:
    number = at.value
    if type(number) is not int or not 0 <= number < 2**31:
        raise at.wrong("the number of a process")
    return number


def _list(about: Mapping[str, Value], name: str) -> Sequence[Value]:
    if name not in about:
        return []
    return _value(about[name]).list()


def _value(at: Value) -> Value:
    """A value that is JSON in a text, or as it is."""
    return json_of(at.value, at.place) if isinstance(at.value, str) else at


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_AGREEING, abs_tol=1e-37)
