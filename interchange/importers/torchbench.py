"""TorchBench user benchmarks: `metrics-*.json`, whose values are numbers or error texts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.metrics import Better
from records.outcomes import OutcomeStatus

from ..errors import SourcePlace
from ..foreign_runs import Failure, ForeignOrigin, Point, RunAccumulator, case_key, plain
from ..runs import ImportBatch
from ..source_file import Value, head, identity_of, json_of, made_at, text_of, text_or_empty
from ..units import slug
from .dynamo_table import AS_GIVEN, status_of

NAME = "torchbench"
TITLE = "TorchBench user benchmark"

#: By the file's name of a metric: ours or a new name, unit, direction, title.
_METRICS: dict[str, tuple[str, str, Better, str]] = {
    "latencies": ("latency", "ms", "lower", ""),
    # Bytes / 1024 / 1024 / 1024 there, which it calls GB.
    "cpu_peak_mem": ("torchbench.cpu_peak_mem", "GB", "lower", "Peak memory of the CPU (1 GB = 1024 MiB)"),
    "gpu_peak_mem": ("torchbench.gpu_peak_mem", "GB", "lower", "Peak memory of the GPU (1 GB = 1024 MiB)"),
    "pt2_graph_breaks": ("torchbench.pt2_graph_breaks", "count", "lower", "Graph breaks"),
}
#: `<model>-<test>-<metric>`: split at the test, since both others may have a hyphen.
_PLAIN_KEY = re.compile(r"(?P<model>.+?)-(?P<test>train|eval)-(?P<metric>.+)")
#: `test_<test>[<model>-<device>-<mode>]_<metric>`, as the benchmark `torch-nightly` writes.
_NIGHTLY_KEY = re.compile(
    r"test_(?P<test>train|eval)\[(?P<model>.+)-(?P<device>[a-z]+)-(?P<mode>[a-z]+)\]_(?P<metric>latency|[cg]mem)"
)
_NIGHTLY_METRICS = {"latency": "latencies", "cmem": "cpu_peak_mem", "gmem": "gpu_peak_mem"}
_PHASES = {"train": "train", "eval": "infer"}
_OWN = frozenset({"model", "test", "device", "bs", "extra_args", "metric"})


@dataclass(slots=True)
class _MetricValues:
    """The values of the metrics: numbers, and by case the texts in place of some."""

    points: list[Point] = field(default_factory=list[Point])
    texts: dict[str, list[tuple[str, Value]]] = field(default_factory=dict[str, list[tuple[str, Value]]])


def knows(path: Path) -> bool:
    """Whether a file begins like one of these."""
    start = head(path)
    named = path.name.startswith("metrics-") and path.suffix == ".json"
    members = ('"name"', '"environ"', '"metrics"') if not named else ('"metrics"',)
    return start.lstrip().startswith("{") and all(member in start for member in members)


def read_runs(path: Path) -> ImportBatch:
    """One run of one user benchmark; raises BadFile.

    An error text is the outcome of its case, unless the case has numbers as well: then it is set aside.
    """
    text = text_of(path)
    document = json_of(text, SourcePlace(path.name))
    name = document.need("name").text()
    environ = document.get("environ")
    facts = {key: at.value for key, at in environ.object().items()} if environ else {}
    accumulator, found = RunAccumulator(NAME), _MetricValues()
    for key, value in document.need("metrics").object().items():
        with accumulator.setting_aside():
            _take(*_case_and_metric(key, name), value, found)
    origin = _origin(path, text, name, environ, facts)
    place = document.place.at("metrics")
    accumulator.add(origin, place, found.points, _failures(found, accumulator))
    return accumulator.build_batch(place)


def _case_and_metric(key: str, benchmark: str) -> tuple[str, str]:
    """The case and metric of a key of `metrics`."""
    if ", " in key and "=" in key:
        pairs = [part.partition("=") for part in re.split(r", (?=\w+=)", key)]
        parts = {name: value for name, equals, value in pairs if equals}
        if {"model", "metric"} <= parts.keys() and len(parts) == len(pairs):
            return _of_parts(parts, benchmark)
    if match := _NIGHTLY_KEY.fullmatch(key):
        parts = match.groupdict()
        mode = parts.pop("mode")
        parts |= {"metric": _NIGHTLY_METRICS[parts["metric"]]}
        return _of_parts(parts, benchmark, "eager" if mode == "eager" else f"mode={mode}")
    if match := _PLAIN_KEY.fullmatch(key):
        return _of_parts(match.groupdict(), benchmark)
    # A key that cannot be split stays whole: a case of its own with a single value.
    return case_key(key, "call", {"benchmark": benchmark}), "value"


def _of_parts(parts: dict[str, str], benchmark: str, technique: str = "") -> tuple[str, str]:
    test = parts.get("test", "")
    parameters = {name: value for name, value in parts.items() if name not in _OWN}
    parameters |= {"benchmark": benchmark, "device": parts.get("device")}
    parameters |= {"batch": None if parts.get("bs") in (None, "None", "") else parts["bs"]}
    parameters |= {"test": None if test in _PHASES or not test else test}
    technique = technique or _technique(parts.get("extra_args", ""))
    phase = _PHASES.get(test, "call")
    return case_key(parts["model"], phase, parameters, technique), parts["metric"]


def _technique(arguments: str) -> str:
    """`--precision bf16 --channels-last` as `channels-last=on,precision=bf16`; what is odd stays whole.

    Arguments come as one text, or as a list in Python's spelling.
    """
    if arguments.startswith("["):
        arguments = " ".join(re.findall(r"[^\s\[\],'\"]+", arguments))
    words = arguments.split()
    if not words:
        return "eager"
    pairs: dict[str, str] = {}
    name = ""
    for word in words:
        option = word.startswith("--") and plain(word[2:].partition("=")[0])
        if option and option not in pairs:
            name, _, value = word[2:].partition("=")
            name, pairs[option] = option, plain(value) or "on"
        elif not option and name and pairs[name] == "on":
            pairs[name] = plain(word)
        else:
            return f"arguments={plain(' '.join(words))}"
    return ",".join(f"{option}={value}" for option, value in sorted(pairs.items()))


def _take(case: str, name: str, value: Value, found: _MetricValues) -> None:
    if isinstance(value.value, str):
        if _is_number(value.text()):
            raise value.wrong("a number or an error text")
        found.texts.setdefault(case, []).append((name, value))
        return
    own = f"torchbench.{slug(name) or 'value'}"
    unknown = (own, AS_GIVEN, "neither", f"{name}, in TorchBench's unit")
    metric, unit, better, title = _METRICS.get(name, unknown)
    found.points.append(
        Point(
            case=case,
            metric=metric,
            unit=unit,
            better=better,
            values=(value.number(),),
            place=value.place,
            title=title,
        )
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _failures(found: _MetricValues, accumulator: RunAccumulator) -> list[Failure]:
    """The outcomes of the cases without numbers; a text among numbers is a problem."""
    with_numbers = {point.case for point in found.points}
    failures: list[Failure] = []
    for case, texts in found.texts.items():
        if case in with_numbers:
            for metric, value in texts:
                accumulator.aside(
                    value.place, f"{metric} is {value.text()!r}, and other metrics have numbers"
                )
            continue
        reasons = list(dict.fromkeys(value.text() for _, value in texts))
        reason = (
            reasons[0] if len(reasons) == 1 else "; ".join(f"{name}: {value.text()}" for name, value in texts)
        )
        failures.append(Failure(case, status_of(reasons[0]) or OutcomeStatus.CRASHED, reason))
    return failures


def _origin(
    path: Path, text: str, name: str, environ: Value | None, facts: Mapping[str, Any]
) -> ForeignOrigin:
    started, note, dated = made_at(path)
    identity, torch = identity_of(path, text, dated=dated), text_or_empty(environ, "pytorch_version")
    return ForeignOrigin(
        format=NAME,
        suite=f"{NAME}.{slug(name) or 'unnamed'}",
        started_at=started,
        dated=dated,
        # One content has one PyTorch.
        identity=f"{identity} {torch}" if dated else identity,
        hardware=text_or_empty(environ, "device") or "unknown",
        torch_version=torch,
        environment_facts={"git": text_or_empty(environ, "pytorch_git_version")} if facts else {},
        facts={"benchmark": name, "environ": facts, "notes": [note]},
    )
