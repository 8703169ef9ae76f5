"""The script that Streamlit runs: page config, navigation and who reads, nothing else."""

import streamlit as st

from dashboard.auth import session_check
from dashboard.components import load, parts
from dashboard.components.query_params import unknown_parameters
from dashboard.exports import footer
from dashboard.navigation import PAGES
from dashboard.server.settings import ServerSettings
from db.errors import DatabaseError

parts.frame_page()
page = st.navigation(
    [
        st.Page(one.script, title=one.title, icon=one.icon, url_path=one.path or None, default=not one.path)
        for one in PAGES
    ],
    position="top",
)
session_check.admit()
with footer.taken_along(lambda: page.title):
    try:
        load.fits(ServerSettings.from_environment().database_url)
        parameters = next((one.parameters for one in PAGES if one.path == page.url_path), ())
        parts.complain(unknown_parameters(parts.query(), parameters))
        page.run()
    except DatabaseError as error:
        parts.database_problem(error)
