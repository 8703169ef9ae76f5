"""The differences between two dispatch fingerprints of a case, warnings first."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Any

from records.dispatch import CaseFingerprint, DispatchFingerprint, DispatchPart

#: The fact of a run of pairs with the differences of operators and kernels in its two environments.
DISPATCH = "dispatch"
#: The similarity of two operators' names, with equal inputs and counts, from which on they are one renamed
#: operator.
_RENAMED = 0.75
#: The text between an operation and its implementation.
_BY = " by "
_LAYOUT = re.compile(r":(?:channels_last|transposed|expanded|strided)\b")


#: The names of some oneDNN implementations until 3.4 (PyTorch 2.4), by their beginning, and the present ones.
_ONEDNN_RENAMED = tuple(
    (re.compile(f"^({operation} .* by ){before}:"), rf"\1{now}:")
    for operation, before, now in (
        ("matmul", "brg", "brg_matmul"),
        ("convolution", "brgconv", "brg_conv_fwd"),
        ("deconvolution", "brg_conv", "brg_deconv"),
    )
)


class DispatchWarning(StrEnum):
    """Changes that often make a case slower, most important first."""

    REFERENCE_KERNEL = "reference_kernel"
    SLOW_CONVOLUTION = "slow_convolution"
    EAGER_FALLBACK = "eager_fallback"
    CPU_FALLBACK = "cpu_fallback"
    CUDA_GRAPH_SKIPPED = "cuda_graph_skipped"
    GRAPH_BREAK = "graph_break"
    FUSION_LOST = "fusion_lost"
    CAST = "cast"
    COPY = "copy"


class NotCompared(StrEnum):
    """The reason why a part of two fingerprints, or a case, is not compared, if neither recorded one."""

    OTHER_FORMAT = "other format"
    ONE_SIDE_ONLY = "one side only"
    NO_STRIDES = "no strides"
    OUT_OF_TIME = "out of time"


@dataclass(frozen=True, slots=True)
class DispatchChange:
    """`before` and `after` are names with their counts; 0 and an empty name if absent.

    Names differ if another implementation was chosen, or if an operator was renamed.
    """

    part: DispatchPart
    before: str
    after: str
    count_before: int
    count_after: int
    warning: DispatchWarning | None = None


@dataclass(frozen=True, slots=True)
class DispatchDifference:
    """All changes between two fingerprints.

    `not_compared` has a reason for each part that could not be compared: a `NotCompared`, or the text that
    was recorded with a fingerprint.
    """

    changes: tuple[DispatchChange, ...]
    not_compared: Mapping[str, str]
    #: The most changes in a stored difference; the least important ones are left out.
    left_out: int = 0

    @property
    def warnings(self) -> tuple[DispatchWarning, ...]:
        """The warnings among the changes, each once, in the order of `DispatchWarning`."""
        present = {change.warning for change in self.changes}
        return tuple(warning for warning in DispatchWarning if warning in present)

    @property
    def only_in_code(self) -> bool:
        """Whether only guards and generated code differ, with the same kernels."""
        return bool(self.changes) and all(
            change.part == DispatchPart.CODE or "guards" in (change.before, change.after)
            for change in self.changes
        )


@dataclass(frozen=True, slots=True)
class CaseDifference:
    """The differing operators and kernels of one case; if a side has no fingerprint, only its failure.

    `old_failure` and `new_failure` are the reasons; empty for a fingerprint that was taken.
    """

    case: str
    difference: DispatchDifference | None
    old_failure: str = ""
    new_failure: str = ""

    @property
    def changed(self) -> bool:
        """Whether there is any difference in the compared parts."""
        return self.difference is not None and bool(self.difference.changes)

    def to_body(self, most: int | None = None) -> dict[str, Any]:
        """As plain JSON values, with `most` changes at most."""
        found = self.difference or DispatchDifference((), {})
        changes = found.changes[:most]
        return {
            "case": self.case,
            "old_failure": self.old_failure,
            "new_failure": self.new_failure,
            "warnings": [str(warning) for warning in found.warnings],
            "not_compared": dict(found.not_compared),
            "changes": [asdict(change) for change in changes],
            "left_out": found.left_out + len(found.changes) - len(changes),
        }

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> "CaseDifference":
        """The inverse of `to_body`; raises KeyError, TypeError or ValueError for anything else."""
        if body["old_failure"] or body["new_failure"]:
            return cls(body["case"], None, body["old_failure"], body["new_failure"])
        changes = tuple(map(_change_of, body["changes"]))
        return cls(body["case"], DispatchDifference(changes, body["not_compared"], body["left_out"]))


def _change_of(body: Mapping[str, Any]) -> DispatchChange:
    return DispatchChange(
        part=DispatchPart(body["part"]),
        before=body["before"],
        after=body["after"],
        count_before=body["count_before"],
        count_after=body["count_after"],
        warning=DispatchWarning(body["warning"]) if body["warning"] else None,
    )


def differences_in(facts: Mapping[str, Any]) -> tuple[CaseDifference, ...]:
    """The differences of operators and kernels in the facts of a run of pairs; empty if not recorded."""
    return tuple(CaseDifference.from_body(body) for body in facts.get(DISPATCH, ()))


def compare_cases(
    old: Mapping[str, CaseFingerprint],
    new: Mapping[str, CaseFingerprint],
    cases: Iterable[str] | None = None,
) -> tuple[CaseDifference, ...]:
    """The differing operators and kernels of each case: cases with warnings first, then changed ones.

    `cases` are compared, also those that one side lacks; by default those of both.
    """
    named = (case for case in old if case in new) if cases is None else cases
    found = [_compare_case(case, old.get(case), new.get(case)) for case in named]
    warnings = list(DispatchWarning)

    def rank(one: CaseDifference) -> tuple[int, int]:
        raised = one.difference.warnings if one.difference else ()
        first = min(map(warnings.index, raised), default=len(warnings))
        return first, 0 if one.changed else 1 if one.difference is None else 2

    return tuple(sorted(found, key=rank))


def _compare_case(case: str, old: CaseFingerprint | None, new: CaseFingerprint | None) -> CaseDifference:
    if old and new and old.fingerprint and new.fingerprint:
        return CaseDifference(case, compare_fingerprints(old.fingerprint, new.fingerprint))
    return CaseDifference(case, None, _failure(old), _failure(new))


def _failure(one: CaseFingerprint | None) -> str:
    if one is None:
        return NotCompared.OUT_OF_TIME
    return "" if one.fingerprint else f"{one.status}: {one.reason}"


#: The names of a part that belong to a warning, which is raised if their count increases.
_CLASSES: Sequence[tuple[DispatchWarning, DispatchPart, Callable[[str], object]]] = (
    (
        DispatchWarning.REFERENCE_KERNEL,
        DispatchPart.ONEDNN,
        re.compile(r" by (?:ref\b|simple:any|gemm:ref|\w+:ref\b|ref:any)").search,
    ),
    (DispatchWarning.SLOW_CONVOLUTION, DispatchPart.OPERATORS, re.compile(r"aten::_?slow_conv").match),
    (DispatchWarning.EAGER_FALLBACK, DispatchPart.COMPILER, re.compile("frames run eager").match),
    (DispatchWarning.CPU_FALLBACK, DispatchPart.KERNELS, re.compile("Memcpy (?:DtoH|HtoD)").match),
    (DispatchWarning.CUDA_GRAPH_SKIPPED, DispatchPart.COMPILER, re.compile("CUDA graphs skipped").match),
    (DispatchWarning.GRAPH_BREAK, DispatchPart.COMPILER, re.compile("graph breaks").match),
    (
        DispatchWarning.CAST,
        DispatchPart.OPERATORS,
        re.compile(r"aten::copy_\((?P<to>\w+)(?::\w+)?, (?!(?P=to)\b)").match,
    ),
    (
        DispatchWarning.COPY,
        DispatchPart.OPERATORS,
        re.compile(r"aten::(?:copy_\((?P<to>\w+)(?::\w+)?, (?P=to)\b|clone\(|fill_\()").match,
    ),
    (DispatchWarning.COPY, DispatchPart.ONEDNN, re.compile("reorder ").match),
)


def compare_fingerprints(old: DispatchFingerprint, new: DispatchFingerprint) -> DispatchDifference:
    """The differences between two fingerprints of one case; parts that either lacks are not compared."""
    if old.format != new.format:
        return DispatchDifference((), {part: NotCompared.OTHER_FORMAT for part in DispatchPart})
    changes: list[DispatchChange] = []
    not_compared: dict[str, str] = {}
    for part in DispatchPart:
        if reason := old.missing.get(part) or new.missing.get(part):
            not_compared[part] = reason
        elif (part in old.parts) != (part in new.parts):
            not_compared[part] = NotCompared.ONE_SIDE_ONLY
        elif part in old.parts:
            a, b = old.parts[part], new.parts[part]
            if part == DispatchPart.OPERATORS and old.layouts != new.layouts:
                not_compared["layouts"] = NotCompared.NO_STRIDES
                a, b = _without_layouts(a), _without_layouts(b)
            if part == DispatchPart.ONEDNN:
                a, b = _with_present_names(a), _with_present_names(b)
            found = _join_replacements(part, _find_changes(part, a, b))
            changes += _add_warnings(part, found, a, b)
    changes = _fusions_lost(changes)
    return DispatchDifference(tuple(sorted(changes, key=_order)), not_compared)


def _without_layouts(counts: Mapping[str, int]) -> Mapping[str, int]:
    return _rename_counts(counts, lambda name: _LAYOUT.sub("", name))


def _with_present_names(counts: Mapping[str, int]) -> Mapping[str, int]:
    def present(name: str) -> str:
        for before, now in _ONEDNN_RENAMED:
            name = before.sub(now, name)
        return name

    return _rename_counts(counts, present)


def _rename_counts(counts: Mapping[str, int], rename: Callable[[str], str]) -> Mapping[str, int]:
    """The counts under new names; equal names are added up."""
    found: dict[str, int] = {}
    for name, count in counts.items():
        key = rename(name)
        found[key] = found.get(key, 0) + count
    return found


def _find_changes(part: DispatchPart, a: Mapping[str, int], b: Mapping[str, int]) -> list[DispatchChange]:
    return [
        DispatchChange(
            part, name if name in a else "", name if name in b else "", a.get(name, 0), b.get(name, 0)
        )
        for name in sorted(a.keys() | b.keys())
        if a.get(name, 0) != b.get(name, 0)
    ]


def _join_replacements(part: DispatchPart, changes: list[DispatchChange]) -> list[DispatchChange]:
    """Join removed and added names: the same operation with another implementation, or renamed."""
    for key in _KEYS.get(part, ()):
        removals = [change for change in changes if not change.after]
        for old in removals:
            for new in [change for change in changes if not change.before]:
                if old.count_before == new.count_after and key(old.before, new.after):
                    changes = [each for each in changes if each is not old and each is not new]
                    changes.append(
                        DispatchChange(part, old.before, new.after, old.count_before, new.count_after)
                    )
                    break
    return changes


def _same_operation(old: str, new: str) -> bool:
    return _BY in old and old.partition(_BY)[0] == new.partition(_BY)[0]


def _same_types(old: str, new: str) -> bool:
    """Whether a primitive has the same inputs in other layouts; never for a reorder, which is defined by its
    layouts.
    """
    if _BY not in old or old.startswith("reorder "):
        return False
    return _types(old) == _types(new)


def _types(name: str) -> list[str]:
    return [re.sub(r"(\w+:\w+):\w*", r"\1", word) for word in name.partition(_BY)[0].split()]


def _renamed(old: str, new: str) -> bool:
    (a, inputs_a), (b, inputs_b) = (name.split("(", 1) for name in (old, new))
    return inputs_a == inputs_b and SequenceMatcher(None, a, b).ratio() >= _RENAMED


_KEYS: Mapping[DispatchPart, Sequence[Callable[[str, str], bool]]] = {
    DispatchPart.ONEDNN: (_same_operation, _same_types),
    DispatchPart.AUTOTUNE: (_same_operation,),
    DispatchPart.OPERATORS: (_renamed,),
}


def _add_warnings(
    part: DispatchPart, changes: Iterable[DispatchChange], a: Mapping[str, int], b: Mapping[str, int]
) -> list[DispatchChange]:
    """The changes with their warnings: the total count of a name's class must have increased."""
    found = list(changes)
    for warning, of_part, belongs in _CLASSES:
        if of_part != part or _total(b, belongs) <= _total(a, belongs):
            continue
        found = [
            replace(change, warning=warning)
            if change.warning is None
            and change.after
            and belongs(change.after)
            and (change.count_after > change.count_before or change.before != change.after)
            else change
            for change in found
        ]
    return found


