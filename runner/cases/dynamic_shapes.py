"""A small BERT whose sequences differ in length from step to step: what new shapes cost a compiler."""

from ..worker.case import Workload, case
from .bert import BASE, Bert, draw, operations

MIDDLE, STEP = 128, 16
#: As many lengths as there are steps around the middle that leave a token.
MOST = 2 * (MIDDLE // STEP) - 1


def _lengths(count: int) -> list[int]:
    """`count` lengths around 128, an odd number of them, so that 128 is mean and median; 128 comes first."""
    reach = count // 2
    around = [MIDDLE + STEP * offset for offset in range(-reach, reach + 1) if offset]
    # Neither rising nor falling, so that no length can be guessed from the one before.
    return [MIDDLE, *around[::2], *around[1::2]]


@case(batch=[4], layers=[2], lengths=[3, 9])
def dynamic_shapes(batch: int, layers: int, lengths: int) -> Workload:
    """BERT-base of few layers over an odd number of sequence lengths in turn; 9 exceed Dynamo's limit of 8.

    Items and operations of a step are means over the lengths.
    """
    if lengths > MOST:
        raise ValueError(f"lengths must be {MOST} at most, or the shortest has no token, not {lengths}")
    if lengths % 2 == 0:
        raise ValueError(f"lengths must be odd, so that their mean is one of them, not {lengths}")
    sizes = _lengths(lengths)
    first, *others = (draw(batch, tokens) for tokens in sizes)
    return Workload(
        Bert(layers, BASE),
        first,
        items=batch * MIDDLE,
        unit="tokens",
        flops=sum(operations(batch, tokens, layers, BASE) for tokens in sizes) / lengths,
        variants=tuple(others),
    )
