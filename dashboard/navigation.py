"""The pages of the dashboard: what each is called, where its script is, its address, what it is made of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the navigation. `script` lies beside `app.py`; the first page's `path` is empty.

    `needs` are the parts of Streamlit's program that browsers load for it beside those of every page.
    `ahead` is a module whose `asked` puts all to the database that the page will: see `dashboard.ahead`.
    """

    script: str
    title: str
    icon: str
    path: str
    needs: tuple[str, ...] = ()
    ahead: str = ""


_CHART, _CHOICE, _CHOICES, _SEGMENTS = "ArrowVegaLiteChart", "Selectbox", "Multiselect", "ButtonGroup"
#: What every page has: our own HTML, the buttons and the switch at its foot.
EVERYWHERE = ("Html", "DownloadButton", "Checkbox")

PAGES = (
    Page("app_pages/overview.py", "Overview", ":material/monitoring:", "", (_SEGMENTS,)),
    Page("app_pages/upgrade.py", "Upgrade", ":material/balance:", "upgrade", (_CHART, _CHOICE)),
    Page(
        "app_pages/trends.py",
        "Trends",
        ":material/show_chart:",
        "trends",
        (_CHART, _CHOICE, _CHOICES, _SEGMENTS),
        "dashboard.trends.asked",
    ),
    Page("app_pages/techniques.py", "Techniques", ":material/tune:", "techniques", (_CHART, _CHOICE)),
    Page("app_pages/hardware.py", "Hardware", ":material/memory:", "hardware", (_CHART, _CHOICE)),
    Page("app_pages/utilisation.py", "Utilisation", ":material/speed:", "utilisation", (_CHART, _CHOICE)),
    Page(
        "app_pages/regressions.py",
        "Regressions",
        ":material/trending_down:",
        "regressions",
        (_CHOICE, _SEGMENTS),
    ),
    Page("app_pages/run_detail.py", "Runs", ":material/fact_check:", "run", (_CHOICE,)),
    Page("app_pages/fleet.py", "Fleet", ":material/dns:", "fleet", (_CHOICE,)),
)
