"""The sampler as a session holds it: asked between blocks, and started again if it dies."""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from records.telemetry import HOST, Recording
from runner.execution.process import TOKEN_VARIABLE, inherited_variables, listed

from .counters import GpuCounters, HostCounters, Reading
from .sample_log import bare, recordings

#: The sampler answers within 1.5 s whatever hangs behind it.
_PATIENCE_SECONDS = 2.5
#: A new process has to be loaded first, on a machine that may be busy.
_FIRST_PATIENCE_SECONDS = 20.0
_RESTARTS = 3
_KILL_SECONDS = 1.0


class _Silent(Exception):
    """No answer; the text says why."""


class Sampler:
    """One sampler for one session; it runs from here on. Nothing of it ever raises.

    `uuids` are the GPUs to read, with or without NVML's prefix; `cpus` the measured CPUs (none: all this
    process may use), `own_cpus` those to run on. Rows wait in files in `spool` until they are asked for.
    """

    def __init__(
        self,
        spool: Path,
        uuids: tuple[str, ...],
        cpus: tuple[int, ...],
        own_cpus: tuple[int, ...],
        token: str,
    ) -> None:
        self._spool = spool
        self._uuids = uuids
        self._command = [
            *(sys.executable, "-P", "-m", "runner.telemetry.sampler", f"--uuids={','.join(uuids)}"),
            *(f"--cpus={listed(cpus)}", f"--own-cpus={listed(own_cpus)}"),
        ]
        self._variables = {**inherited_variables(), TOKEN_VARIABLE: token}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._number = 0
        self._patience = _FIRST_PATIENCE_SECONDS
        self._buffer = bytearray()
        self._watch: dict[str, Any] | None = None
        self._files: list[Path] = []
        self._notes: list[str] = []
        self._closed = False
        #: After `close`: which process could not be ended, if there is one.
        self.left_over = ""
        self._start()

    def mark(self, root: int) -> Reading:
        """All counters now, `root` being the supervisor of the measured tree."""
        with self._lock:
            try:
                trouble = self._revived()
                reading = _reading(self._ask({"order": "mark", "root": root})["reading"])
            except _Silent as silent:
                return Reading(time.monotonic_ns(), trouble=str(silent))
            return replace(reading, trouble="; ".join(part for part in (trouble, reading.trouble) if part))

    def watch(self, root: int, hz: float, cpus: tuple[int, ...] = ()) -> None:
        """Have rows written from now on, at most 10 a second, the host's about `cpus` (none: measured)."""
        with self._lock:
            # A death of before is none of this watch.
            self._end_of_the_dead()
            self._forget()
            self._watch = {"root": root, "hz": hz, "cpus": cpus}
            try:
                if not self._revived():
                    self._begin()
            except _Silent as silent:
                self._notes.append(str(silent))

    def rest(self) -> tuple[Recording, ...]:
        """End the watch; every row since it began, one recording per device, the host first."""
        with self._lock:
            if self._watch is None:
                return ()
            self._watch = None
            try:
                self._end_of_the_dead()
                if self._process is not None and (trouble := self._ask({"order": "rest"})["trouble"]):
                    self._notes.append(trouble)
            except _Silent as silent:
                self._notes.append(str(silent))
            notes = tuple(dict.fromkeys(self._notes))
            found = recordings(self._files, notes)
            self._forget()
            return (*found, *self._untold(found, notes))

    def close(self) -> None:
        """End the process; one that is stuck in the kernel is left to it, and `left_over` says so."""
        with self._lock:
            self._closed = True
            self._stop()
            self._forget()

    def _start(self) -> None:
        """Start the process; that there is none shows when it is asked."""
        self._starts += 1
        self._buffer.clear()
        self._patience = _FIRST_PATIENCE_SECONDS
        # Without a folder rows are lost, and the sampler says so.
        with contextlib.suppress(OSError):
            self._spool.mkdir(parents=True, exist_ok=True)
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._variables,
                # Ctrl-C in a terminal is for the controller.
                start_new_session=True,
            )
        except OSError as error:
            self._process = None
            self._notes.append(f"the sampler could not be started: {error.strerror or error}")

    def _revived(self) -> str:
        """Start a dead sampler again and have it go on with the watch; answers what happened, if anything.

        Raises _Silent when it has died too often.
        """
        self._end_of_the_dead()
        if self._process is not None:
            return ""
        if self._closed or self._starts > _RESTARTS:
            died = self._notes[-1] if self._notes else "the sampler died too often"
            raise _Silent("the sampler is closed" if self._closed else f"{died}, and is not started again")
        self._start()
        if self._watch is not None:
            self._begin()
        return "the sampler was started again: counters before and after do not belong together"

    def _begin(self) -> None:
        process = self._process
        if process is None or self._watch is None:
            return
        prefix = self._spool / f"{os.getpid()}-{process.pid}-{self._number}"
        # One file for each kind of device.
        self._files += [Path(f"{prefix}-{kind}.jsonl") for kind in range(2)]
        if trouble := self._ask({"order": "watch", "spool": str(prefix), **self._watch})["trouble"]:
            self._notes.append(trouble)

    def _end_of_the_dead(self) -> None:
        if self._process is None or (code := self._process.poll()) is None:
            return
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self._notes.append(f"the sampler {how}: rows are missing from there on")
        self._stop()

    def _ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to an order; raises _Silent, and has the process ended, where there is none."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise _Silent(self._notes[-1] if self._notes else "there is no sampler")
        self._number += 1
        try:
            os.write(process.stdin.fileno(), (json.dumps({"id": self._number, **order}) + "\n").encode())
            reply = self._receive(process.stdout.fileno())
        except (OSError, ValueError) as error:
            try:
                # It has closed its pipes a moment before it can be seen to be dead.
                process.wait(timeout=_KILL_SECONDS)
            except subprocess.TimeoutExpired:
                self._notes.append(f"the sampler does not answer: {error}")
                self._stop()
            self._end_of_the_dead()
            raise _Silent(self._notes[-1]) from error
        self._patience = _PATIENCE_SECONDS
        return reply

    def _receive(self, descriptor: int) -> dict[str, Any]:
        """The next line; raises TimeoutError, BrokenPipeError where the pipe has ended, or ValueError."""
        give_up = time.monotonic() + self._patience
        while b"\n" not in self._buffer:
            left = max(0.0, give_up - time.monotonic())
            if not select.select([descriptor], [], [], left)[0]:
                raise TimeoutError(f"nothing within {self._patience:g} s")
            data = os.read(descriptor, 1 << 16)
            if not data:
                raise BrokenPipeError("it closed its pipe")
            self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer[:] = rest
        return json.loads(line)

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        for end in (lambda: None, process.kill):
            end()
            try:
                process.wait(timeout=_KILL_SECONDS)
                return
            except subprocess.TimeoutExpired:
                continue
        self.left_over = f"the sampler (pid {process.pid}) is stuck in the kernel and could not be ended"

    def _forget(self) -> None:
        for file in self._files:
            try:
                file.unlink(missing_ok=True)
            except OSError:
                continue
        self._files, self._notes = [], []

    def _untold(self, found: tuple[Recording, ...], notes: tuple[str, ...]) -> list[Recording]:
        """Empty recordings of the devices of which not even a name came."""
        told = {bare(recording.device) for recording in found}
        missing = [device for device in (HOST, *self._uuids) if bare(device) not in told]
        return [Recording(device, "", "none", (), (), {}, notes) for device in missing]


def _reading(body: Mapping[str, Any]) -> Reading:
    host = None
    if body["host"] is not None:
        counted = dict[str, Any](body["host"])
        counted |= {name: _by_cpu(counted[name]) for name in ("busy_ns", "steal_ns")}
        host = HostCounters(**counted)
    return Reading(body["at_ns"], host, tuple(_gpu(gpu) for gpu in body["gpus"]), body["trouble"])


def _gpu(body: Mapping[str, Any]) -> GpuCounters:
    counted = dict[str, Any](body)
    if counted["processes"] is not None:
        counted["processes"] = tuple(counted["processes"])
    counted["xids"] = tuple(counted["xids"])
    return GpuCounters(**counted)


def _by_cpu(counts: Mapping[str, int]) -> dict[int, int]:
    return {int(cpu): count for cpu, count in counts.items()}
