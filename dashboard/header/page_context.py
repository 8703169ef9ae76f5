"""The context that is kept from page to page: metric, hardware, PyTorch, workload, range and clock.

The address takes precedence. Values that it leaves open are those that the reader chose last: in this
session, else in this browser, where `exports/browser.js` stores them in a cookie and writes them into the
address. A remembered value that a view cannot show is ignored without a complaint.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from html import escape
from math import inf
from typing import TypeVar
from urllib.parse import parse_qs, urlencode
from zoneinfo import ZoneInfo

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.components import wording
from dashboard.components.query_params import Query, SharedLabel, View, last, sanitise_query
from dashboard.navigation import VIEW

Item = TypeVar("Item")

#: The parameters that views share; each comes before those that depend on it.
NAMES = ("metric", "hardware", "version", "workload", "points")
#: The cookie of the browser and its parameters, without PyTorch: one remembered for months would hide newer
#: ones. `clock` is not a parameter: see `clock_choice`.
COOKIE, IN_COOKIE = "pyrometer_context", ("metric", "hardware", "workload", "points", "clock")
#: The key of the session for its selections.
_CHOSEN = "page-context"
#: The most characters of the cookie that are read.
_LONGEST = 2000


def complete_query(query: Query, names: Sequence[str], complaints: Callable[[Query], Sequence[str]]) -> Query:
    """An address completed with the remembered values of `names` that the view can show.

    `complaints` are those of a view about a query: a remembered value that adds one is left out.
    """
    context = _chosen()
    _keep({name: query[name] for name in names if name in query})
    open_names = [name for name in NAMES if name in names and name not in query and context.get(name)]
    every = {**query, **{name: context[name] for name in open_names}}
    if not open_names or _many(complaints, every) <= (complaint_count := len(complaints(query))):
        return every
    result = dict(query)
    for name in open_names:
        candidate = {**result, name: context[name]}
        if _many(complaints, candidate) <= complaint_count:
            result = candidate
    return result


def _many(complaints: Callable[[Query], Sequence[str]], candidate: Query) -> float:
    """The number of complaints; infinite if a remembered label is that of several."""
    try:
        return len(complaints(candidate))
    except SharedLabel:
        return inf


def remember(before: View, after: View) -> None:
    """Remember the changes of a reader in a view."""
    old, new = before.query(), after.query()
    _keep({name: new.get(name, []) for name in before.context if old.get(name) != new.get(name)})


def bar(path: str, query: Query, completed_query: Query) -> DeltaGenerator:
    """The row below the title of the page at `path` for the choices of its context.

    `completed_query` is `query` with the remembered values, which the browser writes into the address.
    """
    _give_browser(path, query, {name: completed_query[name] for name in completed_query if name not in query})
    return st.container(horizontal=True, vertical_alignment="bottom", key="context-bar")


def keep(path: str, query: Query, **values: str) -> None:
    """Remember the parameters of a case that the page at `path` shows, for the views that are opened next.

    `values` are those of `NAMES`, in the form of addresses.
    """
    _keep({name: [value] for name, value in values.items()})
    _give_browser(path, query, {})


def narrow_items(
    items: Sequence[Item],
    workload_of: Callable[[Item], str],
    hardware_of: Callable[[Item], str] | None = None,
) -> Sequence[Item]:
    """The items of the remembered hardware, and of these those of the remembered workload, unless none
    matches.

    `hardware_of` returns fingerprints.
    """
    places, workloads = _chosen().get("hardware", ()), _chosen().get("workload", ())
    if hardware_of is not None:
        items = [item for item in items if any(map(hardware_of(item).startswith, places))] or items
    return [item for item in items if workload_of(item) in workloads] or items


def _give_browser(path: str, query: Query, additions: Query) -> None:
    """Pass the browser the context to store, and its additions to the address of the page at `path`."""
    cookie_values = {name: values for name, values in _chosen().items() if name in IN_COOKIE and values}
    about = {
        "context": urlencode(cookie_values, doseq=True),
        "path": path,
        "view": last(query, VIEW) or "",
        "added": urlencode(additions, doseq=True),
    }
    attributes = " ".join(f'data-{name}="{escape(text)}"' for name, text in about.items())
    st.html(f"<p hidden {attributes}></p>")


def _chosen() -> dict[str, list[str]]:
    """The last choices of the reader, by parameter."""
    if _CHOSEN not in st.session_state:
        cookie = st.context.cookies.get(COOKIE) or ""
        result = sanitise_query(parse_qs(cookie[:_LONGEST]))
        st.session_state[_CHOSEN] = {name: list(result[name]) for name in IN_COOKIE if name in result}
    return st.session_state[_CHOSEN]


def _keep(values: Mapping[str, Sequence[str]]) -> None:
    st.session_state[_CHOSEN] = _chosen() | {name: list(each) for name, each in values.items()}


#: The options; the first is the default.
_UTC, _LOCAL = "utc", "local"
_CLOCK, _CLOCK_KEY = "clock", "choose-clock"


def apply_clock() -> None:
    """Show times on this page in the time zone that the reader chose."""
    zone = _own_zone()
    wording.show_in(zone if zone is not None and _chosen_clock() == _LOCAL else UTC)


def clock_choice() -> None:
    """Show the time zone of the page, with a choice of the reader's zone if the browser reports one."""
    zone = _own_zone()
    if zone is None:
        st.caption("All times are UTC.", width="content")
        return
    st.caption("Times", width="content", help="Charts, and columns headed UTC, stay in UTC.")
    st.session_state[_CLOCK_KEY] = _chosen_clock()
    st.segmented_control(
        "Times",
        [_UTC, _LOCAL],
        format_func={_UTC: "UTC", _LOCAL: zone.key}.__getitem__,
        key=_CLOCK_KEY,
        required=True,
        label_visibility="collapsed",
        on_change=_keep_clock,
    )
    _give_browser("", {}, {})


def _chosen_clock() -> str:
    return _LOCAL if _chosen().get(_CLOCK) == [_LOCAL] else _UTC


def _keep_clock() -> None:
    _keep({_CLOCK: [st.session_state[_CLOCK_KEY]]})


def _own_zone() -> ZoneInfo | None:
    """The time zone of the reader's browser; None if it is UTC, unknown, or not reported."""
    name = st.context.timezone
    try:
        zone = ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):
        # A browser may send any text, such as the name of a folder of zone files.
        return None
    return None if zone is None or zone.key in ("UTC", "Etc/UTC") else zone
