"""Inputs whose shapes vary: sentences padded to the longest of all."""

from torch.nn import functional as F

from ...worker.case import Workload, case
from ..bert import BASE, MIDDLE_LENGTH, Bert, dynamic_lengths, operations
from ..bert import draw as draw_tokens


@case(family="transformers", batch=[4], layers=[2], lengths=[3, 9])
def padded_lengths(batch: int, layers: int, lengths: int) -> Workload:
    """The sentences of `dynamic_shapes`, each padded to the longest, as a graph of one shape wants them.

    Items are the tokens without the padding: its throughput against that of `dynamic_shapes` is what the
    padding costs. Nothing is masked; a mask would make the padding no cheaper.

    Guards: kernels that become slower at one length, which the other case spreads over several.
    """
    sizes = dynamic_lengths(lengths)
    longest = max(sizes)
    first, *others = (
        tuple(F.pad(one, (0, longest - tokens)) for one in draw_tokens(batch, tokens)) for tokens in sizes
    )
    return Workload(
        Bert(layers, BASE),
        first,
        items=batch * MIDDLE_LENGTH,
        unit="tokens",
        flops=operations(batch, longest, layers, BASE),
        variants=tuple(others),
    )
