"""The reader's name and the logout link on a page; after the end of a login, a note instead of the page."""

from html import escape

import streamlit as st

from dashboard.auth import reader
from dashboard.components import parts


def admit() -> None:
    """Show who reads, and stop the page for a reader without access. Does nothing where there is no login."""
    rules = reader.held()
    if rules.login == "none":
        return
    person = reader.current()
    if person is None:
        with parts.empty_state("Your login has ended"):
            # To where this page is: the way back leads through the door.
            st.html('<p><a href="" target="_self">Log in again</a></p>')
        st.stop()
    may = "may triage" if person.may_triage else "may look"
    leave = f' · <a href="{escape(rules.logout)}" target="_self">Log out</a>' if rules.logout else ""
    st.html(f'<p class="py-reader">{escape(person.name)} · {may}{leave}</p>')
