"""Runs of Pyrometer as `interchange.exporters.pyrometer` writes them, with a checksum on each line.

The lines are those of a journal (`common.journal_lines`): for each run `header`, then `metric` for each
metric that was not defined yet, `outcome` or `canary`, and `measurement`; `end` is the last line of a file.
In exports of 0.1.0 the first line has the kind `export`, and a run's own line the kind `run`.
"""

import gzip
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from analysis.metrics import DIRECTIONS, METRICS
from common.bounded_files import MAX_LINE
from common.journal_lines import decode_line
from records.environments import Environment
from records.json_values import count_of, maybe, moment_of, name_in, one_of, table_of, text_of, texts_of
from records.kinds import EnvironmentKind, RunKind, RunSource, RunState
from records.machines import Hardware, Machine
from records.old_runs import kind_of_old_environment, kind_of_old_run, source_of_old_run
from records.outcomes import Measurement, MetricDefinition, Outcome, read_outcome
from records.runs import Run, RunPreset

from ..errors import BadFile, SourcePlace
from ..exporters.pyrometer import SUMS
from ..runs import ImportBatch, ImportedRun, ImportProblem
from ..source_file import Value, refuse_streams

NAME = "pyrometer"
TITLE = "Pyrometer's own export"

#: How a file begins: with a run as it is stored, or as 0.1.0 wrote it. A journal begins with a plan.
_BEGINNING = re.compile(
    rb'\s*\{"v":\d+,"kind":"(header","crc":\d+,"body":\{"record":|export","crc":\d+,"body":\{"format":"pyrometer")'
)
#: Bytes of a file that are enough to recognise an export.
_BEGINNING_BYTES = 200
#: A longer line is set aside.
_MAX_LINE = MAX_LINE
#: `parts` yields a part after so many bytes, lines or problems.
_PART_BYTES, _PART_LINES, _PART_PROBLEMS = 16 << 20, 10_000, 1000
_GZIP = b"\x1f\x8b"
#: Bytes that `read` reads at once, uncompressed.
MAX_BYTES = 256 << 20
#: More blank lines than this are no export, and neither is what was compressed further than that, or has more
#: lines that cannot be used.
_MOST_BLANK, _MOST_PACKED, _MOST_BAD = 1 << 20, 1000, 10_000


def knows(path: Path) -> bool:
    """Whether a file begins as an export does, compressed or not."""
    try:
        refuse_streams(path, SourcePlace(path.name))
        with path.open("rb") as packed, _unpack_file(packed) as file:
            return _BEGINNING.match(file.read(_BEGINNING_BYTES)) is not None
    except (BadFile, OSError, EOFError, zlib.error, ValueError):
        return False


def read_runs(path: Path) -> ImportBatch:
    """All that a file of at most `MAX_BYTES` (uncompressed) holds; raises BadFile. See `parts`."""
    runs: dict[str, ImportedRun] = {}
    metrics: list[MetricDefinition] = []
    problems: list[ImportProblem] = []
    for part in parts(path, limit=MAX_BYTES):
        for each in part.runs:
            before = runs.get(each.run.id, ImportedRun(each.run, (), ()))
            outcomes = before.outcomes + each.outcomes
            runs[each.run.id] = ImportedRun(each.run, outcomes, before.measurements + each.measurements)
        metrics += part.metrics
        problems += part.set_aside
    return ImportBatch(NAME, tuple(runs.values()), tuple(metrics), tuple(problems))


def parts(path: Path, *, limit: int | None = None) -> Iterator[ImportBatch]:
    """The content of a file, run by run, and a large run in pieces, so that files of any size can be read.

    A damaged line, a torn end and a line from a newer Pyrometer are set aside; so is whatever belongs to a
    run whose own line is missing before it. Raises BadFile where nothing can be used, at the line at which
    more than `limit` bytes have come, and for a small file that unpacks without end.
    """
    refuse_streams(path, SourcePlace(path.name))
    reading = _LineReader(path.name)
    number = 0
    try:
        with path.open("rb") as packed, _unpack_file(packed) as file:
            bounds = _Bounds(path.name, packed, limit)
            while raw := file.readline(_MAX_LINE):
                number += 1
                bounds.take(number, raw)
                if len(raw) == _MAX_LINE and not raw.endswith(b"\n"):
                    while raw and not raw.endswith(b"\n"):
                        raw = file.readline(_MAX_LINE)
                        bounds.take(number, raw)
                    reading.problem(number, f"is longer than {_MAX_LINE >> 20} MiB")
                    continue
                if raw.strip() and (done := reading.take(number, raw)):
                    yield done
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reading.problem(number + 1, f"the compressed file is damaged or cut short here: {error}")
    except OSError as error:
        raise BadFile(SourcePlace(path.name), error.strerror or str(error)) from None
    yield reading.end(number)


