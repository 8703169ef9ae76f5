"""Inputs for single operations: copies enough, taken in turn, that no step finds its own in a cache."""

from torch import Tensor

#: All copies together. Three times the level-2 cache of every GPU there is (the largest has 126 MiB) and of
#: most last-level caches of CPUs. A constant, not what this machine would need: a case is the same workload
#: everywhere. Behind a larger cache, as of a virtual machine that sees its host's, part may still be found.
ROTATED_BYTES = 512 << 20
#: Of small inputs no more copies than this; below 128 KiB a set, the cache may keep them.
_MOST = 4096


def copies(*inputs: Tensor) -> tuple[tuple[Tensor, ...], ...]:
    """Variants for a workload with these inputs: the same numbers at other addresses.

    The same, because a cache goes by address, and copying is much faster than drawing. Together with the
    inputs they fill ROTATED_BYTES, or are the inputs alone where these are larger.
    """
    count = min(_MOST, ROTATED_BYTES // sum(tensor.nbytes for tensor in inputs))
    return tuple(tuple(tensor.clone() for tensor in inputs) for _ in range(count - 1))
