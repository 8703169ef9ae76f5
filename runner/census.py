"""A census: the operators and compiled regions that take a program's time, recorded and as cases."""

import hashlib
import json
import math
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from common.bounded_files import NestedTooDeep, bounded_bytes, toml_tables
from common.text import plural

from .errors import RunnerError
from .worker.case_key import CaseKey

SCHEMA = "pyrometer.census/1"
#: Of the time, so much is kept; the operators that are left take next to none each.
KEPT_SHARE = 0.95
#: A census of more operators than this is cut, whatever share that leaves.
MOST = 1000
#: The least weight: a file rounds shares to a millionth, and a policy takes no weight of 0.
_LEAST_WEIGHT = 1e-6
#: With them a census takes a few MiB at most.
_MOST_BYTES = 8 << 20


class BadCensus(RunnerError):
    """A census that cannot be read; the text says why in a sentence."""


@dataclass(frozen=True, slots=True)
class CensusOperator:
    """An operator with the arguments of a call (see `worker.census_recorder`), its calls and seconds."""

    name: str
    arguments: Mapping[str, Any]
    count: int
    seconds: float
    share: float

    @property
    def case(self) -> str:
        """The key of the case that measures it."""
        return str(CaseKey.of(self.workload, "infer", {}, {}))

    @property
    def workload(self) -> str:
        """The name of its workload: the operator's, and a hash of what it is called with."""
        text = json.dumps([self.name, self.arguments], sort_keys=True)
        readable = re.sub(r"[^A-Za-z0-9_]", "_", self.name.removeprefix("aten.").removesuffix(".default"))
        return f"{readable}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def inputs(self) -> str:
        """The tensors it takes, in words: `float32[8, 768] float32[768, 3072]`."""
        values = [*self.arguments["args"], *self.arguments["kwargs"].values()]
        return " ".join(_tensor_text(one) for value in values for one in _tensors(value))


@dataclass(frozen=True, slots=True)
class CensusRegion:
    """A graph that torch.compile made: `calls` says how often it calls what, `seconds` are of all its calls.

    `arguments` hold its nodes (see `worker.census_recorder`) and are None for a graph that cannot be made
    again. A region that `trains` ran backward too, and is measured with an update by AdamW.
    """

    calls: Mapping[str, int]
    arguments: Mapping[str, Any] | None
    trains: bool
    count: int
    seconds: float
    share: float

    @property
    def phase(self) -> str:
        """The phase of its case."""
        return "train" if self.trains else "infer"

    @property
    def case(self) -> str:
        """The key of the case that measures it."""
        return str(CaseKey.of(self.workload, self.phase, {}, {"compile": "default"}))

    @property
    def workload(self) -> str:
        """The name of its workload, with a hash of its graph and inputs."""
        text = json.dumps([self.arguments, self.calls], sort_keys=True)
        return f"compiled_region_{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"compiled region of {plural(sum(self.calls.values()), 'operator')}"

    @property
    def inputs(self) -> str:
        """The tensors it takes but for those that it trains, in words."""
        if self.arguments is None:
            return ""
        trained = self.arguments["grads"]
        values = [one for place, one in enumerate(self.arguments["inputs"]) if place not in trained]
        return " ".join(_tensor_text(one) for value in values for one in _tensors(value))


