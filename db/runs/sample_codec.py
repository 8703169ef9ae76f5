"""Samples as bytes and back, to the nanosecond."""

import struct
from collections.abc import Sequence
from itertools import accumulate, chain, pairwise

import numpy as np
import zstandard

from ..errors import DamagedSamples, SchemaTooNew

#: The form that `encode` writes; a new form gets a new number, and old forms stay readable for ever.
BYTE_PLANES = 1


def encode(blocks: Sequence[Sequence[int]]) -> tuple[int, bytes]:
    """The codec's number and the bytes of `blocks`, whose samples are nanoseconds that fit into an int64.

    Form 1 is one zstd frame of: the number of blocks, their lengths (all uint32, little-endian), then the
    samples of all blocks as int64 in eight planes, the plane of the lowest bytes first. The high bytes of
    latencies hardly differ and compress well in planes: Arrow takes 2.0 times as many bytes for 100 samples,
    and samples are kept for ever. Raises OverflowError for a sample that does not fit.
    """
    lengths = [len(block) for block in blocks]
    samples = np.fromiter(chain.from_iterable(blocks), dtype="<i8", count=sum(lengths))
    header = struct.pack(f"<{len(lengths) + 1}I", len(lengths), *lengths)
    # Filled in place, because a copy of millions of samples doubles the memory.
    body = bytearray(len(header) + samples.nbytes)
    body[: len(header)] = header
    planes = np.frombuffer(body, dtype=np.uint8, offset=len(header)).reshape(8, -1)
    planes[:] = samples.view(np.uint8).reshape(-1, 8).T
    return BYTE_PLANES, zstandard.compress(body)


def decode(codec: int, blob: bytes) -> tuple[tuple[int, ...], ...]:
    """The blocks in `blob`; raises SchemaTooNew for an unknown codec, DamagedSamples for a damaged blob."""
    if codec != BYTE_PLANES:
        raise SchemaTooNew(
            f"These samples are stored in form {codec}, which this Pyrometer is too old to read."
        )
    try:
        return _unpack_samples(zstandard.decompress(blob))
    except (zstandard.ZstdError, struct.error, ValueError) as error:
        raise DamagedSamples(f"The stored samples cannot be read: {error}.") from error


def _unpack_samples(body: bytes) -> tuple[tuple[int, ...], ...]:
    (count,) = struct.unpack_from("<I", body)
    lengths = struct.unpack_from(f"<{count}I", body, 4)
    planes = np.frombuffer(body, dtype=np.uint8, offset=4 + 4 * count).reshape(8, -1)
    samples: list[int] = np.ascontiguousarray(planes.T).view("<i8").ravel().tolist()
    if len(samples) != sum(lengths):
        raise ValueError(f"{len(samples)} samples where the blocks hold {sum(lengths)}")
    return tuple(tuple(samples[start:end]) for start, end in pairwise(accumulate(lengths, initial=0)))
