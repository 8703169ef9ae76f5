"""How Ray's processes run on head and nodes: options, environment, token, folders, and their end."""

import importlib.util
import json
import os
import secrets
import select
import shutil
import signal
import socket
import stat
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from common.bounded_files import tail
from common.processes import SupervisedProcess
from scheduled_jobs.scheduler.child_process import PATIENCE_SECONDS
from workflows.errors import JobError

#: The custom resource of a node: it runs one order at a time.
SLOT = "node_slot"
#: Variables of the agent: the folder of the node's pyrometer.toml, and the environment of its children.
FOLDER, ENVIRONMENT = "PYROMETER_FOLDER", "PYROMETER_NODE_ENVIRONMENT"
#: The ports of a machine: the first ones for Ray's services, the rest for its workers.
PORTS, _OWN_PORTS = 100, 10
#: In Ray's log when the head refuses the token.
WRONG_TOKEN = "InvalidAuthToken"
#: The names of Ray's processes. Some outlive the rest by minutes, while they report to a head that is gone.
PROCESS_NAMES = ("ray::", "raylet", "gcs_server")
#: The path of a socket in Ray's folder has at most 107 bytes, some 65 of which are Ray's.
_LONGEST_FOLDER = 40
#: A folder with a short name in which any user may create folders.
_SHORT = Path("/tmp")
#: The logs of so many starts of Ray are kept.
_SESSIONS = 3
_STORE_BYTES = 80_000_000

_PLAIN = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A node that hangs or has lost its network is noticed within 15 seconds, not minutes.
    "RAY_grpc_client_keepalive_time_ms": "10000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
    # A node that died is known to be dead after five of these periods; one that hangs, after 50 seconds.
    "RAY_health_check_period_ms": "1000",
    # A measured process is a descendant of Ray's worker: it keeps the niceness and the OOM score of the node,
    # only the kernel kills it for memory, and every GPU is visible to it.
    "RAY_worker_niceness": "0",
    "RAY_worker_oom_score_adjustment": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
    # Our supervisor ends what an agent leaves behind, after its results are stored.
    "RAY_kill_child_processes_on_worker_exit": "0",
    "RAY_process_group_cleanup_enabled": "0",
    # Nothing of ours moves to another node.
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    # Each process of Ray has logs of its own; their size is bounded.
    "RAY_ROTATION_MAX_BYTES": "10000000",
    "RAY_ROTATION_BACKUP_COUNT": "1",
    # Less work during measurements.
    "RAY_enable_timeline": "0",
    "RAY_event_stats": "0",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_raylet_report_resources_period_milliseconds": "1000",
    "RAY_raylet_check_gc_period_milliseconds": "10000",
    "RAY_kill_idle_workers_interval_ms": "1000",
    "RAY_local_fs_monitor_interval_ms": "10000",
}
#: Variables that would override these.
_REMOVED = ("RAY_AUTH_TOKEN", "RAY_ADDRESS")
#: Prefixes of variables that hold settings of ours, and passwords of a database: every holder of the fleet's
#: token may read the environment of Ray's processes.
_OURS = ("PYROMETER_", "PG")
#: Those of them that no process on a node needs.
_SECRETS = ("PYROMETER_DATABASE", "PYROMETER_ALERTS", "PYROMETER_DASHBOARD", "PG")


class RayUnusable(JobError):
    """This machine cannot be a head or a node; the text is the reason."""


@dataclass(frozen=True, slots=True)
class RayMember:
    """A machine of a fleet.

    `ip` is its address for the other machines, `ports` the first of the PORTS that it uses, `token` the file
    with the fleet's token, `folder` the folder of Ray's sockets and logs.
    """

    ip: str
    ports: int
    token: Path
    folder: Path

    def head(self, port: int) -> list[str]:
        """The command of a head."""
        return [
            *_start(self),
            *("--head", f"--port={port}", "--include-dashboard=false", "--no-monitor"),
        ]

    def node(self, address: str, name: str, labels: Mapping[str, str]) -> list[str]:
        """The command of a node called `name` of the head at `address`, HOST:PORT."""
        pairs = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        return [
            *_start(self),
            *(f"--address={address}", f"--node-name={name}", f"--resources={json.dumps({SLOT: 1})}"),
            *([f"--labels={pairs}"] if pairs else []),
        ]


