"""The elements of pages."""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from common.text import printable
from dashboard.components import charts, links, markup, wording
from dashboard.components.query_params import Query, SharedLabel, View, sanitise_query, with_fingerprint
from dashboard.exports import page_recorder
from dashboard.exports.page_recorder import CsvSource
from dashboard.header import page_context
from dashboard.navigation import VIEW, page_at
from db.errors import DatabaseError
from interchange.exporters.tables import cell
from reports.table import DataTable

_STATIC = Path(__file__).parents[1] / "static"
#: The most complaints, and the most characters of each: an address may have thousands of wrong values.
_COMPLAINTS, _SIGNS = 8, 1000

#: Characters that change the direction of text or control its display; they are replaced by a sign.
_STEERING = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def frame_page() -> None:
    """The frame of all pages: title, icon, styles, logo."""
    # The style sheet sets the width together with the rule that hides an unfinished page: layout="wide" would
    # take effect earlier and move visible elements.
    st.set_page_config(page_title="Pyrometer", page_icon=str(_STATIC / "icon.png"))
    # With an element beside it the style sheet comes first on the page; alone, Streamlit moves it to the end.
    style = Path(__file__).with_name("style.css").read_text()
    st.html(f'<style>{style}</style><span class="py-style"></span>')
    # Only the content of our file, without text from other sources.
    st.html(page_recorder.browser_script(), unsafe_allow_javascript=True)
    theme = "dark" if st.context.theme.type == "dark" else "light"
    # A dialog is outside the element with Streamlit's colour scheme.
    st.html(f'<style>[data-testid="stDialog"] {{ color-scheme: {theme}; }}</style>')
    st.logo(str(_STATIC / f"logo-{theme}.svg"), size="large")


def title(text: str) -> None:
    """The heading of the page, and the title of the browser's tab."""
    page_recorder.note("title", text)
    tab_title(text)
    st.html(f'<h1 class="py-heading">{escape(text)}</h1>')


def tab_title(text: str) -> None:
    """The title of the browser's tab: history and bookmarks have it too."""
    st.set_page_config(page_title=f"{printable(text)} · Pyrometer")


def heading(title: str, csv_of: CsvSource | None = None, file_name: str = "", about: str = "") -> None:
    """A section's title; with a source of rows, also a menu that saves them as CSV or Markdown, or copies.

    `about` is plain text on how to read the section, behind an (i).
    """
    page_recorder.section(title, csv_of, file_name)
    if about:
        page_recorder.note("words", plain(about))
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.header(title, anchor=False, width="content", help=plain(about) if about else None)
        if csv_of is not None:
            _menu(title, csv_of, file_name)


def _menu(title: str, csv_of: CsvSource, file_name: str) -> None:
    """The export menu of a section: all rows as CSV, the displayed table as Markdown or by copying."""
    markdown = page_recorder.section_export(st.context.url or "", query())
    with st.popover("Export", type="tertiary", key=f"menu-{file_name}"):
        st.download_button(
            "CSV",
            lambda: csv(page_recorder.frame_of(csv_of)),
            file_name=file_name,
            mime="text/csv",
            key=f"csv-{file_name}",
            on_click="ignore",
            help=f"{plain(title)} as CSV, all rows",
        )
        st.download_button(
            "Markdown",
            markdown,
            file_name=f"{file_name.removesuffix('.csv')}.md",
            mime="text/markdown",
            key=f"md-{file_name}",
            on_click="ignore",
            help=f"{plain(title)} as displayed",
        )
        st.html('<button type="button" class="py-save py-copy-table">Copy table</button>')


@contextmanager
def expander(title: str) -> Generator[None]:
    """A folded part of the page; exports include it under its title."""
    page_recorder.note("html", f"<h3>{escape(title)}</h3>")
    with st.expander(title):
        yield


def table(table: DataTable[Any]) -> None:
    """A table, which is also in the Markdown of the page; a click on a column's head sorts it."""
    page_recorder.table(table)
    st.html(_tame(table.html(sortable=True)))


def table_section(title: str, data: DataTable[Any], file_name: str, about: str = "") -> None:
    """A section with a table; nothing for a table without rows."""
    if data.rows:
        heading(title, data, file_name, about)
        table(data)


