"""Several processes as one case: independent instances, or the ranks of a parallel one.

The worker leads and computes nothing. A step of ranks is one step of all, on however many machines: its time
is that of its slowest rank; on a CPU each rank has one core, or as many as axis `threads` says. Instances
divide all CPUs and share no step: the case's latency is that of the slowest of them in each block, and its
throughput the sum of what each does in its own time.
"""

import time
from collections.abc import Mapping, Sequence
from math import ceil
from statistics import median
from typing import Any

import torch

from .. import correctness
from ..case_key import CaseKey
from ..measurements import timing
from ..messages import Block, Window
from . import communication
from .cpu_partition import cores_of, observed_threads, own_cpus
from .members import GroupSpec, LocalMembers, Members
from .parallel import DATA_PARALLEL, part_key, refuse, store
from .rank import judge
from .torchrun import THIS, NodeSpec, TorchrunMembers

_MOMENT_NS = 1_000_000
#: Steps between two orders while warming up and while observed.
_ROUND_NS = 50_000_000
#: Until a step's time is known.
_FIRST_ROUND = 1
#: Peaks are of the member that needs most, times and shares of the worst off; what is counted or computed a
#: second adds up.
_LARGEST = (
    *("rss_peak", "cuda_peak", "fragmentation", "data_wait"),
    *("device_time", "launch_bound", "request_latency", "queue_latency"),
    *("export_time", "capture", "instantiate", "first_replay"),
)
_SMALLEST = ("pages_local",)
_ADDED = ("switches", "migrations", "alloc_retries", "ceiling_tflops")
#: Published peaks of the card of each rank: the case has those of all.
_PEAKS = ("card_peak_tflops", "card_peak_gb_per_second")
#: Of instances on one GPU each has all of it, for they measure this one after the other.
_OF_THE_GPU = ("ceiling_tflops",)


