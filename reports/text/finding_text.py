"""A finding as text, on a terminal and on a page alike, and what can be noted about it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

from analysis.detection.confirmation import ConfirmationCause, FindingVerdict
from analysis.metrics import METRICS
from records.evidence import Continuation, Detection, Evidence, PairVerdict
from records.findings import FindingState, FindingTriage

from .numbers import change_near, kind_word, percent
from .verdict_text import ending, open_because

#: What each state of a finding means, for a reader who meets the word for the first time.
STATES: Mapping[FindingState, str] = {
    FindingState.CANDIDATE: "seen from night to night and not measured again yet: it may be noise",
    FindingState.CONFIRMING: "old and new are being measured against each other now",
    FindingState.CONFIRMED: "measured again, A/B interleaved on the same machine: the change is there",
    FindingState.REFUTED: "measured again, A/B interleaved on the same machine: the change is not there",
    FindingState.UNCLEAR: "measured again, and the pairs could not decide it",
    FindingState.NO_LONGER: "later nights took it back before it was measured again",
    FindingState.MACHINE: (
        "the change came with the machine: PyTorch's environment is the same before and after, or the pinned "
        "baseline moved likewise"
    ),
}
#: A finding is muted until a moment before this one: later ones are on no calendar in some time zones.
MUTED_BEFORE = datetime(9999, 1, 1, tzinfo=UTC)
#: What each triage means.
TRIAGES: Mapping[FindingTriage, str] = {
    FindingTriage.OPEN: "not triaged yet",
    FindingTriage.ACKNOWLEDGED: "a person is working on it",
    FindingTriage.EXPECTED: "known and accepted",
    FindingTriage.FIXED: "called fixed: should it come back, it opens again",
}


def kind(state: str, direction: str) -> str:
    """What a finding is called: a regression or an improvement once it is confirmed, else by its state."""
    if state != FindingState.CONFIRMED:
        return state
    return "regression" if direction == "worse" else "improvement"


def because(state: FindingState, evidence: Evidence) -> str:
    """Why a finding is in its state; empty where nothing beyond the state says so."""
    # What a candidate waited for stays in its evidence, and says nothing of a later state.
    return evidence.confirmation.reason or (evidence.waits if state == FindingState.CANDIDATE else "")


_CAUSES: Mapping[ConfirmationCause, str] = {
    ConfirmationCause.SHOWN: "the session shows it too",
    ConfirmationCause.OPPOSITE: "the session shows the opposite",
    ConfirmationCause.KNOWN_BEFORE: "the session shows no more than what was confirmed before",
    ConfirmationCause.NO_DIFFERENCE: "the session shows no difference that matters",
    ConfirmationCause.CASE_NOT_MEASURED: "the session did not measure the case",
}
_SIDES = {ConfirmationCause.OLD_ENDED_BADLY: "old", ConfirmationCause.NEW_ENDED_BADLY: "new"}


def confirmation_reason(found: FindingVerdict) -> str:
    """Why a session confirms a finding, refutes it, or leaves it unclear."""
    if found.ended is not None:
        return f"in the {_SIDES[found.cause]} environment the case ended {ending(found.ended)}"
    if found.cause == ConfirmationCause.NO_PAIR:
        return f"no pair of the session has {found.finding.key.metric}"
    if found.cause == ConfirmationCause.UNDECIDED and found.verdict is not None:
        return open_because(found.verdict) or found.verdict.word
    rebuilt = found.rebuilt and found.cause != ConfirmationCause.SHOWN
    return _CAUSES[found.cause] + (", but a side had to be built anew" if rebuilt else "")


def verdict_word(verdict: PairVerdict) -> str:
    """The word of a verdict as the evidence holds it: `worse`, not `slower`, for what is no time."""
    return kind_word(verdict.word, verdict.metric) if verdict.metric in METRICS else verdict.word


def interval(change: float, low: float | None, high: float | None) -> str:
    """A log ratio with its interval, where there is one: `+7.1 % [+5.9 %, +8.3 %]`."""
    return change_near(change, low, high)[0]


def describe_change(metric: str, change: float) -> str:
    """Which way a metric went: `Latency (min-based) rose by 7.1 %`."""
    definition = METRICS.get(metric)
    title = definition.title if definition else metric
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


#: Characters of a name and of a text that are noted about a finding.
MOST_NAME, MOST_TEXT = 200, 2000
#: The actions that are nothing without a text, and what it is called; the text of any other is its reason.
TEXTS = {"note": "Note", "link": "Address of the issue"}


def triage_complaint(action: str, text: str, who: str) -> str:
    """Why something cannot be noted about a finding, in one sentence; empty where it can."""
    # A form holds a browser to these lengths, and not a program that writes a browser's messages.
    if len(text) > MOST_TEXT or len(who) > MOST_NAME:
        return f"A text has at most {MOST_TEXT:,} characters, and a name {MOST_NAME}."
    if "\0" in text or "\0" in who:
        return "No database takes NUL in a text."
    if not who.strip():
        return "Enter a name, so that others know whom to ask."
    if action in TEXTS and not text.strip():
        return "A note says something, and a link is an address."
    if action == "link" and not _is_address(text.strip()):
        return "A link is an address that begins with http:// or https://, without a password in it."
    return ""


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.password is None
    except ValueError:
        return False
    return whole and text.isprintable() and " " not in text
