"""The script that Streamlit runs: page config, navigation and who reads, nothing else."""

import streamlit as st

from dashboard import parts
from dashboard.access import admission
from dashboard.exports import foot
from db.errors import DatabaseError

parts.frame_page()
page = st.navigation(
    [
        st.Page("app_pages/overview.py", title="Overview", icon=":material/monitoring:", default=True),
        st.Page("app_pages/upgrade.py", title="Upgrade", icon=":material/balance:", url_path="upgrade"),
        st.Page("app_pages/trends.py", title="Trends", icon=":material/show_chart:", url_path="trends"),
        st.Page("app_pages/techniques.py", title="Techniques", icon=":material/tune:", url_path="techniques"),
        st.Page("app_pages/hardware.py", title="Hardware", icon=":material/memory:", url_path="hardware"),
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
        st.Page("app_pages/fleet.py", title="Fleet", icon=":material/dns:", url_path="fleet"),
    ],
    position="top",
)
admission.admit()
with foot.taken_along(lambda: page.title):
    try:
        page.run()
    except DatabaseError as error:
        parts.database_problem(error)
