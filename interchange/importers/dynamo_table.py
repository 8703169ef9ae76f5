"""The tables of PyTorch's benchmarks: their kinds, columns, words for failures and file names."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis.metrics import Better
from records.outcomes import OutcomeStatus

from ..errors import BadFile, SourcePlace
from ..foreign_runs import case_key, plain
from ..runs import ImportProblem
from ..source_file import NO_END, Value, csv_cells, number_or_none, refuse_twice, times_in


@dataclass(frozen=True, slots=True)
class DynamoColumn:
    """One column. In a `positive` column, 0 stands for a model that failed and is not a measurement.

    A metric is called as its column is, or by `name`; its values are those of the table over `divisor`.
    """

    unit: str
    better: Better
    title: str
    positive: bool = False
    name: str = ""
    divisor: int = 1


#: The unit of a column whose unit no source states.
AS_GIVEN = "as given"

#: The columns of a performance table. Latency is the median over pairs of eager and compiled.
COLUMNS: dict[str, DynamoColumn] = {
    "speedup": DynamoColumn("x", "higher", "Speed-up over eager: median eager / median compiled", True),
    "abs_latency": DynamoColumn(
        "ms", "lower", "Latency compiled, for all calls of one timed iteration", True
    ),
    "compilation_latency": DynamoColumn(
        "s", "lower", "Compilation: five compiled warm-up calls less five eager ones", True
    ),
    "compression_ratio": DynamoColumn("x", "higher", "Peak memory eager / compiled, with compilation", True),
    "eager_peak_mem": DynamoColumn("GB", "lower", "Peak memory eager (1 GB = 1e9 bytes)", True),
    "dynamo_peak_mem": DynamoColumn(
        "GB", "lower", "Peak memory compiled, with compilation (1 GB = 1e9 bytes)", True
    ),
    "speedup_vs_baseline": DynamoColumn("x", "higher", "Speed-up over the baseline", True),
    "baseline": DynamoColumn("x", "higher", "Speed-up over eager in the baseline's table", True),
    "cache_lookup_latency": DynamoColumn(AS_GIVEN, "lower", "Cache look-up"),
    "calls_captured": DynamoColumn("count", "neither", "Calls captured"),
    "unique_graphs": DynamoColumn("count", "neither", "Unique graphs"),
    "fallbacks_to_eager": DynamoColumn("count", "lower", "Fallbacks to eager"),
    "graph_breaks": DynamoColumn("count", "lower", "Graph breaks over the whole benchmark"),
    "unique_graph_breaks": DynamoColumn("count", "lower", "Graph breaks, each reason once"),
    "autograd_captures": DynamoColumn("count", "neither", "Autograd captures"),
    "autograd_compiles": DynamoColumn("count", "neither", "Autograd compiles"),
    "cudagraph_skips": DynamoColumn("count", "lower", "CUDA graphs skipped over the whole benchmark"),
}

#: On a CPU the same columns hold the percentage of memory that the process resides in, times all bytes.
_CPU_COLUMNS: dict[str, DynamoColumn] = {
    "eager_peak_mem": DynamoColumn(
        "GB", "lower", "Resident memory after eager calls (1 GB = 1e9 bytes)", True, "eager_rss", 100
    ),
    "dynamo_peak_mem": DynamoColumn(
        "GB", "lower", "Resident memory after compiled calls (1 GB = 1e9 bytes)", True, "dynamo_rss", 100
    ),
}


def column_of(name: str, device: str | None) -> DynamoColumn | None:
    """What a column of a table measured on a device means; None for an unknown one."""
    return (_CPU_COLUMNS.get(name) if device == "cpu" else None) or COLUMNS.get(name)


#: Words for the results of the check of the answers.
_STATUSES = {
    "pass": OutcomeStatus.OK,
    "pass_due_to_skip": OutcomeStatus.SKIPPED,
    "skip_by_dryrun": OutcomeStatus.SKIPPED,
    "fail_accuracy": OutcomeStatus.WRONG,
    # Without an eager answer that repeats there is nothing to check against.
    "eager_two_runs_differ": OutcomeStatus.UNSUPPORTED,
    "eager_variation": OutcomeStatus.UNSUPPORTED,
    "not_implemented": OutcomeStatus.UNSUPPORTED,
    "infra_error": OutcomeStatus.LOST,
}
_SIGNS = (
    (re.compile(r"(?<![a-z])oom(?![a-z])|out ?of ?memory"), OutcomeStatus.OOM),
    (re.compile(r"time-?out|timed out"), OutcomeStatus.TIMEOUT),
    (re.compile(r"not ?implemented|unsupported|not supported"), OutcomeStatus.UNSUPPORTED),
    (re.compile(r"fail|err(?![a-z])|error|exception|crash|killed"), OutcomeStatus.CRASHED),
)


def status_of(text: str) -> OutcomeStatus | None:
    """The status of an outcome for a word or an error text; None for what is neither."""
    word = text.strip().lower()
    if word in _STATUSES:
        return _STATUSES[word]
    return next((status for sign, status in _SIGNS if sign.search(word)), None)


#: Columns that say which case a row is about; a compiled model's row begins with the first three.
ABOUT = ("dev", "name", "batch_size", "tag")
#: What comes before the name of a machine in a column of targets.
TARGET = "perf_speedup_target_"
#: What the table of instruction counts, which has no header, would have as one.
_INSTRUCTIONS = ("name", "metric", "expected", "noise_margin")
#: What a name says of the revision, which differs along a series as its date does: numbers, commits.
_REVISION = re.compile(r"(?<![0-9A-Za-z])(?:[0-9]{6,}|(?=[a-f]*[0-9])[0-9a-f]{7,40})(?![0-9A-Za-z])")
#: Words that name the table, and words without further meaning.
_TABLE = re.compile(
    r"(?<![0-9A-Za-z])(?:performance|accuracy|perf|speedup|graph_breaks|compilation_metrics|results"
    r"|operator_benchmark(?:_expected)?_eager|operator_benchmark|pr_time_benchmarks|ci|expected|targets?)"
    r"(?![0-9A-Za-z])"
)


@dataclass(frozen=True, slots=True)
class TableFileName:
    """What a file's name states, such as `inductor_torchbench_amp_training_cuda_h100_performance.csv`.

    `hardware` follows the device. `file` are the unknown words: files that differ in them are never
    one series. In a name without suite and precision those are all words, and then the folder's name as well.
    """

    suite: str | None
    compiler: str | None
    precision: str | None
    phase: str
    device: str | None
    target: bool
    hardware: str
    file: str | None
    folder: str | None

    @staticmethod
    def of(path: Path) -> "TableFileName":
        stem = path.stem
        letters = list(_blank_marks(stem))
        after_device = len(letters)

        def one_of(words: str) -> str | None:
            nonlocal after_device
            found = re.search(rf"(?:^|_)({words})(?=_|$)", stem)
            if found is None:
                return None
            _use(letters, *found.span(1))
            after_device = found.end()
            return found[1]

        suite = one_of("torchbench|huggingface|timm_models")
        compiler = (
            re.sub(r"^.*(?:expected|perf|accuracy|speedup)_", "", stem.partition(suite)[0]) if suite else ""
        )
        if suite:
            end = stem.index(suite)
            _use(letters, end - len(compiler), end)
        mode = one_of("training|inference")
        precision = one_of("float32|float16|bfloat16|amp_bf16|amp_fp16|amp|bf16|fp16")
        device = one_of("cuda|cpu|rocm|xpu|mps|hpu")
        tables = list(_TABLE.finditer("".join(letters)))
        for table in tables:
            _use(letters, *table.span())
        start = after_device if device else len(letters)
        stop = next((table.start() for table in tables if table.start() >= start), len(letters))
        hardware, others = _words(letters[start:stop]), _words([*letters[:start], "_", *letters[stop:]])
        nameless = suite is None and precision is None
        return TableFileName(
            suite=suite,
            compiler=compiler.strip("_") or None,
            precision=precision,
            phase={"training": "train", "inference": "infer"}.get(mode or "", "call"),
            device=device,
            target="expected" in stem or "target" in stem,
            hardware=hardware,
            file=(_words(_blank_marks(stem)) if nameless else others) or None,
            folder=(_words(_blank_marks(path.resolve().parent.name)) or None) if nameless else None,
        )

    def on(self, machine: str) -> str:
        """The hardware's label, where the table itself names a machine."""
        return " ".join(filter(None, (machine if machine != "unknown" else "", self.hardware))) or "unknown"

    def others(self) -> dict[str, str | None]:
        """The parameters of a case for the words of the name that no rule knows."""
        return {"file": self.file, "folder": self.folder}

    def case(self, row: "DynamoRow") -> str:
        """The key of the case that a row is about; raises BadFile for a row without a name."""
        return self.key(row, row.need("name"))

    def device_of(self, row: "DynamoRow") -> str | None:
        """The device that a row is about."""
        return row.text("dev") or self.device

    def key(self, row: "DynamoRow", model: str, more: Mapping[str, str | None] | None = None) -> str:
        """The key of a compiled model's case."""
        batch = row.text("batch_size")
        own = {
            "suite": self.suite,
            "precision": self.precision,
            "device": self.device_of(row),
            # Rows of models that failed to load have the batch size 0.
            "batch": None if batch == "0" else batch,
            "tag": row.text("tag"),
            **self.others(),
        }
        technique = f"compile={plain(self.compiler or 'dynamo')}"
        return case_key(model, self.phase, {**own, **(more or {})}, technique)