def csv(frame: pd.DataFrame) -> bytes:
    """A table as CSV (RFC 4180), in which texts and column names cannot start a formula of a spreadsheet."""
    safe = frame.map(lambda value: cell(value) if isinstance(value, str) else value).rename(columns=cell)
    if len(safe.columns):
        safe = pd.concat([_whole(safe.iloc[:, place]) for place in range(len(safe.columns))], axis=1)
    # Python quotes only texts with the line end of rows; with CR LF it quotes both characters.
    return safe.to_csv(index=False, lineterminator="\r\n").encode()


def _whole(column: pd.Series) -> pd.Series:
    """Whole numbers without a fraction: pandas stores a column with gaps as floats and would print `12.0`."""
    values = column.dropna()
    if column.dtype != "float64" or len(values) in (0, len(column)):
        return column
    # Above 2**53 a float does not represent a single integer.
    return column.astype("Int64") if ((values % 1 == 0) & (values.abs() < 2**53)).all() else column


def html(body: str) -> None:
    """HTML from `markup`, which is also in the Markdown of the page."""
    page_recorder.note("html", body)
    st.html(_tame(body))


def link(address: str, text: str) -> None:
    """A line with a link to another view."""
    html(f"<p>{markup.link(address, text)}</p>")


def caption(words: str, about: str = "") -> None:
    """A caption of at most twelve words, in Streamlit's Markdown; `about` is further text behind an (i)."""
    page_recorder.note("words", f"{words} {about}".strip())
    st.caption(words, help=about or None)


def code(text: str) -> None:
    """A command or the output of a program; it scrolls if it is long."""
    page_recorder.note("code", text)
    st.html(_tame(markup.code(text)))


def chart(
    spec: charts.Spec,
    alt: str,
    *,
    file_name: str = "",
    count: str = "",
    sets: Mapping[str, pd.DataFrame] | None = None,
    **frames: pd.DataFrame,
) -> None:
    """A chart of named data, with buttons that save it; `alt` is its description.

    `sets` are more data with computed names. It is saved under `file_name` (without suffix), or under the
    name of its section's CSV file, with a heading of the section, the subject of the page (see `subject`) and
    `count`, the amount of measurements.
    """
    name = page_recorder.chart_name(file_name)
    page_recorder.note("chart", alt)
    data = charts.with_data(spec, **(sets or {}), **frames)
    # Reserve the height before the chart is loaded, so that elements below do not move. Stacked panels have
    # no fixed height.
    height = spec.get("height", "content")
    st.vega_lite_chart(spec=data, alt=alt, width="stretch", height=height)
    title, subject = page_recorder.chart_title()
    st.html(markup.chart_buttons(alt, name, title, " · ".join(filter(None, (subject, count)))))


def subject(*words: str) -> None:
    """Set the subject of the following charts, for the heading of their pictures: hardware, PyTorch."""
    page_recorder.set_subject(*words)


def complain(complaints: Sequence[str]) -> None:
    """Complaints about invalid values of the address; only the first if there are very many."""
    lines = [each if len(each) <= _SIGNS else f"{each[:_SIGNS]} …" for each in complaints[:_COMPLAINTS]]
    if (more := len(complaints) - _COMPLAINTS) > 0:
        lines.append(f"And {more:,} more like these.")
    for complaint in lines:
        page_recorder.note("complaint", complaint)
        st.warning(plain(complaint))


def which(label: SharedLabel, path: str, measured_texts: Mapping[str, str]) -> None:
    """Ask which of several things with one label the page at `path` should show.

    `measured_texts` are texts about the last measurement of hardware, by fingerprint.
    """
    kind = "hardware" if label.name == "to" else label.name
    several = "kinds of hardware" if kind == "hardware" else f"{kind}s"
    words = plain(f"{len(label.fingerprints)} {several} have the label {label.label}:")
    entries: list[str] = []
    for each in label.fingerprints:
        text = ", ".join(filter(None, (with_fingerprint(label.label, each), measured_texts.get(each))))
        address = links.view(path, {**query(), label.name: [links.short(each)]})
        entries.append(f"<li>{markup.link(address, text)}</li>")
    with empty_state(f"Which {kind}?"):
        page_recorder.note("words", words)
        st.write(words)
        html(f"<ul>{''.join(entries)}</ul>")


def permanent_link(address: str) -> None:
    """A link to the displayed content, with the permanent `address`."""
    page_recorder.pin(address)
    st.html(f'<p class="py-pinned">{markup.link(address, "Permanent link to this view")}</p>')


def plain(text: str) -> str:
    """Text from any source, such as an address or a device's name, escaped for Streamlit's Markdown."""
    # Addresses become links even if escaped: a zero-width character prevents that.
    text_without_links = re.sub(r"(?i)www(?=\.)|:(?=//)|@", "\\g<0>\u2060", printable(text))
    return re.sub(r"([\\`*_\[\]$:~<>#&|])", r"\\\1", text_without_links)


