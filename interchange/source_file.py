"""Files of other tools: bounded, never executed; an error names file, line and field."""

import csv
import hashlib
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from records.json_values import SHOWN, JsonValue

from .errors import BadFile, SourcePlace

#: Larger files are refused: they are read whole. A text that is not plain ASCII takes four times its size.
MAX_BYTES, _MOST_OTHER = 32 << 20, 8 << 20
#: A JSON document has at most so many lists and objects, quotation marks and commas, and a table so many
#: cells: as Python objects they take many times their size in the file.
_MOST_CONTAINERS, _MOST_QUOTES, _MOST_COMMAS = 100_000, 1_000_000, 1_500_000
MOST_CELLS = 80_000
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")

#: No benchmark is older; seconds that are taken for milliseconds are.
_FIRST_YEAR = 2000


@dataclass(frozen=True, slots=True)
class Value(JsonValue):
    """A value out of a file with its place; reading it as another type raises BadFile."""

    place: SourcePlace


def refuse_streams(path: Path, place: SourcePlace) -> None:
    """Raises BadFile for what is neither a file nor a folder: a pipe hangs, and what it gave is gone."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        # The reader that opens it says why.
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise BadFile(place, "is a pipe or a device: write it to a file, and import that")


def text_of(path: Path, name: str = "") -> str:
    """The content of a file of at most `MAX_BYTES` in UTF-8, without a byte order mark; raises BadFile.

    Errors call the file by `name`, by its own where that is empty: many files of a folder share one.
    """
    place = SourcePlace(name or path.name)
    refuse_streams(path, place)
    try:
        with path.open("rb") as file:
            # Only what is there: `read` makes room for all that it is asked for.
            size = os.fstat(file.fileno()).st_size
            content = file.read(min(size, MAX_BYTES) + 1)
    except OSError as error:
        raise BadFile(place, error.strerror or str(error)) from None
    if len(content) > MAX_BYTES:
        raise BadFile(place, f"is larger than {MAX_BYTES >> 20} MiB")
    if len(content) > size:
        raise BadFile(place, "grew while it was read")
    if len(content) > _MOST_OTHER and not content.isascii():
        raise BadFile(place, f"is larger than {_MOST_OTHER >> 20} MiB and not plain ASCII")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(place, f"is no UTF-8 text: {error.reason} at byte {error.start}") from None


def text_lines(text: str) -> Iterator[str]:
    """The lines of a text with their breaks, one by one: as a file in memory it takes four times its size."""
    return (found[0] for found in _LINE.finditer(text))


def refuse_much(text: str, place: SourcePlace) -> None:
    """Raises BadFile for JSON, one document or many, that would take more memory than an import may."""
    if len(text) > MAX_BYTES:
        raise BadFile(place, f"is a JSON document larger than {MAX_BYTES >> 20} MiB")
    containers = text.count("[") + text.count("{")
    if containers > _MOST_CONTAINERS or text.count('"') > _MOST_QUOTES or text.count(",") > _MOST_COMMAS:
        raise BadFile(place, "holds more lists, objects or values than 256 MiB of memory have room for")


def json_of(text: str, place: SourcePlace) -> Value:
    """A JSON document of at most `MAX_BYTES`; raises BadFile, also for an object that has a key twice.

    `NaN` and `Infinity` are read, and are no numbers (`Value.number`).
    """
    refuse_much(text, place)

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise BadFile(place, f"has the key {_first_twice(name for name, _ in pairs)} twice in one object")
        return found

    try:
        return Value(json.loads(text, object_pairs_hook=members), place)
    except json.JSONDecodeError as error:
        # In a document of one line, as in a file of lines, the line is the caller's to know.
        line = place.line or error.lineno
        where = SourcePlace(place.file, line, f"column {error.colno}")
        raise BadFile(where, f"is no JSON: {error.msg}") from None
    except RecursionError:
        raise BadFile(place, "is nested too deep") from None
    except ValueError as error:
        # An integer of thousands of digits.
        raise BadFile(place, str(error).split(";")[0]) from None


def _first_twice(names: Iterable[str]) -> str:
    """The first name that is there again, as JSON and not too long."""
    name = next(name for name, n in Counter(names).items() if n > 1)
    text = json.dumps(name)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def csv_cells(text: str, name: str) -> Iterator[tuple[SourcePlace, list[str], bool]]:
    """The cells of each row of a CSV file, at the line where the row ends; raises BadFile.

    And whether that line has an end: else more of it may come, also of its last number.
    """
    cut = 0 if text.endswith(("\n", "\r")) else sum(1 for _ in text_lines(text))
    reader = csv.reader(text_lines(text), strict=True)
    cells_read = 0
    try:
        for row in reader:
            place = SourcePlace(name, reader.line_num)
            cells_read += len(row)
            if cells_read > MOST_CELLS:
                raise BadFile(place, f"is a table of more than {MOST_CELLS:,} cells")
            yield place, row, reader.line_num != cut
    except csv.Error as error:
        raise BadFile(SourcePlace(name, reader.line_num), f"is no CSV: {error}") from None


#: Of a row at the end of a file.
NO_END = (
    "has no end of line, so its last number may be cut short: if the file is whole, end it with a line break "
    "and import it again"
)


def csv_rows(text: str, name: str, aside: Callable[[SourcePlace, str], None]) -> Iterator[dict[str, Value]]:
    """The rows of a CSV file by the names in its first row; raises BadFile for a row that is too long.

    Cells are texts. A cell that is empty is left out, and so is a row that is cut short or whose line has no
    end, which may be so in the midst of a number: `aside` hears of it.
    """
    header: list[str] = []
    for place, row, ended in csv_cells(text, name):
        if not header:
            header = [column.strip() for column in row]
            refuse_twice(header, place)
            continue
        if len(row) > len(header):
            raise BadFile(place, f"has {len(row)} cells under a header of {len(header)}")
        if row and len(row) < len(header):
            aside(place, f"is cut short: {len(row)} cells under a header of {len(header)}")
            continue
        if not ended:
            aside(place, NO_END)
            continue
        cells = zip(header, row, strict=False)
        if found := {column: Value(cell, place.at(column)) for column, cell in cells if cell.strip()}:
            yield found


def refuse_twice(header: Iterable[str], place: SourcePlace) -> None:
    """Raises BadFile for a name that two columns have; what has no name is not read."""
    names = [column for column in header if column]
    if len(set(names)) < len(names):
        raise BadFile(place, f"has two columns {_first_twice(names)}")


def text_or_empty(at: Value | None, name: str) -> str:
    """The text of a member; empty where there is no such member, or it is no text."""
    member = at.get(name) if at else None
    return member.value if member and isinstance(member.value, str) else ""


def number_in(cell: Value) -> float:
    """The number written in a cell of a CSV file; raises BadFile.

    Python reads `1_5` and the digits of every script; no table writes those.
    """
    if not str(cell.value).isascii() or "_" in str(cell.value):
        raise cell.wrong("a number")
    try:
        return Value(float(cell.value), cell.place).number()
    except ValueError:
        raise cell.wrong("a number") from None


def number_or_none(cell: Value) -> float | None:
    """The number in a cell; None where there is none."""
    try:
        return number_in(cell)
    except BadFile:
        return None


#: The note of a run whose file states no time.
NO_TIME = "the file states no time: its modification time is used"
#: Bytes read of a file to recognise its format.
_HEAD = 1 << 16
#: Digits that may be a date, with two hyphens or none, and a time behind it.
_TIME = re.compile(
    r"(?<![0-9A-Za-z])(20\d\d)(-?)([01]\d)\2([0-3]\d)"
    r"(?:[-_T]?([01]\d|2[0-3])([-:]?)([0-5]\d)\6([0-5]\d))?(?![0-9A-Za-z])"
)
#: A name states a local time, which is read as UTC: no time zone is further ahead.
_AHEAD = timedelta(hours=14)


def head(path: Path) -> str:
    """The beginning of a file as text; empty where there is none to read. Never raises."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_HEAD).decode("utf-8-sig", errors="replace")
    except (OSError, ValueError):
        return ""


