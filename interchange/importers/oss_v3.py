"""Records of the OSS benchmark database, version 3, in the shapes that its uploader takes."""

import hashlib
import json
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from ..accumulator import Gathered
from ..errors import BadFile, SourcePlace
from ..files import head, made_at
from ..foreign_runs import Failure, ForeignOrigin, Point, plain, slug
from ..imported import Imported
from ..reading import At, json_of, text_of
from .dynamo_words import status_of
from .oss_v3_own import Ours, is_status, restored
from .oss_v3_record import NAME, FileTime, Meaning, Record, extra

TITLE = "PyTorch OSS benchmark database, version 3 (JSON)"

__all__ = ["NAME", "TITLE", "knows", "read"]


@dataclass(slots=True)
class _Group:
    """The records of one run."""

    origin: ForeignOrigin
    place: SourcePlace
    points: list[Point] = field(default_factory=list[Point])
    failures: list[Failure] = field(default_factory=list[Failure])
    ended: set[str] = field(default_factory=set[str])
    ours: Ours = field(default_factory=Ours)
    values: list[float] = field(default_factory=list[float])


def knows(path: Path) -> bool:
    """Whether a file begins like one of records."""
    start = head(path)
    metric = re.search(r'"metric"\s*:\s*(\{|\[\s*"[^"]*"\s*,\s*\[)', start)
    # Where a metric is a list, as the database writes it, its members have no names.
    named = '"benchmark_values"' in start or (metric is not None and metric[1] != "{")
    return start.lstrip()[:1] in ("[", "{") and metric is not None and named


def read(path: Path) -> Imported:
    """The runs that the records of a file make up: those of one job, time, benchmark, runner and environment.

    A record whose metric is missing, or is none, is set aside. Raises BadFile where no record is usable.
    """
    gathered = Gathered(NAME)
    text = text_of(path)
    file = FileTime(*made_at(path), hashlib.sha256(text.encode()).hexdigest())
    groups: dict[str, _Group] = {}
    for at in _records(text, path.name, gathered):
        try:
            _take(Record.of(at), file, groups)
        except BadFile as error:
            gathered.refuse(error)
    for group in groups.values():
        _add(group, gathered)
    return gathered.imported(SourcePlace(path.name))


def _records(text: str, name: str, gathered: Gathered) -> Iterator[At]:
    """The elements of a list, a single object, or on each line an object or a list of them.

    A line that is no JSON is set aside.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if len(lines) > 1 and _is_whole(lines[0][1]):
        for number, line in lines:
            try:
                yield from _elements(json_of(line, SourcePlace(name, number)))
            except BadFile as error:
                gathered.refuse(error)
        return
    yield from _elements(json_of(text, SourcePlace(name)))


def _is_whole(line: str) -> bool:
    """Whether a line is a JSON document: no first line of a longer one is."""
    try:
        json_of(line, SourcePlace(""))
    except BadFile:
        return False
    return True


def _elements(at: At) -> Sequence[At]:
    return at.list() if isinstance(at.value, list) else [at]


def _take(record: Record, file: FileTime, groups: dict[str, _Group]) -> None:
    origin, case = record.origin(file), record.case()
    about = (origin.suite, origin.identity, origin.machine, origin.hardware)
    key = json.dumps([origin.started_at.isoformat(), *about])
    group = groups.get(key) or _Group(origin, record.place)
    if is_status(record):
        group.failures += group.ours.ended(record, case)
    else:
        _take_values(record, case, group)
    group.ours.under(record)
    groups[key] = group


def _take_values(record: Record, case: str, group: _Group) -> None:
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
            raise BadFile(texts[0].place, f"{failure.case} has a result already; the first counts")
        group.ended.add(failure.case)
        group.failures.append(failure)
        return
    values = [each.number() for each in elements]
    if _texts(record):
        raise BadFile(record.place.at("metric"), "holds both numbers and texts")
    if meaning.positive and median(values) <= 0:
        raise BadFile(place, f"{median(values):g} is no measurement")
    group.points += _points(record, case, meaning, values, group.ours)
    group.values += values


def _points(record: Record, case: str, meaning: Meaning, values: list[float], ours: Ours) -> list[Point]:
    """The point of a record, and one for its target where it has one.

    Only our own exporter says whether a value is that of a fresh process; of others the median is one.
    """
    target = record.metric.get("target_value")
    aim = target.number() if target is not None else 0.0
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


def _texts(record: Record) -> Sequence[At]:
    """The results that are texts: a list, the same as JSON, or one text."""
    at = extra(record.metric).get("benchmark_values")
    if at is None:
        return []
    if isinstance(at.value, str) and at.value.lstrip().startswith("["):
        at = json_of(at.value, at.place)
    return _elements(at)


def _failure(texts: Sequence[At], case: str, meaning: Meaning) -> Failure:
    """The outcome of a result that is a text; a case of its own, beside that of the numbers.

    A check that fails would else be hidden by a speed-up of the same model.
    """
    words = [each.text() for each in texts]
    statuses = [status_of(word) for word in words]
    for at, status in zip(texts, statuses, strict=True):
        if status is None:
            raise at.wrong("a word for how it ended")
    worst = next((number for number, status in enumerate(statuses) if status != "ok"), 0)
    workload, _, technique = case.rpartition("/")
    name, phase, parameters = workload.split("/")
    result = f"result={plain(slug(meaning.metric.removeprefix('oss.')))}"
    pairs = sorted(each for each in (*parameters.split(","), result) if each != "-")
    key = f"{name}/{phase}/{','.join(pairs)}/{technique}"
    return Failure(key, statuses[worst] or "crashed", words[worst])


def _add(group: _Group, gathered: Gathered) -> None:
    notes = group.origin.facts["notes"]
    if group.values and all(_is_single(value) for value in group.values):
        notes.append("every value is a 32-bit float: digits after the seventh may have been lost")
    before = len(gathered.runs)
    gathered.add(group.origin, group.place, group.points, group.failures)
    if len(gathered.runs) > before:
        run = list(gathered.runs)[-1]
        gathered.runs[run] = restored(gathered.runs[run], group.ours)


def _is_single(value: float) -> bool:
    try:
        return struct.unpack("f", struct.pack("f", value))[0] == value
    except OverflowError:
        return False
