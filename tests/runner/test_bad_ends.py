"""Cases that end badly: each has an outcome with a reason, the next is measured, nothing stays behind."""

import os
import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from runner.execution.session import Conditions
from support.measuring import (
    CASE_FILES,
    ENVIRONMENT,
    QUICK,
    Happened,
    Scratch,
    conditions,
    fill,
    forked,
    key,
    measure,
)
from support.processes import alive
from support.site import carriers, unavailable

pytestmark = pytest.mark.torch

FILE = CASE_FILES / "ends_badly.py"

#: Name, status, reason, and the phase in which it ended.
ENDS = [
    ("raises_in_build", "crashed", "ValueError: the weights are missing", "build"),
    ("raises_in_step", "crashed", "RuntimeError: shapes do not fit", "first_call"),
    ("raises_at_length", "crashed", "ValueError: the batch: x{489}", "first_call"),
    ("raises_in_third_block", "crashed", "ArithmeticError: enough", "measure"),
    ("python_runs_out_of_memory", "oom", "MemoryError", "first_call"),
    ("torch_runs_out_of_memory", "oom", "RuntimeError: .*can't allocate memory.*", "first_call"),
    (
        "small_objects_fill_the_memory",
        "oom",
        "MemoryError(, for which there was no memory .*)?",
        "first_call",
    ),
    ("system_says_no_memory", "oom", r"OSError: \[Errno 12\] Cannot allocate memory", "first_call"),
    ("exits_0", "crashed", r"the case called sys\.exit\(0\)", "build"),
    ("exits_3", "crashed", r"the case called sys\.exit\(3\)", "first_call"),
    ("exits_at_length", "crashed", r"the case called sys\.exit\('y{499}\)", "build"),
    ("exits_at_once", "crashed", "exited with code 0 in first_call, before it was done", "first_call"),
    ("is_killed", "crashed", r"killed by SIGKILL in first_call \(killed from outside\)", "first_call"),
    ("is_signalled", "crashed", r"killed by signal \d+ in first_call", "first_call"),
    ("segfaults", "crashed", r"killed by SIGSEGV in first_call \(segmentation fault\)", "first_call"),
    (
        "executes_nonsense",
        "crashed",
        r"killed by SIGILL in first_call \(illegal instruction: .*ONEDNN_MAX_CPU_ISA.*\)",
        "first_call",
    ),
    ("aborts", "crashed", r"killed by SIGABRT in first_call \(abort\)", "first_call"),
    ("closes_everything", "crashed", "exited with code 1 in first_call, before it was done", "first_call"),
    ("hangs_up", "crashed", "the worker closed its pipe to the controller in first_call", "first_call"),
    ("writes_garbage", "crashed", "the worker broke the protocol: not UTF-8", "first_call"),
    ("speaks_out_of_turn", "crashed", "the worker answered Finished, not Ready", "first_call"),
    ("speaks_nonsense", "crashed", "the worker broke the protocol: ready has fields of .*", "first_call"),
    ("kills_its_supervisor", "lost", "the supervisor was killed", "first_call"),
    ("counts_strangely", "crashed", "ValueError: items must be a whole number above 0, .*", "build"),
    ("no_such_case", "unsupported", "no case is named 'no_such_case'", "build"),
    ("good/train/-/eager", "unsupported", "case good has no phase train: one of infer", "build"),
    ("good/infer/size=3/eager", "unsupported", r"case good takes \[\], not \['size'\]", "build"),
]


#: These say themselves how they end, or break the protocol, so that it makes no difference how they were
#: started.
FORKED = [
    *("raises_in_build", "raises_in_step", "raises_at_length", "raises_in_third_block"),
    *("exits_0", "exits_3", "exits_at_length"),
    *("python_runs_out_of_memory", "torch_runs_out_of_memory", "system_says_no_memory"),
    *("hangs_up", "writes_garbage", "speaks_out_of_turn", "speaks_nonsense"),
    *("counts_strangely", "no_such_case", "good/train/-/eager", "good/infer/size=3/eager"),
]
STARTED = [name for name, *_ in ENDS if name not in FORKED]


@pytest.fixture(scope="module")
def forking(module_scratch: Scratch) -> Iterator[Conditions]:
    """What the runs of this file share whose workers may be forked."""
    with forked(conditions(module_scratch.folder, FILE), "good") as shared:
        yield shared
    module_scratch.assert_no_process_left(shared.run)


@pytest.fixture(scope="module")
def happened(forking: Conditions) -> Happened:
    """All of them in one run, forked workers first, and a good one at the end."""
    first = measure(forking, [[name] for name in FORKED])
    rest = measure(replace(forking, forks=None), [[name] for name in (*STARTED, "good")])
    return replace(rest, outcomes=first.outcomes + rest.outcomes, ended=first.ended + rest.ended)


@pytest.mark.parametrize(("name", "status", "reason", "phase"), ENDS, ids=[end[0] for end in ENDS])
def test_a_bad_end_is_an_outcome_with_a_reason(
    happened: Happened, name: str, status: str, reason: str, phase: str
) -> None:
    (outcome,) = [outcome for outcome in happened.outcomes if outcome.case == key(name)]
    assert (outcome.status, outcome.phase) == (status, phase), outcome.reason
    assert re.fullmatch(reason, outcome.reason), outcome.reason
    assert outcome.metrics == {}


