"""The blocks of one contender: their length, which of them count, and when there are enough."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from records.outcomes import OutcomeStatus

from ..session_plan import Timing
from ..telemetry.interference import Interference
from ..worker.messages import Block, Measure

#: For a step of nanoseconds far fewer samples than fit into a second are enough; all of them are kept.
_BLOCK_ITERATIONS = 10_000
_ENOUGH_ITERATIONS = 100_000
#: The minimum over a single iteration is that iteration, so a slow contender would look slower than it is
#: next to a faster one whose blocks hold several. Blocks hold a few, unless that takes longer than this.
_MIN_ITERATIONS = 3
_MIN_ITERATIONS_NS = 1_500_000_000
#: For precision, up to this multiple of the required time is measured. Beyond it the next pair of
#: processes, start-up included, adds more information than further rounds of this pair.
_PRECISION_FACTOR = 4

#: On CUDA a block lasts as long at least, and untimed steps lead in to it: clocks and power draw of a GPU
#: take some 10 ms to follow its load.
_CUDA_BLOCK_SECONDS = 0.4
_LEAD_IN_NS = 50_000_000
_LEAST_LEAD_IN = 2
#: On CUDA steps shorter than this share a sample: an event between two costs 1.4 us (examples/gpu/h100).
_SAMPLE_NS = 1_000_000
#: Processes that share a GPU have it in turn, for some 2 ms each: a sample of theirs spans many turns, or
#: most would hold no waiting at all.
_SHARED_SAMPLE_NS = 50_000_000

#: With fewer common rounds the spread is unknown.
_MIN_ROUNDS = 4
#: Of the normal distribution, both sides of 95 %.
_Z = 1.96


class Blocks:
    """All blocks in the order taken. Disturbed blocks are kept, are not counted, and are taken again.

    Steps take inputs of `shapes` different shapes in rotation; the rotation continues from block to block.
    With `on_cuda` the middle of a block is what is compared, else its fastest iteration: on a CPU others can
    only slow a step down, a GPU also runs faster than it can for long. With `shared` several processes of the
    case share one GPU.
    """

    def __init__(self, timing: Timing, on_cuda: bool = False, shared: bool = False) -> None:
        self.all: list[Block] = []
        self.shapes = 1
        self._on_cuda = on_cuda
        self._sample_ns = _SHARED_SAMPLE_NS if shared else _SAMPLE_NS
        self._timing = timing
        self._disturbed: dict[int, Interference] = {}
        self._few = max(2, timing.min_blocks // 2)

    def request(self, step_ns: int) -> Measure:
        """The next block to ask for; `step_ns` is the duration of a warm step."""
        if self.all:
            samples = sorted(self.all[-1].samples_ns)
            step_ns = samples[len(samples) // 2]
        step_ns = max(1, step_ns)
        least = _MIN_ITERATIONS if step_ns * _MIN_ITERATIONS <= _MIN_ITERATIONS_NS else 1
        if not self._on_cuda:
            count = round(self._timing.block_seconds * 1e9 / step_ns)
            return Measure(min(max(least, count), _BLOCK_ITERATIONS))
        per_sample = 1 if self.shapes > 1 else max(1, -(-self._sample_ns // step_ns))
        count = round(max(self._timing.block_seconds, _CUDA_BLOCK_SECONDS) * 1e9 / step_ns / per_sample)
        samples = min(max(least, count), _BLOCK_ITERATIONS)
        lead_in = self._whole_rotations(max(_LEAST_LEAD_IN, -(-_LEAD_IN_NS // step_ns)))
        return Measure(samples * per_sample, lead_in, per_sample)

    def _whole_rotations(self, steps: int) -> int:
        """`steps` or a few more, so that the timed steps go on with the shape after the last timed one."""
        return self.shapes * -(-steps // self.shapes)

    def take(self, block: Block, interference: Interference | None) -> None:
        """Add a block; `interference` is what disturbed it, None if nothing did."""
        if interference:
            self._disturbed[len(self.all)] = interference
        self.all.append(block)

    def clock_ratio(self, block: Block) -> float | None:
        """The GPU's clock in a block by that in the blocks before; 1 for the first, None where not known."""
        if not block.sm_clocks_mhz:
            return None
        clocks = [sum(one.sm_clocks_mhz) for one in self.all if one.sm_clocks_mhz]
        return sum(block.sm_clocks_mhz) / median(clocks) if clocks else 1.0

    @property
    def clean(self) -> list[Block]:
        """The blocks that count."""
        return [block for number, block in enumerate(self.all) if number not in self._disturbed]

    @property
    def left_out(self) -> frozenset[int]:
        """The numbers, from 0, of the blocks that do not count."""
        return frozenset(self._disturbed)

    @property
    def last_is_disturbed(self) -> bool:
        """Whether the last block was disturbed and does not count."""
        return len(self.all) - 1 in self._disturbed

    @property
    def untimed_shapes(self) -> int:
        """The number of shapes without a sample that counts."""
        timed: set[int] = set()
        position = 0
        for number, block in enumerate(self.all):
            samples = len(block.samples_ns)
            if number not in self._disturbed:
                timed |= {at % self.shapes for at in range(position, position + min(samples, self.shapes))}
            position += samples
        return self.shapes - len(timed)

    @property
    def satisfied(self) -> bool:
        """Whether enough is measured, or the cap is reached.

        The cap applies to the time of all blocks. A slow case may reach it before a disturbed block is taken
        again, so each of the fewest blocks that suffice may be taken twice. All shapes are measured even
        beyond the cap, for a mean over some of them is not the case's; without disturbance that takes half
        as many steps as the warm-up.
        """
        clean = self.clean
        seconds = sum(block.wall_ns for block in clean) / 1e9
        samples = sum(len(block.samples_ns) for block in clean)
        enough = seconds >= self._timing.measure_seconds or samples >= _ENOUGH_ITERATIONS
        complete = not self.untimed_shapes
        if len(clean) >= self._timing.min_blocks and enough and complete:
            return True
        twice = len(self.all) >= 2 * self._few and self._total_samples >= 2 * self.shapes
        return self._total_seconds >= self._timing.max_seconds and (
            twice or (len(clean) >= self._few and complete)
        )

    @property
    def exhausted(self) -> bool:
        """Whether no further round is taken for precision alone.

        With inputs of several shapes, blocks are not what is compared.
        """
        most = min(self._timing.max_seconds, _PRECISION_FACTOR * self._timing.measure_seconds)
        return self.shapes > 1 or self._total_seconds >= most or self._total_samples >= _ENOUGH_ITERATIONS

    @property
    def _total_seconds(self) -> float:
        """Seconds of all blocks, whether they count or not."""
        return sum(block.wall_ns for block in self.all) / 1e9

    @property
    def _total_samples(self) -> int:
        """Samples of all blocks, whether they count or not."""
        return sum(len(block.samples_ns) for block in self.all)

    @property
    def block_latencies(self) -> Mapping[int, float]:
        """What is compared of each block that counts, in nanoseconds by block number from 0."""
        summary = median if self._on_cuda else min
        return {
            number: summary(block.samples_ns)
            for number, block in enumerate(self.all)
            if number not in self._disturbed
        }

    def invalid_reason(self, offender_text: str = "") -> tuple[OutcomeStatus, str] | None:
        """Status and reason where too few blocks or shapes count; `offender_text` ends the reason."""
        untimed = self.untimed_shapes
        if not self._disturbed or (len(self.clean) >= self._few and not untimed):
            return None
        # The more frequent status, and its worst block.
        statuses = Counter(found.status for found in self._disturbed.values())
        status, count = statuses.most_common(1)[0]
        worst = max(
            (found for found in self._disturbed.values() if found.status == status),
            key=lambda found: found.share or 0.0,
        )
        lost = (
            f", with all samples of {untimed} of {self.shapes} shapes" if self.shapes > 1 and untimed else ""
        )
        reason = f"{count} of {len(self.all)} blocks{lost}, at worst: {worst.reason}"
        return status, reason + (offender_text if worst.cause == "cpu" else "")

    def facts(self) -> Mapping[str, Any]:
        """Facts of the outcome: each block's fastest iteration, and the disturbed blocks with the reason.

        On CUDA also each block's median, iterations a sample, and the GPU's clock before and after it. Blocks
        are numbered from 0. In every round each contender of a session takes one block until it has enough,
        so blocks with the same number belong to the same round.
        """
        listed = [{"block": number, **found.to_body()} for number, found in self._disturbed.items()]
        facts: dict[str, Any] = {"tainted_blocks": listed} if listed else {}
        if self.all:
            facts["block_floors_ns"] = [min(block.samples_ns) for block in self.all]
        if self.all and self._on_cuda:
            facts["block_medians_ns"] = [median(block.samples_ns) for block in self.all]
            facts["iterations_per_sample"] = [block.per_sample for block in self.all]
            facts["block_sm_clocks_mhz"] = [list(block.sm_clocks_mhz) for block in self.all]
        return facts


def precise(one: Blocks, other: Blocks, error: float) -> bool:
    """Whether the median over rounds of the log ratio of blocks has a standard error of at most `error`.

    Only the spread of the rounds decides, not their sign: exchanging the two gives the same answer, so
    taking rounds until the answer is yes favours neither.
    """
    first, second = one.block_latencies, other.block_latencies
    rounds = sorted(first.keys() & second.keys())
    logs = [math.log(second[n] / first[n]) for n in rounds if first[n] > 0 and second[n] > 0]
    return standard_error(logs) <= error


def standard_error(values: Sequence[float]) -> float:
    """Of the median of values, by their order statistics (McKean and Schrader 1984); infinite for too few.

    Half the width of the 95 % interval of a median by ranks, over 1.96: true for any distribution with a
    density at its median, where the formula for normal values is misled by a few wild ones.
    """
    count = len(values)
    if count < _MIN_ROUNDS:
        return math.inf
    ordered = sorted(values)
    rank = max(1, round((count + 1) / 2 - _Z * math.sqrt(count / 4)))
    return (ordered[count - rank] - ordered[rank - 1]) / (2 * _Z)
