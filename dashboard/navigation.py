"""The pages of the dashboard: the title, icon, script and address of each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the navigation. `script` lies in the folder of `app.py`; the first page's `path` is empty.

    `parameters` are the names that its address may have: the page reports and ignores any other.
    """

    script: str
    title: str
    icon: str
    path: str
    parameters: tuple[str, ...]


PAGES = (
    Page("app_pages/overview.py", "Overview", ":material/monitoring:", "", ("days",)),
    Page(
        "app_pages/upgrade.py",
        "Upgrade",
        ":material/balance:",
        "upgrade",
        ("run", "from", "to", "hardware", "metric", "threshold", "case", "worst", "weight", "must", "shown"),
    ),
    Page(
        "app_pages/trends.py",
        "Trends",
        ":material/show_chart:",
        "trends",
        (
            *("metric", "hardware", "preset", "axis", "scale", "baseline", "case", "track", "at"),
            "points",
        ),
    ),
    Page(
        "app_pages/techniques.py",
        "Techniques",
        ":material/tune:",
        "techniques",
        ("hardware", "preset", "version", "run", "workload", "baseline"),
    ),
    Page(
        "app_pages/hardware.py",
        "Hardware",
        ":material/memory:",
        "hardware",
        ("metric", "version", "preset", "to", "price"),
    ),
    Page(
        "app_pages/utilisation.py",
        "Utilisation",
        ":material/speed:",
        "utilisation",
        ("run", "case", "environment", "replicate", "device"),
    ),
    Page(
        "app_pages/regressions.py",
        "Regressions",
        ":material/trending_down:",
        "regressions",
        ("state", "schedule", "direction", "triage", "finding"),
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
    ),
    Page("app_pages/machines.py", "Fleet", ":material/dns:", "fleet", ("machine",)),
)
