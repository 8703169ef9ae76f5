"""The pages of the dashboard: what each is called, where its script is, its address, what it is made of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the navigation. `script` lies beside `app.py`; the first page's `path` is empty.

    `needs` are the parts of Streamlit's program that browsers load for it beside those of every page.
    `parameters` are the names that its address may have: another one is said and ignored.
    `ahead` is a module whose `asked` puts all to the database that the page will: see
    `dashboard.server.ahead`.
    """

    script: str
    title: str
    icon: str
    path: str
    parameters: tuple[str, ...]
    needs: tuple[str, ...] = ()
    ahead: str = ""


_CHART, _CHOICE, _CHOICES, _SEGMENTS = "ArrowVegaLiteChart", "Selectbox", "Multiselect", "ButtonGroup"
#: What every page has: our own HTML, the buttons and the switch at its foot.
EVERYWHERE = ("Html", "DownloadButton", "Checkbox")

PAGES = (
    Page("app_pages/overview.py", "Overview", ":material/monitoring:", "", ("days",), (_SEGMENTS,)),
    Page(
        "app_pages/upgrade.py",
        "Upgrade",
        ":material/balance:",
        "upgrade",
        ("run", "from", "to", "hardware", "metric", "threshold", "weight", "must"),
        (_CHART, _CHOICE),
    ),
    Page(
        "app_pages/trends.py",
        "Trends",
        ":material/show_chart:",
        "trends",
        (
            *("metric", "hardware", "profile", "axis", "scale", "baseline", "case", "track", "at"),
            "points",
        ),
        (_CHART, _CHOICE, _CHOICES, _SEGMENTS),
        "dashboard.trends.page_data",
    ),
    Page(
        "app_pages/techniques.py",
        "Techniques",
        ":material/tune:",
        "techniques",
        ("hardware", "profile", "version", "run"),
        (_CHART, _CHOICE),
    ),
    Page(
        "app_pages/hardware.py",
        "Hardware",
        ":material/memory:",
        "hardware",
        ("metric", "version", "profile", "to", "price"),
        (_CHART, _CHOICE),
    ),
    Page(
        "app_pages/utilisation.py",
        "Utilisation",
        ":material/speed:",
        "utilisation",
        ("run", "case", "environment", "replicate", "device"),
        (_CHART, _CHOICE),
    ),
    Page(
        "app_pages/regressions.py",
        "Regressions",
        ":material/trending_down:",
        "regressions",
        ("state", "schedule", "direction", "triage", "finding"),
        (_CHOICE, _SEGMENTS),
    ),
    Page(
        "app_pages/run_detail.py",
        "Runs",
        ":material/fact_check:",
        "run",
        (
            *("run", "case", "environment", "replicate", "outcomes", "against"),
            *("suite", "machine", "state", "page"),
        ),
        (_CHOICE,),
    ),
    Page("app_pages/machines.py", "Fleet", ":material/dns:", "fleet", ("machine",), (_CHOICE,)),
)