@dataclass(frozen=True, slots=True)
class Census:
    """What was recorded of a program over some steps; each list begins with what took longest.

    `compiled` without any region: the program compiles, but ran uncompiled while it was recorded.
    """

    torch: str
    steps: int
    seconds: float
    operators: tuple[CensusOperator, ...]
    seen: int
    compiled: bool = False
    regions: tuple[CensusRegion, ...] = ()

    @property
    def measured_cases(self) -> tuple[CensusOperator | CensusRegion, ...]:
        """What is measured, as a case each."""
        found = (*self.operators, *(one for one in self.regions if one.arguments is not None))
        return tuple(sorted(found, key=lambda one: -one.share))

    @property
    def share(self) -> float:
        """The share of the recorded time that is measured."""
        return math.fsum(one.share for one in self.measured_cases)

    @property
    def region_share(self) -> float:
        """The share of the recorded time that is in compiled regions, measured or not."""
        return math.fsum(one.share for one in self.regions)

    @property
    def weights(self) -> dict[str, float]:
        """The share of each case, as a policy weighs it."""
        return {one.case: max(one.share, _LEAST_WEIGHT) for one in self.measured_cases}

    def to_toml(self) -> str:
        """The file."""
        # Only a recorded census is written: no run waits for this import.
        import tomlkit

        document = tomlkit.document()
        document.add(tomlkit.comment("Where the time of a program goes; made by `pyrometer record`."))
        document["schema"] = SCHEMA
        document["torch"] = self.torch
        document["steps"] = self.steps
        document["seconds"] = round(self.seconds, 6)
        document["seen"] = self.seen
        document["compiled"] = self.compiled
        if self.regions:
            document.add(tomlkit.comment(region_summary(self)))
        regions = tomlkit.aot()
        for one in self.regions:
            table = tomlkit.table()
            table["name"] = one.name
            table["calls"] = " ".join(f"{name}:{count}" for name, count in one.calls.items())
            table["inputs"] = one.inputs
            table["trains"] = one.trains
            table["count"] = one.count
            table["seconds"] = round(one.seconds, 6)
            table["share"] = round(one.share, 6)
            if one.arguments is not None:
                table["arguments"] = json.dumps(one.arguments)
            regions.append(table)
        if self.regions:
            document["region"] = regions
        listed = tomlkit.aot()
        for one in self.operators:
            table = tomlkit.table()
            table["name"] = one.name
            table["inputs"] = one.inputs
            table["count"] = one.count
            table["seconds"] = round(one.seconds, 6)
            table["share"] = round(one.share, 6)
            table["arguments"] = json.dumps(one.arguments)
            listed.append(table)
        if self.operators:
            document["operator"] = listed
        return tomlkit.dumps(document)

    def to_case_file(self) -> str:
        """A Python file of cases that registers each operator and region."""
        lines = ['"""Operators of a census."""', "", "import json", ""]
        lines += ["from runner.worker.census import register, register_region", ""]
        for one in self.operators:
            lines.append(
                f"register({one.workload!r}, {one.name!r}, json.loads({json.dumps(one.arguments)!r}))"
            )
        for one in self.regions:
            if one.arguments is not None:
                text = json.dumps(json.dumps(one.arguments))
                lines.append(f"register_region({one.workload!r}, {one.phase!r}, json.loads({text}))")
        return "\n".join(lines) + "\n"


def from_raw(body: Mapping[str, Any]) -> Census:
    """The census of what a recorder wrote: its regions, and the operators up to `KEPT_SHARE` of the time.

    The time of operators that cannot be called again counts, so that `share` is of all the time. Raises
    BadCensus where nothing was seen.
    """
    seen = sorted(body["operators"], key=lambda one: -float(one["seconds"]))
    ran = sorted(body["regions"], key=lambda one: -float(one["seconds"]))
    total = math.fsum(
        [*(float(one["seconds"]) for one in [*seen, *ran]), *map(float, body["left_out"].values())]
    )
    if not total:
        raise BadCensus("the program called no operator of PyTorch while it was recorded")
    regions = tuple(_recorded_region(one, total) for one in ran[:MOST])
    kept: list[CensusOperator] = []
    reached = math.fsum(one.share for one in regions)
    for one in seen:
        if reached >= KEPT_SHARE or len(kept) == MOST:
            break
        share = float(one["seconds"]) / total
        kept.append(
            CensusOperator(one["name"], one["arguments"], int(one["count"]), float(one["seconds"]), share)
        )
        reached += share
    steps, compiled = int(body["steps"]), bool(body["compiled"])
    return Census(str(body["torch"]), steps, total, tuple(kept), len(seen), compiled, regions)


def _recorded_region(body: Mapping[str, Any], total: float) -> CensusRegion:
    seconds = float(body["seconds"])
    arguments = body["arguments"] if body["arguments"]["nodes"] is not None else None
    return CensusRegion(
        body["calls"], arguments, bool(body["trained"]), int(body["count"]), seconds, seconds / total
    )


