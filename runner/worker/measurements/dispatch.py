"""One untimed step under torch.profiler and the verbose modes of oneDNN and MKL, as files.

The controller reads the files: what they mean can be learnt anew without another harness.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Generator
from dataclasses import asdict
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from ..prepared_case import PreparedCase
from . import compiling
from .timing import synchronize

#: Files in the folder of a fingerprint: events of the profiler, and what the libraries printed.
EVENTS, PRINTED = "events.json", "printed.txt"
#: The first step compiles and fills caches; under CUDA graphs the second records and the third replays.
_STEPS_BEFORE = 3


def capture(prepared: PreparedCase, device: str, folder: str) -> dict[str, Any]:
    """Run one step (of inputs of several shapes one of each) and write what was chosen into `folder`.

    Answers counters of the compiler, and by library why it has no lines.
    """
    steps = len(prepared.shapes) if len(set(prepared.shapes)) > 1 else 1
    for _ in range(_STEPS_BEFORE * steps):
        prepared.step()
    synchronize(device)
    activities = [ProfilerActivity.CPU]
    if device.startswith("cuda"):
        activities.append(ProfilerActivity.CUDA)
    prepared.rotation.rewind()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_stdout_in(os.path.join(folder, PRINTED)))
        missing = _verbose(stack)
        profiler = stack.enter_context(profile(activities=activities, record_shapes=True))
        for _ in range(steps):
            prepared.step()
        synchronize(device)
    profiler.export_chrome_trace(os.path.join(folder, EVENTS))
    facts: dict[str, Any] = {"missing": missing}
    if prepared.key.axis("compile") != "none":
        facts["compile"] = asdict(compiling.report())
    return facts


def _verbose(stack: contextlib.ExitStack) -> dict[str, str]:
    """Switch the verbose modes on within `stack`; answers why one is not."""
    missing: dict[str, str] = {}
    for name, library in (("onednn", torch.backends.mkldnn), ("mkl", torch.backends.mkl)):
        if not library.is_available():
            missing[name] = "this PyTorch is built without it"
            continue
        try:
            stack.enter_context(library.verbose(library.VERBOSE_ON))
        except Exception as error:
            missing[name] = f"its verbose mode cannot be switched on: {type(error).__name__}"
    return missing


@contextlib.contextmanager
def _stdout_in(path: str) -> Generator[None]:
    """Within the block what this process prints, C libraries included, goes to a file."""
    _flush()
    stdout = os.dup(1)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.dup2(file, 1)
        yield
    finally:
        _flush()
        os.dup2(stdout, 1)
        os.close(file)
        os.close(stdout)


def _flush() -> None:
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
