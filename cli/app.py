"""The entry point of `pyrometer`."""

import io
import os
import sys
import traceback

from .output.lossy_text import lossy

#: Exit codes of an interrupted call and of a defect in Pyrometer; 1 would be read as a verdict.
_INTERRUPTED, _DEFECT = 130, 70


def main() -> None:
    """Entry point of the console script."""
    _mend_streams()
    try:
        from .registry import app
    except KeyboardInterrupt:
        sys.stderr.write("interrupted before anything began\n")
        sys.exit(_INTERRUPTED)
    try:
        app()
    except Exception:
        traceback.print_exc()
        sys.stderr.write("pyrometer: that is a defect in Pyrometer; what was measured is in the journal\n")
        sys.exit(_DEFECT)


def _mend_streams() -> None:
    """Let no closed stream, no narrow encoding of a terminal and no disk full of messages end a run."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Not stdout: of what a command is asked for nothing may be missing without an error.
    sys.stderr = lossy(sys.stderr)
