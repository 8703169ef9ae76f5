"""The pinned baseline as a control for changes of the machine on the same nights."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from .night_noise import NightNoise
from .nights import Change, NightValue, logs_of

#: The most nights of the old level and of the newest ones from which the control's change is computed.
_BEFORE, _NEWEST = 30, 7
#: The control changed in the same way if its change is at least this share, and this number of its standard
#: errors.
_SHARED, _SURE = 0.5, 2.0


def known_of(control: Sequence[NightValue | None]) -> dict[int, float]:
    """Logarithms of a control by night; raises ValueError for a value that is not above 0."""
    there = {number: night for number, night in enumerate(control) if night is not None}
    return dict(zip(there, logs_of(list(there.values())), strict=True))


def mark_machine_change(change: Change, control: Mapping[int, float], nights: int) -> Change:
    """The change, attributed to the machine if the control changed in the same way within `nights` nights.

    `control` are logarithms by night. A control that was not measured on both sides is ignored, and so is a
    change within its own noise.
    """
    end = max(change.raised + 1, change.index + nights)
    until = [(night, control[night]) for night in sorted(control) if night < end]
    # Measured like the change itself: a drift relative to the beginning of its level.
    first = change.since if change.shape == "drift" else max(change.since, change.index - _BEFORE)
    old = [value for night, value in until if first <= night < min(change.index, first + _BEFORE)]
    new = [value for night, value in until if night >= change.index][-max(_NEWEST, nights) :]
    if not old or not new:
        return change
    noise = NightNoise()
    for (_, before), (_, after) in pairwise(until):
        noise.add(after - before)
    error = (noise.spread or 0.0) * math.sqrt(1 / len(old) + 1 / len(new))
    moved = math.copysign(1, change.change) * (median(new) - median(old))
    return replace(change, machine=moved >= max(_SHARED * abs(change.change), _SURE * error))


def merge_changes(own: Sequence[Change], of_ratio: Sequence[Change], nights: int) -> list[Change]:
    """Changes of a series and of its ratio to the control, each change once, in the order in which they were
    raised.

    Of two equal changes the one that was raised first is used, so that it keeps its place. If the ratio
    changed too, the machine is not the only cause; a change that returned in one and stayed in the other has
    stayed.
    """
    changes = list(own)
    for change in of_ratio:
        same = [other for other in changes if _same(other, change, nights)]
        if change.state == "returned":
            changes.extend(() if same else (change,))
        elif not any(
            other.raised <= change.raised and not other.machine and other.state != "returned"
            for other in same
        ):
            changes = [*(other for other in changes if other not in same), change]
    return sorted(changes, key=lambda change: (change.raised, change.index))


def _same(one: Change, other: Change, nights: int) -> bool:
    """Whether both have the same direction and began within the given number of nights, or each before the
    other was detected.
    """
    return one.direction == other.direction and (
        abs(one.index - other.index) <= nights or (one.index <= other.raised and other.index <= one.raised)
    )