def _unpack_file(file: BinaryIO) -> BinaryIO | gzip.GzipFile:
    """The unpacked content of the file."""
    compressed = file.read(2) == _GZIP
    file.seek(0)
    return gzip.GzipFile(fileobj=file, mode="rb") if compressed else file


@dataclass
class _Bounds:
    """Counts the bytes read of a file, and checks them against its limits."""

    name: str
    packed: BinaryIO
    limit: int | None
    size: int = 0
    blank: int = 0

    def take(self, number: int, raw: bytes) -> None:
        """Count what was read of a line; raises BadFile."""
        self.size += len(raw)
        self.blank += 0 if raw.strip() else len(raw)
        place = SourcePlace(self.name, number)
        if self.limit is not None and self.size > self.limit:
            raise BadFile(place, f"is larger than {self.limit >> 20} MiB")
        if self.blank > _MOST_BLANK:
            raise BadFile(place, f"holds more than {_MOST_BLANK >> 20} MiB of blank lines")
        if self.size > _MAX_LINE and self.size > _MOST_PACKED * self.packed.tell():
            raise BadFile(place, f"unpacks to more than {_MOST_PACKED} times its size")


@dataclass
class _Piece:
    """What was read since the last part."""

    runs: dict[str, tuple[list[Outcome], list[Measurement]]]
    metrics: list[MetricDefinition]
    size: int = 0
    lines: int = 0


