"""Sessions: answers are checked, contenders take turns, each gets exactly one outcome."""

import itertools
import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from analysis.comparison.pairs import pairs_of
from runner.execution.session import MEASURED_ALONE, Conditions
from runner.preset import MachinePreset
from runner.telemetry.telemetry_interface import GpuCounters, Reading
from support.fakes.silent_telemetry import SilentTelemetry
from support.measuring import CASE_FILES, QUICK, Happened, Scratch, conditions, forked, key, measure
from support.site import carriers

pytestmark = pytest.mark.torch

FILE = CASE_FILES / "answers.py"
LONG = f"has_a_long_key/infer/text={'x' * 300}/eager"

#: Key, status and reason. More answers are compared in one process (`techniques/test_one_process.py`).
ANSWERS = [
    ("honest/infer/-/eager", "ok", ""),
    ("honest/train/-/eager", "ok", ""),
    ("draws_its_weights_by_others/infer/-/eager", "ok", ""),
    (
        "differs_in_bf16/infer/-/precision=amp-bf16",
        "wrong",
        r"relative error 0\.2\d above the tolerance 0\.05",
    ),
    (
        "differs_when_compiled/infer/-/compile=aot_eager",
        "wrong",
        r"relative error 0\.25 above the tolerance 0\.001",
    ),
    ("has_no_loss/train/-/eager", "unsupported", "case has_no_loss has no loss and cannot train"),
    ("answers_without_tensors/infer/-/eager", "ok", ""),
    (
        "cannot_be_compiled/infer/-/compile=aot_eager",
        "not_compiled",
        "(Dynamo made no graph: the model ran eager|1 of . frames fell back to eager)",
    ),
    ("first/infer/-/eager", "ok", ""),
    (LONG, "ok", ""),
]
#: Of these only the answer is looked at, and no memory.
FORKED = [
    "honest/train/-/eager",
    "draws_its_weights_by_others/infer/-/eager",
    "differs_in_bf16/infer/-/precision=amp-bf16",
    "has_no_loss/train/-/eager",
    "answers_without_tensors/infer/-/eager",
    "first/infer/-/eager",
    LONG,
]


@pytest.fixture(scope="module")
def forking(module_scratch: Scratch) -> Iterator[Conditions]:
    """What the sessions of this file share whose workers may be forked; their cases write to its scratch."""
    # One thread: a busy neighbour then slows a step down, but starves no team of threads.
    single = MachinePreset("single", {"OMP_NUM_THREADS": "1"}, threads=1)
    shared = conditions(module_scratch.folder, FILE, CASE_FILES / "ends_badly.py", preset=single)
    with forked(shared, "good") as forking:
        yield forking
    module_scratch.assert_no_process_left(shared.run)


@pytest.fixture(scope="module")
def happened(forking: Conditions) -> Happened:
    """All of them in one run that also observes, of what begins with forked workers."""
    forking = replace(forking, timing=replace(QUICK, observe_seconds=0.05))
    first = measure(forking, [[case] for case in FORKED])
    alone = replace(forking, forks=None)
    rest = measure(alone, [[case] for case, *_ in ANSWERS if case not in FORKED])
    return replace(rest, outcomes=(*first.outcomes, *rest.outcomes))


@pytest.mark.parametrize(("case", "status", "reason"), ANSWERS, ids=[a[0][:60] for a in ANSWERS])
def test_an_answer_is_judged(happened: Happened, case: str, status: str, reason: str) -> None:
    (outcome,) = [outcome for outcome in happened.outcomes if outcome.case == case]
    assert outcome.status == status, outcome.reason
    assert re.fullmatch(reason, outcome.reason), outcome.reason


def test_nothing_stays_behind(happened: Happened) -> None:
    assert carriers(happened.run) == []


