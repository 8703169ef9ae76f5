"""Suites: from tables in TOML, the built-in ones among them, to lists of cases with a time budget."""

import ast
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

from common.text import key_matches

from ..errors import BadSuite
from ..session_plan import Timing
from ..worker.case import read_docstring
from ..worker.case_key import AXES, PHASES, CaseKey, CaseKeyError

#: Where something stands in a suite's table: keys, and numbers for the elements of a list.
TablePath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class SuiteBlock:
    """Cases (keys or globs) that are in a suite for one reason, in order."""

    why: str
    cases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    """A list of case keys (or globs over the cases on offer), in order of importance.

    Replicates are taken in rounds over all cases, so that a budget that runs out costs replicates of all
    before it costs a case. `blocks` are the same cases grouped by why they are there; `baselines` are the
    eager fp32 cases that were added because a gain is a ratio against them. `places` says where in the
    suite's table a case comes from, as far as it stands there. `excluded` are globs of cases that a glob of
    `cases` does not stand for. `device` is `cpu` for a suite that is about the CPU whatever else is there,
    `cuda` for one that measures a GPU or nothing, and `auto` for one that takes the best device.
    """

    name: str
    cases: tuple[str, ...]
    replicates: int = 3
    budget_seconds: float = 3600.0
    timing: Timing = field(default_factory=Timing)
    summary: str = ""
    blocks: tuple[SuiteBlock, ...] = ()
    baselines: frozenset[str] = frozenset()
    places: Mapping[str, TablePath] = field(default_factory=dict[str, TablePath])
    excluded: tuple[str, ...] = ()
    device: str = "auto"


#: What a block may hold besides axes of a technique.
WORDS = ("workloads", "include", "exclude", "why")
#: Replicates that one run may have: each takes seconds, so many take days.
LIMIT = 100_000


def is_glob(text: str) -> bool:
    """Whether a text stands for several keys."""
    return any(sign in text for sign in "*?[")


def is_key(text: str) -> bool:
    """Whether a text has the form of one whole case key."""
    return text.count("/") == 3 and not is_glob(text)


def expand_matrix(table: Mapping[str, Any], path: TablePath) -> dict[str, TablePath]:
    """The case keys of one `[[matrix]]` block in their order, each with its place in the suite's table.

    Every workload meets every combination of the axes' values, the last axis fastest, and then the techniques
    of `include`; `exclude` takes keys away. Raises BadSuite for a word that does not exist, and for more than
    `LIMIT` cases.
    """
    _refuse_too_many(table, path)
    techniques = [(one, path) for one in _product(table, path)]
    extra: dict[str, TablePath] = {}
    for number, text in enumerate(table.get("include", ())):
        place = (*path, "include", number)
        if "/" in text:
            extra[whole_key(text, place)] = place
        else:
            techniques.append((_technique(text, place), place))
    keys: dict[str, TablePath] = {}
    for number, text in enumerate(table["workloads"]):
        at = (*path, "workloads", number)
        workload = _eager_case(text, at)
        for technique, place in techniques:
            key = str(workload.with_technique(**technique))
            keys.setdefault(key, at if place == path else place)
    return without({**keys, **extra}, table.get("exclude", ()), path)


def _refuse_too_many(table: Mapping[str, Any], path: TablePath) -> None:
    # Counted, for making them would take for ever.
    axes = [len(values) for name, values in table.items() if name not in WORDS]
    cases = prod(axes, start=len(table["workloads"]))
    if cases > LIMIT:
        raise BadSuite(path, f"this matrix makes {cases:,} cases: one run measures {LIMIT:,} at most")


def without(
    keys: Mapping[str, TablePath], patterns: Sequence[str], path: TablePath, *, strict: bool = True
) -> dict[str, TablePath]:
    """The keys that match none of the patterns; if `strict`, BadSuite for a pattern that matches no key."""
    for number, pattern in enumerate(patterns):
        if strict and not any(key_matches(key, pattern) for key in keys):
            raise BadSuite.unknown((*path, "exclude", number), "case to exclude", pattern, keys)
    return {
        key: place
        for key, place in keys.items()
        if not any(key_matches(key, pattern) for pattern in patterns)
    }


def whole_key(text: str, path: TablePath) -> str:
    """A case key in its only spelling; raises BadSuite with the word that is wrong in it."""
    workload, _, technique = text.rpartition("/")
    return str(_eager_case(workload, path).with_technique(**_technique(technique, path)))


def _product(table: Mapping[str, Any], path: TablePath) -> Iterable[dict[str, str]]:
    axes = {name: values for name, values in table.items() if name not in WORDS}
    for name, values in axes.items():
        if name not in AXES:
            raise BadSuite.unknown((*path, name), "key", name, (*WORDS, *AXES))
        for number, value in enumerate(values):
            _check(name, str(value), (*path, name, number))
    for values in product(*axes.values()):
        yield dict(zip(axes, map(str, values), strict=True))


