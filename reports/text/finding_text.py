"""Texts about findings for terminals and pages, and the validation of triage entries."""

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

from analysis.detection.confirmation import ConfirmationCause, FindingVerdict
from analysis.metrics import METRICS
from records.evidence import Continuation, Detection, Evidence, PairVerdict
from records.findings import FindingState, FindingTriage

from .numbers import change_near, kind_word, percent
from .verdict_text import ending, open_because

#: The meaning of each state of a finding.
STATES: Mapping[FindingState, str] = {
    FindingState.CANDIDATE: "seen from night to night, not measured again yet: it may be noise",
    FindingState.CONFIRMING: "old and new are being measured in turns now",
    FindingState.CONFIRMED: "measured again, A/B interleaved on the same machine: the change is confirmed",
    FindingState.REFUTED: "measured again, A/B interleaved on the same machine: there is no such change",
    FindingState.UNCLEAR: "measured again: the pairs did not decide it",
    FindingState.NO_LONGER: "the change disappeared in later nights before it was measured again",
    FindingState.MACHINE: (
        "the change came with the machine: the environment is the same before and after, or the pinned "
        "baseline changed in the same way"
    ),
}
#: The end of a mute has to be before this moment: later ones cannot be represented in all time zones.
MUTED_BEFORE = datetime(9999, 1, 1, tzinfo=UTC)
#: The meaning of each triage.
TRIAGES: Mapping[FindingTriage, str] = {
    FindingTriage.OPEN: "not triaged yet",
    FindingTriage.ACKNOWLEDGED: "a person is working on it",
    FindingTriage.EXPECTED: "known and accepted",
    FindingTriage.FIXED: "marked as fixed: it is reopened if the change returns",
}


def kind(state: str, direction: str) -> str:
    """The displayed kind of a finding: regression or improvement once it is confirmed, else its state."""
    if state != FindingState.CONFIRMED:
        return state
    return "regression" if direction == "worse" else "improvement"


def because(state: FindingState, evidence: Evidence) -> str:
    """The reason for the state of a finding; empty if the state has no further reason."""
    # The reason why a candidate waited stays in its evidence, but does not explain a later state.
    return evidence.confirmation.reason or (evidence.waits if state == FindingState.CANDIDATE else "")


_CAUSES: Mapping[ConfirmationCause, str] = {
    ConfirmationCause.SHOWN: "the session shows the change too",
    ConfirmationCause.OPPOSITE: "the session shows the opposite",
    ConfirmationCause.KNOWN_BEFORE: "the session shows no more than what was confirmed before",
    ConfirmationCause.NO_DIFFERENCE: "the session shows no difference that matters",
    ConfirmationCause.CASE_NOT_MEASURED: "the session did not measure the case",
}
_SIDES = {ConfirmationCause.OLD_ENDED_BADLY: "old", ConfirmationCause.NEW_ENDED_BADLY: "new"}


def confirmation_reason(found: FindingVerdict) -> str:
    """The reason why a session confirms a finding, refutes it, or leaves it unclear."""
    if found.ended is not None:
        return f"in the {_SIDES[found.cause]} environment the case ended {ending(found.ended)}"
    if found.cause == ConfirmationCause.NO_PAIR:
        return f"no pair of the session has {found.finding.key.metric}"
    if found.cause == ConfirmationCause.UNDECIDED and found.verdict is not None:
        return open_because(found.verdict) or found.verdict.word
    rebuilt = found.rebuilt and found.cause != ConfirmationCause.SHOWN
    return _CAUSES[found.cause] + (", but one side had to be rebuilt" if rebuilt else "")


def verdict_word(verdict: PairVerdict) -> str:
    """The word of a verdict in the evidence: `worse` instead of `slower` for a metric that is not a time."""
    return kind_word(verdict.word, verdict.metric) if verdict.metric in METRICS else verdict.word


def interval(change: float, low: float | None, high: float | None) -> str:
    """A log ratio with its interval, if there is one: `+7.1 % [+5.9 %, +8.3 %]`."""
    return change_near(change, low, high)[0]


def describe_change(metric: str, change: float) -> str:
    """The direction and size of a change: `Latency (min-based) rose by 7.1 %`."""
    definition = METRICS.get(metric)
    title = definition.title if definition else metric
    verb = "rose" if change > 0 else "fell"
    size = percent(change).lstrip("+-")
    return f"{title} {verb} by {size}" if size.endswith("%") else f"{title} {verb}: {percent(change)}"


def stricter(detected: Detection | None) -> str:
    """The note that a series had to change by more than usual, with the reason; empty if it had not."""
    if detected is None or detected.factor <= 1.0:
        return ""
    return "two candidates of this series were refuted within 60 nights, so the threshold was doubled"


def goes_on(noted: Continuation) -> str:
    """The note about a change that continued: `now about +9.3 %, by its nights up to 2026-09-20`."""
    night = noted.night[: len("2026-09-20")]
    change = percent(noted.change)
    if noted.finding is not None:
        return f"{change} since the night of {night}, measured again: finding {noted.finding}"
    return f"now about {change}, by its nights up to {night}"


#: The most characters of a name and of a text in a triage entry.
MOST_NAME, MOST_TEXT = 200, 2000
#: The actions that require a text, with its name; the text of other actions is a reason.
TEXTS = {"note": "Note", "link": "Address of the issue"}


def triage_complaint(action: str, text: str, who: str) -> str:
    """The reason why a triage entry is invalid, as a sentence; empty for a valid one."""
    # The form limits these lengths in a browser, but other programs can send messages too.
    if len(text) > MOST_TEXT or len(who) > MOST_NAME:
        return f"A text has at most {MOST_TEXT:,} characters, and a name {MOST_NAME}."
    if "\0" in text or "\0" in who:
        return "A text must not contain NUL."
    if not who.strip():
        return "Enter a name, so that others know whom to ask."
    if action in TEXTS and not text.strip():
        return "A note needs a text, and a link an address."
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
