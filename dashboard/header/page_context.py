"""The context that readers keep from page to page: metric, hardware, PyTorch, workload, range and clock.

An address decides. What it leaves open is as the reader chose it last: in this session, else in this browser,
where `exports/browser.js` keeps it in a cookie and writes it into the address. A remembered value that a
view cannot show is passed over without a complaint.
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

#: The parameters that views share, each before those that depend on it.
NAMES = ("metric", "hardware", "version", "workload", "points")
#: The cookie of the browser, and what it holds: a PyTorch remembered for months would hide newer ones.
#: `clock` is no parameter: see `clock_choice`.
COOKIE, IN_COOKIE = "pyrometer_context", ("metric", "hardware", "workload", "points", "clock")
#: Where the session keeps what was chosen in it.
_CHOSEN = "page-context"
#: Characters of the cookie that are read.
_LONGEST = 2000


def complete_query(query: Query, names: Sequence[str], complaints: Callable[[Query], Sequence[str]]) -> Query:
    """An address with what it leaves open of `names` as it is remembered, as far as the view can show it.

    `complaints` are those of a view about a query: a remembered value that adds one is left out.
    """
    chosen = _chosen()
    _keep({name: query[name] for name in names if name in query})
    open_names = [name for name in NAMES if name in names and name not in query and chosen.get(name)]
    every = {**query, **{name: chosen[name] for name in open_names}}
    if not open_names or _many(complaints, every) <= (expected := len(complaints(query))):
        return every
    found = dict(query)
    for name in open_names:
        tried = {**found, name: chosen[name]}
        if _many(complaints, tried) <= expected:
            found = tried
    return found


def _many(complaints: Callable[[Query], Sequence[str]], tried: Query) -> float:
    """How many complaints there are; infinitely many where a remembered label is that of several."""
    try:
        return len(complaints(tried))
    except SharedLabel:
        return inf


def remember(before: View, after: View) -> None:
    """Keep what a reader changed in a view."""
    old, new = before.query(), after.query()
    _keep({name: new.get(name, []) for name in before.context if old.get(name) != new.get(name)})


def bar(path: str, query: Query, completed_query: Query) -> DeltaGenerator:
    """The row, below the title of the page at `path`, for the choices that make up its context.

    `completed_query` is `query` with what was remembered: the browser writes it into the address.
    """
    _give_browser(path, query, {name: completed_query[name] for name in completed_query if name not in query})
    return st.container(horizontal=True, vertical_alignment="bottom", key="context-bar")


def keep(path: str, query: Query, **values: str) -> None:
    """Remember what the page at `path` shows of one case, for the views that are opened next.

    `values` are of `NAMES`, as addresses have them.
    """
    _keep({name: [value] for name, value in values.items()})
    _give_browser(path, query, {})


def narrow_items(
    items: Sequence[Item],
    workload_of: Callable[[Item], str],
    hardware_of: Callable[[Item], str] | None = None,
) -> Sequence[Item]:
    """Those of the remembered hardware, and of these those of the remembered workload, as far as any is.

    `hardware_of` gives fingerprints.
    """
    places, workloads = _chosen().get("hardware", ()), _chosen().get("workload", ())
    if hardware_of is not None:
        items = [item for item in items if any(map(hardware_of(item).startswith, places))] or items
    return [item for item in items if workload_of(item) in workloads] or items


def _give_browser(path: str, query: Query, added: Query) -> None:
    """Give the browser the context to keep, and what it adds to the address of the page at `path`."""
    kept = {name: values for name, values in _chosen().items() if name in IN_COOKIE and values}
    about = {
        "context": urlencode(kept, doseq=True),
        "path": path,
        "view": last(query, VIEW) or "",
        "added": urlencode(added, doseq=True),
    }
    attributes = " ".join(f'data-{name}="{escape(text)}"' for name, text in about.items())
    st.html(f"<p hidden {attributes}></p>")


def _chosen() -> dict[str, list[str]]:
    """What the reader chose last, by parameter."""
    if _CHOSEN not in st.session_state:
        written = st.context.cookies.get(COOKIE) or ""
        found = sanitise_query(parse_qs(written[:_LONGEST]))
        st.session_state[_CHOSEN] = {name: list(found[name]) for name in IN_COOKIE if name in found}
    return st.session_state[_CHOSEN]


def _keep(values: Mapping[str, Sequence[str]]) -> None:
    st.session_state[_CHOSEN] = _chosen() | {name: list(each) for name, each in values.items()}


#: What can be chosen; without a choice it is the first.
_UTC, _LOCAL = "utc", "local"
_CLOCK, _CLOCK_KEY = "clock", "choose-clock"


def apply_clock() -> None:
    """Have the moments of this page in the zone that the reader chose."""
    zone = _own_zone()
    wording.show_in(zone if zone is not None and _chosen_clock() == _LOCAL else UTC)


def clock_choice() -> None:
    """What moments are in, with the choice of the reader's own zone where the browser states one."""
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
    """The zone of the reader's browser; None where that is UTC, unknown, or states none."""
    name = st.context.timezone
    try:
        zone = ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):
        # A browser may state anything, such as a folder of the zone files.
        return None
    return None if zone is None or zone.key in ("UTC", "Etc/UTC") else zone
