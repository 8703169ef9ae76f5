"""What a file tells without being read whole: how it begins, and when it was made."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from .errors import BadFile, SourcePlace

#: What is said of a run whose file tells no time.
NO_TIME = "no time is told: the file's modification time stands for it"
#: What is read of a file to tell its format.
_HEAD = 1 << 16
#: Digits that may be a date, with two hyphens or none, and a time behind it.
_TIME = re.compile(
    r"(?<![0-9A-Za-z])(20\d\d)(-?)([01]\d)\2([0-3]\d)"
    r"(?:[-_T]?([01]\d|2[0-3])([-:]?)([0-5]\d)\6([0-5]\d))?(?![0-9A-Za-z])"
)
#: A name tells the time of some place, and it is read as UTC: no place on Earth is further ahead.
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
    """When a file was made, by its name or else by its modification time; which, in a sentence; whether told.

    A modification time is not told: every copy of the file has another. Raises BadFile where there is none.
    `now` is that of `times_in`.
    """
    for _, moment in times_in(path.stem, now):
        return moment, "the time is that of the file's name, as UTC", True
    try:
        modified = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
    except (OSError, OverflowError, ValueError) as error:
        raise BadFile(SourcePlace(path.name), f"has no time: {error}") from None
    return modified, NO_TIME, False
