"""Many readers at once, each of whom looks at a page, thinks, and goes on to another."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .tab import Tab

SEED = 20261122


@dataclass(frozen=True, slots=True)
class Seen:
    """A page that some reader looked at: its address, how long it took, what it should not have shown.

    One that does not count was seen while readers were still coming.
    """

    address: str
    seconds: float
    wrong: tuple[str, ...]
    counts: bool


async def crowd(url: str, addresses: Sequence[str], many: int, think: float, seconds: float) -> list[Seen]:
    """What `many` readers saw within `seconds`, thinking `think` seconds on average between two pages.

    They come one after the other while each would think once: what they see by then does not count.
    """
    starts_at = time.perf_counter() + think
    views: list[Seen] = []
    readers = [
        _reader(url, addresses, random.Random(SEED + each), think, starts_at, starts_at + seconds, views)
        for each in range(many)
    ]
    await asyncio.gather(*readers)
    return views


async def _reader(
    url: str,
    addresses: Sequence[str],
    luck: random.Random,
    think: float,
    starts_at: float,
    ends_at: float,
    views: list[Seen],
) -> None:
    await asyncio.sleep(luck.uniform(0.0, think))
    tab = await Tab.opened(url)
    while (begun := time.perf_counter()) < ends_at:
        address = luck.choice(addresses)
        visit = await tab.visit(address)
        views.append(Seen(address, visit.seconds, visit.wrong, begun >= starts_at))
        pause = luck.uniform(0.5, 1.5) * think
        await asyncio.sleep(min(pause, max(0.0, ends_at - time.perf_counter())))
    await tab.closed()
