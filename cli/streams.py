"""Standard streams on a disk that may be full: what does not fit there waits, and ends nothing."""

import io
import os
import sys
import threading
from functools import cache
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


#: Columns of a table in a file or a pipe.
_PIPE_WIDTH = 200


class _Waiting(io.BufferedIOBase):
    """The bytes of a descriptor: those that it does not take wait, and go out before the next ones.

    Python's own would keep them too, raise the error with every later one, and at the end of the process.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.RLock()
        self.left = b""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write, or keep, all of it; raises BrokenPipeError when nobody reads any more."""
        with self._lock:
            new = bytes(data)
            self.left += new
            try:
                while self.left:
                    self.left = self.left[os.write(self._descriptor, self.left) :]
            except BrokenPipeError:
                self.left = b""
                raise
            except OSError:
                return len(new)
            return len(new)

    @property
    def name(self) -> int:
        """What a file that was opened by its descriptor is called."""
        return self._descriptor

    def writable(self) -> bool:
        """It is for writing."""
        return True

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor


class PatientText(io.TextIOWrapper):
    """Text that goes to a descriptor at once, or as soon as there is room."""

    def __init__(self, stream: TextIO) -> None:
        self._bytes = _Waiting(stream.fileno())
        how = (stream.encoding, stream.errors)
        super().__init__(self._bytes, *how, newline="", write_through=True)

    @property
    def is_cut_short(self) -> bool:
        """Whether something of it still waits for room."""
        return bool(self._bytes.left)


@cache
def patient(stream: TextIO) -> TextIO:
    """The same place for text that may get lost: a full disk raises nothing there, a broken pipe does.

    One for each stream, for a line that is torn is ended before the next one begins. A stream that is no
    descriptor's is answered as it is.
    """
    try:
        return PatientText(stream)
    except (OSError, ValueError):
        return stream


def is_cut_short(stream: object) -> bool:
    """Whether a stream that `patient` made holds what did not fit."""
    return isinstance(stream, PatientText) and stream.is_cut_short


def stdout_width() -> int | None:
    """The width of tables on stdout: None for what the terminal, or COLUMNS, says.

    A pipe has no width of its own: 80 columns would fold every case key.
    """
    return None if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit() else _PIPE_WIDTH
