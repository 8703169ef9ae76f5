"""The tables of timm's benchmark.py: how many images per second each model infers or trains."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from analysis.metrics import Better
from records.outcomes import OutcomeStatus

from ..errors import BadFile, SourcePlace
from ..foreign_runs import Failure, ForeignOrigin, Point, RunAccumulator, case_key
from ..runs import ImportBatch
from ..source_file import Value, csv_rows, head, identity_of_table, made_at, number_in, text_of

NAME = "timm-csv"
TITLE = "timm benchmark results (CSV)"

_PHASES: tuple[Literal["infer", "train"], ...] = ("infer", "train")
#: What is measured: the end of a column's name, unit, better, title.
_COLUMNS: tuple[tuple[str, str, Better, str], ...] = (
    ("samples_per_sec", "samples/s", "higher", "Samples per second of the mean step"),
    ("step_time", "ms", "lower", "Mean time of a step of one batch"),
)
_PRECISIONS = ("amp", "amp_bf16", "amp_fp16", "bf16", "fp16", "fp32", "float32", "float16", "bfloat16")
_LAYOUTS = ("nchw", "nhwc")
_TORCH = re.compile(r"pt(\d{3,5})")
_CUDA = re.compile(r"cu(\d{3})")


@dataclass(frozen=True, slots=True)
class _Name:
    """What only the name of a file states."""

    torch_version: str = ""
    hardware: str = "unknown"
    technique: str = "eager"
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    cuda: str = ""


def knows(path: Path) -> bool:
    """Whether the first row has a model and images per second."""
    return _is_table(head(path))


def _is_table(text: str) -> bool:
    columns = {column.strip().strip('"') for column in text.split("\n", 1)[0].split(",")}
    return "model" in columns and any(f"{phase}_samples_per_sec" in columns for phase in _PHASES)


def read_runs(path: Path) -> ImportBatch:
    """One run for the whole table; the columns may stand in any order."""
    text = text_of(path)
    if not _is_table(text):
        raise BadFile(
            SourcePlace(path.name, 1),
            "has no column model, or neither infer_samples_per_sec nor train_samples_per_sec",
        )
    name = _parse_file_name(path.stem)
    accumulator = RunAccumulator(NAME)
    points: list[Point] = []
    failures: list[Failure] = []
    for row in csv_rows(text, path.name, accumulator.aside):
        with accumulator.setting_aside():
            points += _points(accumulator, row, name)
            failures += _failures(row, name)
    started, note, dated = made_at(path)
    identity = identity_of_table(path, text, dated=dated)
    origin = ForeignOrigin(
        format=NAME,
        suite="timm",
        started_at=started,
        dated=dated,
        identity=identity if dated else f"{identity} {name}",
        hardware=name.hardware,
        torch_version=name.torch_version,
        environment_facts={"cuda": name.cuda} if name.cuda else {},
        facts={
            "file": path.name,
            "notes": [note, "PyTorch, hardware, precision and layout are those in the file's name"],
        },
    )
    accumulator.add(origin, SourcePlace(path.name), points, failures)
    return accumulator.build_batch(SourcePlace(path.name))


def _points(accumulator: RunAccumulator, row: Mapping[str, Value], name: _Name) -> Iterator[Point]:
    """Of a row the metrics that it has; a cell that is no number is set aside."""
    for phase in _PHASES:
        case = _case(row, phase, name)
        for ending, unit, better, title in _COLUMNS:
            column = f"{phase}_{ending}"
            if column not in row or "error" in row:
                continue
            with accumulator.setting_aside():
                yield Point(
                    case=case,
                    metric=f"timm.{column}",
                    unit=unit,
                    better=better,
                    values=(number_in(row[column]),),
                    place=row[column].place,
                    title=f"{title}, {phase}",
                )


def _failures(row: Mapping[str, Value], name: _Name) -> Iterator[Failure]:
    if "error" in row:
        reason = row["error"].text()
        status = OutcomeStatus.OOM if "out of memory" in reason.lower() else OutcomeStatus.CRASHED
        phases = [phase for phase in _PHASES if any(column.startswith(f"{phase}_") for column in row)]
        for phase in phases or ["infer"]:
            yield Failure(_case(row, phase, name), status, reason)


def _case(row: Mapping[str, Value], phase: str, name: _Name) -> str:
    """The model with batch and image size: timm takes a smaller batch where memory runs out."""
    if "model" not in row:
        place = next(iter(row.values())).place
        raise BadFile(SourcePlace(place.file, place.line, "model"), "is missing")
    given = {
        "batch": _whole(row, f"{phase}_batch_size"),
        "image": _whole(row, f"{phase}_img_size"),
        **name.parameters,
    }
    return case_key(row["model"].text().strip(), phase, given, name.technique)


def _whole(row: Mapping[str, Value], column: str) -> str | None:
    """A whole number, which pandas writes as 256.0 in a column with gaps; None where there is none."""
    if column not in row:
        return None
    value = number_in(row[column])
    if not value.is_integer():
        raise row[column].wrong("a whole number")
    return str(int(value))


def _parse_file_name(stem: str) -> _Name:
    """`benchmark-infer-amp-nchw-pt240-cu124-rtx4090-dynamo`, or older `model_benchmark_amp_nchw_rtx3090`.

    What no rule knows is the hardware; in a name of which no rule knows anything it means nothing.
    """
    # Underscores part the words of the older names; in the newer ones they are part of a word.
    words = stem.lower().split("-") if "-" in stem else stem.lower().split("_")
    parameters: dict[str, str] = {}
    fields: dict[str, Any] = {}
    rest: list[str] = []
    for word in words:
        if word in _PRECISIONS:
            parameters["precision"] = word
        elif word in _LAYOUTS:
            parameters["layout"] = word
        elif match := _TORCH.fullmatch(word):
            fields["torch_version"] = _version(match[1])
        elif match := _CUDA.fullmatch(word):
            fields["cuda"] = f"{match[1][:2]}.{match[1][2]}"
            parameters["device"] = "cuda"
        elif word == "cpu":
            parameters["device"] = "cpu"
        elif word == "dynamo":
            fields["technique"] = "compile=default"
        elif word not in ("benchmark", "model", "results", *_PHASES):
            rest.append(word)
    if rest and (parameters or fields):
        fields["hardware"] = " ".join(rest)
    return _Name(parameters=parameters, **fields)


def _version(digits: str) -> str:
    """`113` is 1.13, for no table is as old as 1.1.3; `240` is 2.4.0 and `2101` is 2.10.1."""
    if digits.startswith("11"):
        return ".".join(filter(None, ("1", digits[1:3], digits[3:])))
    return f"{digits[0]}.{digits[1:-1]}.{digits[-1]}"