def test_the_run_goes_on_to_its_end(happened: Happened) -> None:
    assert [outcome.case for outcome in happened.outcomes] == [*map(key, (*FORKED, *STARTED, "good"))]
    assert {ended.kind for ended in happened.ended} == {"done"}
    last = happened.outcomes[-1]
    assert (last.status, last.reason) == ("ok", "")
    assert last.metrics["latency"] > 0


def test_a_torch_that_is_another_than_when_the_run_began_is_not_measured(forking: Conditions) -> None:
    target = replace(forking.targets[ENVIRONMENT], build="1.0.0 (0123abc)")
    happened = measure(replace(forking, targets={ENVIRONMENT: target}), [["good"]])
    (outcome,) = happened.outcomes
    assert (outcome.status, outcome.phase, outcome.metrics) == ("lost", "import", {})
    found = re.fullmatch(
        r"the environment has changed since the run began: torch (.+), not 1\.0\.0 \(0123abc\)",
        outcome.reason,
    )
    assert found, outcome.reason
    same = replace(target, build=found[1])
    happened = measure(replace(forking, targets={ENVIRONMENT: same}), [["good"]])
    assert happened.of("good").status == "ok"


def test_nothing_stays_behind(happened: Happened, module_scratch: Scratch) -> None:
    assert carriers(happened.run) == []
    written = [*module_scratch.pids("orphan"), *module_scratch.pids("worker")]
    assert len(written) == 2
    assert not any(alive(pid) for pid in written)


def test_blocks_measured_before_the_end_are_kept(happened: Happened) -> None:
    assert len(happened.of("raises_in_third_block").blocks) == 2


def test_a_segmentation_fault_leaves_its_traceback_in_the_log(happened: Happened) -> None:
    log = happened.of("segfaults").log_tail
    assert "Fatal Python error: Segmentation fault" in log
    assert "ends_badly.py" in log


def test_an_exception_leaves_its_traceback_in_the_facts(happened: Happened) -> None:
    traceback = happened.of("raises_in_step").facts["traceback"]
    assert "ends_badly.py" in traceback
    assert "second line" in traceback


def test_of_a_long_traceback_both_ends_are_kept_and_the_log_has_all(
    happened: Happened, module_scratch: Scratch
) -> None:
    traceback = happened.of("raises_at_length").facts["traceback"]
    assert len(traceback) <= 20_000
    assert "ends_badly.py" in traceback and traceback.endswith("xxx\n") and "left out" in traceback
    (log,) = module_scratch.folder.rglob("*raises_at_length*.log")
    assert "x" * 1_000_000 in log.read_text()


def test_hanging_cases_time_out_with_their_phase(forking: Conditions) -> None:
    # What they are forked from has imported torch: they need none of this time.
    hurried = replace(forking, timing=replace(QUICK, deadline_seconds=5.0))
    happened = measure(hurried, [["sleeps_for_ever"], ["spins_for_ever"], ["good"]])
    for name, phase in (("sleeps_for_ever", "build"), ("spins_for_ever", "first_call")):
        outcome = happened.of(name)
        assert (outcome.status, outcome.phase) == ("timeout", phase)
        assert outcome.reason == f"no end within 5 s, last seen in {phase}"
    assert happened.of("good").status == "ok"


@pytest.fixture
def control_group() -> Iterator[Path]:
    """A control group that allows 256 MiB of memory."""
    root = Path("/sys/fs/cgroup")
    version_1 = (root / "memory").is_dir()
    group = root / ("memory" if version_1 else "") / f"pyrometer-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        unavailable(f"no control group can be made here: {error}")
    try:
        limit = group / ("memory.limit_in_bytes" if version_1 else "memory.max")
        try:
            limit.write_text(str(256 << 20))
        except OSError as error:
            unavailable(f"the memory controller is not ours to set: {error}")
        swap = group / ("memory.memsw.limit_in_bytes" if version_1 else "memory.swap.max")
        if swap.exists():
            swap.write_text(str(256 << 20) if version_1 else "0")
        yield group
    finally:
        group.rmdir()


@pytest.mark.parametrize("forks", [False, True])
def test_a_worker_killed_by_the_kernel_for_memory_is_out_of_memory(
    scratch: Scratch, control_group: Path, monkeypatch: pytest.MonkeyPatch, forks: bool
) -> None:
    monkeypatch.setenv("CASES_CGROUP", str(control_group))
    shared = conditions(scratch.folder, FILE)
    with forked(shared) if forks else nullcontext(shared) as conditioned:
        happened = measure(conditioned, [["fills_its_control_group"], ["good"]])
    outcome = happened.of("fills_its_control_group")
    assert (outcome.status, outcome.phase) == ("oom", "first_call")
    assert outcome.reason == "killed by the kernel in first_call: out of memory"
    assert happened.of("good").status == "ok"
    scratch.assert_no_process_left(happened.run)


def test_a_full_disk_costs_the_log_not_the_measurement(scratch: Scratch, small_disk: Path) -> None:
    shared = conditions(scratch.folder, FILE, CASE_FILES / "noisy.py", state=small_disk)
    fill(small_disk)
    happened = measure(shared, [["floods_stdout"], ["good"]])
    assert os.statvfs(small_disk).f_bfree == 0
    assert [outcome.status for outcome in happened.outcomes] == ["ok", "ok"]
    scratch.assert_no_process_left(happened.run)
