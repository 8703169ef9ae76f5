"""The script that Streamlit runs: page configuration, navigation and the name of the reader."""

from html import escape

import streamlit as st

from dashboard.auth import reader
from dashboard.components import load, parts
from dashboard.components.query_params import SharedLabel, unknown_parameters
from dashboard.exports.page_recorder import page_with_footer
from dashboard.header import page_context, search
from dashboard.navigation import PAGES, page_at
from dashboard.server.settings import ServerSettings
from db.errors import DatabaseError


def _admit() -> None:
    """Show the name of the reader, and stop the page for a reader without access. Does nothing without a
    login.
    """
    rules = reader.current_rules()
    if rules.login == "none":
        return
    person = reader.current()
    if person is None:
        with parts.empty_state("Your login has ended"):
            # The address of this page: the middleware asks for the login.
            st.html('<p><a href="" target="_self">Log in again</a></p>')
        st.stop()
    may = "may triage" if person.may_triage else "may look"
    leave = f' · <a href="{escape(rules.logout)}" target="_self">Log out</a>' if rules.logout else ""
    st.html(f'<p class="py-reader">{escape(person.name)} · {may}{leave}</p>')


parts.frame_page()
page_context.apply_clock()
page = st.navigation(
    [
        st.Page(one.script, title=one.title, icon=one.icon, url_path=one.path or None, default=not one.path)
        for one in PAGES
    ],
    position="top",
)
_admit()
with page_with_footer(lambda: page_at(page.url_path).chosen_view(parts.query())[0].title):
    try:
        settings = ServerSettings.from_environment()
        if settings.made_up:
            parts.complain(["Made-up data: nothing on this page was measured."])
        load.fits(settings.database_url)
        search.button(settings.database_url)
        query = parts.query()
        parts.complain(unknown_parameters(query, page_at(page.url_path).parameters(query)))
        try:
            page.run()
        except SharedLabel as shared:
            measured = load.last_measured(settings.database_url, shared.fingerprints)
            parts.which(shared, f"/{page.url_path}", measured)
    except DatabaseError as error:
        parts.database_problem(error)