def test_what_cannot_be_checked_says_so(happened: Happened) -> None:
    notes = {
        "first": "a closure has no reference to compare with",
        "answers_without_tensors": "the output holds no tensor to compare",
    }
    for name, note in notes.items():
        assert happened.of(name).facts["check"] == {
            "error": None,
            "tolerance": 1e-3,
            "wrong": "",
            "note": note,
            "worst": None,
            "mean": None,
            "drift": None,
            "agreement": None,
        }


def test_a_good_outcome_tells_what_a_reader_needs(happened: Happened) -> None:
    (outcome,) = [outcome for outcome in happened.outcomes if outcome.case == key("honest")]
    assert {"build", "first_call", "warm_up", "measure", "finish", "check"} <= set(outcome.phases)
    assert sum(outcome.phases.values()) <= outcome.wall_seconds
    facts = outcome.facts
    assert (facts["items"], facts["unit"], facts["flops"], facts["parameters"]) == (2, "samples", 64.0, 20)
    assert facts["threads"] == 1
    assert facts["exit"]["exit_code"] == 0
    assert facts["warm_up"]["ended"] in ("steady", "cap")
    assert facts["minor_faults_per_iteration"] >= 0
    assert len(outcome.blocks) == facts["blocks"]
    assert sum(map(len, outcome.blocks)) == facts["iterations"]
    metrics = outcome.metrics
    assert 0 < metrics["latency_min"] <= metrics["latency_p10"] <= metrics["latency"]
    assert metrics["latency"] <= metrics["latency_p90"]
    assert metrics["latency_min"] <= metrics["latency_floor"]
    assert metrics["throughput"] == pytest.approx(2 / metrics["latency"] * 1e3)
    assert metrics["model_tflops"] == pytest.approx(64.0 / metrics["latency"] / 1e9)
    assert metrics["rss_peak"] > 50
    assert "first_call" in metrics
    assert not any(name.startswith(("compile_", "cuda_")) for name in metrics)


def test_training_counts_three_forward_passes(happened: Happened) -> None:
    (outcome,) = [outcome for outcome in happened.outcomes if outcome.case == "honest/train/-/eager"]
    assert outcome.facts["flops"] == 3 * 64.0


def test_a_compiled_case_tells_what_the_compiler_did(happened: Happened) -> None:
    outcome = happened.of("differs_when_compiled")
    assert outcome.facts["cache"] == "cold"
    assert outcome.facts["compile"]["graphs"] == 1
    assert outcome.metrics["compile_cold"] > 0
    assert outcome.metrics["graph_breaks"] == 0
    broken = happened.of("cannot_be_compiled")
    assert broken.metrics["graph_breaks"] >= 1 or broken.facts["compile"]["graphs"] == 0


def test_an_observed_case_has_a_window(happened: Happened) -> None:
    started, ended, iterations = happened.of("first").facts["window"]
    assert ended - started >= 50_000_000
    assert iterations >= 1


