"""How Ray's own processes are started on head and nodes: what they may do, and what they leave alone."""

import importlib.util
import json
import os
import secrets
import shutil
import socket
import stat
import sys
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from workflows.errors import JobError

#: Names what a node does one of at a time.
SLOT = "node_slot"
#: Variables of the agent: where the node's pyrometer.toml lies, and the environment that
#: whatever it starts is to have.
FOLDER, ENVIRONMENT = "PYROMETER_FOLDER", "PYROMETER_NODE_ENVIRONMENT"
#: So many ports are used on every machine: two of Ray's own, the rest for processes that are spoken to.
PORTS, _OWN_PORTS = 100, 10
#: What Ray's log has of a token that is not the head's.
WRONG_TOKEN = "InvalidAuthToken"
#: What Ray's processes are called. Some outlive the rest by minutes, to tell a head that is gone.
PROCESS_NAMES = ("ray::", "raylet", "gcs_server")
#: Sockets lie below Ray's folder; the kernel takes 107 bytes, and Ray's own part is some 65 of them.
_LONGEST_FOLDER = 40
#: Where everybody may make folders with short names.
_SHORT = Path("/tmp")
#: Of Ray's logs those of so many lives are kept.
_LIVES = 3
_STORE_BYTES = 80_000_000

_PLAIN = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    # What hangs, or has lost its network, is noticed within a quarter of a minute and not within minutes.
    "RAY_grpc_client_keepalive_time_ms": "10000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
    # A node that died is known to be dead after five of these; one that hangs, after five times ten seconds.
    "RAY_health_check_period_ms": "1000",
    # What is measured is a child of Ray's worker: it keeps the niceness and the OOM score that
    # the node was started with, only the kernel kills it for memory, and no GPU is hidden from it.
    "RAY_worker_niceness": "0",
    "RAY_worker_oom_score_adjustment": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
    # Our guard ends what an agent leaves behind, and lets it keep what it measured first.
    "RAY_kill_child_processes_on_worker_exit": "0",
    "RAY_process_group_cleanup_enabled": "0",
    # Nothing of ours moves on to another node.
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    # Each of its processes has logs of its own; what they say in a year is bounded.
    "RAY_ROTATION_MAX_BYTES": "10000000",
    "RAY_ROTATION_BACKUP_COUNT": "1",
    # Less to do beside what is measured.
    "RAY_enable_timeline": "0",
    "RAY_event_stats": "0",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_raylet_report_resources_period_milliseconds": "1000",
    "RAY_raylet_check_gc_period_milliseconds": "10000",
    "RAY_kill_idle_workers_interval_ms": "1000",
    "RAY_local_fs_monitor_interval_ms": "10000",
}
#: They would take the place of what is given here.
_OVERRULED = ("RAY_AUTH_TOKEN", "RAY_ADDRESS")


class RayUnusable(JobError):
    """This machine cannot be a head or a node as it is."""


@dataclass(frozen=True, slots=True)
class RayMember:
    """How a machine stands in a fleet.

    `ip` is the address that the others reach it by, `ports` the first of the PORTS that it uses. `token` is
    the file with the fleet's token, `folder` where Ray puts its sockets and logs.
    """

    ip: str
    ports: int
    token: Path
    folder: Path

    def head(self, port: int) -> list[str]:
        """The command that is a head, until it ends."""
        return [
            *_start(self),
            *("--head", f"--port={port}", "--include-dashboard=false", "--no-monitor"),
        ]

    def node(self, address: str, name: str, labels: Mapping[str, str]) -> list[str]:
        """The command that is a node called `name` of the head at `address`, until it ends."""
        pairs = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        return [
            *_start(self),
            *(f"--address={address}", f"--node-name={name}", f"--resources={json.dumps({SLOT: 1})}"),
            *([f"--labels={pairs}"] if pairs else []),
        ]


def variables(token: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process of Ray's: `environ` (None: ours), with what must hold in a fleet."""
    environ = os.environ if environ is None else environ
    kept = {name: value for name, value in environ.items() if name not in _OVERRULED}
    return {**kept, **_PLAIN, "RAY_AUTH_TOKEN_PATH": str(token)}


def node_variables(token: Path, folder: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The same for a node, whose agent works in `folder` and starts everything with `environ` as it is."""
    environ = os.environ if environ is None else environ
    # One variable for all: Ray sets some in its workers (OMP_NUM_THREADS) that would change what is measured.
    own = {FOLDER: str(folder), ENVIRONMENT: json.dumps(dict(environ))}
    return {**variables(token, environ), **own}


def check_installed() -> None:
    """Raise RayUnusable where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise RayUnusable("a fleet on Ray needs Ray: install pyrometer[fleet]")


def make_token(file: Path) -> bool:
    """Make the file with the fleet's secret, for its owner's eyes only; false where there is one. OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as made:
            made.write(secrets.token_hex(32) + "\n")
    except FileExistsError:
        return False
    return True


def check_token(file: Path) -> None:
    """Raise RayUnusable for a token that is missing, empty, or open to everybody on this machine."""
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
    # A group may: that is how clusters hand out secrets.
    if mode & 0o007:
        raise RayUnusable(f"everybody may read the fleet's token, and so run anything: chmod 600 {file}")


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
    """Which of this machine's addresses leads to the head; raises RayUnusable where nothing listens there."""
    try:
        with socket.create_connection((ip, port), 10.0) as there:
            return str(there.getsockname()[0])
    except OSError as error:
        raise RayUnusable(
            f"no head answers at {ip}:{port}: {error.strerror or error}; is `pyrometer fleet head` running "
            "there, and may this machine reach it?"
        ) from None


def ray_folder(data_dir: Path, role: str) -> Path:
    """Where Ray may put its sockets and logs in a life as `role`; what older lives left is cleared away."""
    # Ray opens its folder to everybody, so it lies in one that is closed.
    closed = data_dir / "fleet" / role
    folder = closed / "ray"
    if len(str(folder)) > _LONGEST_FOLDER:
        # Sockets have short names; a checksum keeps two data folders apart.
        private = _private(_SHORT / f"pyrometer-{os.getuid()}")
        folder = private / f"{zlib.crc32(str(closed).encode()):08x}"
    else:
        _ours(closed).chmod(0o700)
    _ours(folder)
    lives = sorted(each for each in folder.glob("session_*") if each.is_dir() and not each.is_symlink())
    for each in lives[: 1 - _LIVES]:
        shutil.rmtree(each, ignore_errors=True)
    return folder


def _ours(folder: Path) -> Path:
    """Make a folder where there is none; raises RayUnusable for another user's."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise RayUnusable(f"{folder} belongs to another user")
    return folder


def _private(folder: Path) -> Path:
    """Make a folder where others may have made one, or a link, before us; raises RayUnusable for theirs."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not ours or found.st_mode & 0o077:
        raise RayUnusable(f"{folder} is not a folder of ours alone: remove it, or take a shorter data_dir")
    return folder


def _start(standing: RayMember) -> Sequence[str]:
    first = standing.ports
    return [
        *(sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block"),
        *("--num-cpus=0", "--num-gpus=0", f"--object-store-memory={_STORE_BYTES}"),
        *("--disable-usage-stats", "--include-log-monitor=false"),
        f"--node-ip-address={standing.ip}",
        f"--node-manager-port={first}",
        f"--object-manager-port={first + 1}",
        f"--min-worker-port={first + _OWN_PORTS}",
        f"--max-worker-port={first + PORTS - 1}",
        f"--temp-dir={standing.folder}",
    ]
