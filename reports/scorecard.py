"""The four metrics of an upgrade as short texts, next to the verdict in every form of the report."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.comparison.policy import Limits, Policy
from analysis.comparison.verdict import Verdict
from analysis.decision.scorecard import MetricScore, PassRate, Score, Scorecard, State, latency_of
from analysis.metrics import METRICS
from analysis.ratios import ratio

from . import wording
from .rows import Tone
from .text import numbers

#: A sign and a tone of each state; the word of a state is its name.
SIGNS: Mapping[State, str] = {
    "ok": "✓",
    "warning": "!",
    "unclear": "?",
    "no-go": "✗",
    "undecided": "?",
    "not measured": "–",
}
TONES: Mapping[State, Tone] = {
    "ok": "good",
    "warning": "odd",
    "unclear": "odd",
    "no-go": "bad",
    "undecided": "quiet",
    "not measured": "quiet",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One of the four: its title, its state, its main number, and sentences about it.

    `largest` is the worst case behind that number, or the broken cases; empty for none.
    """

    title: str
    state: State
    value: str
    notes: tuple[str, ...]
    largest: str = ""

    @property
    def sign(self) -> str:
        return SIGNS[self.state]

    @property
    def tone(self) -> Tone:
        return TONES[self.state]


def entries(card: Scorecard, policy: Policy) -> tuple[Entry, Entry, Entry, Entry]:
    """Pass rate, steady latency, compile time and peak memory, in this order."""
    metric = card.latency.metrics[0].metric if card.latency.metrics else latency_of(policy)
    title = "Steady latency" if METRICS[metric].unit == "ms" else METRICS[metric].title
    return (
        _pass_rate(card.pass_rate),
        _entry(title, card.latency, policy, None),
        _entry("Compile time", card.compile_time, policy, policy.compile_time),
        _entry("Peak memory", card.peak_memory, policy, policy.peak_memory),
    )


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The limits of a metric, in the mean and in a single case, as logarithms of new / old."""

    mean: float | None
    worst: float | None


def _bounds(metric: str, policy: Policy, limits: Limits | None) -> _Bounds:
    """The limits of a metric: those of its kind of metric, or the policy's limits for it."""
    mean = limits.mean if limits else policy.overall if metric == policy.metric else None
    worst = policy.worst.get(metric, limits.worst if limits else None)
    cost = METRICS[metric].cost
    return _Bounds(*(None if each is None else cost * math.log1p(each) for each in (mean, worst)))


def _pass_rate(rate: PassRate) -> Entry:
    notes = [f"{rate.old:,} in the old environment; {rate.broken:,} broke, {rate.repaired:,} repaired"]
    if rate.unknown:
        notes.append(f"{wording.plural(rate.unknown, 'case')} without a result")
    value = f"{rate.new:,} of {rate.cases:,}" if rate.cases else numbers.NONE
    return Entry(
        "Pass rate", rate.state, value, tuple(notes), f"{rate.broken:,} broke" if rate.broken else ""
    )


def _entry(title: str, score: Score, policy: Policy, limits: Limits | None) -> Entry:
    """The number is the geomean of the first metric, or its hint without a geomean."""
    own = [(one, _bounds(one.metric, policy, limits)) for one in score.metrics]
    texts = [text for one, bounds in own if (text := _number(one, bounds))]
    notes = [_metric_note(one, bounds) for one, bounds in own]
    worse = [(case, _change(one.verdicts[case], bounds)) for one, bounds in own[:1] for case in one.worse[:1]]
    largest = "".join(f"{change} {case}" for case, change in worse)
    value = texts[0] if texts else numbers.NONE
    if limits and notes:
        notes.append(_limits(limits, score, policy))
    return Entry(title, score.state, value, tuple(notes), largest)


def _near(change: float, limit: float | None) -> str:
    """A change with enough digits to be on the right side of a limit."""
    return numbers.change_near(change, None, None, limit)[0]


def _change(verdict: Verdict, bounds: _Bounds) -> str:
    return wording.change(verdict) if verdict.change is None else _near(verdict.change, bounds.worst)


def _number(score: MetricScore, bounds: _Bounds) -> str:
    """The number of a metric; empty without a ratio."""
    # A mean over single pairs of an exact metric proves nothing.
    if score.mean.change is not None and score.hinted < len(score.verdicts):
        return _near(score.mean.change, bounds.mean)
    return f"{_near(score.hint, bounds.mean)}, not proved" if score.hint is not None else ""


