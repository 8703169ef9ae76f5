"""Finds the settings file, reads it as TOML, and reads values that are stored in separate files."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.bounded_files import NestedTooDeep, bounded_bytes, toml_tables

from .database_url import absolute
from .errors import UnreadableFile, WrongValue
from .overrides import CONFIG, DATABASE_URL, DATABASE_URL_FILE

FILE_NAME = "pyrometer.toml"
#: The largest settings file: the tables of a larger one take too much memory as Python objects.
_MOST_BYTES = 1 << 20


def find_file(path: Path | None, cwd: Path, environ: Mapping[str, str]) -> Path | None:
    """`path`, else PYROMETER_CONFIG, else `pyrometer.toml` in `cwd` if it exists; absolute.

    Raises UnreadableFile if a requested file does not exist.
    """
    name = path or environ.get(CONFIG) or None
    if name is None:
        file = cwd / FILE_NAME
        return file if os.path.lexists(file) else None
    file = absolute(name, cwd)
    if not file.exists():
        by = "" if path else f" ({CONFIG})"
        raise UnreadableFile(f"{name}{by} does not exist")
    return file


def read_file(file: Path, label: str, content: bytes | None = None) -> dict[str, Any]:
    """The file's tables; raises UnreadableFile with the line where TOML is malformed.

    With `content` the file is not read: it is taken to contain that text.
    """
    try:
        content = bounded_bytes(file, _MOST_BYTES) if content is None else content
    except OSError as error:
        raise UnreadableFile(f"{label} cannot be read: {error.strerror}") from error
    try:
        # Editors on other systems begin a file with a byte order mark; TOML does not.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UnreadableFile(f"{label}, line {line}: not UTF-8") from error
    try:
        return toml_tables(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableFile(_format_syntax_error(str(error), text, label)) from error
    except NestedTooDeep as error:
        raise UnreadableFile(f"{label}: {error}") from error


def _format_syntax_error(message: str, text: str, label: str) -> str:
    """Turn `Expected '=' after a key (at line 3, column 5)` into a sentence that begins with the line."""
    at = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    line = at[1] if at and at[1] else text.count("\n") + 1
    what = message[: at.start()] if at else message
    return f"{label}, line {line}: {what[:1].lower()}{what[1:]}"


def label_of(file: Path, cwd: Path) -> str:
    """The file's path for messages: relative to the current folder if it lies below it."""
    return str(file.relative_to(cwd)) if file.is_relative_to(cwd) else str(file)


def with_secrets(environ: Mapping[str, str], cwd: Path) -> Mapping[str, str]:
    """`environ` with the text of the file that PYROMETER_DATABASE_URL_FILE names in place of the name.

    White space around the text is left out; a relative name counts from `cwd`. Raises UnreadableFile for a
    file that cannot be read and WrongValue for one without a single line of text, or given with
    PYROMETER_DATABASE_URL. No error repeats what may be a password.
    """
    named = environ.get(DATABASE_URL_FILE, "")
    if not named:
        return environ
    if environ.get(DATABASE_URL):
        raise WrongValue(f"{DATABASE_URL} and {DATABASE_URL_FILE} are both set; unset one of them")
    if "://" in named:
        # The value is not repeated: a URL that is written here by mistake may contain a password.
        raise WrongValue(
            f"{DATABASE_URL_FILE} holds a URL, expected the path of a file; a URL belongs into {DATABASE_URL}"
        )
    text = one_line(absolute(named, cwd), f"{named} ({DATABASE_URL_FILE})", "a URL")
    return {**environ, DATABASE_URL_FILE: text}


def one_line(file: Path, where: str, what: str) -> str:
    """The one line of a file, without white space around it; `where` names the file, `what` the line.

    Raises UnreadableFile for a file that cannot be read and WrongValue for one without a single line of text;
    neither repeats what may be a password.
    """
    try:
        text = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UnreadableFile(f"{where} cannot be read: {os.strerror(error.errno or 0)}") from error
    except ValueError:
        # Not chained: the decoder's error contains the undecodable text.
        raise UnreadableFile(f"{where} cannot be read: not UTF-8") from None
    if len(text.splitlines()) != 1:
        raise WrongValue(
            f"{where} holds {'nothing' if not text else 'several lines'}, expected one line, {what}"
        )
    return text
