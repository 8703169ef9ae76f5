"""Years of nights from a seed: what four machines measured, as rows and as records."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from db.runs import sample_codec
from db.telemetry.queries import stored_values
from records.environments import Environment
from records.machines import Hardware, Machine
from records.outcomes import Measurement, Outcome
from records.runs import Run, RunPreset
from records.telemetry import Recording

SEED = 20261121
#: The night after the last one of every history that ends at no other time.
END = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
MACHINES, CASES, REPLICATES = 4, 70, 3
METRICS = ("latency", "latency_floor", "throughput", "first_call", "rss_peak")
#: Results, that is measurements, of one machine in one night.
A_NIGHT = CASES * len(METRICS)
#: PyTorch brings out a version about every two months.
NIGHTS_A_RELEASE = 60
#: Every so many nights there is a trace.
NIGHTS_A_TRACE = 10
#: Rows of a telemetry window: two minutes at 5 Hz.
WINDOW_ROWS = 600
#: Different outcomes, samples and recordings; more would only take longer to make.
_POOL = 200

Row = tuple[Any, ...]


def case(number: int) -> str:
    """The key of a case."""
    return f"workload_{number // 2:02d}/infer/batch=8/{('eager', 'compile=default')[number % 2]}"


def machine(number: int) -> Machine:
    """A machine, the only one of its hardware."""
    hardware = Hardware(f"hardware-{number}", f"GPU {number}", {"cpus": 16})
    return Machine(f"machine-{number}", f"bench-{number}", hardware, {"kernel": "6.8.0"})


def environment(release: int) -> Environment:
    """The environment of a release, which begins with 2.0.0."""
    version = f"2.{release}.0+cu126"
    packages = {f"package-{each}": f"1.{each}.{release}" for each in range(60)}
    return Environment(
        f"environment-{version}", f"torch-{version}", version, "3.12.3", {"packages": packages}
    )


PRESET = RunPreset("preset-quiet", "quiet", {"threads": 1})


@dataclass(frozen=True, slots=True)
class Night:
    """One night on one machine: its run, as a number and by name."""

    number: int
    run: str
    machine: int
    release: int
    started_at: datetime


class History:
    """About `results` measurements and `samples` rows of telemetry beside the newest outcomes.

    `end` is the night after its last one.
    """

    def __init__(self, results: int, samples: int, end: datetime = END) -> None:
        self.count = max(2, round(results / (MACHINES * A_NIGHT)))
        self.windows = samples // WINDOW_ROWS
        self.end = end
        self._random = np.random.default_rng(SEED)

    @property
    def releases(self) -> int:
        """How many versions there are."""
        return (self.count - 1) // NIGHTS_A_RELEASE + 1

    def night(self, night: int, machine: int) -> Night:
        """A night by its number from 0; those from `count` on are yet to come."""
        started_at = self.end - timedelta(days=self.count - night) + timedelta(minutes=machine)
        number = night * MACHINES + machine + 1
        release = min(night // NIGHTS_A_RELEASE, self.releases - 1)
        return Night(number, f"{started_at:%Y%m%d-%H%M%S}-{machine}", machine, release, started_at)

    def nights(self) -> Iterator[Night]:
        """All of them, oldest first."""
        return (self.night(night, each) for night in range(self.count) for each in range(MACHINES))

    def points(self) -> list[list[float]]:
        """Point, low, high, smallest, largest, spread of every case and metric in one night."""
        levels = np.repeat(np.linspace(1.0, 90.0, CASES), len(METRICS))
        points = levels * np.exp(self._random.normal(0.0, 0.01, A_NIGHT))
        around = points[:, None] * [1.0, 0.98, 1.02, 0.99, 1.01]
        return np.column_stack([around, self._random.uniform(0.005, 0.02, A_NIGHT)]).tolist()

    @cached_property
    def outcomes(self) -> list[Row]:
        """Status, reason, phase, wall seconds, metrics, facts and log of a few hundred outcomes."""
        return [self._outcome(number) for number in range(_POOL)]

    def _outcome(self, number: int) -> Row:
        if number % 50 == 49:
            return "crashed", "killed by signal 9", "measure", 3.5, {}, {}, "Killed\n" * 20
        metrics = dict(zip(METRICS, self._random.uniform(1.0, 90.0, len(METRICS)).tolist(), strict=True))
        numbers = self._random.uniform(size=20).tolist()
        # With items in a step a technique has a speed-up.
        facts = {"items": 8, **{f"fact-{each}": value for each, value in enumerate(numbers)}}
        return "ok", "", "", 9.5, metrics, facts, ""

    @cached_property
    def blocks(self) -> list[tuple[tuple[int, ...], ...]]:
        """Samples: five blocks of twenty each."""
        drawn = self._random.lognormal(15.0, 0.01, (_POOL, 5, 20)).astype(int).tolist()
        return [tuple(tuple(block) for block in each) for each in drawn]

    @cached_property
    def encoded_blocks(self) -> list[tuple[int, bytes]]:
        """The same as they are stored."""
        return [sample_codec.encode(each) for each in self.blocks]

    @cached_property
    def recordings(self) -> list[dict[str, Any]]:
        """Telemetry windows as they are stored: seven columns of a GPU that works."""
        return [stored_values(self._recording()) for _ in range(_POOL // 10)]

    def _recording(self) -> Recording:
        stamps = (np.arange(WINDOW_ROWS + 1) * 200_000_000).tolist()
        walks = np.abs(self._random.normal(0.0, 1.0, (7, WINDOW_ROWS)).cumsum(axis=1)).round(1)
        names = ("gpu_busy", "power", "temperature", "memory_used", "clock_sm", "cpu_busy", "tree_memory")
        values = {name: tuple(walk.tolist()) for name, walk in zip(names, walks, strict=True)}
        return Recording("GPU-0", "GPU", "samples", tuple(stamps[:-1]), tuple(stamps[1:]), values)

    def operators(self) -> str:
        """The facts of a traced outcome."""
        rows = [{"name": f"aten::op_{each}", "calls": each, "own_ms": each / 7} for each in range(80)]
        return json.dumps({"device": "cuda", "operators": rows})

    def run(self, night: Night) -> Run:
        """The run of a night, as the store is given it."""
        return Run(
            id=night.run,
            suite="nightly",
            started_at=night.started_at,
            ended_at=night.started_at + timedelta(minutes=50),
            state="complete",
            machine=machine(night.machine),
            environments=(environment(night.release),),
            preset=PRESET,
            harness="harness-1f3a",
            planned=CASES * REPLICATES,
            command="pyrometer run --suite nightly",
            facts={"load_average": 0.2},
        )

    def outcomes_of(self, night: Night) -> list[Outcome]:
        """Its outcomes with their samples."""
        fingerprint = environment(night.release).fingerprint
        found: list[Outcome] = []
        for number in range(CASES):
            for replicate in range(REPLICATES):
                which = (night.number + number * REPLICATES + replicate) % _POOL
                status, reason, phase, wall, metrics, facts, log = self.outcomes[which]
                found.append(
                    Outcome(
                        case(number),
                        fingerprint,
                        replicate,
                        status,
                        reason,
                        phase,
                        night.started_at,
                        wall,
                        metrics,
                        facts,
                        log,
                        self.blocks[which] if status == "ok" else (),
                    )
                )
        return found

    def measurements_of(self, night: Night) -> list[Measurement]:
        """Its results."""
        fingerprint = environment(night.release).fingerprint
        names = [(case(number), metric) for number in range(CASES) for metric in METRICS]
        return [
            Measurement(key, fingerprint, metric, *values, REPLICATES)
            for (key, metric), values in zip(names, self.points(), strict=True)
        ]
