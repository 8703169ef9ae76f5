"""The session's end of the sampler: sends orders between blocks and restarts a sampler that died."""

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

from common.processes import join_numbers
from records.telemetry import HOST, Recording
from runner.execution.process import TOKEN_VARIABLE, inherited_variables

from .sample_log import bare, recordings
from .telemetry_interface import GpuCounters, HostCounters, Reading

#: The sampler replies within 1.5 s, whichever source hangs.
_TIMEOUT_SECONDS = 2.5
#: A new process has to be loaded first, on a machine that may be busy.
_FIRST_TIMEOUT_SECONDS = 20.0
_RESTARTS = 3
_KILL_SECONDS = 1.0


class _NoReply(Exception):
    """The sampler did not reply; the text is the reason."""


class Sampler:
    """One sampler process for one session, started by the constructor. No method raises.

    `uuids` are the GPUs to read, with or without NVML's prefix; `cpus` the measured CPUs (none: all this
    process may use), `own_cpus` those to run on. Rows are kept in files in `folder` until `stop`.
    """

    def __init__(
        self,
        folder: Path,
        uuids: tuple[str, ...],
        cpus: tuple[int, ...],
        own_cpus: tuple[int, ...],
        token: str,
    ) -> None:
        self._folder = folder
        self._uuids = uuids
        self._command = [
            *(sys.executable, "-P", "-m", "runner.telemetry.sampler", f"--uuids={','.join(uuids)}"),
            *(f"--cpus={join_numbers(cpus)}", f"--own-cpus={join_numbers(own_cpus)}"),
        ]
        self._variables = {**inherited_variables(), TOKEN_VARIABLE: token}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self._number = 0
        self._timeout = _FIRST_TIMEOUT_SECONDS
        self._buffer = bytearray()
        self._sampling: dict[str, Any] | None = None
        self._files: list[Path] = []
        self._notes: list[str] = []
        self._closed = False
        #: After `close`: which process could not be ended, if there is one.
        self.left_over = ""
        self._launch()

    def read_counters(self, root: int) -> Reading:
        """Read all counters now. `root` is the process id of the measured tree's supervisor."""
        with self._lock:
            try:
                problem = self._restart_if_dead()
                reading = _reading(self._request({"order": "read", "root": root})["reading"])
            except _NoReply as missing:
                return Reading(time.monotonic_ns(), problem=str(missing))
            return replace(reading, problem="; ".join(part for part in (problem, reading.problem) if part))

    def start(self, root: int, hz: float, cpus: tuple[int, ...] = ()) -> None:
        """Write rows from now on, at most 10 a second; the host's cover `cpus` (none: the measured ones)."""
        with self._lock:
            # An earlier death does not concern these rows.
            self._note_death()
            self._delete_files()
            self._sampling = {"root": root, "hz": hz, "cpus": cpus}
            try:
                if not self._restart_if_dead():
                    self._begin()
            except _NoReply as missing:
                self._notes.append(str(missing))

    def stop(self) -> tuple[Recording, ...]:
        """Stop writing rows; returns those since `start`, one recording per device, the host first."""
        with self._lock:
            if self._sampling is None:
                return ()
            self._sampling = None
            try:
                self._note_death()
                if self._process is not None and (problem := self._request({"order": "stop"})["problem"]):
                    self._notes.append(problem)
            except _NoReply as missing:
                self._notes.append(str(missing))
            notes = tuple(dict.fromkeys(self._notes))
            found = recordings(self._files, notes)
            self._delete_files()
            return (*found, *self._without_data(found, notes))

    def close(self) -> None:
        """End the process. If it is stuck in the kernel it is abandoned, and `left_over` says so."""
        with self._lock:
            self._closed = True
            self._end_process()
            self._delete_files()

    def _launch(self) -> None:
        """Start the process; a failure is reported by the next request."""
        self._starts += 1
        self._buffer.clear()
        self._timeout = _FIRST_TIMEOUT_SECONDS
        # Without a folder rows are lost, and the sampler says so.
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
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

    def _restart_if_dead(self) -> str:
        """Restart a dead sampler and resume sampling; returns a sentence about the restart, or "".

        Raises _NoReply when it has died too often.
        """
        self._note_death()
        if self._process is not None:
            return ""
        if self._closed or self._starts > _RESTARTS:
            died = self._notes[-1] if self._notes else "the sampler died too often"
            raise _NoReply("the sampler is closed" if self._closed else f"{died}, and is not started again")
        self._launch()
        if self._sampling is not None:
            self._begin()
        return "the sampler was started again: counters before and after do not belong together"

    def _begin(self) -> None:
        process = self._process
        if process is None or self._sampling is None:
            return
        prefix = self._folder / f"{os.getpid()}-{process.pid}-{self._number}"
        # One file for each kind of device.
        self._files += [Path(f"{prefix}-{kind}.jsonl") for kind in range(2)]
        if problem := self._request({"order": "start", "log": str(prefix), **self._sampling})["problem"]:
            self._notes.append(problem)

    def _note_death(self) -> None:
        if self._process is None or (code := self._process.poll()) is None:
            return
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self._notes.append(f"the sampler {how}: rows are missing from there on")
        self._end_process()

    def _request(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to an order. Where there is none, ends the process and raises _NoReply."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise _NoReply(self._notes[-1] if self._notes else "there is no sampler")
        self._number += 1
        try:
            os.write(process.stdin.fileno(), (json.dumps({"id": self._number, **order}) + "\n").encode())
            reply = self._receive(process.stdout.fileno())
        except (OSError, ValueError) as error:
            try:
                # A dying process closes its pipes a moment before its exit status is available.
                process.wait(timeout=_KILL_SECONDS)
            except subprocess.TimeoutExpired:
                self._notes.append(f"the sampler does not answer: {error}")
                self._end_process()
            self._note_death()
            raise _NoReply(self._notes[-1]) from error
        self._timeout = _TIMEOUT_SECONDS
        return reply

    def _receive(self, descriptor: int) -> dict[str, Any]:
        """The next line; raises TimeoutError, BrokenPipeError where the pipe has ended, or ValueError."""
        give_up = time.monotonic() + self._timeout
        while b"\n" not in self._buffer:
            left = max(0.0, give_up - time.monotonic())
            if not select.select([descriptor], [], [], left)[0]:
                raise TimeoutError(f"nothing within {self._timeout:g} s")
            data = os.read(descriptor, 1 << 16)
            if not data:
                raise BrokenPipeError("it closed its pipe")
            self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer[:] = rest
        return json.loads(line)

    def _end_process(self) -> None:
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

    def _delete_files(self) -> None:
        for file in self._files:
            try:
                file.unlink(missing_ok=True)
            except OSError:
                continue
        self._files, self._notes = [], []

    def _without_data(self, found: tuple[Recording, ...], notes: tuple[str, ...]) -> list[Recording]:
        """Empty recordings of the devices that wrote nothing."""
        received = {bare(recording.device) for recording in found}
        missing = [device for device in (HOST, *self._uuids) if bare(device) not in received]
        return [Recording(device, "", "none", (), (), {}, notes) for device in missing]


def _reading(body: Mapping[str, Any]) -> Reading:
    host = None
    if body["host"] is not None:
        counted = dict[str, Any](body["host"])
        counted |= {name: _by_cpu(counted[name]) for name in ("busy_ns", "steal_ns")}
        host = HostCounters(**counted)
    return Reading(body["at_ns"], host, tuple(_gpu(gpu) for gpu in body["gpus"]), body["problem"])


def _gpu(body: Mapping[str, Any]) -> GpuCounters:
    counted = dict[str, Any](body)
    for pids in ("processes", "computing"):
        if counted[pids] is not None:
            counted[pids] = tuple(counted[pids])
    counted["xids"] = tuple(counted["xids"])
    return GpuCounters(**counted)


def _by_cpu(counts: Mapping[str, int]) -> dict[int, int]:
    return {int(cpu): count for cpu, count in counts.items()}
