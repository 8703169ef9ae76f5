"""Search over cases, runs, findings and PyTorch versions, opened by Ctrl or Cmd K."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import streamlit as st

from common.text import printable
from dashboard.components import links, load, wording
from dashboard.components.frames import version_order
from dashboard.navigation import page_at
from dashboard.server.database import database_at
from db.findings import store as findings
from records.findings import Finding
from records.runs import RunSummary
from records.series import SeriesKey

#: The numbers of newest runs and findings that the search covers.
_RUNS, _FINDINGS = 500, 500


_FOCUS = f"<script>\n{Path(__file__).with_name('search.js').read_text()}</script>"


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """One entry of the search: its text, and its address."""

    text: str
    address: str


def entries(
    keys: Iterable[SeriesKey], runs: Sequence[RunSummary], findings: Iterable[Finding]
) -> list[SearchEntry]:
    """Findings, runs, versions and cases, each once."""
    items = [
        SearchEntry(
            f"Finding {one.id} · {wording.case(one.key.case).text} · {one.state}", links.finding(one.id)
        )
        for one in findings
    ]
    items += [
        SearchEntry(
            " · ".join(filter(None, ("Run", run.id, run.suite, *map(wording.version, run.torch_versions)))),
            links.run(run.id),
        )
        for run in runs
    ]
    versions = {version for run in runs for version in run.torch_versions if version}
    items += [
        SearchEntry(f"PyTorch {version}", links.view(links.HARDWARE, {"version": [version]}))
        for version in sorted(versions, key=version_order, reverse=True)
    ]
    cases = sorted({key.case for key in keys})
    items += [
        SearchEntry(f"Case {wording.case(case).text}", links.view(links.HISTORY, {"case": [case]}))
        for case in cases
    ]
    return [SearchEntry(printable(one.text), one.address) for one in items]


def button(url: str) -> None:
    """The button in the header that opens the search; Ctrl or Cmd K opens it too."""
    if st.button("Search", key="search-open", icon=":material/search:", shortcut="Ctrl+K"):
        _dialog(url)


@st.dialog("Search")
def _dialog(url: str) -> None:
    """A field that finds entries by any part of their text, and opens one."""
    result = _entries(url)
    entry = st.selectbox(
        "Case, finding, run or PyTorch",
        [one.text for one in result],
        index=None,
        placeholder="Type a part of its name",
        key="search-chosen",
    )
    # Only the content of our file, as in `parts.frame_page`.
    st.html(_FOCUS, unsafe_allow_javascript=True)
    if entry is not None:
        address = urlsplit(next(one.address for one in result if one.text == entry))
        st.switch_page(page_at(address.path.strip("/")).script, query_params=parse_qs(address.query))


@load.cache
def _entries(url: str) -> list[SearchEntry]:
    newest = findings.findings(database_at(url), newest=_FINDINGS)
    return entries(load.series_keys(url), load.recent_runs(url, limit=_RUNS), newest)
