"""From a suite's table, as it stands in TOML, to the suite."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import BadSuite
from ..session_plan import Timing
from ..worker.case_key import CaseKey
from .matrix import LIMIT, block, is_glob, is_key, whole_key, without
from .suite import Block, Path, Suite

#: Keys of a table that change how a suite is measured: durations of its timing, in seconds.
TIMES = ("measure_seconds", "warm_up_max_seconds", "max_seconds", "deadline_seconds", "observe_seconds")

#: Keys of a table that make a suite's cases.
_SOURCES = ("cases", "matrix", "include")


def compose(name: str, table: Mapping[str, Any], known: Mapping[str, Suite]) -> Suite:
    """The suite `name`; what its table leaves out is as in the suite known by that name, or at its default.

    `cases`, `matrix` and `include` (other suites) make its cases, in this order, instead of the known ones;
    `exclude` takes from either. The table's types are taken as right. Raises BadSuite for what is not there,
    for a suite without any case, and for more than a run can measure.
    """
    base = known.get(name, Suite(name, ()))
    if any(key in table for key in _SOURCES):
        blocks, places = _blocks(name, table, known)
    else:
        blocks, places = base.blocks, {case: () for one in base.blocks for case in one.cases}
    blocks, places = _excluded(blocks, places, table)
    cases, baselines = with_baselines([case for one in blocks for case in one.cases])
    if not cases:
        raise _without_cases(name, table, known)
    for case in cases:
        if case in places and (baseline := _baseline(case)) in baselines:
            places.setdefault(baseline, places[case])
    replicates = table.get("replicates", base.replicates)
    if problem := too_many(len(cases), replicates):
        raise BadSuite(("replicates",) if "replicates" in table else (), problem)
    return Suite(
        name,
        cases,
        replicates=replicates,
        budget_seconds=float(table.get("budget_seconds", base.budget_seconds)),
        timing=_timing(table, base),
        summary=table.get("summary", base.summary),
        blocks=blocks,
        baselines=baselines,
        places=places,
        device=table.get("device", base.device),
        excluded=_excludes(table, known) or base.excluded,
    )


def _without_cases(name: str, table: Mapping[str, Any], known: Mapping[str, Suite]) -> BadSuite:
    """Why there is nothing to measure: whoever mistyped a suite's name made a new one that is empty."""
    if "exclude" in table:
        return BadSuite(("exclude",), "exclude leaves no case")
    others = tuple(other for other in known if other != name)
    return BadSuite((), f"it has no cases: {', '.join(_SOURCES)} would give it some", word=name, valid=others)


def too_many(cases: int, replicates: int) -> str:
    """Why so many replicates of so many cases are no plan for one run; empty for a plan."""
    if cases * replicates <= LIMIT:
        return ""
    many = f"{replicates:,} replicates" if cases == 1 else f"{cases:,} cases x {replicates:,} replicates"
    return f"{many} are too many: one run measures {LIMIT:,} at most"


def _excludes(table: Mapping[str, Any], known: Mapping[str, Suite]) -> tuple[str, ...]:
    """What the suite takes away, and what the suites it takes in took away from their globs."""
    inherited = (glob for other in table.get("include", ()) for glob in known[other].excluded)
    return (*table.get("exclude", ()), *inherited)


def with_baselines(wanted: list[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """The cases, each once, a workload's eager fp32 case before its techniques; and which were added.

    A gain is a ratio against that baseline within one session, so no technique may be without it.
    """
    there = set(wanted)
    cases: dict[str, None] = {}
    added: set[str] = set()
    for case in wanted:
        baseline = _baseline(case)
        cases |= {baseline: None, case: None}
        if baseline not in there:
            added.add(baseline)
    return tuple(cases), frozenset(added)


def _baseline(case: str) -> str:
    """The eager fp32 case of a key's workload; a glob stands for such cases already, and is its own."""
    return str(CaseKey.parse(case).eager) if is_key(case) else case


def _blocks(
    name: str, table: Mapping[str, Any], known: Mapping[str, Suite]
) -> tuple[tuple[Block, ...], dict[str, Path]]:
    blocks: list[Block] = []
    places: dict[str, Path] = {}
    for number, text in enumerate(table.get("cases", ())):
        place = ("cases", number)
        # A glob, or the beginning of keys, is looked up among the cases on offer when it comes to measuring.
        case = whole_key(text, place) if is_key(text) else text
        places.setdefault(case, place)
    if places:
        blocks.append(Block("", tuple(places)))
    for number, entry in enumerate(table.get("matrix", ())):
        keys = block(entry, ("matrix", number))
        blocks.append(Block(entry.get("why") or "", tuple(keys)))
        places = {**keys, **places}
    for number, other in enumerate(table.get("include", ())):
        if other not in known or other == name:
            others = [one for one in known if one != name]
            raise BadSuite.unknown(("include", number), "suite", other, others)
        blocks.extend(known[other].blocks)
        for case in known[other].cases:
            places.setdefault(case, ("include", number))
    return tuple(blocks), places


def _excluded(
    blocks: tuple[Block, ...], places: dict[str, Path], table: Mapping[str, Any]
) -> tuple[tuple[Block, ...], dict[str, Path]]:
    if not (patterns := table.get("exclude", ())):
        return blocks, places
    # What a glob stands for is not known here; the patterns are applied again when it is.
    places = without(places, patterns, (), strict=not any(map(is_glob, places)))
    kept = (replace(one, cases=tuple(case for case in one.cases if case in places)) for one in blocks)
    return tuple(one for one in kept if one.cases), places


def _timing(table: Mapping[str, Any], base: Suite) -> Timing:
    changed = {name: float(table[name]) for name in TIMES if name in table}
    if "measure_seconds" in changed:
        # Slow cases may go on until they have their blocks, but not for ever.
        changed.setdefault("max_seconds", max(4 * changed["measure_seconds"], 4.0))
    return replace(base.timing, **changed)