def _blank_marks(text: str) -> str:
    """A name with blanks for what differs along a series: dates that have been, and revisions."""
    letters = list(text)
    for span, _ in times_in(text):
        _use(letters, *span)
    return _REVISION.sub(lambda mark: " " * len(mark[0]), "".join(letters))


def _use(letters: list[str], start: int, end: int) -> None:
    letters[start:end] = " " * (end - start)


def _words(letters: Iterable[str]) -> str:
    """The rest of a name, with one underscore between words."""
    words = (word.strip("-") for word in re.split(r"[_\s]+", "".join(letters)))
    return "_".join(filter(None, words))


@dataclass(frozen=True, slots=True)
class DynamoRow:
    """The cells of a row that are not empty, by column; `disabled` by a `#` before it."""

    place: SourcePlace
    cells: Mapping[str, Value]
    disabled: bool = False

    def text(self, column: str) -> str | None:
        return self.cells[column].text() if column in self.cells else None

    def need(self, column: str) -> str:
        """The text of a required cell; raises BadFile."""
        if column not in self.cells:
            raise BadFile(self.place.at(column), "is missing")
        return self.cells[column].text()


@dataclass(frozen=True, slots=True)
class DynamoTable:
    """A table under the header it is known by."""

    kind: str
    header: tuple[str, ...]
    rows: tuple[DynamoRow, ...]
    problems: tuple[ImportProblem, ...]


