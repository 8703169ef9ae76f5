"""The form that writes an entry into the triage log of findings."""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta

import streamlit as st

from dashboard.auth import reader
from dashboard.components import parts
from dashboard.regressions import load
from dashboard.server.errors import NotAllowed
from dashboard.today import load as today
from records.findings import Finding, FindingTriage
from reports.text import finding_text

#: The actions, as stored in the log, with their labels.
_ACTIONS = {
    "acknowledge": "Acknowledge: you are working on it",
    "expected": "Expected: known and accepted",
    "fixed": "Fixed: reopened if the change returns",
    "mute": "Mute: do not report it before a date",
    "note": "Note",
    "link": "Link to an issue",
}
_WEEKS = 2


#: The keys of the session for the last typed name and for the number of saved forms.
_NAME, _SAVED = "triage-typed-name", "saved"
#: The titles of the forms.
ONE, ALL = "Triage this finding", "Triage this cause"


def acknowledge(url: str, items: Sequence[Finding], key: str = "triage") -> None:
    """A button that acknowledges the findings that are not triaged; asks for the name if it is unknown.

    Nothing if all are triaged, or for readers without the permission.
    """
    waiting = [one for one in items if one.triage == FindingTriage.OPEN]
    if not waiting or refusal(url):
        return
    label = "Acknowledge" if len(items) == 1 else f"Acknowledge all {len(items)}"
    person = reader.current()
    name = (person.name if person else "") or st.session_state.get(_NAME, "")
    if name:
        if st.button(label, key=f"{key}-acknowledge") and _noted(url, waiting, "acknowledge", "", name):
            st.rerun()
        return
    with st.popover(label, key=f"{key}-acknowledge-as"), st.form(f"{key}-acknowledge", border=False):
        who = _typed_name(f"{key}-acknowledge")
        if st.form_submit_button("Acknowledge") and _noted(url, waiting, "acknowledge", "", who):
            st.rerun()


def section(url: str, items: Sequence[Finding], title: str = ONE, key: str = "triage") -> None:
    """A folded form that writes into the log of each finding; the keys of its widgets begin with `key`.

    Readers without the permission, or with a read-only database, see the reason instead.
    """
    if refusal_text := refusal(url):
        st.caption(parts.plain(refusal_text))
        return
    with st.expander(title):
        _form(url, items, key)


def refusal(url: str) -> str:
    """The reason why the reader cannot triage, as a sentence; empty if it is possible."""
    if refusal_text := reader.triage_refused():
        return refusal_text
    refusal_text = load.triage_refusal(url)
    return f"Triage is not possible from this page. {refusal_text}" if refusal_text else ""


def _form(url: str, items: Sequence[Finding], key: str) -> None:
    person = reader.current()
    name = person.name if person else ""
    # Outside the form, because the other fields depend on it.
    action = st.selectbox(
        "Action", list(_ACTIONS), format_func=lambda name: _ACTIONS[name], key=f"{key}-action"
    )
    # A saved text is in the log; the field is emptied.
    save_count = st.session_state.get(f"{key}-{_SAVED}", 0)
    with st.form(key, clear_on_submit=False):
        label = finding_text.TEXTS.get(action, "Comment")
        own = f"{key}-text-{save_count}" if save_count else f"{key}-text"
        text = st.text_input(label, key=own, max_chars=finding_text.MOST_TEXT)
        mute_end = _until(key) if action == "mute" else None
        if name:
            st.caption(parts.plain(f"Recorded under your name: {name}"))
        who = name or _typed_name(key)
        if not st.form_submit_button("Save"):
            return
    if _noted(url, items, action, text, who, mute_end):
        st.session_state[f"{key}-{_SAVED}"] = save_count + 1
        st.rerun()


def _noted(
    url: str, items: Sequence[Finding], action: str, text: str, who: str, mute_end: datetime | None = None
) -> bool:
    """Record an action on each finding; returns whether that was possible, and shows the error otherwise."""
    if problem := finding_text.triage_complaint(action, text, who):
        st.warning(problem)
        return False
    try:
        for one in items:
            load.triage(url, one.id, action, who.strip(), text.strip(), mute_end)
    except NotAllowed as refusal:
        st.warning(parts.plain(str(refusal)))
        return False
    st.session_state[_NAME] = who.strip()
    # The first page shows it too, and its cache would have the old state.
    today.recent_findings.clear()
    today.still_open.clear()
    return True


def _typed_name(key: str) -> str:
    """The name of a reader without a login; it is filled in in all later forms of the session."""
    name: str = st.session_state.get(_NAME, "")
    return st.text_input("Name", name, key=f"{key}-who", max_chars=finding_text.MOST_NAME)


def _until(key: str) -> datetime:
    """The moment at which a mute ends: the beginning, in UTC, of a future day."""
    today = datetime.now(UTC).date()
    tomorrow, usual = today + timedelta(days=1), today + timedelta(weeks=_WEEKS)
    day = st.date_input("Muted until", usual, key=f"{key}-until", min_value=tomorrow, format="YYYY-MM-DD")
    return datetime.combine(day, time(), UTC)
