"""A real Postgres server for tests: started in a folder of its own, reached by a socket, gone afterwards."""

import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from support.waiting import PATIENCE_SECONDS


def postgres_binaries() -> Path | None:
    """The folder of the newest server installed, None where there is none."""
    installed = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    if newest := max(installed, key=lambda path: int(path.parts[-3]), default=None):
        return newest.parent
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


class PostgresServer:
    """A server that listens on a socket in `folder` and nowhere else; only a `durable` one survives power."""

    def __init__(self, binaries: Path, folder: Path, *, durable: bool = False) -> None:
        self.binaries, self.folder, self._durable = binaries, folder, durable
        self._unprivileged: dict[str, Any] = {}
        if os.geteuid() == 0:  # Postgres refuses to run as root.
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            self._unprivileged = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._run("initdb", "-D", "data", "-U", "pyrometer", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        self.start()

    def start(self) -> None:
        """Start, and return when connections are accepted."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "fsync": "on" if self._durable else "off",
            # Not UTC, so that a time read back in the session's zone would be noticed.
            "timezone": "Asia/Kolkata",
        }
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.binaries / "postgres", "-D", "data", *arguments],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                **self._unprivileged,
            )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while subprocess.run([self.binaries / "pg_isready", "-q", "-h", self.folder]).returncode:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop and throw out who is connected."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(PATIENCE_SECONDS)

    def url(self, database: str) -> str:
        return f"postgresql://pyrometer@/{database}?host={self.folder}"

    def execute(self, statement: str) -> None:
        """One statement as the superuser, outside a transaction."""
        # Not connected to `postgres`, which new databases are copied from.
        with psycopg.connect(self.url("template1"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def new_database(self, template: str = "template0") -> str:
        """The URL of an unused database."""
        name = f"test_{uuid4().hex}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database, also with open connections."""
        name = url.partition("@/")[2].partition("?")[0]
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self.binaries / program, *arguments],
            cwd=self.folder,
            check=True,
            stdout=subprocess.DEVNULL,
            **self._unprivileged,
        )