def _total(counts: Mapping[str, int], belongs: Callable[[str], object]) -> int:
    return sum(count for name, count in counts.items() if belongs(name))


def _fusions_lost(changes: list[DispatchChange]) -> list[DispatchChange]:
    """Mark fused kernels that disappeared while parts of them appeared as separate kernels or operators."""
    came = [change for change in changes if change.count_after > change.count_before]
    kernels = [_words(change.after) for change in came if change.part == DispatchPart.FUSED]
    operators = {
        change.after.partition("(")[0].rpartition("::")[2].strip("_")
        for change in came
        if change.part == DispatchPart.OPERATORS
    }

    def fell_apart(change: DispatchChange) -> bool:
        if change.part != DispatchPart.FUSED or change.count_after >= change.count_before:
            return False
        whole = _words(change.before)
        pieces = [words for words in kernels if words < whole]
        outside = any(f"_{operator}_" in f"{change.before}_" for operator in operators if operator)
        return len(pieces) >= 2 or outside

    return [
        replace(change, warning=DispatchWarning.FUSION_LOST) if fell_apart(change) else change
        for change in changes
    ]


def _words(kernel: str) -> frozenset[str]:
    """The operators in the name of a fused kernel, as far as underscores separate them."""
    return frozenset(kernel.partition("fused")[2].split("_")) - {""}


def _order(change: DispatchChange) -> tuple[int, int, int, str, str]:
    warnings, parts = list(DispatchWarning), list(DispatchPart)
    rank = len(warnings) if change.warning is None else warnings.index(change.warning)
    amount = abs(change.count_after - change.count_before)
    return rank, parts.index(change.part), -amount, change.after, change.before
