"""From one block of a suite's table to case keys: workloads times techniques, more of them, fewer of them."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from ..errors import BadSuite
from ..worker.axes import AXES
from ..worker.case_key import PHASES, CaseKey, CaseKeyError
from .plan import matches
from .suite import Path

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


def block(table: Mapping[str, Any], path: Path) -> dict[str, Path]:
    """The case keys of one `[[matrix]]` block in their order, each with its place in the suite's table.

    Every workload meets every combination of the axes' values, the last axis fastest, and then the techniques
    of `include`; `exclude` takes keys away. Raises BadSuite for a word that does not exist, and for more than
    `LIMIT` cases.
    """
    _refuse_too_many(table, path)
    techniques = [(one, path) for one in _product(table, path)]
    extra: dict[str, Path] = {}
    for number, text in enumerate(table.get("include", ())):
        place = (*path, "include", number)
        if "/" in text:
            extra[whole_key(text, place)] = place
        else:
            techniques.append((_technique(text, place), place))
    keys: dict[str, Path] = {}
    for number, text in enumerate(table["workloads"]):
        at = (*path, "workloads", number)
        workload = _workload(text, at)
        for technique, place in techniques:
            key = str(workload.under(**technique))
            keys.setdefault(key, at if place == path else place)
    return without({**keys, **extra}, table.get("exclude", ()), path)


def _refuse_too_many(table: Mapping[str, Any], path: Path) -> None:
    # Counted, for making them would take for ever.
    axes = [len(values) for name, values in table.items() if name not in WORDS]
    cases = prod(axes, start=len(table["workloads"]))
    if cases > LIMIT:
        raise BadSuite(path, f"this matrix makes {cases:,} cases: one run measures {LIMIT:,} at most")


def without(
    keys: Mapping[str, Path], patterns: Sequence[str], path: Path, *, strict: bool = True
) -> dict[str, Path]:
    """The keys that match none of the patterns; if `strict`, BadSuite for a pattern that matches no key."""
    for number, pattern in enumerate(patterns):
        if strict and not any(matches(key, pattern) for key in keys):
            raise BadSuite.unknown((*path, "exclude", number), "case to exclude", pattern, keys)
    return {
        key: place for key, place in keys.items() if not any(matches(key, pattern) for pattern in patterns)
    }


def whole_key(text: str, path: Path) -> str:
    """A case key in its only spelling; raises BadSuite with the word that is wrong in it."""
    workload, _, technique = text.rpartition("/")
    return str(_workload(workload, path).under(**_technique(technique, path)))


def _product(table: Mapping[str, Any], path: Path) -> Iterable[dict[str, str]]:
    axes = {name: values for name, values in table.items() if name not in WORDS}
    for name, values in axes.items():
        if name not in AXES:
            raise BadSuite.unknown((*path, name), "key", name, (*WORDS, *AXES))
        for number, value in enumerate(values):
            _check(name, str(value), (*path, name, number))
    for values in product(*axes.values()):
        yield dict(zip(axes, map(str, values), strict=True))


def _technique(text: str, path: Path) -> dict[str, str]:
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


def _check(name: str, value: str, path: Path) -> None:
    axis = AXES[name]
    if axis.admits(value):
        return
    if not axis.values or (axis.counts and value[:1].isdecimal()):
        raise BadSuite(path, f"{name}={value} cannot be: expected {axis.expected}")
    raise BadSuite.unknown(path, f"value of {name}", value, axis.values)


def _workload(text: str, path: Path) -> CaseKey:
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
