"""A whole page as Markdown for an issue: its address, its moment, every section as it was shown."""

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlencode, urljoin

import pandas as pd

from analysis import markdown
from dashboard import wording
from dashboard.exports import prose
from dashboard.exports.shown import Piece, Shown

#: Lines of a log that are kept: its end.
_LOG_LINES = 40
#: Columns of a table that Markdown keeps: nobody reads forty in an issue.
_MOST_COLUMNS = 12


def address(home: str, query: dict[str, list[str]], pinned: str) -> str:
    """Where the view is found: the page's own `pinned` address if it has one, else what the browser shows."""
    if pinned:
        return urljoin(home, pinned)
    return home + (f"?{urlencode(query, doseq=True)}" if query else "")


def of_page(shown: Shown, address: str, moment: datetime) -> str:
    """The page that `address` shows, as it was at `moment`."""
    titles = [piece.text for piece in shown.pieces if piece.kind == "title"]
    where = f"[{markdown.text(address)}]({address})" if address.startswith("http") else markdown.text(address)
    blocks = [
        f"# {markdown.text((titles or [shown.page])[-1])}",
        f"{where}, as of {wording.utc(moment)}",
    ]
    sections: list[list[Piece]] = [[]]
    for piece in shown.pieces:
        if piece.kind == "heading":
            sections.append([])
        sections[-1].append(piece)
    for section in sections:
        blocks += _section(section, address)
    return prose.joined(blocks) + "\n"


def _section(pieces: Sequence[Piece], home: str) -> list[str]:
    blocks = [text for piece in pieces if (text := _piece(piece, home))]
    frame = pieces[0].frame if pieces else None
    # A table is told as it was shown; one that only Streamlit can draw, as its CSV file has it.
    if frame is not None and not any(piece.kind == "html" and "<table" in piece.text for piece in pieces):
        blocks += _rows(frame())
    return blocks


def _piece(piece: Piece, home: str) -> str:
    match piece.kind:
        case "title":
            return ""
        case "heading":
            return f"## {prose.of_words(piece.text)}"
        case "html":
            return prose.of_html(piece.text, home)
        case "words":
            return prose.of_words(piece.text)
        case "chart":
            return f"> Chart: {markdown.text(piece.text)}"
        case "complaint":
            return f"> ! {markdown.text(piece.text)}"
        case "code":
            return _code(piece.text)


def _code(text: str) -> str:
    lines = text.splitlines()
    left = f"the last {_LOG_LINES} of {len(lines):,} lines:\n\n" if len(lines) > _LOG_LINES else ""
    return left + markdown.fenced("\n".join(lines[-_LOG_LINES:]))


def _rows(frame: pd.DataFrame) -> list[str]:
    if frame.empty:
        return []
    shown = frame.iloc[: prose.MOST_ROWS, :_MOST_COLUMNS]
    rows = [[markdown.text(str(name)) for name in shown.columns]]
    rows += [[_cell(value) for value in row] for row in shown.itertuples(index=False, name=None)]
    found = [prose.table(rows, max(0, len(frame) - prose.MOST_ROWS))]
    if (more := frame.shape[1] - _MOST_COLUMNS) > 0:
        found.append(f"and {more:,} more columns, which the CSV file has")
    return found


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return wording.NONE if pd.isna(value) else wording.utc(value)
    if isinstance(value, float):
        return wording.NONE if pd.isna(value) else wording.significant(value, 4)
    return wording.NONE if value is None or value is pd.NA else markdown.text(str(value))