def variables(token: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process of Ray: `environ` (None: this process's) with the settings of a fleet.

    It has no variable of Pyrometer, and no password of a database.
    """
    environ = os.environ if environ is None else environ
    inherited = {
        name: value for name, value in environ.items() if name not in _REMOVED and not name.startswith(_OURS)
    }
    return {**inherited, **_PLAIN, "RAY_AUTH_TOKEN_PATH": str(token)}


def node_variables(token: Path, folder: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The same for a node, whose agent works in `folder` and starts its children with `environ`.

    Left out of it are only the secrets of a head: no process on a node needs them.
    """
    environ = os.environ if environ is None else environ
    child = {name: value for name, value in environ.items() if not name.startswith(_SECRETS)}
    # As one variable: Ray sets others in its workers (OMP_NUM_THREADS) that would change what is measured.
    own = {FOLDER: str(folder), ENVIRONMENT: json.dumps(child)}
    return {**variables(token, environ), **own}


def check_installed() -> None:
    """Raise RayUnusable where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise RayUnusable("a fleet on Ray needs Ray: install pyrometer[fleet]")


def make_token(file: Path) -> bool:
    """Create the file with the fleet's token, mode 0600; false where it exists. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as made:
            made.write(secrets.token_hex(32) + "\n")
    except FileExistsError:
        return False
    return True


def check_token(file: Path) -> None:
    """Raise RayUnusable for a token that is missing, empty, or readable by every user of this machine."""
    try:
        text = file.read_text(encoding="utf-8").strip()
        mode = file.stat().st_mode
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "not a text"
        raise RayUnusable(
            f"the fleet's token cannot be read: {file}: {why}; `pyrometer fleet head` makes it on the head, "
            "and each other machine needs a copy"
        ) from None
    if not text:
        raise RayUnusable(f"the fleet's token is empty: {file}")
    # A group may read it: clusters distribute secrets so.
    if mode & 0o007:
        raise RayUnusable(
            f"every user of this machine may read the fleet's token, and so run anything: chmod 600 {file}"
        )


def resolve(host: str) -> str:
    """The IPv4 address of a host; raises RayUnusable."""
    try:
        return socket.gethostbyname(host)
    except OSError as error:
        raise RayUnusable(f"no machine is known by the name {host}: {error.strerror or error}") from None


def check_local_address(ip: str) -> None:
    """Raise RayUnusable for an address that is not this machine's."""
    try:
        with socket.socket() as tried:
            tried.bind((ip, 0))
    except OSError:
        raise RayUnusable(f"{ip} is no address of this machine") from None


def local_address_towards(ip: str, port: int) -> str:
    """This machine's address on the way to the head; raises RayUnusable where nothing listens there."""
    try:
        with socket.create_connection((ip, port), 10.0) as there:
            return str(there.getsockname()[0])
    except OSError as error:
        raise RayUnusable(
            f"no head answers at {ip}:{port}: {error.strerror or error}; is `pyrometer fleet head` running "
            "there, and may this machine reach it?"
        ) from None


def ray_folder(data_dir: Path, role: str) -> Path:
    """The folder of Ray's sockets and logs as `role`, without those of old sessions; raises RayUnusable."""
    # Ray makes its folder readable for every user, so it lies in a private one.
    outer = data_dir / "fleet" / role
    folder = outer / "ray"
    if len(str(folder)) > _LONGEST_FOLDER:
        # Sockets have short names; a checksum keeps two data folders apart.
        private = _private(_SHORT / f"pyrometer-{os.getuid()}")
        folder = private / f"{zlib.crc32(str(outer).encode()):08x}"
    else:
        _own(outer).chmod(0o700)
    _own(folder)
    sessions = sorted(each for each in folder.glob("session_*") if each.is_dir() and not each.is_symlink())
    for each in sessions[: 1 - _SESSIONS]:
        shutil.rmtree(each, ignore_errors=True)
    return folder


def _own(folder: Path) -> Path:
    """Create a folder if it is missing; raises RayUnusable for one of another user."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise RayUnusable(f"{folder} belongs to another user")
    return folder


def _private(folder: Path) -> Path:
    """Create a folder where another user may have created one, or a link; raises RayUnusable for that."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not is_ours or found.st_mode & 0o077:
        raise RayUnusable(f"{folder} is not a folder of ours alone: remove it, or take a shorter data_dir")
    return folder


def _start(member: RayMember) -> Sequence[str]:
    first = member.ports
    return [
        *(sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block"),
        *("--num-cpus=0", "--num-gpus=0", f"--object-store-memory={_STORE_BYTES}"),
        *("--disable-usage-stats", "--include-log-monitor=false"),
        f"--node-ip-address={member.ip}",
        f"--node-manager-port={first}",
        f"--object-manager-port={first + 1}",
        f"--runtime-env-agent-port={first + 2}",
        f"--min-worker-port={first + _OWN_PORTS}",
        f"--max-worker-port={first + PORTS - 1}",
        f"--temp-dir={member.folder}",
    ]


#: How long descendants that outlive the program may take to store their results.
_DESCENDANTS_SECONDS = PATIENCE_SECONDS + 15.0
#: How long the program itself may take to end after SIGTERM.
_END_SECONDS = 20.0
#: How often this process wakes: to read the log until the program has started, and afterwards.
_START_POLL_SECONDS, _POLL_SECONDS = 0.2, 30.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TAIL_BYTES = 20_000


class Foreground:
    """A program from its start until its last descendant has ended; its output goes to a log.

    Descendants whose names begin with one of `own` are not waited for once the program has ended.

    Use it in the main thread of a process of its own, whose signals it handles: the first one ends the
    program in order, a second one kills everything.
    """

    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], log: Path, own: tuple[str, ...] = ()
    ) -> None:
        self._command, self._variables, self._log, self._own = command, variables, log, own
        self._signals = 0

    def run(self, started: Callable[[], None], sign: str, hopeless: str) -> int:
        """Run it to its end and return its exit code; 0 if a signal ended it.

        `started` is called once the log contains `sign`; where it contains `hopeless` first, the program is
        terminated. Raises OSError.
        """
        wake, write = os.pipe()
        os.set_blocking(write, False)
        for number in _SIGNALS:
            # A signal that was ignored when this process started (nohup) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._count)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._log.unlink(missing_ok=True)
        program = SupervisedProcess(
            self._command,
            self._log,
            out=self._log,
            patience_seconds=_END_SECONDS,
            linger_seconds=_DESCENDANTS_SECONDS,
            own=self._own,
            variables=self._variables,
        )
        is_started = False
        while not program.has_ended():
            output = "" if is_started else self.output()
            if not is_started and sign in output:
                is_started = True
                started()
            if self._signals > 1:
                program.kill()
            elif self._signals or (not is_started and hopeless in output):
                program.terminate()
            ready, _, _ = select.select(
                [wake, program], [], [], _POLL_SECONDS if is_started else _START_POLL_SECONDS
            )
            if wake in ready:
                os.read(wake, 4096)
        report = program.end()
        if "failed" in report:
            raise OSError(report["failed"])
        if self._signals:
            return 0
        return -report["signal"] if report["signal"] else report["exit_code"] or 1

    def output(self) -> str:
        """The end of its log."""
        return tail(self._log, _TAIL_BYTES)

    def _count(self, *_: object) -> None:
        self._signals += 1
