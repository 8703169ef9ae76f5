"""The blocks of one contender: how long each is, which of them count, and when there are enough."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..session_plan import Timing
from ..telemetry.interference import Taint
from ..worker.messages import Block

#: A step of nanoseconds is told apart by far fewer samples than fit into a second; all of them are kept.
_BLOCK_ITERATIONS = 10_000
_ENOUGH_ITERATIONS = 100_000
#: The fastest of one iteration is that iteration: beside a faster contender, whose blocks hold several, a
#: slow one would look slower than it is. So blocks hold a few, unless that takes longer than this.
_LEAST_ITERATIONS = 3
_LEAST_NS = 1_500_000_000
#: For the sake of precision up to so many times what has to be measured is: about where the next pair of
#: processes, which has to start first, tells more than further rounds of this one.
_MORE = 4


class Blocks:
    """All blocks in the order taken. Tainted ones are kept and not counted: they are taken again.

    Steps take inputs of so many `shapes` in turn, and the turn goes on from block to block.
    """

    def __init__(self, timing: Timing) -> None:
        self.all: list[Block] = []
        self.shapes = 1
        self._timing = timing
        self._taints: dict[int, Taint] = {}
        self._few = max(2, timing.min_blocks // 2)

    def iterations(self, step_ns: int) -> int:
        """How many the next block has, where a warm step took `step_ns`."""
        if self.all:
            samples = sorted(self.all[-1].samples_ns)
            step_ns = samples[len(samples) // 2]
        step_ns = max(1, step_ns)
        least = _LEAST_ITERATIONS if step_ns * _LEAST_ITERATIONS <= _LEAST_NS else 1
        wanted = round(self._timing.block_seconds * 1e9 / step_ns)
        return min(max(least, wanted), _BLOCK_ITERATIONS)

    def take(self, block: Block, taint: Taint | None) -> None:
        """Keep a block."""
        if taint:
            self._taints[len(self.all)] = taint
        self.all.append(block)

    @property
    def clean(self) -> list[Block]:
        """Those that count."""
        return [block for number, block in enumerate(self.all) if number not in self._taints]

    @property
    def left_out(self) -> frozenset[int]:
        """The numbers, from 0, of those that do not."""
        return frozenset(self._taints)

    @property
    def last_is_tainted(self) -> bool:
        """Whether the last block does not count."""
        return len(self.all) - 1 in self._taints

    @property
    def untimed(self) -> int:
        """How many of the shapes have no sample that counts; of one shape, 1 where no block does."""
        timed: set[int] = set()
        place = 0
        for number, block in enumerate(self.all):
            many = len(block.samples_ns)
            if number not in self._taints:
                timed |= {at % self.shapes for at in range(place, place + min(many, self.shapes))}
            place += many
        return self.shapes - len(timed)

    @property
    def satisfied(self) -> bool:
        """Whether enough is measured, or the cap says stop.

        The cap is on all that was taken. A slow case may reach it before it could take a block again: of as
        few blocks as are enough, each may be taken twice. Nor does it leave shapes out, for a mean over some
        of them is not the case's: where nobody disturbs, that is half of the steps that warmed it up.
        """
        clean = self.clean
        seconds = sum(block.wall_ns for block in clean) / 1e9
        samples = sum(len(block.samples_ns) for block in clean)
        enough = seconds >= self._timing.measure_seconds or samples >= _ENOUGH_ITERATIONS
        complete = not self.untimed
        if len(clean) >= self._timing.min_blocks and enough and complete:
            return True
        twice = len(self.all) >= 2 * self._few and self._taken >= 2 * self.shapes
        return self._spent >= self._timing.max_seconds and (twice or (len(clean) >= self._few and complete))

    @property
    def exhausted(self) -> bool:
        """Whether no round more is taken for the sake of precision alone.

        Where inputs of several shapes take turns it is no block's floor that is compared.
        """
        most = min(self._timing.max_seconds, _MORE * self._timing.measure_seconds)
        return self.shapes > 1 or self._spent >= most or self._taken >= _ENOUGH_ITERATIONS

    @property
    def _spent(self) -> float:
        """Seconds of all blocks, whether they count or not."""
        return sum(block.wall_ns for block in self.all) / 1e9

    @property
    def _taken(self) -> int:
        """Samples of all blocks, whether they count or not."""
        return sum(len(block.samples_ns) for block in self.all)

    @property
    def floors(self) -> Mapping[int, int]:
        """The fastest iteration, in nanoseconds, of each block that counts, by its number from 0."""
        return {
            number: min(block.samples_ns)
            for number, block in enumerate(self.all)
            if number not in self._taints
        }

    def spoilt(self, blamed: str = "") -> tuple[str, str] | None:
        """Status and reason where too few blocks or shapes count; `blamed` ends what is said of others."""
        untimed = self.untimed
        if not self._taints or (len(self.clean) >= self._few and not untimed):
            return None
        # Of several kinds the more frequent one; of these the worst.
        status, many = Counter(taint.status for taint in self._taints.values()).most_common(1)[0]
        worst = max(
            (taint for taint in self._taints.values() if taint.status == status),
            key=lambda taint: taint.share or 0.0,
        )
        lost = (
            f", with all samples of {untimed} of {self.shapes} shapes" if self.shapes > 1 and untimed else ""
        )
        reason = f"{many} of {len(self.all)} blocks{lost}, at worst: {worst.reason}"
        return status, reason + (blamed if worst.cause == "cpu" else "")

    def facts(self) -> Mapping[str, Any]:
        """Each block's fastest iteration, and which blocks do not count, by their number from 0, and why.

        Contenders of a session take a block each in every round until they have enough: blocks of one number
        are of one round.
        """
        listed = [{"block": number, **taint.to_body()} for number, taint in self._taints.items()]
        floors = {"block_floors_ns": [min(block.samples_ns) for block in self.all]} if self.all else {}
        return {**floors, **({"tainted_blocks": listed} if listed else {})}
