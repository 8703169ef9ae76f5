"""A setting whose value lies in a file of its own, so that a password stands in no variable and no image."""

import os
from collections.abc import Mapping
from pathlib import Path

from .database_url import absolute
from .errors import UnreadableFile, WrongValue
from .overrides import DATABASE_URL, DATABASE_URL_FILE


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
        # Not repeated: a URL that is written here by mistake contains a password.
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
        # Not chained: a decoder's error holds what it could not decode.
        raise UnreadableFile(f"{where} cannot be read: not UTF-8") from None
    if len(text.splitlines()) != 1:
        raise WrongValue(
            f"{where} holds {'nothing' if not text else 'several lines'}, expected one line, {what}"
        )
    return text
