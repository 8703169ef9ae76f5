"""Numbers, verdicts and decisions as text in reports."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from analysis.comparison.case_results import BROKEN, CaseResult
from analysis.comparison.screening import SCREEN_LIMIT, ScreenedCase, Selection
from analysis.comparison.thresholds import threshold_of
from analysis.comparison.verdict import Verdict
from analysis.decision.reasons import Decision, Reason
from analysis.decision.upgrade import Upgrade
from analysis.decision.what_would_decide import PairsToDecide
from analysis.geomean import Geomean
from analysis.metrics import METRICS
from common.text import plural, printable, utc

from .text.numbers import NONE, ends, figure, percent, share, word
from .text.reason_text import sentence
from .text.verdict_text import ending, left_out_because, open_because

DECISIONS: dict[Decision, str] = {"go": "Go", "no-go": "No-go", "unclear": "Unclear"}

DECISION_TONES: dict[Decision, str] = {"go": "good", "no-go": "bad", "unclear": "odd"}

#: The sign of each decision, so that colour is not the only mark.
DECISION_SIGNS: dict[Decision, str] = {"go": "✓", "no-go": "✗", "unclear": "?"}


def interval(low: float | None, high: float | None) -> str:
    """Both ends: `-0.4 % to +1.9 %`."""
    if low is None or high is None:
        return NONE
    both = ends(low, high)
    return both[0] if both[0] == both[1] else " to ".join(both)


def within(change: float | None) -> str:
    """A size without a direction, such as a threshold: `±1 %`."""
    return percent(change).replace("+", "±").replace(".0 %", " %").replace(".00 %", " %")


def number(metric: str, value: float | None) -> str:
    """A value without its unit; a count as it is."""
    if value is None:
        return NONE
    whole = METRICS[metric].unit == "count" and float(value).is_integer()
    return f"{value:,.0f}" if whole else figure(value)


def quantity(metric: str, value: float | None) -> str:
    """A value with its unit: `12.30 ms`."""
    unit = METRICS[metric].unit
    text = number(metric, value)
    return text if text == NONE or unit in ("count", "share") else f"{text} {unit}"


def headings(metric: str) -> tuple[str, str]:
    """The headings of the columns of old and new: `old, ms`."""
    unit = METRICS[metric].unit
    both = ("old", "new")
    return both if unit in ("count", "share") else (f"old, {unit}", f"new, {unit}")


def change(verdict: Verdict) -> str:
    """New against old; the difference if one of them is 0, so that there is no ratio."""
    old, new = verdict.old, verdict.new
    if verdict.change is not None or old is None or new is None or 0 not in (old, new):
        return percent(verdict.change)
    return ("+" if new > old else "") + quantity(verdict.metric, new - old)


def verdict(judged: Verdict) -> str:
    """The verdict with its reason."""
    text = word(judged)
    if judged.word == "same" and judged.location:
        return f"same within {within(judged.threshold)}"
    varies, why = not threshold_of(judged.metric).exact, open_because(judged)
    if judged.word == "unclear" and varies and judged.low is not None and judged.high is not None:
        text = f"unclear: {_not_ruled_out(judged.low, judged.high, judged.threshold)} not ruled out"
        # If the interval contains 0, the text above is complete.
        return f"{text}; {why}" if judged.low * judged.high > 0 else text
    return f"{text}: {why}" if why else text


def _not_ruled_out(low: float, high: float, threshold: float) -> str:
    """The ends of the interval beyond the threshold; if the interval is on one side of it, the far end."""
    both = sorted((low, high), key=abs, reverse=True)
    mattering = [end for end in (high, low) if abs(end) >= threshold] if low < 0 < high else []
    return " and ".join(percent(end) for end in mattering or both[:1])


def left_out(verdict: Verdict) -> list[str]:
    """The reasons why pairs do not count, each with the number of pairs."""
    whys = Counter(map(left_out_because, verdict.left_out))
    return [f"{plural(many, 'pair')}: {printable(why)}" for why, many in whys.items()]


def mean(found: Geomean, change: str = "") -> str:
    """A geomean with its interval; `change` replaces the usual text of its point."""
    if found.change is None:
        return NONE
    point = change or percent(found.change)
    if found.low is None or found.high is None:
        return point
    return f"{point} [{interval(found.low, found.high)}]"


def confidence(found: Geomean) -> str:
    """The meaning of the ends of a geomean."""
    if found.confidence is None:
        return "mean range of the pairs"
    return f"{share(found.confidence)} interval"


def decision_word(upgrade: Upgrade) -> str:
    """The decision in a word: `No-go`; `Screened` if only the screened cases prevent a decision."""
    return "Screened" if upgrade.only_screened else DECISIONS[upgrade.decision]


def decision_text(upgrade: Upgrade) -> str:
    """The decision in a word, with the number of warnings: `Go, with 2 warnings`."""
    text = decision_word(upgrade)
    many = len(upgrade.warnings)
    return f"{text}, with {plural(many, 'warning')}" if many and upgrade.decision == "go" else text


def headline(upgrade: Upgrade) -> str:
    """The decision and its main reason: `No-go: mlp/infer/-/eager broke: crashed`."""
    return f"{decision_text(upgrade)}: {because(upgrade)}"


def because(upgrade: Upgrade) -> str:
    """The main reason for the decision."""
    first, more = printable(sentence(upgrade.grounds[0])), len(upgrade.grounds) - 1
    if upgrade.decision == "go":
        text = "; ".join(printable(sentence(reason)) for reason in upgrade.grounds)
    else:
        text = _blockers(upgrade) + first + (f"; and {plural(more, 'more reason')}" if more else "")
    if not upgrade.warnings:
        return text
    warned = printable(sentence(upgrade.warnings[0]))
    return f"{text.removesuffix('.')}. {plural(len(upgrade.warnings), 'warning')}: {warned}"


def _blockers(upgrade: Upgrade) -> str:
    """The number of blockers and the decision without them; empty without blockers."""
    many = len(upgrade.blockers)
    if not many:
        return ""
    return f"{plural(many, 'blocker')}; without {'it' if many == 1 else 'them'}: {upgrade.without_blockers}. "


def speaks(reason: Reason) -> str:
    """The decision that a reason supports, or a warning."""
    return "warning" if reason.warning else reason.speaks


def sign(reason: Reason) -> str:
    """The sign of that."""
    return "!" if reason.warning else DECISION_SIGNS[reason.speaks]


def pairs_to_decide(one: PairsToDecide) -> str:
    """The pairs and minutes that would decide one case."""
    if one.pairs is None:
        return "no reasonable number of pairs would"
    if one.minutes is None:
        cold = " that compile anew" if one.cold else ""
        return f"{plural(one.pairs, 'new pair')}{cold}; their duration is not known"
    return f"{plural(one.pairs, 'new pair')}, about {minutes(one.minutes)}"


def pairs_to_decide_in_all(to_decide: Sequence[PairsToDecide]) -> str:
    """The pairs and minutes that would decide all of the cases."""
    times = [one.minutes for one in to_decide if one.minutes is not None]
    text = f"{plural(len(to_decide), 'case')}"
    if times:
        text += f", about {minutes(math.fsum(times))} of measuring"
    if unknown := len(to_decide) - len(times):
        text += f"; for {unknown} no estimate is possible"
    return text


def minutes(many: float) -> str:
    """Minutes, at least 1."""
    return "1 minute" if many <= 1 else f"{math.ceil(many):,} minutes"


def duration(begun: datetime, ended: datetime | None) -> str:
    """The duration."""
    if ended is None:
        return NONE
    hours, seconds = divmod(round((ended - begun).total_seconds()), 3600)
    return f"{hours} h {seconds // 60:02d} min" if hours else f"{seconds // 60} min {seconds % 60:02d} s"


def moment(when: datetime | None) -> str:
    """A moment to the minute, in UTC."""
    return utc(when) if when else NONE


#: The reason why a case went on from a screen to full pairs.
SELECTIONS = {
    Selection.DISPATCH: "runs differently",
    Selection.CHANGE: f"a short pair differs by {share(SCREEN_LIMIT)} or more",
    Selection.FAILURE: "a short pair broke",
    Selection.NO_PAIRS: "has fewer than two short pairs that count",
}


def describe_screen(one: ScreenedCase) -> str:
    """The result of a screen for a case: `short pairs +0.4 %, -1.2 %`."""
    pairs = ", ".join(map(percent, one.changes)) or "none that counts"
    remark = "" if one.compared else "; it has no fingerprint"
    return f"short pairs {pairs}{remark}"


def count_words(words: Iterable[str]) -> str:
    """Counts of words in the order of their first occurrence: `2 slower, 5 same`."""
    return ", ".join(f"{many} {word}" for word, many in Counter(words).items())


def case_result(result: CaseResult, metric: str) -> str:
    """The result of one case of an upgrade as a line: `slower, +98.1 % [+95.0 % to +101.2 %], 12 pairs`."""
    if result.broke:
        return f"broke: ended {ending(result.new)}"
    if result.old.status in BROKEN:
        return f"the good one cannot be used: it ended {ending(result.old)}"
    judged = result.verdicts.get(metric)
    if not result.works:
        return f"the good one ended {ending(result.old)}, the other ended {ending(result.new)}"
    if judged is None:
        return f"no pair has {metric}"
    parts = [verdict(judged)]
    if judged.low is not None:
        parts.append(f"{change(judged)} [{interval(judged.low, judged.high)}]")
    return ", ".join((*parts, plural(judged.n, "pair")))