class _LineReader:
    """The lines of one file, taken one by one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._runs: dict[str, Run] = {}
        self._piece = _Piece({}, [])
        self._problems: list[ImportProblem] = []
        self._orphans: dict[str, Counter[str]] = defaultdict(Counter)
        #: Metrics with the name of a known one and another meaning.
        self._others: set[str] = set()
        #: Units of the metrics that the file defines, and names of those that it uses without.
        self._defined: dict[str, tuple[str, str]] = {}
        self._undefined: set[str] = set()
        self._kinds: Counter[str] = Counter()
        self._sum = 0
        self._ended = False
        self._begun = self._good = self._bad = 0
        self._first_problem: ImportProblem | None = None

    def problem(self, number: int, sentence: str, field: str = "") -> None:
        """Something is set aside."""
        found = ImportProblem(SourcePlace(self._name, number, field), sentence)
        self._bad += 1
        if self._bad > _MOST_BAD:
            raise BadFile(found.place, f"is one of more than {_MOST_BAD:,} lines that cannot be used")
        self._first_problem = self._first_problem or found
        self._problems.append(found)

    def take(self, number: int, raw: bytes) -> ImportBatch | None:
        """Read one line; returns the part before it, if that is complete."""
        try:
            line = decode_line(raw, allow_nan=False)
        except ValueError as error:
            self.problem(number, str(error))
            return self._part() if self._full() else None
        self._good += 1
        if line.kind not in ("export", "end"):
            self._kinds[line.kind] += 1
            self._sum += line.crc
        begins = line.kind in ("header", "run")
        done = self._part() if self._full() or (begins and self._piece.runs) else None
        self._piece.size += len(raw)
        self._piece.lines += 1
        try:
            self._take(number, line.kind, Value(line.body, SourcePlace(self._name, number)))
        except BadFile as error:
            self.problem(number, error.sentence, error.place.field)
        return done

    def _take(self, number: int, kind: str, at: Value) -> None:
        self._ended = kind == "end"
        if kind in ("export", "end"):
            if self._ended:
                self._count(number, at)
            # Files may stand one after the other.
            self._begun = number
            self._kinds.clear()
            self._sum = 0
        elif kind in ("header", "run"):
            run = run_of(at.need("record") if kind == "header" else at)
            self._runs[run.id] = run
            self._piece.runs.setdefault(run.id, ([], []))
        elif kind == "metric":
            self._define(number, metric_of(at))
        elif kind in ("outcome", "canary"):
            if own := self._owner_lists(kind, at):
                outcome = read_outcome(at)
                usable = {
                    name: each for name, each in outcome.metrics.items() if self._is_known(number, name)
                }
                own[0].append(replace(outcome, metrics=usable))
        elif kind == "measurement":
            own = self._owner_lists(kind, at)
            if own and self._is_known(number, (each := measurement_of(at)).metric):
                own[1].append(each)
        else:
            self.problem(number, f"unknown kind {kind!r}, perhaps from a newer Pyrometer")

    def _define(self, number: int, definition: MetricDefinition) -> None:
        name, metric = definition.name, METRICS.get(definition.name)
        meaning = (definition.unit, definition.better)
        if metric is not None and metric.unit != definition.unit:
            both = f"{definition.unit} there and in {metric.unit} here"
            self.problem(number, f"{name} is in {both}: its values are left out")
        elif metric is None and self._defined.setdefault(name, meaning) != meaning:
            self.problem(
                number, f"{name} was defined differently before: its values are left out from now on"
            )
        else:
            self._others.discard(name)
            if metric is None:
                self._piece.metrics.append(definition)
            return
        self._others.add(name)

    def _is_known(self, number: int, name: str) -> bool:
        """Whether values of a metric can be used: without its line their unit is unknown."""
        if name in self._others:
            return False
        if name in METRICS or name in self._defined:
            return True
        if name not in self._undefined:
            self._undefined.add(name)
            self.problem(number, f"no line before defines {name}: its values are left out")
        return False

    def _owner_lists(self, kind: str, at: Value) -> tuple[list[Outcome], list[Measurement]] | None:
        """The run that a line belongs to; None if that run is not known."""
        name = at.need("run").text()
        run = self._runs.get(name)
        if run is None:
            self._orphans[name][kind] += 1
            return None
        environment = at.need("environment")
        if environment.text() not in {each.fingerprint for each in run.environments}:
            raise BadFile(environment.place, f"is not an environment of run {name}")
        return self._piece.runs.setdefault(name, ([], []))

    def _count(self, number: int, at: Value) -> None:
        """Compare the last line with the lines read since the first."""
        # In exports of 0.1.0 the counts are stored with the sum.
        stated_counts = (at.get("lines") or at).object()
        counts = {kind: int(each.number()) for kind, each in stated_counts.items() if kind != "sum"}
        stated = sum(counts.values())
        came = number - self._begun - 1
        # What came and could not be read was set aside, and may be of any kind.
        torn = came - self._kinds.total()
        missing = sum(max(0, n - self._kinds[kind]) for kind, n in counts.items())
        if came != stated:
            self.problem(number, f"the file was written with {stated} lines before this one and has {came}")
        elif missing > torn:
            kinds = [
                kind for kind in sorted({*counts, *self._kinds}) if self._kinds[kind] != counts.get(kind, 0)
            ]
            each = ", ".join(f"{counts.get(kind, 0)} {kind}, {self._kinds[kind]} here" for kind in kinds)
            self.problem(number, f"the lines differ from those written: {each}")
        elif not torn and (total := at.get("sum")) and total.value != self._sum % SUMS:
            sentence = (
                "the lines differ from those written: one may be in the file twice, in the place of another"
            )
            self.problem(number, sentence)

    def _full(self) -> bool:
        if len(self._problems) < _PART_PROBLEMS:
            return self._piece.size > _PART_BYTES or self._piece.lines >= _PART_LINES
        if not self._good:
            raise self._unusable()
        return True

    def _unusable(self) -> BadFile:
        found = self._first_problem or ImportProblem(SourcePlace(self._name), "is empty")
        return BadFile(found.place, found.sentence)

    def _part(self) -> ImportBatch:
        runs = tuple(
            ImportedRun(self._runs[name], tuple(outcomes), tuple(measurements))
            for name, (outcomes, measurements) in self._piece.runs.items()
        )
        part = ImportBatch(NAME, runs, tuple(self._piece.metrics), tuple(self._problems))
        self._piece, self._problems = _Piece({}, []), []
        return part

    def end(self, number: int) -> ImportBatch:
        """The last part; raises BadFile where no line could be used."""
        if not self._good:
            raise self._unusable()
        if not self._ended:
            self.problem(number, "the last line of the file is missing: the file was cut off here")
        for name, counts in self._orphans.items():
            lines = " and ".join(f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in sorted(counts.items()))
            self.problem(0, f"{lines} of run {name}: the line of the run itself is missing before them")
        return self._part()


def run_of(at: Value) -> Run:
    """The run of a body; raises BadFile."""
    kind, source, source_format = _kinds(at)
    return Run(
        id=at.need("id").text(),
        suite=text_of(at, "suite"),
        started_at=moment_of(at.need("started_at")),
        ended_at=maybe(at, "ended_at", moment_of),
        state=RunState(one_of(at, "state", tuple(RunState))),
        machine=_machine(at.need("machine")),
        environments=tuple(_environment(each, source) for each in at.need("environments").list()),
        preset=_preset(at.need(name_in(at, "preset", "profile"))),
        harness=text_of(at, "harness"),
        planned=count_of(at, "planned"),
        command=text_of(at, "command"),
        notes=texts_of(at, "notes"),
        facts=table_of(at, "facts"),
        kind=kind,
        source=source,
        source_format=source_format,
    )


def _kinds(at: Value) -> tuple[RunKind, RunSource, str]:
    """The kind, source and source format of a run; by the rules of their time where an export lacks them."""
    if at.get("kind") is None:
        kind = kind_of_old_run(text_of(at, "command"), table_of(at, "facts"))
        return kind, *source_of_old_run(at.need("id").text())
    kind = RunKind(one_of(at, "kind", tuple(RunKind)))
    return kind, RunSource(one_of(at, "source", tuple(RunSource))), text_of(at, "source_format")


def measurement_of(at: Value) -> Measurement:
    """The measurement of a body; raises BadFile, also for one that contradicts itself."""
    found = Measurement(
        case=at.need("case").text(),
        environment=at.need("environment").text(),
        metric=at.need("metric").text(),
        point=at.need("point").number(),
        low=maybe(at, "low", Value.number),
        high=maybe(at, "high", Value.number),
        smallest=at.need("smallest").number(),
        largest=at.need("largest").number(),
        spread=maybe(at, "spread", Value.number),
        n=count_of(at, "n"),
    )
    if found.n < 1:
        raise at.need("n").wrong("at least one value")
    if not found.smallest <= found.point <= found.largest:
        raise BadFile(at.place.at("point"), "does not lie between the smallest and the largest value")
    _check_interval(at, found)
    return found


def _check_interval(at: Value, found: Measurement) -> None:
    """Raise BadFile for half an interval, or one that the point is not in, which no database may hold."""
    if found.low is None or found.high is None:
        if found.low is not found.high:
            missing = "low" if found.low is None else "high"
            raise BadFile(at.place.at(missing), "is missing, and the other end of its interval is there")
    elif found.low > found.high:
        raise BadFile(at.place.at("low"), "is greater than the high end of its interval")
    elif not found.low <= found.point <= found.high:
        raise BadFile(at.place.at("point"), "does not lie within its interval")


def metric_of(at: Value) -> MetricDefinition:
    """The metric of a body; raises BadFile."""
    better = one_of(at, "better", DIRECTIONS)
    return MetricDefinition(at.need("name").text(), text_of(at, "title"), text_of(at, "unit"), better)


def _machine(at: Value) -> Machine:
    hardware = at.need("hardware")
    return Machine(
        at.need("fingerprint").text(),
        text_of(at, "name"),
        Hardware(
            hardware.need("fingerprint").text(), text_of(hardware, "label"), table_of(hardware, "facts")
        ),
        table_of(at, "facts"),
    )


def _environment(at: Value, source: RunSource) -> Environment:
    torch_version = text_of(at, "torch_version")
    if at.get("kind") is None:
        kind = kind_of_old_environment(torch_version, source)
    else:
        kind = EnvironmentKind(one_of(at, "kind", tuple(EnvironmentKind)))
    return Environment(
        at.need("fingerprint").text(),
        text_of(at, "name"),
        torch_version,
        text_of(at, "python_version"),
        table_of(at, "facts"),
        kind,
    )


def _preset(at: Value) -> RunPreset:
    return RunPreset(at.need("fingerprint").text(), text_of(at, "name"), table_of(at, "settings"))