class RankGroup:
    """Leader of the members of one case; raises UnsupportedCase, and MemberFailed for one that fails or dies.

    `nodes` are those of the run, this machine first; members on the others keep to `cpus` (none: all there).
    """

    def __init__(
        self,
        key: CaseKey,
        device: str,
        seed: int,
        nodes: tuple[NodeSpec, ...] = (),
        cpus: tuple[int, ...] = (),
    ) -> None:
        refuse(key, device, max(1, len(nodes)))
        self._key = key
        self._device = device
        self._parallel = key.axis("parallel") != "none"
        self._count = key.count("ranks" if self._parallel else "instances")
        part_key(key)
        spec = GroupSpec(
            word="rank" if self._parallel else "instance",
            count=self._count,
            each=self._cores_each(),
            threads=None if key.axis("threads") == "preset" else key.count("threads"),
        )
        self._torchrun = key.axis("launcher") == "torchrun" or key.count("nodes") > 1
        self._members: Members
        if self._torchrun:
            self._members = TorchrunMembers(spec, (nodes or (THIS,))[: key.count("nodes")], cpus)
        else:
            self._members = LocalMembers(spec)
        # Kept as long as the members need it to find each other.
        self._store = store(0, leads=True) if self._parallel and not self._torchrun else None
        self._samples: list[list[int]] = [[] for _ in range(self._count)]
        #: Of each block that counts: the place of its first step in the turn of shapes, and its samples.
        self._timed: list[tuple[int, Sequence[int]]] = []
        self._place = 0
        self._traces: list[dict[str, Any]] = []
        self._seen: dict[int, Mapping[str, Any]] = {}
        self._facts: dict[str, Any] = {}
        self._late_ns = 0
        #: Of the last block: timed iterations, untimed ones before them, iterations of one sample.
        self._steps = {"iterations": _FIRST_ROUND, "lead_in": 0, "per_sample": 1}
        self._last_samples = 0
        #: Steps after the first call until every shape of inputs has come twice.
        self._early_steps = 0
        #: Inputs of how many shapes the steps take in turn; 1 where all are alike.
        self._shapes = 1
        self._build(device, seed)

    def first_call(self) -> int:
        """The first step of all; of a training case, losses and gradients are kept for the answer's check."""
        reports = self._members.request("first_call", start_ns=self._members.soon())
        self._traces = [one["trace"] for one in reports if one["trace"] is not None]
        return max(one["ns"] for one in reports)

    def warm_up(self, min_seconds: float, max_seconds: float) -> timing.WarmUp:
        """Rounds of steps until they are steady, judged as one process's are, the clocks of GPUs included.

        Every shape of inputs comes twice before.
        """
        if self._early_steps:
            self._members.request("steps", count=self._early_steps, start_ns=self._members.soon())
        steps: list[int] = []
        started = time.perf_counter_ns()
        count = _FIRST_ROUND
        while True:
            reports = self._members.request("steps", count=count, start_ns=self._members.soon())
            steps += _slowest(reports, ranks=self._parallel)
            elapsed = (time.perf_counter_ns() - started) / 1e9
            ended = "steady" if elapsed >= min_seconds and timing.steady(steps) else ""
            ended = ended or ("cap" if elapsed >= max_seconds else "")
            last = round(median(steps[-3:]))
            if ended:
                by_steps = timing.seconds_to_steady(steps, elapsed)
                if self._device.startswith("cuda"):
                    last, is_steady = self._queued_until_clocks_are_steady(
                        last, started + round(max_seconds * 1e9)
                    )
                    ended = ended if is_steady else "cap"
                    elapsed = (time.perf_counter_ns() - started) / 1e9
                self._members.request("settle")
                return timing.WarmUp(len(steps), elapsed, ended, last, by_steps)
            count = max(1, _ROUND_NS // max(1, last))

    def _queued_until_clocks_are_steady(self, alone_ns: int, until_ns: int) -> tuple[int, bool]:
        """Nanoseconds of a queued step of the slowest, and whether all clocks were steady by `until_ns`."""
        before: list[int] = []
        while True:
            reports = self._members.request("queued", alone_ns=alone_ns, start_ns=self._members.soon())
            taken, clocks = max(one["ns"] for one in reports), [one["mhz"] for one in reports]
            pairs = [*zip(before, clocks, strict=False)]
            if None in clocks or (
                pairs and all(abs(now - then) <= timing.STEADY_CLOCK * then for then, now in pairs)
            ):
                return taken, True
            if time.perf_counter_ns() >= until_ns:
                return taken, False
            before = clocks

    def block(self, iterations: int, lead_in: int, per_sample: int) -> Block:
        """Timed steps of all members, begun together."""
        self._steps = {"iterations": iterations, "lead_in": lead_in, "per_sample": per_sample}
        blocks = self._blocks(self._steps)
        for samples, own in zip(self._samples, blocks, strict=True):
            samples.extend(own.samples_ns)
        self._last_samples = iterations // per_sample
        common = merge_blocks(blocks, ranks=self._parallel)
        self._timed.append((self._place, common.samples_ns))
        self._place += len(common.samples_ns)
        self._late_ns = max(self._late_ns, max(own.started_ns for own in blocks) - common.started_ns)
        return common

    def forget(self) -> None:
        """Leave the last block out of every member's samples and counts."""
        for samples in self._samples:
            del samples[len(samples) - self._last_samples :]
        self._last_samples = 0
        self._timed.pop()
        self._members.request("forget")

    def observe(self, seconds: float) -> Window:
        """Free-running steps for `seconds`; the iterations are those of each member, who all do as many.

        In few long rounds: between two of them the members wait, which is no part of what is looked at.
        """
        started = self._members.soon() or time.monotonic_ns()
        ended, iterations, count = started, 0, self._steps["iterations"]
        while (left := seconds * 1e9 - (ended - started)) > 0:
            if iterations:
                count = max(1, ceil(left * iterations / (ended - started)))
            self._members.request("observe", count=count, start_ns=self._members.soon())
            iterations += count
            ended = time.monotonic_ns()
        return Window(started, ended, iterations)

    def facts(self) -> dict[str, Any]:
        """What describes the case as a whole; `members` says it of each, placement included."""
        reports: list[dict[str, Any]] = self._members.request("facts")
        facts = {**reports[0], **self._facts}
        if not self._parallel:
            facts["items"] = sum(one["items"] for one in reports)
            totals = [name for name in ("flops", "bytes_moved") if reports[0].get(name)]
            facts |= {name: sum(one[name] for one in reports) for name in totals}
        else:
            facts |= add_peaks(reports)
        # CPU 3 of another machine is not ours.
        own = [reports[number]["affinity"] for number in self._members.own]
        facts["affinity"] = {
            "allowed": sorted({text for one in own for text in one["allowed"]}),
            "seen": sorted({cpu for one in own for cpu in one["seen"]}),
        }
        facts["members"] = [self._facts_of(number, one) for number, one in enumerate(reports)]
        if notes := [one["ceiling_note"] for one in reports if "ceiling_note" in one]:
            # What one of them lacks the case has not.
            facts["ceiling_note"] = notes[0]
        facts["members_pinned_by"] = self._members.pinned_by
        facts |= self._members.facts()
        if self._members.one_clock:
            facts["started_apart_us"] = self._late_ns / 1e3
        else:
            facts["looked_at"] = "threads, counters and memory of this machine; of others what members report"
        if not self._device.startswith("cuda"):
            facts["cpus_in_use"] = self._cpus_in_use(reports)
        return facts

    def metrics(self) -> Mapping[str, float]:
        """Throughput of all members, peaks of the largest, and of ranks what their communication costs."""
        one_gpu = not self._parallel and self._device.startswith("cuda")
        if one_gpu:
            reports = [self._members.request_one(number, "metrics") for number in range(self._count)]
        else:
            reports = self._members.request("metrics")
        if self._parallel and self._device.startswith("cuda") and all(self._samples):
            reports = [{**own, **more} for own, more in zip(reports, self._device_time(), strict=True)]
        known = merge_metrics(reports, one_gpu=one_gpu)
        if not self._parallel:
            # Where no block counts there is none.
            known |= {"throughput": self._throughput()} if all(self._samples) else {}
        elif self._key.axis("parallel") in DATA_PARALLEL:
            metrics, facts = communication.measure(self, self._key)
            known |= metrics
            self._facts |= facts
        return known

    def check(self) -> correctness.Check:
        """Every member's answer; of a training over ranks, the first step of all against one process's."""
        if self._parallel and self._key.phase == "train":
            return judge(self._key, self._traces, self._members.request_one(0, "reference"))
        checks = [correctness.Check(**one) for one in self._members.request("check")]
        compared = [one for one in checks if one.error is not None or one.wrong] or checks
        wrong = [one for one in compared if one.wrong]
        return wrong[0] if wrong else max(compared, key=lambda one: one.error or 0.0)

    def close(self) -> None:
        """Have the members leave."""
        self._members.close()

    # -- for the cost of communication ----------------------------------------------------

    @property
    def ranks(self) -> int:
        """How many members there are."""
        return self._count

    def common_steps(self) -> list[int]:
        """Nanoseconds of about as many steps as the last block had, the slowest rank's each."""
        return list(merge_blocks(self._blocks(self._whole_turns()), ranks=self._parallel).samples_ns)

    def local_steps(self) -> list[list[int]]:
        """As many steps of every rank without communication."""
        return self._members.request("local", start_ns=self._members.soon(), **self._whole_turns())

    def collective(self, kind: str, sizes: list[int]) -> list[float]:
        """Seconds of a collective of each size in bytes, the slowest rank's; empty where there is none."""
        reports = self._members.request("collective", kind=kind, sizes=sizes)
        return [] if None in reports[0] else [max(own) for own in zip(*reports, strict=True)]

    def gradient_bytes(self) -> int:
        """The size of all gradients of one rank."""
        return self._members.request_one(0, "facts")["gradient_bytes"]

    # -- members --------------------------------------------------------------------------

    def _cores_each(self) -> int | None:
        """Of ranks always as many, or scaling would compare unlike things; None divides all there are."""
        if not self._parallel:
            return None
        if self._device.startswith("cuda"):
            return max(1, len(cores_of(own_cpus())) // torch.cuda.device_count())
        return 1 if self._key.axis("threads") == "preset" else self._key.count("threads")

    def _build(self, device: str, seed: int) -> None:
        store_port = None if self._store is None else self._store.port
        about = {"case": str(self._key), "device": device, "seed": seed, "world": self._count}
        for number in range(self._count):
            local = self._members.local_number(number)
            self._members.order_one(number, "build", rank=number, local=local, store_port=store_port, **about)
        # The first call is one of them.
        early = max(self._members.gather())
        self._early_steps = max(0, early - 1)
        self._shapes = max(1, early // 2)

    def _whole_turns(self) -> dict[str, int]:
        """The steps of the last block, or a few more, in which each shape comes equally often."""
        turns = {
            name: self._shapes * ceil(self._steps[name] / self._shapes) for name in ("iterations", "lead_in")
        }
        return self._steps | turns

    def _blocks(self, steps: dict[str, int]) -> list[Block]:
        """A block of such `steps` of every member."""
        # Ranks wait for each other in every step; instances keep each other company to the end.
        on = not self._parallel
        start = self._members.soon()
        self._members.order("block", start_ns=start, on=on, **steps)
        looked = 0 if self._seen else self._look_at_threads(start)
        if on:
            self._members.gather()
            self._members.order("halt")
        blocks = self._in_our_time(self._members.gather())
        if looked:
            own = [blocks[number] for number in self._members.own]
            within = all(one.started_ns <= looked <= one.started_ns + one.wall_ns for one in own)
            self._facts["seen_within_block"] = within
        return blocks

    def _look_at_threads(self, start_ns: int) -> int:
        """See where every thread is, a moment after `start_ns`; answers when that was.

        Once, in the first block: it costs the members a millisecond or so.
        """
        start_ns = start_ns or time.monotonic_ns()
        time.sleep(max(0.0, (start_ns + _MOMENT_NS - time.monotonic_ns()) / 1e9))
        looked = time.monotonic_ns()
        pids, shares = self._members.pids, self._members.shares
        self._seen = {number: observed_threads(pids[number], shares[number]) for number in self._members.own}
        return looked

    def _in_our_time(self, reports: list[dict[str, Any]]) -> list[Block]:
        """The members' blocks. Those of other machines have begun, by our clock, when the first here did.

        That is right to what a message takes: members wait for each other before a block.
        """
        own = self._members.own
        began = min(reports[number]["started_ns"] for number in own)
        blocks: list[Block] = []
        for number, report in enumerate(reports):
            samples, started = report.pop("samples_ns"), report.pop("started_ns")
            clocks = tuple(report.pop("sm_clocks_mhz"))
            started = started if number in own else began
            blocks.append(
                Block(samples_ns=tuple(samples), started_ns=started, sm_clocks_mhz=clocks, **report)
            )
        return blocks

    def _device_time(self) -> list[dict[str, float]]:
        """What every rank's GPU does in steps that all take together, of the case's own length."""
        step_ns = timing.typical_step_ns(self._timed, self._shapes)
        return self._members.request("device_time", step_ns=step_ns, start_ns=self._members.soon())

    def _throughput(self) -> float:
        """Items a second of all instances, each in its own time."""
        items = [one["items"] for one in self._members.request("facts")]
        latencies = [median(samples) / 1e9 for samples in self._samples]
        return sum(own / seconds for own, seconds in zip(items, latencies, strict=True))

    def _cpus_in_use(self, reports: list[dict[str, Any]]) -> int:
        """On how many CPUs the members compute at once, at most."""
        pairs = zip(reports, self._members.shares, strict=True)
        return sum(min(one["threads"], len(share)) for one, share in pairs)

    def _facts_of(self, number: int, report: Mapping[str, Any]) -> dict[str, Any]:
        samples = self._samples[number]
        node = self._members.node_of(number)
        return {
            **({"node": node} if node else {}),
            "pid": self._members.pids[number],
            "cpus": list(self._members.shares[number]),
            "threads": report["threads"],
            "latency_ms": median(samples) / 1e6 if samples else None,
            "during_block": dict(self._seen[number]) if number in self._seen else None,
        }


def add_peaks(reports: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The published peaks of the cards of all ranks together; None where those of a rank are not known."""
    found: dict[str, float | None] = {}
    for name in _PEAKS:
        peaks = [one[name] for one in reports if name in one]
        if peaks:
            found[name] = sum(peaks) if len(peaks) == len(reports) else None
    return found


def merge_metrics(reports: Sequence[Mapping[str, float]], *, one_gpu: bool) -> dict[str, float]:
    """Metrics of all members merged into one set; `one_gpu`: the members share a GPU.

    Where some members have no value, the worst is that of the others, a sum is none; the rest is the first's.
    """
    merged = dict(reports[0])
    for name in dict.fromkeys(name for one in reports for name in one):
        values = [one[name] for one in reports if name in one]
        if name.startswith(_LARGEST) or (one_gpu and name in _OF_THE_GPU):
            merged[name] = max(values)
        elif name in _SMALLEST:
            merged[name] = min(values)
        elif name in _ADDED and len(values) == len(reports):
            merged[name] = sum(values)
        elif name in _ADDED:
            merged.pop(name, None)
    return merged


def merge_blocks(blocks: Sequence[Block], *, ranks: bool) -> Block:
    """The blocks of all members as one, in samples as long as those of the slowest; counts are sums.

    But CPU time of instances is what all of them would have had with the share of a core of the worst off:
    summed up, two with half a core each would pass for one with a core of its own. Of ranks it is a sum,
    for a rank sleeps while it waits for the others.
    """
    started = min(own.started_ns for own in blocks)
    wall = max(own.started_ns + own.wall_ns for own in blocks) - started
    least = min(own.cpu_ns / own.wall_ns for own in blocks)
    return Block(
        samples_ns=tuple(_slowest([own.samples_ns for own in blocks], ranks=ranks)),
        wall_ns=wall,
        started_ns=started,
        minor_faults=sum(own.minor_faults for own in blocks),
        involuntary_switches=sum(own.involuntary_switches for own in blocks),
        cpu_ns=sum(own.cpu_ns for own in blocks) if ranks else round(wall * least),
        per_sample=blocks[0].per_sample,
        # The slowest GPU sets the pace of all ranks. Of one that instances share, a clock measured by one of
        # them would hold the turns of the others.
        sm_clocks_mhz=min(own.sm_clocks_mhz for own in blocks) if ranks else (),
    )


def _slowest(reports: Sequence[Sequence[int]], *, ranks: bool) -> Sequence[int]:
    """Of ranks the slowest in each step, of instances the one whose steps were slowest."""
    return [max(step) for step in zip(*reports, strict=True)] if ranks else max(reports, key=median)
