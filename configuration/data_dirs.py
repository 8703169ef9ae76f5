"""The data folder in use: that of the settings, or the user's state folder if it cannot be written."""

import errno
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .database_url import anchor_url, sqlite_file
from .errors import UnwritablePlace
from .overrides import PREFIX
from .settings import Settings, state_folder

#: Errors after which the folder is still used, such as a full disk: another folder would show an empty
#: database.
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class DataDirs:
    """The folders and the database in use. `notes` has one sentence for each that replaces the configured
    one.

    `database_url` may hold a password; it is not for printing.
    """

    data_dir: Path
    database_url: str
    notes: tuple[str, ...]


def resolve_places(
    settings: Settings, *, reading: bool = False, environ: Mapping[str, str] | None = None
) -> DataDirs:
    """The folders to write to, tested by writing; the result depends only on the settings and the file
    system.

    Creates the data folder and the SQLite file's folder. A default place that cannot be written is replaced
    by `$XDG_STATE_HOME/pyrometer` (default `~/.local/state/pyrometer`). Raises UnwritablePlace when a chosen
    place cannot be written, or when neither can. With `reading` an existing, readable SQLite file need not be
    writable, unless it is the default one and the state folder has a database that replaces it; neither need
    a data folder that cannot be replaced.
    """
    environ = os.environ if environ is None else environ
    notes: list[str] = []
    data_dir = settings.data_dir
    if refusal := _refusal(data_dir):
        try:
            data_dir = _instead("data_dir", data_dir, refusal, settings, environ)
            notes.append(_note("data", settings.data_dir, refusal, data_dir, "DATA_DIR"))
        except UnwritablePlace:
            if not (reading and os.access(data_dir, os.R_OK | os.X_OK)):
                raise
    database_url = settings.database_url
    file = sqlite_file(database_url)
    if reading and file and os.access(file, os.R_OK) and not _replaced(file, settings, environ):
        return DataDirs(data_dir, database_url, tuple(notes))
    if file and (refusal := _refusal(file.parent) or _file_refusal(file)):
        state = _instead("database_url", file, refusal, settings, environ)
        database_url = anchor_url(f"sqlite:///{file.name}", state)
        notes.append(_note("the database", file, refusal, state / file.name, "DATABASE_URL"))
    return DataDirs(data_dir, database_url, tuple(notes))


def _replaced(file: Path, settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether the state folder has a database that replaces the default one."""
    return "database_url" not in settings.explicit and (state_folder(environ) / file.name).exists()


def environments_folder(settings: Settings, data_dir: Path) -> Path:
    """Where environments are built, for commands whose data folder in use is `data_dir`."""
    return settings.environments_dir if data_dir == settings.data_dir else data_dir / "environments"


def _instead(field: str, place: Path, refusal: str, settings: Settings, environ: Mapping[str, str]) -> Path:
    """The state folder; raises UnwritablePlace if it may not or cannot replace the configured folder."""
    variable = PREFIX + field.upper()
    if field in settings.explicit:
        raise UnwritablePlace(
            f"{field} {place} cannot be written ({refusal}): choose another with {variable}"
        )
    state = state_folder(environ)
    if place.is_relative_to(state):
        raise UnwritablePlace(f"{place} cannot be written ({refusal}): choose a place with {variable}")
    if second := _refusal(state):
        raise UnwritablePlace(
            f"neither {place} ({refusal}) nor {state} ({second}) can be written: "
            f"choose a place with {variable}"
        )
    return state


def _note(what: str, place: Path, refusal: str, taken: Path, variable: str) -> str:
    return (
        f"{place} cannot be written ({refusal}), so {what} goes to {taken}; "
        f"{PREFIX}{variable} chooses another place"
    )


def _refusal(folder: Path) -> str:
    """Why nothing can be written in `folder`, which is created if need be; empty when it can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".pyrometer-"):
            return ""
    except OSError as error:
        return "" if error.errno in _FULL else os.strerror(error.errno or errno.EIO)


def _file_refusal(file: Path) -> str:
    """Why an existing database file cannot be written; empty when it can.

    Asked, not opened: closing a file drops all locks that this process holds on it, SQLite's included
    (fcntl(2), "Record locking and file descriptors").
    """
    if file.is_dir():
        return os.strerror(errno.EISDIR)
    return os.strerror(errno.EACCES) if file.exists() and not os.access(file, os.W_OK) else ""
