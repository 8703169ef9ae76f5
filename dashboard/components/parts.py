"""The parts that every page is put together from."""

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
#: An address may ask for thousands of things: complaints, and signs of each.
_COMPLAINTS, _SIGNS = 8, 1000

#: What turns the direction of text around, or steers what shows it: shown as the sign of what is none.
_STEERING = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def frame_page() -> None:
    """What all pages share: title, icon, styles, the name in the corner."""
    # The style sheet sets the width, at once with the rule that hides an unfinished page: layout="wide" would
    # come before it and push aside what is already seen.
    st.set_page_config(page_title="Pyrometer", page_icon=str(_STATIC / "icon.png"))
    # With an element beside it the sheet stands first on the page; alone, Streamlit puts it behind all of it.
    style = Path(__file__).with_name("style.css").read_text()
    st.html(f'<style>{style}</style><span class="py-style"></span>')
    # A file of ours and nothing else: no text from outside is ever part of it.
    st.html(page_recorder.browser_script(), unsafe_allow_javascript=True)
    theme = "dark" if st.context.theme.type == "dark" else "light"
    # A dialog stands outside of what Streamlit gives its colour scheme.
    st.html(f'<style>[data-testid="stDialog"] {{ color-scheme: {theme}; }}</style>')
    st.logo(str(_STATIC / f"logo-{theme}.svg"), size="large")


def title(text: str) -> None:
    """The page's own heading, and the title of the browser's tab."""
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
    """What can be taken along of a section: all rows as CSV, and what is seen as Markdown or by copying."""
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
            help=f"{plain(title)} as it is shown",
        )
        st.html('<button type="button" class="py-save py-copy-table">Copy table</button>')


@contextmanager
def expander(title: str) -> Generator[None]:
    """What opens with a click; an export has it under its title."""
    page_recorder.note("html", f"<h3>{escape(title)}</h3>")
    with st.expander(title):
        yield


def table(shown: DataTable[Any]) -> None:
    """A table, which the page's Markdown has too; a click on a column's head sorts it."""
    page_recorder.table(shown)
    st.html(_tame(shown.html(sortable=True)))


def table_section(title: str, shown: DataTable[Any], file_name: str, about: str = "") -> None:
    """A section that holds a table and nothing else; none for a table without rows."""
    if shown.rows:
        heading(title, shown, file_name, about)
        table(shown)


def csv(frame: pd.DataFrame) -> bytes:
    """A table as CSV as in RFC 4180, in which no text starts a spreadsheet's formula, nor a column's name."""
    safe = frame.map(lambda value: cell(value) if isinstance(value, str) else value).rename(columns=cell)
    if len(safe.columns):
        safe = pd.concat([_whole(safe.iloc[:, place]) for place in range(len(safe.columns))], axis=1)
    # Of line ends in a text only those are quoted that end a row: with CR LF both are.
    return safe.to_csv(index=False, lineterminator="\r\n").encode()


def _whole(column: pd.Series) -> pd.Series:
    """Whole numbers as such: for a gap among them pandas keeps them as floats, and `12` would be `12.0`."""
    known = column.dropna()
    if column.dtype != "float64" or len(known) in (0, len(column)):
        return column
    # Beyond 2**53 a float is no longer one whole number.
    return column.astype("Int64") if ((known % 1 == 0) & (known.abs() < 2**53)).all() else column


def html(body: str) -> None:
    """HTML as `markup` writes it, which the page's Markdown has too."""
    page_recorder.note("html", body)
    st.html(_tame(body))


def link(address: str, text: str) -> None:
    """A line that leads to another view."""
    html(f"<p>{markup.link(address, text)}</p>")


def caption(words: str, about: str = "") -> None:
    """Small print of twelve words or fewer, in Streamlit's Markdown; `about` is the rest, behind an (i)."""
    page_recorder.note("words", f"{words} {about}".strip())
    st.caption(words, help=about or None)


def code(text: str) -> None:
    """What is typed, or what a program wrote; it scrolls when it is long."""
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
    """A chart of named data, and buttons that save it; `alt` says in words what it shows.

    `sets` are more data, whose names depend on what there is. It is saved under `file_name` (without an
    ending), or under the name of its section's CSV file, headed by its section, what the page is about (see
    `subject`) and `count`, how much was measured.
    """
    name = page_recorder.chart_name(file_name)
    page_recorder.note("chart", alt)
    data = charts.with_data(spec, **(sets or {}), **frames)
    # Its room is there before its program is: what stands below does not jump. Panels below each other have
    # no height of their own.
    height = spec.get("height", "content")
    st.vega_lite_chart(spec=data, alt=alt, width="stretch", height=height)
    title, subject = page_recorder.chart_title()
    st.html(markup.chart_buttons(alt, name, title, " · ".join(filter(None, (subject, count)))))


def subject(*words: str) -> None:
    """What is measured in the charts that follow, for the head of their pictures: hardware, PyTorch."""
    page_recorder.set_subject(*words)


def complain(complaints: Sequence[str]) -> None:
    """Complaints about values of the address that cannot be shown; of very many the first."""
    lines = [each if len(each) <= _SIGNS else f"{each[:_SIGNS]} …" for each in complaints[:_COMPLAINTS]]
    if (more := len(complaints) - _COMPLAINTS) > 0:
        lines.append(f"And {more:,} more like these.")
    for complaint in lines:
        page_recorder.note("complaint", complaint)
        st.warning(plain(complaint))


