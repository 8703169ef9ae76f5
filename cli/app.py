"""Where `pyrometer` begins: nothing that takes long is imported before Ctrl-C has an answer."""

import contextlib
import io
import os
import signal
import sys
import traceback

from .streams import patient

#: Exit codes of whoever is interrupted, and of a defect of ours: 1 would pass for a verdict.
_INTERRUPTED, _DEFECT = 130, 70


def main() -> None:
    """Entry point of the console script."""
    _mend_streams()
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _give_up)
    from .registry import app

    signal.signal(signal.SIGINT, before)
    try:
        app()
    except Exception:
        traceback.print_exc()
        sys.stderr.write("pyrometer: that is a defect in Pyrometer; what was measured is in the journal\n")
        sys.exit(_DEFECT)


def _give_up(*_: object) -> None:
    """Leave in the midst of imports: an exception might be caught by one of them, or show where it struck."""
    with contextlib.suppress(OSError):
        os.write(2, b"interrupted before anything began\n")
    os._exit(_INTERRUPTED)


def _mend_streams() -> None:
    """Let no closed stream, no narrow encoding of a terminal and no disk full of messages end a run."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Not stdout: of what a command is asked for nothing may be missing without an error.
    sys.stderr = patient(sys.stderr)
