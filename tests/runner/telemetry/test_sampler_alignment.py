"""A known step lands in the rows it belongs to: from any source, across a set clock and a restart."""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from records.telemetry import Recording
from support.fakes.nvml import Shim, settable_clock
from support.fakes.samplers import GPU, Samplers, one_tree
from support.waiting import until

MS = 1_000_000
#: A row of the shortest length whose counters took this long to sample is left out.
DOUBT_NS = 25 * MS
CLOCK_SET = "the clock was set meanwhile: busy time of that moment cannot be placed"


@dataclass(frozen=True)
class Played:
    """What samplers recorded of scripts that fall from `before` to `after` at one moment."""

    step_ns: int
    killed_ns: int
    clock_set_ns: int
    ended_ns: int
    recordings: dict[str, Recording]


@pytest.fixture(scope="module")
def played(shim: Shim, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Five samplers at once, of which one is killed and two have their clock set in mid-window."""
    folder = tmp_path_factory.mktemp("alignment")
    clock = settable_clock(folder)
    origin = time.monotonic() - 20
    scripts = {"gpm": "h200", "samples": "a100", "forward": "a100", "back": "a100", "killed": "h200"}
    variables = {
        name: {
            **shim.variables(script, f"origin {origin * 1e3:.3f}"),
            **({"LD_PRELOAD": str(clock), "CLOCK_STEP": str(folder / name)}),
        }
        for name, script in scripts.items()
    }
    with pytest.MonkeyPatch.context() as patch, one_tree() as tree:
        samplers = Samplers(folder / "log", patch)
        started = {name: samplers.start(GPU, variables=variables[name]) for name in scripts}
        for sampler in started.values():
            assert not sampler.read_counters(tree.root).problem
            sampler.start(tree.root, 10)
        for sampler in started.values():
            samplers.rows(sampler, 2)
        now = time.monotonic()
        clock_set, step, end = now + 0.8, now + 2.6, now + 4.2
        # Set back so far, stamps of before lie in the future until the end; no two of them are the same.
        for name, seconds in (("forward", 3), ("back", -4.05)):
            (folder / name).write_text(f"{clock_set * 1e3:.3f} {seconds}")
        for each in variables.values():
            with Path(each["NVML_SHIM"]).open("a") as script:
                moment = f"{(step - origin) * 1e3:.3f}"
                script.write(f"{moment} 0 gpm_2 20\n{moment} 0 gpu_busy 30\n")
        os.kill(samplers.pid(started["killed"]), signal.SIGKILL)
        killed = time.monotonic_ns()
        until(lambda: started["killed"].read_counters(tree.root).host, "the sampler reads")
        until(lambda: time.monotonic() > end, "it is late enough")
        found = {name: sampler.stop()[1] for name, sampler in started.items()}
        for sampler in started.values():
            sampler.close()
        yield Played(round(step * 1e9), killed, round(clock_set * 1e9), time.monotonic_ns(), found)


def rows(recording: Recording, column: str) -> list[tuple[int, int, float]]:
    """(start, end, value) of the rows that have one."""
    spans = zip(recording.started_ns, recording.ended_ns, recording.values[column], strict=True)
    return [(start, end, value) for start, end, value in spans if value is not None]


@pytest.mark.parametrize("name", ["gpm", "killed"])
def test_hardware_counters_fall_where_the_device_fell(played: Played, name: str) -> None:
    found = rows(played.recordings[name], "sm_utilisation")
    assert found[0][2] == pytest.approx(80) and found[-1][2] == pytest.approx(20)
    for start, end, value in found:
        before = min(1.0, max(0.0, (played.step_ns - start) / (end - start)))
        assert value == pytest.approx(20 + 60 * before, abs=60 * DOUBT_NS / (end - start))
        if end < played.step_ns - DOUBT_NS or start > played.step_ns + DOUBT_NS:
            assert value == pytest.approx(80 if end < played.step_ns else 20)


@pytest.mark.parametrize("name", ["samples", "forward", "back"])
def test_the_driver_s_samples_lie_wholly_in_their_rows(played: Played, name: str) -> None:
    found = rows(played.recordings[name], "gpu_busy")
    assert found[0][2] == 100 and found[-1][2] == 30
    for start, end, value in found:
        # A millisecond is what a fetch may err by.
        if end <= played.step_ns - MS:
            assert value == 100
        elif start >= played.step_ns + MS:
            assert value == 30
        else:
            assert 30 <= value <= 100


@pytest.mark.parametrize("name", ["samples", "forward", "back"])
def test_a_set_clock_costs_the_samples_about_it_and_no_more(played: Played, name: str) -> None:
    recording = played.recordings[name]
    was_set = name != "samples"
    assert (CLOCK_SET in recording.notes) is was_set
    spans = zip(recording.started_ns, recording.ended_ns, recording.values["gpu_busy"], strict=True)
    empty = [(start, end) for start, end, value in spans if value is None]
    for start, end in empty:
        # The fetch before the clock was set, and the one after it, are a second apart and may be late.
        assert was_set and start > played.clock_set_ns - 2e9 and end < played.clock_set_ns + 3e9
    assert any(start <= played.clock_set_ns <= end for start, end in empty) is was_set


def test_no_row_spans_the_time_without_a_sampler(played: Played) -> None:
    recording = played.recordings["killed"]
    spans = [*zip(recording.started_ns, recording.ended_ns, strict=True)]
    assert not [span for span in spans if span[0] < played.killed_ns < span[1]]
    gaps = [start - end for (_, end), (start, _) in pairwise(spans)]
    assert sum(gap > 0 for gap in gaps) == 1
    assert any(note.startswith("the sampler was killed by signal 9") for note in recording.notes)
