"""What a suite is: a curated list of cases with a time budget."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..session_plan import Timing

#: Where something stands in a suite's table: keys, and numbers for the elements of a list.
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Cases (keys or globs) that stand in a suite for one reason, in order."""

    why: str
    cases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    """A list of case keys (or globs over the cases on offer), in order of importance.

    Replicates are taken in rounds over all cases, so that a budget that runs out costs replicates of all
    before it costs a case. `blocks` are the same cases grouped by why they are there; `baselines` are the
    eager fp32 cases that were added because a gain is a ratio against them. `places` tells where in the
    suite's table a case comes from, as far as it stands there. `excluded` are globs of cases that a glob of
    `cases` does not stand for. `device` is `cpu` for a suite that is about the CPU whatever else is there,
    and `auto` for one that takes the best device.
    """

    name: str
    cases: tuple[str, ...]
    replicates: int = 3
    budget_seconds: float = 3600.0
    timing: Timing = field(default_factory=Timing)
    summary: str = ""
    blocks: tuple[Block, ...] = ()
    baselines: frozenset[str] = frozenset()
    places: Mapping[str, Path] = field(default_factory=dict[str, Path])
    excluded: tuple[str, ...] = ()
    device: str = "auto"
