"""What a file tells without being read whole: how it begins, and when it was made."""

import re
from datetime import UTC, datetime
from pathlib import Path

from .errors import BadFile, Place

#: What is said of a run whose file tells no time.
NO_TIME = "no time is told: the file's modification time stands for it"
#: What is read of a file to tell its format.
_HEAD = 1 << 16
_TIME = re.compile(
    r"(?<![0-9A-Za-z])(20\d\d)-?([01]\d)-?([0-3]\d)(?:[-_T]?([0-2]\d)[-:]?([0-5]\d)[-:]?([0-5]\d))?(?![0-9A-Za-z])"
)


def head(path: Path) -> str:
    """The beginning of a file as text; empty where there is none to read. Never raises."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_HEAD).decode("utf-8-sig", errors="replace")
    except (OSError, ValueError):
        return ""


def made_at(path: Path) -> tuple[datetime, str, bool]:
    """When a file was made, by its name or else by its modification time; which, in a sentence; whether told.

    A modification time is not told: every copy of the file has another. Raises BadFile where there is none.
    """
    if match := _TIME.search(path.stem):
        year, month, day, *clock = (int(part) for part in match.groups(default="0"))
        try:
            moment = datetime(year, month, day, *clock, tzinfo=UTC)
            return moment, "the time is that of the file's name, as UTC", True
        except ValueError:
            pass
    try:
        modified = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
    except (OSError, OverflowError, ValueError) as error:
        raise BadFile(Place(path.name), f"has no time: {error}") from None
    return modified, NO_TIME, False
