"""Text streams that drop messages if their disk is full, instead of raising an error."""

import io
from functools import cache
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _LossyFile(io.FileIO):
    """An unbuffered descriptor; it drops bytes that do not fit on the disk and ends a partial line.

    Python's buffered writer would keep such bytes and raise the error again with every later write and at
    exit.
    """

    lost = False
    _torn = False

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write the bytes that fit; raises BrokenPipeError if the reader has closed the pipe."""
        new = bytes(data)
        rest = b"\n" + new if self._torn else new
        try:
            while rest:
                rest = rest[super().write(rest) or 0 :]
                self._torn = bool(rest)
        except BrokenPipeError:
            raise
        except OSError:
            self.lost = True
        return len(new)


class LossyText(io.TextIOWrapper):
    """Text stream for progress messages, some of which a full disk may drop; `lost` tells whether it did."""

    def __init__(self, stream: TextIO) -> None:
        self._raw = _LossyFile(stream.fileno(), "wb", closefd=False)
        super().__init__(self._raw, stream.encoding, stream.errors, newline="", write_through=True)

    @property
    def lost(self) -> bool:
        """Whether a message was dropped."""
        return self._raw.lost


@cache
def lossy(stream: TextIO) -> TextIO:
    """The same stream as a `LossyText`; a stream without a descriptor is returned unchanged."""
    try:
        return LossyText(stream)
    except (OSError, ValueError):
        return stream