def _technique(text: str, path: TablePath) -> dict[str, str]:
    """The axes of `compile=default,precision=bf16`; none for `eager`."""
    technique: dict[str, str] = {}
    for part in [] if text == "eager" else text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise BadSuite(path, f"{part!r} is no technique: expected axis=value, or eager")
        if name in technique:
            raise BadSuite(path, f"axis {name} is given twice in {text!r}")
        if name not in AXES:
            raise BadSuite.unknown(path, "axis", name, AXES)
        _check(name, value, path)
        technique[name] = value
    return technique


def _check(name: str, value: str, path: TablePath) -> None:
    axis = AXES[name]
    if axis.admits(value):
        return
    if not axis.values or (axis.counts and value[:1].isdecimal()):
        raise BadSuite(path, f"{name}={value} cannot be: expected {axis.valid_values}")
    raise BadSuite.unknown(path, f"value of {name}", value, axis.values)


def _eager_case(text: str, path: TablePath) -> CaseKey:
    """The eager case of a workload such as `resnet50/infer/batch=8,image=224`."""
    parts = text.split("/")
    if len(parts) != 3:
        raise BadSuite(path, f"{text!r} is no workload: expected name/phase/parameters")
    if parts[1] not in PHASES:
        raise BadSuite.unknown(path, "phase", parts[1], PHASES)
    try:
        return CaseKey.parse(f"{text}/eager")
    except CaseKeyError as error:
        raise BadSuite(path, str(error)) from None


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
    blocks, places = _exclude_cases(blocks, places, table)
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
    """Why there is nothing to measure: a mistyped suite name makes a new, empty suite."""
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
) -> tuple[tuple[SuiteBlock, ...], dict[str, TablePath]]:
    blocks: list[SuiteBlock] = []
    places: dict[str, TablePath] = {}
    for number, text in enumerate(table.get("cases", ())):
        place = ("cases", number)
        # A glob, or the beginning of keys, is looked up among the cases on offer when it comes to measuring.
        case = whole_key(text, place) if is_key(text) else text
        places.setdefault(case, place)
    if places:
        blocks.append(SuiteBlock("", tuple(places)))
    for number, entry in enumerate(table.get("matrix", ())):
        keys = expand_matrix(entry, ("matrix", number))
        blocks.append(SuiteBlock(entry.get("why") or "", tuple(keys)))
        places = {**keys, **places}
    for number, other in enumerate(table.get("include", ())):
        if other not in known or other == name:
            others = [one for one in known if one != name]
            raise BadSuite.unknown(("include", number), "suite", other, others)
        blocks.extend(known[other].blocks)
        for case in known[other].cases:
            places.setdefault(case, ("include", number))
    return tuple(blocks), places


def _exclude_cases(
    blocks: tuple[SuiteBlock, ...], places: dict[str, TablePath], table: Mapping[str, Any]
) -> tuple[tuple[SuiteBlock, ...], dict[str, TablePath]]:
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


FOLDER = Path(__file__).parent

#: In the order people read them; a suite can include those before it.
NAMES = (
    *("smoke", "cpu", "gpu", "scaling", "serving", "ops", "models", "regressions"),
    *("articles-cpu", "articles-gpu", "nightly-cpu", "nightly-gpu", "full"),
)


@cache
def built_in() -> Mapping[str, Suite]:
    """The built-in suites by name."""
    suites: dict[str, Suite] = {}
    for name in NAMES:
        suites[name] = compose(name, tomllib.loads((FOLDER / f"{name}.toml").read_text()), suites)
    return MappingProxyType(suites)


_CASES_FOLDER = Path(__file__).parents[1] / "cases"


def workloads() -> tuple[Mapping[str, Any], ...]:
    """What a measured environment answers about the built-in cases (see `worker.messages.Described`).

    Their files are read and not imported, for their imports need torch. Raises ValueError for a case that is
    not declared by literals alone: `@case(batch=[1, 8])`.
    """
    return tuple(found for path in sorted(_CASES_FOLDER.rglob("*.py")) for found in _parse_workloads(path))


def _parse_workloads(path: Path) -> list[Mapping[str, Any]]:
    module = ast.parse(path.read_bytes())
    return [
        _workload(node, call, ".".join(path.relative_to(_CASES_FOLDER).with_suffix("").parts))
        for node in module.body
        if isinstance(node, ast.FunctionDef)
        for call in node.decorator_list
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "case"
    ]


def _workload(node: ast.FunctionDef, call: ast.Call, module: str) -> Mapping[str, Any]:
    given: dict[str, Any] = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    phases = given.pop("phases", ("infer",))
    family = given.pop("family", "")
    summary, guards = read_docstring(ast.get_docstring(node))
    return {
        "name": node.name,
        "phases": list(phases),
        "grid": {name: list(values) for name, values in given.items()},
        "summary": summary,
        "family": family,
        "guards": guards,
        "source": f"runner.cases.{module}",
    }
