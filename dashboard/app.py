"""The script that Streamlit runs: page config and navigation, nothing else."""

import streamlit as st

from dashboard import parts
from db.errors import DatabaseError

parts.frame_page()
page = st.navigation(
    [
        st.Page("app_pages/overview.py", title="Overview", icon=":material/monitoring:", default=True),
        st.Page("app_pages/trends.py", title="Trends", icon=":material/show_chart:", url_path="trends"),
        st.Page(
            "app_pages/utilisation.py", title="Utilisation", icon=":material/speed:", url_path="utilisation"
        ),
        st.Page(
            "app_pages/regressions.py",
            title="Regressions",
            icon=":material/trending_down:",
            url_path="regressions",
        ),
        st.Page("app_pages/run_detail.py", title="Runs", icon=":material/fact_check:", url_path="run"),
    ],
    position="top",
)
try:
    page.run()
except DatabaseError as error:
    parts.database_problem(error)
