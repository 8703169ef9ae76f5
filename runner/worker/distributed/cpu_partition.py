"""CPU partition: equal shares of the leader's CPUs for the members of a group, by whole cores."""

import os
import shutil
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..measurements.affinity_check import parse_cpu_list, snapshot

_CPU = Path("/sys/devices/system/cpu")
_NUMACTL_SECONDS = 5.0
Share = tuple[int, ...]


class TooFewCpus(Exception):
    """There are too few CPUs for so many members; the text says so in one sentence."""


def share_out(
    cpus: Collection[int], members: int, word: str, each: int | None = None, root: Path = _CPU
) -> tuple[Share, ...]:
    """`members` equal shares of `cpus` (numbers of the kernel): `each` cores, or an equal part of all.

    Whole cores, and only where there are fewer than members and `each` is None single threads of them. What
    cannot be divided equally is left idle. Raises NoRoom where there is too little: two members on one
    CPU would take turns, and measure the taking of turns.
    """
    parts = cores_of(cpus, root)
    if each is None and len(parts) < members:
        parts = [(cpu,) for core in parts for cpu in core]
    size = len(parts) // members if each is None else each
    if size < 1 or size * members > len(parts):
        kind = "CPUs" if each is None else "cores"
        raise TooFewCpus(
            f"{members} {word}s need {max(1, size) * members} {kind} and this process has {len(parts)}: "
            "cpus=all gives it every CPU"
        )
    divided = [parts[number * size : (number + 1) * size] for number in range(members)]
    return tuple(tuple(sorted(cpu for part in own for cpu in part)) for own in divided)


def cores_of(cpus: Collection[int], root: Path = _CPU) -> list[Share]:
    """`cpus` by the core they belong to; a CPU without topology in /sys is a core of its own."""
    cores: dict[frozenset[int], list[int]] = {}
    for cpu in sorted(cpus):
        cores.setdefault(_siblings(cpu, root), []).append(cpu)
    return [tuple(core) for core in cores.values()]


def bind(share: Share) -> tuple[str, ...]:
    """The command before a member's own that keeps it and its memory to `share`; empty without numactl.

    Tried first, because a container may forbid the memory policy, or keep the memory of a node to others.
    """
    path = shutil.which("numactl")
    nodes = sorted({folder.name.removeprefix("node") for cpu in share for folder in _nodes_of(cpu)})
    if path is None or not nodes:
        return ()
    command = (path, f"--physcpubind={','.join(map(str, share))}", f"--membind={','.join(nodes)}", "--")
    try:
        tried = subprocess.run(
            [*command, path, "--show"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_NUMACTL_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return command if tried.returncode == 0 else ()


def observed_threads(pid: int, share: Share) -> Mapping[str, Any]:
    """Current affinity and last CPU of every thread of a member, from /proc."""
    threads = snapshot(Path(f"/proc/{pid}/task"))
    allowed = {cpu for thread in threads.values() for cpu in parse_cpu_list(thread.allowed)}
    return {
        "threads_seen": len(threads),
        "allowed": sorted({thread.allowed for thread in threads.values()}),
        "ran_on": sorted({thread.cpu for thread in threads.values()}),
        "held": bool(threads) and allowed <= {*share},
    }


def own_cpus() -> tuple[int, ...]:
    """The CPUs that this process, and so its members, may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def _siblings(cpu: int, root: Path) -> frozenset[int]:
    try:
        text = (root / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return frozenset({cpu})
    return frozenset({cpu, *parse_cpu_list(text)})


def _nodes_of(cpu: int) -> list[Path]:
    return list((_CPU / f"cpu{cpu}").glob("node[0-9]*"))
