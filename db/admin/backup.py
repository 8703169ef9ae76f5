"""Copies the whole database to one file while other processes read and write."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL

from common.atomic_file import remove_abandoned, replace_atomically

from ..connection.connection import at_rest, format_url, in_a_sentence, parse_url, sqlite_path
from ..errors import BackupFailed, DatabaseUnavailable

#: Pages copied in one step; Ctrl-C is handled between two steps.
_PAGES_AT_ONCE = 4096
#: Seconds to wait for the lock of another process.
_LOCK_SECONDS = 5.0
#: What can only be about the file that is written.
_OF_THE_COPY = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def back_up(url: str, target: Path, *, force: bool = False) -> int:
    """Copy the database at `url`, consistent as of one moment, to the file `target`; returns its size in
    bytes.

    The copy of an SQLite database is a database; that of a Postgres one is an archive for `pg_restore`, and
    needs `pg_dump` on PATH. The copy is checked and flushed to disk before it is renamed to `target`, so the
    target is complete or absent. An existing file is replaced only if `force` is true. Temporary files that a
    killed backup left in the folder at least an hour ago are removed. Raises BackupFailed with a remedy,
    BadDatabaseUrl and DatabaseUnavailable.
    """
    parsed = parse_url(url)
    source = sqlite_path(parsed)
    if source is not None and not source.exists():
        raise DatabaseUnavailable(f"There is no database {format_url(parsed)}.")
    with _replace_target(target, source, force) as part:
        if source is not None:
            _copy(source, part, format_url(parsed))
        else:
            _dump(parsed, part)
    return target.stat().st_size


@contextmanager
def _replace_target(target: Path, source: Path | None, force: bool) -> Generator[Path]:
    """A temporary file in the folder of `target`; it is renamed to `target` when it is flushed to disk."""
    _refuse(target, source, force)
    try:
        remove_abandoned(target.absolute().parent)
        with replace_atomically(target) as part:
            # Fails here, where the file that cannot be written is known.
            part.touch()
            yield part
            _refuse(target, source, force)
    except OSError as error:
        raise BackupFailed(f"No backup could be written to {target}: {error.strerror or error}.") from error


def _refuse(target: Path, source: Path | None, force: bool) -> None:
    if not target.absolute().parent.is_dir():
        raise BackupFailed(f"{target.absolute().parent} is not a folder: create it first.")
    if target.is_dir():
        raise BackupFailed(f"{target} is a folder: name a file in it.")
    if target.exists() and not target.is_file():
        raise BackupFailed(f"{target} is not a regular file and is not replaced: name another file.")
    if source is not None and target.exists() and target.samefile(source):
        raise BackupFailed(f"{target} is the database itself: name another file.")
    if target.with_name(f"{target.name}-wal").exists():
        # SQLite would apply the -wal file of that database to the copy.
        raise BackupFailed(f"{target} is a database that is in use: name another file.")
    if target.exists() and not force:
        raise BackupFailed(f"{target} exists already: name another file, or replace it with --force.")


def _copy(source: Path, part: Path, name: str) -> None:
    uri = f"file:{quote(str(source))}?mode=rw{'&immutable=1' if at_rest(source) else ''}"
    with (
        in_a_sentence(name),
        closing(sqlite3.connect(uri, uri=True, timeout=_LOCK_SECONDS)) as original,
        closing(sqlite3.connect(part)) as copy,
    ):
        # One step for all pages: a consistent copy, also while other processes write.
        original.execute("BEGIN")
        original.execute("SELECT count(*) FROM sqlite_master").fetchone()
        try:
            original.backup(copy, pages=_PAGES_AT_ONCE)
        except sqlite3.OperationalError as error:
            # The lowest byte of the code is the kind of error, the other bytes are details.
            if error.sqlite_errorcode & 0xFF in _OF_THE_COPY:
                raise BackupFailed(f"No backup could be written to {part.parent}: {error}.") from error
            raise
    # Immutable: SQLite does not create a -wal file next to the copy.
    with (
        in_a_sentence(str(part)),
        closing(sqlite3.connect(f"file:{quote(str(part))}?immutable=1", uri=True)) as copy,
    ):
        report = copy.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if report != "ok":
        raise BackupFailed(
            f"The copy of {name} is damaged, as the database is ({report}): see `pyrometer db check`."
        )


def _dump(url: URL, part: Path) -> None:
    program = shutil.which("pg_dump")
    if program is None:
        raise BackupFailed(
            "There is no pg_dump on PATH. Install PostgreSQL's client programs, or run where they are: "
            f"pg_dump --format=custom --file=pyrometer.dump '{format_url(url)}'"
        )
    address, secret = _address(url)
    # It does not prompt for a password, and the password is not on its command line, which all users can
    # read.
    command = [program, "--no-password", "--format=custom", f"--file={part}", f"--dbname={address}"]
    _run(command, secret, f"pg_dump could not copy {format_url(url)}")
    checker = shutil.which("pg_restore", path=os.path.dirname(program)) or shutil.which("pg_restore")
    if checker is not None:
        _run([checker, "--list", str(part)], {}, "The copy cannot be read back")


def _address(url: URL) -> tuple[str, dict[str, str]]:
    """The connection string of a Postgres URL without its password, and the variable that holds that."""
    # Imported with the first Postgres URL only: it is an extra.
    from psycopg.conninfo import make_conninfo

    _, given = url.get_dialect()().create_connect_args(url)
    named = {name: value for name, value in given.items() if "password" not in name and name != "context"}
    password = given.get("password")
    return make_conninfo("", **named), {"PGPASSWORD": str(password)} if password else {}


def _run(command: list[str], secret: dict[str, str], complaint: str) -> None:
    done = subprocess.run(
        command,
        env=os.environ | secret,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        why = done.stderr.strip().partition("\n")[0] or f"exit code {done.returncode}"
        raise BackupFailed(f"{complaint}: {why.rstrip('.')}.")