def select(label: str, name: str, options: Mapping[str, str], selection: View) -> None:
    """A choice of one for the field `name`; `options` maps values to labels."""
    key = _own(name, getattr(selection, name))
    st.selectbox(
        label,
        list(options),
        format_func=lambda value: _tame(options[value]),
        key=key,
        on_change=_write,
        args=(selection, name),
    )


def segments(
    label: str,
    name: str,
    options: Mapping[str, str],
    selection: View,
    widget: str = "",
    *,
    tabs: bool = False,
) -> None:
    """A choice of one among a few visible options; a second one of the same field has a `widget` name.

    `tabs`: the label is only for screen readers.
    """
    key = _own(widget or name, getattr(selection, name))
    st.segmented_control(
        label,
        list(options),
        format_func=lambda value: _tame(options[value]),
        key=key,
        required=True,
        label_visibility="collapsed" if tabs else "visible",
        on_change=_write,
        args=(selection, name, widget),
    )


def field(label: str, name: str, selection: View, most: int) -> None:
    """A field for a text of up to `most` characters."""
    key = _own(name, getattr(selection, name))
    st.text_input(label, key=key, max_chars=most, on_change=_write, args=(selection, name))


def several(label: str, name: str, options: Mapping[str, str], selection: View, most: int) -> None:
    """A choice of up to `most`."""
    key = _own(name, list(getattr(selection, name)))
    st.multiselect(
        label,
        list(options),
        format_func=lambda value: _tame(options[value]),
        key=key,
        max_selections=most,
        on_change=_write,
        args=(selection, name),
    )


@dataclass(frozen=True, slots=True)
class ChosenView(View):
    """The view of a page, by its name."""

    view: str


def views(path: str, view_functions: Mapping[str, Callable[[], None]]) -> None:
    """Show the page at `path`: the choice of its views, and the view that the address names, from
    `view_functions` by name.
    """
    page = page_at(path)
    view, complaints = page.chosen_view(query())
    complain(complaints)
    segments("View", VIEW, {each.name: each.title for each in page.views}, ChosenView(view.name), tabs=True)
    view_functions[view.name]()


def query() -> Query:
    """The query of this page's URL."""
    return sanitise_query({name: st.query_params.get_all(name) for name in st.query_params})


def nothing_measured() -> None:
    """The page of an empty database, with the first command."""
    with empty_state("Nothing measured yet"):
        st.write("The database is empty. This measures ten small cases and takes a few minutes:")
        st.html(markup.code("pyrometer run --suite smoke"))
        st.caption("Then load this page again; a run is listed while it runs.")


def no_match(runs: int, heading: str, words: str, command: str) -> None:
    """The page of a database whose `runs` have no results for it; `words` are the reason, `command` measures
    some.
    """
    if runs == 0:
        nothing_measured()
        return
    with empty_state(heading):
        st.write(f"{wording.plural(runs, 'run')} stored, but none {words}")
        st.html(markup.code(command))


def database_problem(error: DatabaseError) -> None:
    """The page of a database that cannot be used: one sentence."""
    page_recorder.note("complaint", str(error))
    with empty_state("The database cannot be read"):
        st.text(str(error))
        st.caption("No results are lost: load this page again later.")


@contextmanager
def empty_state(heading: str) -> Generator[None]:
    """A page with a short text only."""
    with st.container(horizontal_alignment="center"), st.container(width=560):
        st.html(f'<h2 class="py-empty">{escape(heading)}</h2>')
        yield


def _tame(body: str) -> str:
    # str.translate takes 8 ms for 100 KiB if one character is not ASCII; this takes 0.4 ms.
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", body)


def _own(name: str, value: object) -> str:
    """Set the widget of field `name` to the value in the URL: selections are stored only in the URL."""
    key = f"choose-{name}"
    st.session_state[key] = value
    return key


def _write(selection: View, name: str, widget: str = "") -> None:
    """Write the whole selection to the URL after a widget of field `name` changed."""
    value = st.session_state[f"choose-{widget or name}"]
    new_view = selection.after(name, tuple(value) if isinstance(value, list) else value)
    page_context.remember(selection, new_view)
    view = {VIEW: st.query_params.get_all(VIEW)} if VIEW in st.query_params else {}
    st.query_params.from_dict({**view, **new_view.query()})