def test_a_case_that_compiles_by_itself_does_so_cold_in_each_process(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    measure(conditions(scratch.folder, FILE), [["compiles_by_itself"]] * 2, again=True)
    measure(conditions(scratch.folder, FILE), [["compiles_by_itself"]])
    assert (scratch.folder / "caches").read_text().split() == ["0", "0", "0"]


def test_as_many_replicates_compile_cold_as_requested_and_then_the_cache_is_warm(scratch: Scratch) -> None:
    shared = conditions(scratch.folder, FILE, timing=replace(QUICK, cold_replicates=2))
    outcomes = measure(shared, [["honest/infer/-/compile=default"]] * 3, again=True).outcomes
    assert [outcome.facts["cache"] for outcome in outcomes] == ["cold", "cold", "warm"]
    assert [outcome.status for outcome in outcomes] == ["ok", "ok", "ok"]
    *colds, warm = (outcome.metrics for outcome in outcomes)
    for cold in colds:
        assert "compile_cold" in cold and "compile_warm" not in cold
        # A first call from a filled cache is no first call.
        assert "first_call" in cold and "first_call" not in warm
    assert "compile_warm" in warm and "compile_cold" not in warm
    assert all(outcome.facts["compile"]["cache_misses"] >= 1 for outcome in outcomes[:2])
    assert outcomes[2].facts["compile"]["cache_hits"] >= 1


def test_blocks_take_turns_and_no_process_runs_while_another_is_timed(
    forking: Conditions, module_scratch: Scratch
) -> None:
    (module_scratch.folder / "steps").unlink(missing_ok=True)
    timing = replace(QUICK, min_blocks=6, measure_seconds=0.0)
    happened = measure(replace(forking, timing=timing), [["first", "second"]])
    assert [outcome.status for outcome in happened.outcomes] == ["ok", "ok"]
    lines = (module_scratch.folder / "steps").read_text().splitlines()
    steps = sorted((int(begun), int(ended), name) for name, begun, ended in map(str.split, lines))
    for (_, ended, _), (begun, _, _) in itertools.pairwise(steps):
        assert ended <= begun
    blocks: list[tuple[int, str]] = []
    for name in ("first", "second"):
        sizes = [len(block) for block in happened.of(name).blocks]
        assert len(sizes) == 6
        own = [begun for begun, _, who in steps if who == name][-sum(sizes) :]
        starts = [0, *itertools.accumulate(sizes)][:-1]
        blocks += [(own[start], name) for start in starts]
    order = [name for _, name in sorted(blocks)]
    rounds = {tuple(order[at : at + 2]) for at in range(0, 12, 2)}
    assert rounds <= {("first", "second"), ("second", "first")}


def test_the_others_go_on_when_one_contender_ends_badly(forking: Conditions) -> None:
    happened = measure(forking, [["good", "raises_in_third_block", "first"]])
    statuses = {outcome.case.split("/")[0]: outcome.status for outcome in happened.outcomes}
    assert statuses == {"good": "ok", "raises_in_third_block": "crashed", "first": "ok"}
    assert [ended.kind for ended in happened.ended] == ["done"]


def test_a_contender_without_room_is_measured_afterwards(forking: Conditions) -> None:
    keys = [f"fits_alone/infer/side={side}/eager" for side in ("old", "new")]
    happened = measure(forking, [keys])
    first, second = happened.outcomes
    assert [(one.case, one.status) for one in (first, second)] == [(keys[0], "ok"), (keys[1], "ok")]
    assert MEASURED_ALONE not in first.facts
    reason = r"out of memory beside 1 other of its session \(MemoryError: the room is taken\)"
    assert re.fullmatch(reason, second.facts[MEASURED_ALONE])
    assert [pair.left_out for pair in pairs_of("latency", [first], [second])] == [()]


def test_who_does_not_fit_alone_either_is_out_of_memory(forking: Conditions) -> None:
    happened = measure(forking, [["good", "python_runs_out_of_memory"]])
    statuses = {outcome.case.split("/")[0]: outcome.status for outcome in happened.outcomes}
    assert statuses == {"good": "ok", "python_runs_out_of_memory": "oom"}
    assert happened.of("python_runs_out_of_memory").reason.startswith("MemoryError")


class AlmostFull(SilentTelemetry):
    """A GPU of whose memory a twentieth is free."""

    def read_counters(self, root: int) -> Reading:
        return Reading(time.monotonic_ns(), gpus=(GpuCounters("GPU-1", memory_free=0.05),))


def test_where_the_gpu_is_almost_full_contenders_are_measured_one_after_the_other(
    forking: Conditions,
) -> None:
    shared = replace(forking, telemetry=lambda *_: AlmostFull(), gpus=("GPU-1",))
    happened = measure(shared, [["first", "second"]])
    first, second = happened.of("first"), happened.of("second")
    assert (first.status, second.status) == ("ok", "ok")
    assert not {MEASURED_ALONE, "gpu_memory_free"} & first.facts.keys()
    assert second.facts["gpu_memory_free"] == 0.05
    full = "beside 1 other of its session only 5 % of its GPU's memory was free"
    assert second.facts[MEASURED_ALONE] == full
    assert first.started_at.timestamp() + first.wall_seconds <= second.started_at.timestamp()


def test_a_gpu_that_takes_one_process_at_a_time_gets_one_at_a_time(forking: Conditions) -> None:
    exclusive = "its GPU is in compute mode exclusive process: one process at a time"
    shared = replace(forking, one_process=exclusive)
    happened = measure(shared, [["first", "second", "honest/infer/-/instances=2"]])
    outcomes = {outcome.case.split("/")[0]: outcome for outcome in happened.outcomes}
    first, second, several = outcomes["first"], outcomes["second"], outcomes["honest"]
    assert (first.status, second.status) == ("ok", "ok")
    assert {one.facts[MEASURED_ALONE] for one in (first, second)} == {exclusive}
    assert first.started_at.timestamp() + first.wall_seconds <= second.started_at.timestamp()
    reason = f"instances need several processes on one GPU, and {exclusive}"
    assert (several.status, several.reason) == ("unsupported", reason)


def test_a_gpu_that_failed_ends_the_session_and_no_case(forking: Conditions) -> None:
    happened = measure(forking, [["first", "meets_a_gpu_that_failed"]])
    (ended,) = happened.ended
    assert (ended.kind, ended.detail) == (
        "lost",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    )
    assert happened.outcomes == ()


def test_an_attempt_that_cannot_start_is_lost_with_a_reason(scratch: Scratch) -> None:
    state = scratch.folder / "no folder"
    state.write_text("a file stands where the logs should go")
    happened = measure(conditions(scratch.folder, FILE, state=state), [["first"]])
    (ended,) = happened.ended
    assert ended.kind == "lost"
    assert ended.detail.startswith(("NotADirectoryError", "FileExistsError"))
    assert happened.outcomes == ()


def test_cpus_that_do_not_exist_are_a_lost_replicate(scratch: Scratch) -> None:
    strange = MachinePreset("strange", {}, cpus=(9999,))
    happened = measure(conditions(scratch.folder, FILE, preset=strange), [["first"]])
    outcome = happened.of("first")
    assert outcome.status == "lost"
    assert outcome.reason.endswith("on CPUs 9999: the kernel refuses them")


def test_a_users_file_changes_its_own_cases_and_no_others(scratch: Scratch) -> None:
    shared = conditions(scratch.folder, CASE_FILES / "changes_defaults.py", timing=QUICK)
    own, built_in = "in_double/infer/-/eager", "mlp_overhead/infer/batch=1/eager"
    bad, closure = "forgets_a_comma/infer/-/eager", "trains_in_its_closure/infer/-/eager"
    found = measure(shared, [[case] for case in (own, built_in, bad, closure)])
    outcomes = {outcome.case: outcome for outcome in found.outcomes}
    assert outcomes[own].facts["items"] == 2
    assert outcomes[built_in].status == "ok"
    assert outcomes[built_in].facts["dtype"] == "torch.float32"
    assert outcomes[own].facts["dtype"] == "torch.float64"
    assert outcomes[bad].reason == "ValueError: inputs must be a tuple of tensors, such as (x,)"
    assert outcomes[closure].status == "ok", outcomes[closure].reason


def test_a_users_file_changes_no_case_of_another_file(scratch: Scratch) -> None:
    shared = conditions(
        scratch.folder, CASE_FILES / "changes_defaults.py", CASE_FILES / "ends_badly.py", FILE
    )
    cases = ("honest/infer/-/eager", "good/infer/-/eager", "in_double/infer/-/eager")
    outcomes = measure(shared, [[case] for case in cases]).outcomes
    assert [outcome.status for outcome in outcomes] == ["ok"] * 3
    dtypes = {outcome.case.split("/")[0]: outcome.facts["dtype"] for outcome in outcomes}
    assert dtypes["honest"] == "torch.float32" and dtypes["in_double"] == "torch.float64"
