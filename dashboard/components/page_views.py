"""Pages with several views: the address names one, and only what that one shows is loaded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dashboard.components import parts
from dashboard.components.query_params import Query, View, pick
from dashboard.navigation import VIEW, Page, PageView, page_at


@dataclass(frozen=True, slots=True)
class ChosenView(View):
    """The view of a page, by its name."""

    view: str


def chosen(page: Page, query: Query) -> tuple[PageView, list[str]]:
    """The view that `query` names, else the page's first one, and complaints."""
    if len(page.views) == 1:
        return page.views[0], []
    views = {view.name: view for view in page.views}
    complaints: list[str] = []
    return views[pick(query, VIEW, list(views), page.views[0].name, complaints)], complaints


def parameters(page: Page, query: Query) -> tuple[str, ...]:
    """What the address of the view that `query` names may have."""
    own = chosen(page, query)[0].parameters
    return (VIEW, *own) if len(page.views) > 1 else own


def show(path: str, views: Mapping[str, Callable[[], None]]) -> None:
    """The page at `path`: the choice of its views, and the one that the address names."""
    page = page_at(path)
    view, complaints = chosen(page, parts.query())
    parts.complain(complaints)
    titles = {each.name: each.title for each in page.views}
    parts.segments("View", VIEW, titles, ChosenView(view.name), tabs=True)
    views[view.name]()
