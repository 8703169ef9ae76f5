"""Files of strangers: bounded, never run, and wrong in one sentence that names file, line and field."""

import csv
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from .errors import BadFile, Place

#: Larger files are refused: they are read whole.
MAX_BYTES = 256 << 20
#: Longer texts in an error are cut.
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class At:
    """A value out of a JSON document with its place; asked for what it is not, it raises BadFile."""

    value: Any
    place: Place

    def object(self) -> dict[str, "At"]:
        """The members of an object."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        members = cast("dict[str, Any]", self.value)
        return {name: At(value, self.place.at(name)) for name, value in members.items()}

    def list(self) -> "list[At]":
        """The elements of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        elements = cast("list[Any]", self.value)
        return [At(value, self.place.at(f"[{number}]")) for number, value in enumerate(elements)]

    def get(self, name: str) -> "At | None":
        """A member of an object; None where it is missing or null."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        value = cast("dict[str, Any]", self.value).get(name)
        return None if value is None else At(value, self.place.at(name))

    def need(self, name: str) -> "At":
        """A member of an object that has to be there."""
        member = self.get(name)
        if member is None:
            raise BadFile(self.place.at(name), "is missing")
        return member

    def text(self) -> str:
        """A text that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            raise self.wrong("a text")
        return self.value

    def number(self) -> float:
        """A finite number; true and false are none."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong("a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.wrong("a finite number")
        return number

    def wrong(self, expected: str) -> BadFile:
        """The error of a value that is not what was `expected`."""
        shown = json.dumps(self.value, default=str) if not isinstance(self.value, dict | list) else ""
        found = shown or ("an object" if isinstance(self.value, dict) else "a list")
        found = found if len(found) <= _SHOWN else f"{found[:_SHOWN]}..."
        return BadFile(self.place, f"expected {expected}, found {found}")


def bytes_of(path: Path) -> bytes:
    """The content of a file of at most `MAX_BYTES`; raises BadFile."""
    place = Place(path.name)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadFile(place, error.strerror or str(error)) from None
    if len(content) > MAX_BYTES:
        raise BadFile(place, f"is larger than {MAX_BYTES >> 20} MiB")
    return content


def text_of(path: Path) -> str:
    """The content of a file in UTF-8, without a byte order mark; raises BadFile."""
    try:
        return bytes_of(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(Place(path.name), f"is no UTF-8 text: {error.reason} at byte {error.start}") from None


def json_of(text: str, place: Place) -> At:
    """A JSON document; raises BadFile. `NaN` and `Infinity` are read, and are no numbers (`At.number`)."""
    try:
        return At(json.loads(text), place)
    except json.JSONDecodeError as error:
        # In a document of one line, as in a file of lines, the line is the caller's to know.
        line = place.line or error.lineno
        where = Place(place.file, line, f"column {error.colno}")
        raise BadFile(where, f"is no JSON: {error.msg}") from None
    except RecursionError:
        raise BadFile(place, "is nested too deep") from None
    except ValueError as error:
        # An integer of thousands of digits.
        raise BadFile(place, str(error).split(";")[0]) from None


def json_lines(text: str, name: str) -> Iterator[At]:
    """The JSON document on each line that is not empty; raises BadFile at the first that is none."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield json_of(line, Place(name, number))


def csv_rows(text: str, name: str) -> Iterator[dict[str, At]]:
    """The rows of a CSV file by the names in its first row; raises BadFile for a row that is too long.

    Cells are texts, at the line where their row ends. A cell that is missing or empty is left out.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    try:
        for row in reader:
            place = Place(name, reader.line_num)
            if not header:
                header = [column.strip() for column in row]
                continue
            if len(row) > len(header):
                raise BadFile(place, f"has {len(row)} cells under a header of {len(header)}")
            cells = zip(header, row, strict=False)
            if found := {column: At(cell, place.at(column)) for column, cell in cells if cell.strip()}:
                yield found
    except csv.Error as error:
        raise BadFile(Place(name, reader.line_num), f"is no CSV: {error}") from None


def number_in(cell: At) -> float:
    """The number written in a cell of a CSV file; raises BadFile."""
    try:
        return At(float(cell.value), cell.place).number()
    except ValueError:
        raise cell.wrong("a number") from None