def times_in(text: str, now: datetime | None = None) -> Iterator[tuple[tuple[int, int], datetime]]:
    """Where in a name a date stands, perhaps with a time, and which moment that is, as UTC; in order.

    What is on no calendar, and what is still to come, is no date but a size or a number. `now` is the clock's
    time where it is None.
    """
    latest = (now or datetime.now(UTC)) + _AHEAD
    start = 0
    while match := _TIME.search(text, start):
        moment = _moment(match)
        if moment is None or moment > latest:
            start = match.start() + 1
        else:
            yield match.span(), moment
            start = match.end()


def _moment(match: re.Match[str]) -> datetime | None:
    numbers = (int(match[group] or 0) for group in (1, 3, 4, 5, 7, 8))
    try:
        return datetime(*numbers, tzinfo=UTC)
    except ValueError:
        return None


def made_at(path: Path, now: datetime | None = None) -> tuple[datetime, str, bool]:
    """When a file was made; a note that says how that is known; and whether the file states it.

    The time is that in the file's name, or else the modification time, which every copy of a file has another
    of and which is not stated. Raises BadFile where there is none. `now` is that of `times_in`.
    """
    for _, moment in times_in(path.stem, now):
        return moment, "the time is that of the file's name, as UTC", True
    try:
        modified = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
    except (OSError, OverflowError, ValueError) as error:
        raise BadFile(SourcePlace(path.name), f"has no time: {error}") from None
    return modified, NO_TIME, False


def identity_of(path: Path, text: str, *, dated: bool) -> str:
    """What distinguishes a file from others of its format: its content, or its name where that states a time.

    Such a file is the same one when it has grown.
    """
    return path.name if dated else hashlib.sha256(text.encode()).hexdigest()


def identity_of_table(path: Path, text: str, *, dated: bool) -> str:
    """As `identity_of`, of a file of lines: it is the same one with the line break that its end lacks."""
    ends = "\r\n" if "\r\n" in text else "\n"
    return identity_of(path, text if text.endswith(("\n", "\r")) else text + ends, dated=dated)


def moment(at: Value, seconds: float) -> datetime:
    """The time that many seconds after 1970 began, in UTC; raises BadFile for none on the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise at.wrong("a time since 1970") from None


def moment_in_milliseconds(at: Value) -> datetime:
    """The time that many milliseconds after 1970 began; raises BadFile for one before the year 2000."""
    found = moment(at, at.number() / 1e3)
    if found.year < _FIRST_YEAR:
        raise BadFile(at.place, f"is in the year {found.year}: seconds, not milliseconds?")
    return found


def in_utc(text: str) -> datetime:
    """The time of an ISO 8601 text, in UTC, in which it is where it has no zone.

    Raises ValueError or OverflowError for what is none.
    """
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


def moment_in(at: Value) -> datetime:
    """The time of an ISO 8601 text, in UTC; without a zone it is read as UTC. Raises BadFile."""
    try:
        return in_utc(at.text())
    except (ValueError, OverflowError):
        raise at.wrong("a time such as 2026-11-21T20:15:00+00:00") from None