def kind_of(header: tuple[str, ...], stem: str) -> str | None:
    """The table with this first row; None for an unknown one."""
    columns = {header[0].lstrip("# "), *header[1:]} if header else set[str]()
    if "name" in columns and any(column.startswith(TARGET) for column in columns):
        return "targets"
    if {"name", "accuracy"} <= columns:
        return "accuracy"
    if "name" in columns and {"speedup", "abs_latency"} & columns:
        return "performance"
    if {"model", "reason"} <= columns:
        return "graph_breaks"
    if {"Case Name", "Execution Time"} <= columns:
        return "operators"
    if header[:3] == ABOUT[:3] and ("compilation_metrics" in stem or "compile" in "".join(header[3:])):
        return "compilation"
    numbers = [number_or_none(Value(cell, SourcePlace(""))) for cell in header[2:]]
    if len(header) == len(_INSTRUCTIONS) and None not in numbers:
        return "instructions"
    return None


def table_of(text: str, path: Path) -> DynamoTable:
    """The rows of a file under its header, which the table of instruction counts lacks; raises BadFile."""
    header: tuple[str, ...] = ()
    kind = ""
    rows: list[DynamoRow] = []
    problems: list[ImportProblem] = []
    for place, cells, ended in csv_cells(text, path.name):
        own = tuple(cell.strip() for cell in cells)
        if not any(own) or own == header:
            continue
        if not header:
            header, kind = _header(own, path.stem, place)
            if kind != "instructions":
                continue
        if len(own) > len(header):
            sentence = f"has {len(own)} cells under a header of {len(header)}: set aside"
            problems.append(ImportProblem(place, sentence))
        elif _is_cut_short(own, header, kind):
            sentence = f"is cut short: {len(own)} cells under a header of {len(header)}"
            problems.append(ImportProblem(place, sentence))
        elif not ended and kind != "targets":
            problems.append(ImportProblem(place, NO_END))
        else:
            rows.append(_row(own, header, place))
    if not header:
        raise BadFile(SourcePlace(path.name), "is empty")
    return DynamoTable(kind, header, tuple(rows), tuple(problems))


def _is_cut_short(cells: tuple[str, ...], header: tuple[str, ...], kind: str) -> bool:
    """Whether a row ends early, perhaps in the midst of a number.

    In tables kept by hand cells are left out; a model that failed may have nothing beyond the word for it.
    """
    if len(cells) >= len(header) or cells[0].startswith("#") or kind in ("targets", "instructions"):
        return False
    return kind != "performance" or status_of(cells[-1]) is None


def _header(first: tuple[str, ...], stem: str, place: SourcePlace) -> tuple[tuple[str, ...], str]:
    kind = kind_of(first, stem)
    if kind is None:
        beginning = ",".join(first)[:100]
        raise BadFile(place, f"`{beginning}` begins no known table of PyTorch's benchmarks")
    if kind == "instructions":
        return _INSTRUCTIONS, kind
    header = (first[0].lstrip("# "), *first[1:])
    refuse_twice(header, place)
    return header, kind


def _row(cells: tuple[str, ...], header: tuple[str, ...], place: SourcePlace) -> DynamoRow:
    disabled = cells[0].startswith("#")
    cells = (cells[0].lstrip("# "), *cells[1:])
    named = zip(header, cells, strict=False)
    return DynamoRow(
        place, {column: Value(cell, place.at(column)) for column, cell in named if cell}, disabled
    )


def is_target(table: DynamoTable, name: TableFileName) -> bool:
    """Whether the numbers are expectations that people edit, which never share a series with measurements."""
    never = table.kind in ("graph_breaks", "compilation")
    always = table.kind in ("targets", "instructions") or (
        table.kind == "accuracy" and "dev" not in table.header
    )
    return always or (name.target and not never)
