"""Hold the SM clock of GPUs for the time of a run, and set it free however the run ends.

As a program (`python -m runner.telemetry.gpu.clock_lock`) it holds the clocks until SIGTERM. It runs below a
supervisor, which sends that when the run ends or is killed; the kernel does when the supervisor is.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from common.processes import SupervisedProcess

from ...errors import ClocksNotLocked
from ..sample_log import bare
from .nvml import Absent, N, ask, gpus, library, text

#: NVML answers in milliseconds; loading a driver for the first time takes seconds.
_PATIENCE_SECONDS = 20.0
#: What one types where nothing else set the clocks free.
_BY_HAND = "nvidia-smi --reset-gpu-clocks"
#: What the program ends with where it locked nothing.
_REFUSED = 2
_ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_PROGRAM = (sys.executable, "-P", "-m", "runner.telemetry.gpu.clock_lock")


@contextmanager
def locked_clocks(mhz: int, uuids: Sequence[str], note: Callable[[str], None]) -> Generator[None]:
    """Hold the SM clock of the GPUs of these UUIDs at `mhz` within the block.

    A lock that was set before is lost with it: NVML does not report it. `note` takes a sentence where the
    clocks could not be set free. Raises ClocksNotLocked where a driver refuses; then none is held.
    """
    reader, writer = os.pipe()
    try:
        holder = SupervisedProcess(
            [*_PROGRAM, str(mhz), str(writer), *uuids],
            Path(os.devnull),
            patience_seconds=_PATIENCE_SECONDS,
            keep=(writer,),
        )
    except OSError as error:
        os.close(reader)
        raise ClocksNotLocked(f"no process can be started that holds the clocks: {error}") from error
    finally:
        os.close(writer)
    try:
        if refused := _answer(reader):
            raise ClocksNotLocked(refused)
        yield
    finally:
        os.close(reader)
        ended = holder.end(2 * _PATIENCE_SECONDS)
        # Where that process was killed, or a call failed, once more.
        if ended.get("exit_code") not in (0, _REFUSED) and (left := _reset_in_a_process(uuids)):
            note(f"{left}; this sets them free: {_BY_HAND}")


def _answer(reader: int) -> str:
    """Why the clocks are not held; empty where they are."""
    if not select.select([reader], [], [], _PATIENCE_SECONDS)[0]:
        return f"the clocks cannot be locked: NVML does not answer within {_PATIENCE_SECONDS:g} s"
    try:
        return str(json.loads(os.read(reader, 1 << 16)))
    except ValueError:
        return "the clocks cannot be locked: the process that was to hold them ended"


def _reset_in_a_process(uuids: Sequence[str]) -> str:
    """Why the clocks of these GPUs are not set free; empty where they are."""
    try:
        done = subprocess.run([*_PROGRAM, "0", "1", *uuids], capture_output=True, timeout=_PATIENCE_SECONDS)
        return str(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return "the clocks of the GPUs could not be set free"


def lock(handles: Sequence[Any], mhz: int) -> str:
    """Lock the clocks of all or of none; answers why not, empty where they are locked."""
    for place, handle in enumerate(handles):
        answer = ask(N.nvmlDeviceSetGpuLockedClocks, handle, mhz, mhz)
        if isinstance(answer, Absent):
            reset(handles[:place])
            root = "; it takes root" if answer.code == N.NVML_ERROR_NO_PERMISSION else ""
            name = text(ask(N.nvmlDeviceGetName, handle))
            return f"the clocks of {name} cannot be locked at {mhz} MHz: {answer.reason}{root}"
    return ""


def reset(handles: Sequence[Any]) -> str:
    """Set the clocks of these GPUs free; answers which are not and why, empty where all are."""
    answers = [(handle, ask(N.nvmlDeviceResetGpuLockedClocks, handle)) for handle in handles]
    refused = [
        f"the clocks of {text(ask(N.nvmlDeviceGetName, handle))} could not be set free: {answer.reason}"
        for handle, answer in answers
        if isinstance(answer, Absent)
    ]
    return "; ".join(refused)


def main() -> int:
    """Lock at `mhz`, write the answer, and reset at a signal; with 0 MHz only reset. 0 where all are free."""
    mhz, answer_to, uuids = int(sys.argv[1]), int(sys.argv[2]), {bare(each) for each in sys.argv[3:]}
    # Before anything is locked: what comes from here on waits for `sigwait`.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    with library() as absent:
        handles = [each for each in gpus() if bare(text(ask(N.nvmlDeviceGetUUID, each))) in uuids]
        if absent is not None:
            answer = f"the clocks cannot be set: {absent.reason}"
        elif len(handles) != len(uuids):
            answer = "the clocks cannot be set: NVML does not list the GPUs that are measured"
        else:
            answer = lock(handles, mhz) if mhz else reset(handles)
        # Nothing reads it where the run was killed meanwhile; then the signal is under way.
        with suppress(BrokenPipeError):
            os.write(answer_to, json.dumps(answer).encode())
        if answer or not mhz:
            return _REFUSED if answer else 0
        signal.sigwait(_ENDING)
        return 1 if reset(handles) else 0


if __name__ == "__main__":
    sys.exit(main())
