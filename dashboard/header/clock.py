"""Moments in UTC or by the reader's clock: a choice at the foot of every page, kept by the browser."""

from datetime import UTC
from zoneinfo import ZoneInfo

import streamlit as st

from dashboard.components import wording
from dashboard.header import page_context

#: What can be chosen; without a choice it is the first.
_UTC, _LOCAL = "utc", "local"
_NAME, _KEY = "clock", "choose-clock"


def apply() -> None:
    """Have the moments of this page in the zone that the reader chose."""
    zone = _own_zone()
    wording.show_in(zone if zone is not None and _chosen() == _LOCAL else UTC)


def choice() -> None:
    """What moments are in, with the choice of the reader's own zone where the browser states one."""
    zone = _own_zone()
    if zone is None:
        st.caption("All times are UTC.", width="content")
        return
    st.caption("Times", width="content", help="Charts, and columns headed UTC, stay in UTC.")
    st.session_state[_KEY] = _chosen()
    st.segmented_control(
        "Times",
        [_UTC, _LOCAL],
        format_func={_UTC: "UTC", _LOCAL: zone.key}.__getitem__,
        key=_KEY,
        required=True,
        label_visibility="collapsed",
        on_change=_keep,
    )
    page_context.hand_over()


def _chosen() -> str:
    return _LOCAL if page_context.choice(_NAME) == _LOCAL else _UTC


def _keep() -> None:
    page_context.choose(_NAME, st.session_state[_KEY])


def _own_zone() -> ZoneInfo | None:
    """The zone of the reader's browser; None where that is UTC, unknown, or states none."""
    name = st.context.timezone
    try:
        zone = ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):
        # A browser may state anything, such as a folder of the zone files.
        return None
    return None if zone is None or zone.key in ("UTC", "Etc/UTC") else zone
