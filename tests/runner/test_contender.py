"""One contender without its session, beside telemetry that says what it is told to say."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from measuring import CASE_FILES, QUICK, Scratch, conditions, key

from runner.contender import Contender
from runner.process import Launch
from runner.records import Outcome, Planned
from runner.telemetry.reading import Reading, Recording

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

NEIGHBOUR = dict.fromkeys(("address", "name", "loan", "key", "hardware", "hardware_label"), "another")


class HundredWatts:
    """Tells of a GPU that took 100 W all the time."""

    def mark(self, root: int) -> Reading:
        return Reading(time.monotonic_ns())

    def watch(self, root: int, hz: float, cpus: tuple[int, ...] = ()) -> None:
        self._from = time.monotonic_ns()

    def rest(self) -> tuple[Recording, ...]:
        until = time.monotonic_ns()
        ends = [self._from + (until - self._from) * number // 20 for number in range(21)]
        seconds = (until - self._from) / 20e9
        values = {"energy": (100 * seconds,) * 20, "power": (100.0,) * 20}
        return (Recording("GPU-1", "a GPU", "gpm", tuple(ends[:-1]), tuple(ends[1:]), values),)

    def close(self) -> None: ...


def observed(folder: Path, *neighbours: dict[str, str]) -> Outcome:
    """What becomes of a case that such neighbours are lent to."""
    timing = replace(QUICK, observe_seconds=1.3)
    shared = conditions(folder, CASE_FILES / "counts.py", timing=timing)
    (target,) = shared.targets.values()
    launch = Launch(
        python=target.python,
        harness=shared.harness,
        variables={},
        cpus=(),
        own_cpus=(),
        log=folder / "log",
        deadline_seconds=timing.deadline_seconds,
        token=shared.run,
        neighbours=neighbours,
    )
    planned = Planned(key("counts"), target.name, 0)
    contender = Contender(planned, launch, timing, "cpu", None, lambda *_: None, None, HundredWatts())
    try:
        contender.prepare()
        while not contender.satisfied:
            contender.measure()
        contender.finish()
    finally:
        contender.abandon()
    assert contender.outcome is not None
    return contender.outcome


def test_there_is_no_energy_per_item_where_others_gpus_are_not_read(scratch: Scratch) -> None:
    alone = observed(scratch.folder / "alone")
    assert (alone.status, alone.metrics["power"]) == ("ok", pytest.approx(100))
    started, ended, iterations = alone.facts["window"]
    joules = 100 * (ended - started) / 1e9
    assert alone.metrics["energy_per_item"] == pytest.approx(joules / iterations, rel=1e-3)
    beside = observed(scratch.folder / "beside", NEIGHBOUR)
    assert (beside.status, beside.metrics["power"]) == ("ok", pytest.approx(100))
    assert "energy_per_item" not in beside.metrics
