"""Sentences about differing operators and kernels."""

from collections import Counter
from collections.abc import Mapping, Sequence

from analysis.dispatch_difference import (
    CaseDifference,
    DispatchChange,
    DispatchDifference,
    DispatchWarning,
    NotCompared,
)
from records.dispatch import DispatchPart

WARNINGS = {
    DispatchWarning.REFERENCE_KERNEL: "reference kernel",
    DispatchWarning.SLOW_CONVOLUTION: "slow convolution",
    DispatchWarning.EAGER_FALLBACK: "runs eager in part",
    DispatchWarning.CPU_FALLBACK: "copies between device and CPU",
    DispatchWarning.CUDA_GRAPH_SKIPPED: "CUDA graphs skipped",
    DispatchWarning.GRAPH_BREAK: "graph break",
    DispatchWarning.FUSION_LOST: "fused kernel fell apart",
    DispatchWarning.CAST: "more casts",
    DispatchWarning.COPY: "more copies",
}
PARTS = {
    DispatchPart.ONEDNN: "oneDNN",
    DispatchPart.MKL: "MKL",
    DispatchPart.KERNELS: "CUDA kernel",
    DispatchPart.OPERATORS: "operator",
    DispatchPart.FUSED: "fused kernel",
    DispatchPart.COMPILER: "compiler",
    DispatchPart.AUTOTUNE: "autotuning",
    DispatchPart.CODE: "generated code",
}
_NOT_COMPARED: Mapping[str, str] = {
    NotCompared.OTHER_FORMAT: "recorded in another form",
    NotCompared.ONE_SIDE_ONLY: "recorded on one side only",
    NotCompared.NO_STRIDES: "an old PyTorch does not record strides",
    NotCompared.OUT_OF_TIME: "the time limit for fingerprints was reached",
}
_BY = " by "


def change_words(change: DispatchChange) -> str:
    """One change as a line, without its warning: `oneDNN: matmul ... by gemm:jit instead of ref:any, 3x`."""
    part = PARTS[change.part]
    before, after = change.count_before, change.count_after
    if not change.before:
        return f"{part}: {change.after}, new, {after}x"
    if not change.after:
        return f"{part}: {change.before}, gone, was {before}x"
    if change.before == change.after:
        return f"{part}: {change.after}, {before}x before, {after}x now"
    old, new = (text.rpartition(_BY) for text in (change.before, change.after))
    instead = old[2] if old[0] == new[0] else change.before
    return f"{part}: {change.after} instead of {instead}, {after}x"


def difference_words(difference: DispatchDifference, most: int) -> list[str]:
    """The changes in at most `most` lines, generated code as one line; then the parts that were not
    compared.
    """
    code = [change for change in difference.changes if change.part == DispatchPart.CODE]
    named = [change for change in difference.changes if change.part != DispatchPart.CODE]
    lines = [
        (f"[{WARNINGS[change.warning]}] " if change.warning else "") + change_words(change)
        for change in named[:most]
    ]
    if (more := max(0, len(named) - most) + difference.left_out) > 0:
        lines.append(f"and {more} more")
    if code:
        # A changed graph counts twice: one text is gone and another is new.
        graphs = max(sum(change.count_before for change in code), sum(change.count_after for change in code))
        lines.append(f"generated code: {graphs} {'graph differs' if graphs == 1 else 'graphs differ'}")
    left_out = ((_part(part), _NOT_COMPARED.get(why, why)) for part, why in difference.not_compared.items())
    return lines + [f"not compared: {part}: {why}" for part, why in left_out]


def case_words(one: CaseDifference, most: int) -> list[str]:
    """The lines below the name of a case."""
    if one.difference is not None:
        return difference_words(one.difference, most)
    sides = (("OLD", one.old_failure), ("NEW", one.new_failure))
    failures = ((side, _NOT_COMPARED.get(why, why)) for side, why in sides if why)
    return [f"not compared: {side} has no fingerprint ({why})" for side, why in failures]


def warning_words(one: CaseDifference) -> str:
    """The warnings of one case, separated by commas."""
    return ", ".join(WARNINGS[warning] for warning in one.difference.warnings) if one.difference else ""


def summary_words(cases: Sequence[CaseDifference]) -> str:
    """A sentence about all cases: the number of those that differ or were not compared, and the warnings."""
    compared = [one for one in cases if one.difference is not None]
    changed = sum(one.changed for one in compared)
    sentence = (
        f"{changed} of {len(compared)} {'case runs' if len(compared) == 1 else 'cases run'} differently"
    )
    if slightly := sum(one.difference.only_in_code for one in compared if one.difference):
        sentence += f" ({slightly} only in guards or generated code)"
    if missing := len(cases) - len(compared):
        sentence += f", {missing} could not be compared"
    counts = Counter(each for one in compared if one.difference for each in one.difference.warnings)
    raised = [f"{WARNINGS[each]} in {counts[each]}" for each in DispatchWarning if counts[each]]
    return f"{sentence}: {', '.join(raised)}." if raised else f"{sentence}."


def _part(part: str) -> str:
    return PARTS[DispatchPart(part)] if part in set(DispatchPart) else part