def _metric_note(score: MetricScore, bounds: _Bounds) -> str:
    """The summary of one metric: `Peak RSS: +3.1 % over 30 cases; 22 worse, largest: bert +4.9 %`."""
    parts: list[str] = []
    if score.mean.change is not None:
        over = f"over {wording.plural(score.mean.cases, 'case')}, {wording.plural(score.mean.pairs, 'pair')}"
        parts.append(f"{wording.mean(score.mean, _near(score.mean.change, bounds.mean))} {over}")
    if score.worse:
        worst = score.verdicts[score.worse[0]]
        word = numbers.kind_word("slower", score.metric)
        largest = f"{score.worse[0]} {_change(worst, bounds)} (n = {worst.n})"
        parts.append(f"{len(score.worse):,} {word}, largest: {largest}")
    if score.better:
        parts.append(f"{score.better:,} {numbers.kind_word('faster', score.metric)}")
    if undecided := score.open - score.hinted:
        parts.append(f"{undecided:,} undecided")
    if score.hint is not None:
        least, most = score.hinted_pairs
        pairs = f"{least} to {most} pairs" if least != most else wording.plural(most, "pair")
        cases = wording.plural(score.hinted, "case")
        parts.append(f"{numbers.percent(score.hint)} in the median of {cases} with {pairs} each, not proved")
    return f"{METRICS[score.metric].title}: {'; '.join(parts) or 'no difference that has a ratio'}"


def _limits(limits: Limits, score: Score, policy: Policy) -> str:
    """The three limits; for a metric that the policy's `worst` names the second is that of a single case."""
    own = [one.metric for one in score.metrics if one.metric in policy.worst]
    named = ", ".join(f"{METRICS[metric].title} {numbers.share(policy.worst[metric])}" for metric in own)
    worst = numbers.share(limits.worst)
    if named:
        worst = named if len(own) == len(score.metrics) else f"{worst} ({named})"
    mean = numbers.share(limits.mean)
    return f"Limits: a case {numbers.share(limits.case)}, the worst {worst}, the mean {mean}"


def limit_rules(kind: str, limits: Limits, slower_share: float) -> str:
    """The limits of a kind of metric, as a sentence of the policy."""
    graded = {
        "case": f"at most {numbers.share(slower_share)} of the cases may be worse by "
        f"{numbers.share(limits.case)} or more",
        "worst": f"none by more than {numbers.share(limits.worst)}",
        "mean": f"the geomean by at most {numbers.share(limits.mean)}",
    }
    limits_text = ", ".join(
        f"{text} ({'no-go' if rule in limits.blocks else 'warning'})" for rule, text in graded.items()
    )
    return f"{kind}: {limits_text}."


def scorecard_json(card: Scorecard, policy: Policy) -> list[dict[str, Any]]:
    """The four as JSON values; ratios are new / old, limits shares."""
    named = zip(("pass_rate", "latency", "compile_time", "peak_memory"), entries(card, policy), strict=True)
    scores = {"latency": card.latency, "compile_time": card.compile_time, "peak_memory": card.peak_memory}
    rate = card.pass_rate
    counts = {"cases": rate.cases, "old": rate.old, "new": rate.new, "broken": rate.broken}
    return [
        {
            "name": name,
            "title": entry.title,
            "state": entry.state,
            "value": entry.value,
            "notes": list(entry.notes),
            "counts": {**counts, "repaired": rate.repaired, "unknown": rate.unknown}
            if name == "pass_rate"
            else None,
            "metrics": [_metric_json(one) for one in scores[name].metrics] if name in scores else [],
        }
        for name, entry in named
    ]


def _metric_json(score: MetricScore) -> dict[str, Any]:
    worst = score.verdicts[score.worse[0]] if score.worse else None
    return {
        "metric": score.metric,
        "cases": len(score.verdicts),
        "mean_ratio": ratio(score.mean.change),
        "mean_ratio_low": ratio(score.mean.low),
        "mean_ratio_high": ratio(score.mean.high),
        "worse": list(score.worse),
        "better": score.better,
        "undecided": score.open,
        "worst_ratio": ratio(worst.change) if worst else None,
        "worst_ratio_low": ratio(worst.low) if worst else None,
        "worst_ratio_high": ratio(worst.high) if worst else None,
        "hint_ratio": ratio(score.hint),
        "hint_cases": score.hinted,
    }
