"""Text streams whose disk may be full: messages that do not fit are dropped, and nothing is raised."""

import io
from functools import cache
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _LossyFile(io.FileIO):
    """A descriptor without a buffer; it drops what does not fit on the disk and ends a torn line.

    A buffer of Python's keeps such bytes, and raises the error again with every later write and at exit.
    """

    lost = False
    _torn = False

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write what fits; raises BrokenPipeError if the reader is gone."""
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
    """Text for messages about progress, of which a full disk may drop some; `lost` says that it did."""

    def __init__(self, stream: TextIO) -> None:
        self._raw = _LossyFile(stream.fileno(), "wb", closefd=False)
        super().__init__(self._raw, stream.encoding, stream.errors, newline="", write_through=True)

    @property
    def lost(self) -> bool:
        """Whether a message was dropped."""
        return self._raw.lost


@cache
def lossy(stream: TextIO) -> TextIO:
    """The same stream as one `LossyText`; a stream without a descriptor as it is."""
    try:
        return LossyText(stream)
    except (OSError, ValueError):
        return stream
