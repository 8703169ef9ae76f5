"""A census as a file: the operators that a program spends its time in, and the cases they are measured as."""

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from common.text import plural

from ..errors import RunnerError
from ..worker.case_key import CaseKey

SCHEMA = "pyrometer.census/1"
#: Of the time, so much is kept; the operators that are left take next to none each.
KEPT_SHARE = 0.95
#: A census of more operators than this is cut, whatever share that leaves.
MOST = 1000


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
        return " ".join(_shown(one) for value in values for one in _tensors(value))


@dataclass(frozen=True, slots=True)
class Census:
    """What was recorded of a program over some steps; `operators` begin with the one that took longest."""

    torch: str
    steps: int
    seconds: float
    operators: tuple[CensusOperator, ...]
    seen: int
    compiled: bool = False

    @property
    def share(self) -> float:
        """The share of the recorded time that is in `operators`."""
        return math.fsum(one.share for one in self.operators)

    @property
    def weights(self) -> dict[str, float]:
        """The share of each case, as a policy weighs it."""
        return {one.case: one.share for one in self.operators}

    def to_toml(self) -> str:
        """The file."""
        # Only a recorded census is written: no run waits for this import.
        import tomlkit

        document = tomlkit.document()
        document.add(
            tomlkit.comment("Operators of a program, by the time they took; made by `pyrometer record`.")
        )
        document["schema"] = SCHEMA
        document["torch"] = self.torch
        document["steps"] = self.steps
        document["seconds"] = round(self.seconds, 6)
        document["seen"] = self.seen
        document["compiled"] = self.compiled
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
        document["operator"] = listed
        return tomlkit.dumps(document)

    def to_case_file(self) -> str:
        """A Python file of cases that registers each operator."""
        lines = ['"""Operators of a census."""', "", "import json", ""]
        lines += ["from runner.worker.census import register", ""]
        for one in self.operators:
            lines.append(
                f"register({one.workload!r}, {one.name!r}, json.loads({json.dumps(one.arguments)!r}))"
            )
        return "\n".join(lines) + "\n"


def from_raw(body: Mapping[str, Any]) -> Census:
    """The census of what a recorder wrote, cut to the operators that took `KEPT_SHARE` of the time.

    The time of operators that cannot be called again counts, so that `share` is of all the time. Raises
    BadCensus where no operator was seen.
    """
    seen = sorted(body["operators"], key=lambda one: -float(one["seconds"]))
    total = math.fsum([*(float(one["seconds"]) for one in seen), *map(float, body["left_out"].values())])
    if not seen or not total:
        raise BadCensus("the program called no operator of PyTorch while it was recorded")
    kept: list[CensusOperator] = []
    reached = 0.0
    for one in seen:
        if reached >= KEPT_SHARE or len(kept) == MOST:
            break
        share = float(one["seconds"]) / total
        kept.append(
            CensusOperator(one["name"], one["arguments"], int(one["count"]), float(one["seconds"]), share)
        )
        reached += share
    return Census(
        str(body["torch"]), int(body["steps"]), total, tuple(kept), len(seen), bool(body["compiled"])
    )


def read_census(path: Path) -> Census:
    """The census in a file; raises BadCensus for one that is missing, of another kind, or damaged."""
    try:
        body: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadCensus(f"{path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadCensus(f"{path} is no census: {error}") from None
    if body.get("schema") != SCHEMA:
        raise BadCensus(f'{path} is no census: it lacks schema = "{SCHEMA}", which `pyrometer record` writes')
    try:
        operators = tuple(_operator(one) for one in body["operator"])
        census = Census(
            str(body["torch"]),
            int(body["steps"]),
            float(body["seconds"]),
            operators,
            int(body["seen"]),
            bool(body["compiled"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadCensus(f"{path} is damaged: {type(error).__name__}: {error}") from None
    if not operators:
        raise BadCensus(f"{path} holds no operator")
    return census


def _operator(body: Mapping[str, Any]) -> CensusOperator:
    arguments = json.loads(body["arguments"])
    share, seconds = float(body["share"]), float(body["seconds"])
    if not (isinstance(arguments["args"], list) and isinstance(arguments["kwargs"], dict)):
        raise ValueError("arguments are no call")
    if not (0 <= share <= 1 and 0 <= seconds < math.inf):
        raise ValueError(f"share {share} and seconds {seconds} are none")
    return CensusOperator(str(body["name"]), arguments, int(body["count"]), seconds, share)


def summary(census: Census) -> str:
    """What was recorded, in a sentence."""
    distinct = f" of {census.seen} distinct ones" if len(census.operators) < census.seen else ""
    return (
        f"{plural(census.steps, 'step')} in PyTorch {census.torch}: "
        f"{plural(len(census.operators), 'operator call')}{distinct} take {census.share:.1%} of the time"
    )


def _tensors(value: Any) -> Sequence[Mapping[str, Any]]:
    if isinstance(value, list):
        return [one for part in cast("list[Any]", value) for one in _tensors(part)]
    if isinstance(value, dict) and "tensor" in value:
        return [cast("dict[str, Any]", value)["tensor"]]
    return []


def _shown(tensor: Mapping[str, Any]) -> str:
    return f"{tensor['dtype']}{tensor['shape']}"