def read_census(path: Path) -> Census:
    """The census in a file; raises BadCensus for one that is missing, of another kind, or damaged."""
    try:
        body = toml_tables(bounded_bytes(path, _MOST_BYTES).decode())
    except OSError as error:
        raise BadCensus(f"{path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, NestedTooDeep) as error:
        raise BadCensus(f"{path} is no census: {error}") from None
    if body.get("schema") != SCHEMA:
        raise BadCensus(f'{path} is no census: it lacks schema = "{SCHEMA}", which `pyrometer record` writes')
    try:
        operators = tuple(_operator(one) for one in body.get("operator", ()))
        # A census of an older release holds none.
        regions = tuple(_region(one) for one in body.get("region", ()))
        census = Census(
            str(body["torch"]),
            int(body["steps"]),
            float(body["seconds"]),
            operators,
            int(body["seen"]),
            bool(body["compiled"]),
            regions,
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise BadCensus(f"{path} is damaged: {type(error).__name__}: {error}") from None
    if not census.measured_cases:
        raise BadCensus(f"{path} holds no operator and no compiled region that can be measured")
    return census


def _operator(body: Mapping[str, Any]) -> CensusOperator:
    arguments = json.loads(body["arguments"])
    if not (isinstance(arguments["args"], list) and isinstance(arguments["kwargs"], dict)):
        raise ValueError("arguments are no call")
    share, seconds = _time(body)
    return CensusOperator(str(body["name"]), arguments, int(body["count"]), seconds, share)


def _region(body: Mapping[str, Any]) -> CensusRegion:
    arguments = json.loads(body["arguments"]) if "arguments" in body else None
    if arguments is not None and not all(isinstance(arguments[one], list) for one in ("nodes", "inputs")):
        raise ValueError("arguments are no graph")
    calls = {name: int(count) for name, _, count in (one.rpartition(":") for one in body["calls"].split())}
    share, seconds = _time(body)
    return CensusRegion(calls, arguments, bool(body["trains"]), int(body["count"]), seconds, share)


def _time(body: Mapping[str, Any]) -> tuple[float, float]:
    """Share and seconds of a table; raises ValueError for impossible ones."""
    share, seconds = float(body["share"]), float(body["seconds"])
    if not (0 <= share <= 1 and 0 <= seconds < math.inf):
        raise ValueError(f"share {share} and seconds {seconds} are none")
    return share, seconds


def summary(census: Census) -> str:
    """What was recorded and what of it is measured, in a sentence or two."""
    distinct = f" of {census.seen} distinct ones" if len(census.operators) < census.seen else ""
    taken = math.fsum(one.share for one in census.operators)
    text = (
        f"{plural(census.steps, 'step')} in PyTorch {census.torch}: "
        f"{plural(len(census.operators), 'operator call')}{distinct} take {taken:.1%} of the time"
    )
    return (
        f"{text}. {region_summary(census)}; in all {census.share:.1%} is measured" if census.regions else text
    )


def region_summary(census: Census) -> str:
    """The share of the time that is in compiled regions, and what of it is measured, in a sentence."""
    lost = math.fsum(one.share for one in census.regions if one.arguments is None)
    text = f"{census.region_share:.1%} is in {plural(len(census.regions), 'compiled region')}"
    if not lost:
        return f"{text}, all measured compiled"
    return (
        f"{text}: {census.region_share - lost:.1%} is measured compiled, and {lost:.1%} is not measured, "
        "for its graph cannot be made again"
    )


def _tensors(value: Any) -> Sequence[Mapping[str, Any]]:
    if isinstance(value, list):
        return [one for part in cast("list[Any]", value) for one in _tensors(part)]
    if isinstance(value, dict) and "tensor" in value:
        return [cast("dict[str, Any]", value)["tensor"]]
    return []


def _tensor_text(tensor: Mapping[str, Any]) -> str:
    return f"{tensor['dtype']}{tensor['shape']}"


#: Runs in the interpreter of the program, which has nothing of ours.
RECORDER = Path(__file__).with_name("worker") / "census_recorder.py"
#: Options of Python that may stand before the program.
_FLAGS = ("-u", "-O", "-OO", "-B", "-E", "-s", "-S", "-I", "-P", "-q", "-v")


@dataclass(frozen=True, slots=True)
class CensusRecording:
    """A census, and the exit code of the program: 0 also where it was ended after its steps.

    `left_out` names operators with an argument that cannot be made again.
    """

    census: Census
    code: int
    left_out: tuple[str, ...]


def record_program(command: Sequence[str], steps: int, skip: int) -> CensusRecording:
    """Run `python [flags] SCRIPT|-m MODULE ...` until `steps` steps after `skip` are recorded.

    The program has this process's folder, input and output. Raises BadCensus for a command that is no call of
    Python, and where nothing was recorded.
    """
    python, flags, program = _split(command)
    with tempfile.TemporaryDirectory(prefix="pyrometer-census-") as folder:
        raw = Path(folder) / "raw.json"
        options = ["--raw", str(raw), "--steps", str(steps), "--skip", str(skip)]
        done = subprocess.run([python, *flags, str(RECORDER), *options, *program], check=False)
        if not raw.exists():
            raise BadCensus(
                f"the program ended with {done.returncode} before anything was recorded: its interpreter "
                "needs PyTorch 2.1 or newer"
            )
        body: dict[str, Any] = json.loads(raw.read_text(encoding="utf-8"))
        return CensusRecording(from_raw(body), done.returncode, tuple(body["left_out"]))


def _split(command: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Interpreter, its flags, and the program with its arguments."""
    if not command:
        raise BadCensus("name the program: pyrometer record -- python train.py")
    python = shutil.which(command[0])
    if python is None:
        raise BadCensus(f"there is no program {command[0]}")
    if "python" not in Path(command[0]).name:
        raise BadCensus(f"{command[0]} is no Python: a census records `python SCRIPT` or `python -m MODULE`")
    flags: list[str] = []
    rest = list(command[1:])
    while rest and rest[0] in _FLAGS:
        flags.append(rest.pop(0))
    if not rest or (rest[0].startswith("-") and (rest[0] != "-m" or len(rest) < 2)):
        raise BadCensus("after the interpreter comes a script, or -m and a module")
    if rest[0] != "-m" and not Path(rest[0]).is_file():
        raise BadCensus(f"there is no script {rest[0]}")
    return python, flags, rest