def which(shared: SharedLabel, path: str, measured: Mapping[str, str]) -> None:
    """Ask which thing of one label the page at `path` is to show, in place of the numbers of any.

    `measured` says of hardware (fingerprints) where and when it was measured last.
    """
    kind = "hardware" if shared.name == "to" else shared.name
    several = "kinds of hardware" if kind == "hardware" else f"{kind}s"
    words = plain(f"{len(shared.fingerprints)} {several} are called {shared.label}:")
    entries: list[str] = []
    for each in shared.fingerprints:
        text = ", ".join(filter(None, (with_fingerprint(shared.label, each), measured.get(each))))
        address = links.view(path, {**query(), shared.name: [links.short(each)]})
        entries.append(f"<li>{markup.link(address, text)}</li>")
    with empty_state(f"Which {kind}?"):
        page_recorder.note("words", words)
        st.write(words)
        html(f"<ul>{''.join(entries)}</ul>")


def permanent_link(address: str) -> None:
    """A link to what is shown, at the `address` that shows the same thing tomorrow."""
    page_recorder.pin(address)
    st.html(f'<p class="py-pinned">{markup.link(address, "Permanent link to this view")}</p>')


def plain(text: str) -> str:
    """Text from any source, such as an address or a device's name, for where Streamlit expects Markdown."""
    # Addresses become links even where their signs are escaped: a sign of no width keeps them apart.
    unlinked = re.sub(r"(?i)www(?=\.)|:(?=//)|@", "\\g<0>\u2060", printable(text))
    return re.sub(r"([\\`*_\[\]$:~<>#&|])", r"\\\1", unlinked)


def select(label: str, name: str, options: Mapping[str, str], chosen: View) -> None:
    """A choice of one for the field `name`; `options` maps values to labels."""
    key = _own(name, getattr(chosen, name))
    st.selectbox(
        label,
        list(options),
        format_func=lambda value: _tame(options[value]),
        key=key,
        on_change=_write,
        args=(chosen, name),
    )


def segments(
    label: str, name: str, options: Mapping[str, str], chosen: View, widget: str = "", *, tabs: bool = False
) -> None:
    """A choice of one among few, all in sight; a second one of the same field has a `widget` name.

    `tabs`: the options speak for themselves, and the label is for screen readers.
    """
    key = _own(widget or name, getattr(chosen, name))
    st.segmented_control(
        label,
        list(options),
        format_func=lambda value: _tame(options[value]),
        key=key,
        required=True,
        label_visibility="collapsed" if tabs else "visible",
        on_change=_write,
        args=(chosen, name, widget),
    )


def field(label: str, name: str, chosen: View, most: int) -> None:
    """A field for a text of up to `most` characters."""
    key = _own(name, getattr(chosen, name))
    st.text_input(label, key=key, max_chars=most, on_change=_write, args=(chosen, name))


def several(label: str, name: str, options: Mapping[str, str], chosen: View, most: int) -> None:
    """A choice of up to `most`."""
    key = _own(name, list(getattr(chosen, name)))
    st.multiselect(
        label,
        list(options),
        format_func=lambda value: _tame(options[value]),
        key=key,
        max_selections=most,
        on_change=_write,
        args=(chosen, name),
    )


@dataclass(frozen=True, slots=True)
class ChosenView(View):
    """The view of a page, by its name."""

    view: str


def views(path: str, shown: Mapping[str, Callable[[], None]]) -> None:
    """The page at `path`: the choice of its views, and the one that the address names, `shown` by name."""
    page = page_at(path)
    view, complaints = page.chosen_view(query())
    complain(complaints)
    segments("View", VIEW, {each.name: each.title for each in page.views}, ChosenView(view.name), tabs=True)
    shown[view.name]()


def query() -> Query:
    """The query of this page's URL."""
    return sanitise_query({name: st.query_params.get_all(name) for name in st.query_params})


def nothing_measured() -> None:
    """The page of an empty database: what to type."""
    with empty_state("Nothing measured yet"):
        st.write("The database is empty. This measures ten small cases and takes a few minutes:")
        st.html(markup.code("pyrometer run --suite smoke"))
        st.caption("Then load this page again; a run shows up while it runs.")


def no_match(runs: int, heading: str, words: str, command: str) -> None:
    """The page of a database whose `runs` have no results for it; `words` say why, `command` makes some."""
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
        st.caption("Nothing is lost by waiting: load this page again later.")


@contextmanager
def empty_state(heading: str) -> Generator[None]:
    """A page that has nothing but a few words to show."""
    with st.container(horizontal_alignment="center"), st.container(width=560):
        st.html(f'<h2 class="py-empty">{escape(heading)}</h2>')
        yield


def _tame(body: str) -> str:
    # str.translate takes 8 ms for 100 KiB as soon as one sign is not ASCII; this 0.4.
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", body)


def _own(name: str, value: object) -> str:
    """Set the widget of field `name` to what the URL says: the URL is the only place a selection lives."""
    key = f"choose-{name}"
    st.session_state[key] = value
    return key


def _write(chosen: View, name: str, widget: str = "") -> None:
    """Write the whole selection to the URL after a widget of field `name` changed."""
    value = st.session_state[f"choose-{widget or name}"]
    changed = chosen.after(name, tuple(value) if isinstance(value, list) else value)
    page_context.remember(chosen, changed)
    view = {VIEW: st.query_params.get_all(VIEW)} if VIEW in st.query_params else {}
    st.query_params.from_dict({**view, **changed.query()})
