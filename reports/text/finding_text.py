"""A finding as text, on a terminal and on a page alike: its kind, its size, and what that means."""

from collections.abc import Mapping

from analysis.metrics import METRICS
from records.evidence import Continuation, Detection, Evidence, PairVerdict

from .numbers import called, percent

#: What each state of a finding means, for a reader who meets the word for the first time.
STATES: Mapping[str, str] = {
    "candidate": "seen from night to night and not measured again yet: it may be noise",
    "confirming": "old and new are being measured against each other now",
    "confirmed": "measured again, old and new in turns on the same machine: the change is there",
    "refuted": "measured again, old and new in turns on the same machine: the change is not there",
    "unclear": "measured again, and the pairs could not settle it",
    "no longer": "later nights took it back before it was measured again",
    "machine": (
        "the change came with the machine: PyTorch's environment is the same before and after, or the pinned "
        "baseline moved likewise"
    ),
}
#: What each triage means.
TRIAGES: Mapping[str, str] = {
    "open": "not triaged yet",
    "acknowledged": "a person is working on it",
    "expected": "known and accepted",
    "fixed": "called fixed: should it come back, it opens again",
}


def kind(state: str, direction: str) -> str:
    """What a finding is called: a regression or an improvement once it is confirmed, else by its state."""
    if state != "confirmed":
        return state
    return "regression" if direction == "worse" else "improvement"


def because(state: str, evidence: Evidence) -> str:
    """Why a finding is in its state; empty where nothing beyond the state says so."""
    # What a candidate waited for stays in its evidence, and says nothing of a later state.
    return evidence.confirmation.reason or (evidence.waits if state == "candidate" else "")


def verdict_word(verdict: PairVerdict) -> str:
    """The word of a verdict as the evidence holds it: `worse`, not `slower`, for what is no time."""
    return called(verdict.word, verdict.metric) if verdict.metric in METRICS else verdict.word


def interval(change: float, low: float | None, high: float | None) -> str:
    """A log ratio with its interval, where there is one: `+7.1 % [+5.9 %, +8.3 %]`."""
    ratio = percent(change)
    return ratio if low is None or high is None else f"{ratio} [{percent(low)}, {percent(high)}]"


def moved(metric: str, change: float) -> str:
    """Which way a metric went: `Latency floor rose by 7.1 %`."""
    known = METRICS.get(metric)
    title = known.title if known else metric
    verb = "rose" if change > 0 else "fell"
    size = percent(change).lstrip("+-")
    return f"{title} {verb} by {size}" if size.endswith("%") else f"{title} {verb}: {percent(change)}"


def stricter(detected: Detection | None) -> str:
    """That a series had to move further than usual, and why; empty where it did not."""
    if detected is None or detected.factor <= 1.0:
        return ""
    return "two candidates of this series were refuted within 60 nights, so it had to move twice as far"


def goes_on(noted: Continuation) -> str:
    """What is noted of a change that went on: `now about +9.3 %, by its nights up to 2026-09-20`."""
    night = noted.night[: len("2026-09-20")]
    change = percent(noted.change)
    if noted.finding is not None:
        return f"{change} since the night of {night}, measured again: finding {noted.finding}"
    return f"now about {change}, by its nights up to {night}"
