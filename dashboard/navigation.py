"""The pages of the dashboard: the title, icon, script and address of each, and the views that share one."""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.components.query_params import Query, pick

VIEW = "view"
"""The parameter that names the view of a page with several views."""


@dataclass(frozen=True, slots=True)
class PageView:
    """One view of a page, with its `name` in addresses.

    `parameters` are those that its address may have: the page reports and ignores any other. `old_path` is
    its path from the time when it was a separate page.
    """

    name: str
    title: str
    parameters: tuple[str, ...]
    old_path: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the navigation. `script` lies in the folder of `app.py`; the first page's `path` is empty.

    An address without the parameter `view` opens the first of `views`.
    """

    script: str
    title: str
    icon: str
    path: str
    views: tuple[PageView, ...]

    def chosen_view(self, query: Query) -> tuple[PageView, list[str]]:
        """The view that `query` names, else the first one of the page, and complaints."""
        if len(self.views) == 1:
            return self.views[0], []
        views = {view.name: view for view in self.views}
        complaints: list[str] = []
        return views[pick(query, VIEW, list(views), self.views[0].name, complaints)], complaints

    def parameters(self, query: Query) -> Sequence[str]:
        """The parameters of the view that `query` names."""
        own = self.chosen_view(query)[0].parameters
        return (VIEW, *own) if len(self.views) > 1 else own


PAGES = (
    Page(
        "app_pages/today.py",
        "Today",
        ":material/today:",
        "",
        (PageView("today", "Today", ("days",), "overview"),),
    ),
    Page(
        "app_pages/compare.py",
        "Compare",
        ":material/balance:",
        "compare",
        (
            PageView(
                "upgrade",
                "Upgrade",
                (
                    *("run", "from", "to", "hardware", "metric", "threshold", "case", "worst", "weight"),
                    *("must", "shown", "detail"),
                ),
                "upgrade",
            ),
            PageView("hardware", "Hardware", ("metric", "version", "preset", "to", "price"), "hardware"),
            PageView("runs", "Two runs", ("a", "b", "metric", "run")),
        ),
    ),
    Page(
        "app_pages/explore.py",
        "Explore",
        ":material/show_chart:",
        "explore",
        (
            PageView(
                "techniques",
                "Techniques",
                ("hardware", "preset", "version", "run", "workload", "baseline", "detail"),
                "techniques",
            ),
            PageView(
                "history",
                "History",
                (
                    *("metric", "hardware", "preset", "workload", "axis", "scale", "baseline", "case"),
                    *("track", "at", "points", "shown", "detail", "environment"),
                ),
                "trends",
            ),
            PageView(
                "utilisation",
                "Utilisation",
                ("run", "case", "environment", "replicate", "device"),
                "utilisation",
            ),
            PageView("profile", "Profile", ("run", "case", "against")),
        ),
    ),
    Page(
        "app_pages/regressions.py",
        "Regressions",
        ":material/trending_down:",
        "regressions",
        (PageView("findings", "Regressions", ("state", "schedule", "direction", "triage", "finding")),),
    ),
    Page(
        "app_pages/runs.py",
        "Runs",
        ":material/fact_check:",
        "runs",
        (
            PageView(
                "runs",
                "Runs",
                (
                    *("run", "case", "environment", "replicate", "outcomes", "against"),
                    *("kind", "suite", "machine", "state", "text", "page"),
                ),
                "run",
            ),
            PageView("machines", "Machines", ("machine",), "fleet"),
            PageView("schedule", "Schedule", ()),
        ),
    ),
)


def page_at(path: str) -> Page:
    """The page at a path without slashes. Raises KeyError for no such page."""
    return {page.path: page for page in PAGES}[path]


def old_addresses() -> dict[str, tuple[str, str]]:
    """By the path of a former page: its present path and view; the view is empty for the first one."""
    return {
        view.old_path: (page.path, "" if view is page.views[0] else view.name)
        for page in PAGES
        for view in page.views
        if view.old_path
    }
