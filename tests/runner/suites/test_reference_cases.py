"""What each kind of case is set against."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.speedups import gains
from records.references import Baseline
from reports.text.verdict_text import refusal
from runner.suites.references import baselines
from runner.worker.case_key import AXES, CaseKey
from support.measuring import CASE_FILES, Scratch, conditions, forked, measure

WORK = "bert_base/train/batch=4"
EAGER = f"{WORK}/eager"


@pytest.mark.parametrize("case", [EAGER, "no key at all", "<img>", f"{WORK}/warp=9"])
def test_a_baseline_and_what_is_no_key_are_set_against_nothing(case: str) -> None:
    assert baselines(case) == ()


@pytest.mark.parametrize(
    "technique", ["compile=default", "compile=default,precision=bf16", "cpus=1,threads=1"]
)
def test_whatever_runs_in_one_process_is_set_against_eager_fp32(technique: str) -> None:
    assert baselines(f"{WORK}/{technique}") == tuple(
        Baseline(kind, (EAGER,)) for kind in ("speed-up", "memory", "size")
    )


@pytest.mark.parametrize(
    ("technique", "one_rank"),
    [
        ("hook=fp16,parallel=ddp,ranks=4", ["hook=fp16,parallel=ddp", "parallel=ddp"]),
        ("parallel=fsdp2,ranks=4,scaling=strong", ["parallel=fsdp2,scaling=strong", "parallel=fsdp2"]),
        ("nodes=2,parallel=ddp,ranks=4", ["parallel=ddp"]),
        (
            "launcher=torchrun,parallel=ddp,ranks=4",
            ["launcher=torchrun,parallel=ddp", "parallel=ddp"],
        ),
    ],
)
def test_several_ranks_are_set_against_one_rank_of_the_same_technique(
    technique: str, one_rank: list[str]
) -> None:
    speed_up, efficiency, memory = baselines(f"{WORK}/{technique}")
    assert speed_up == Baseline("speed-up", (EAGER,))
    assert memory == Baseline("memory", (EAGER,))
    assert efficiency == Baseline("efficiency", tuple(f"{WORK}/{each}" for each in one_rank), ranks=4)


def test_one_rank_alone_has_no_efficiency() -> None:
    assert [each.kind for each in baselines(f"{WORK}/parallel=ddp")] == ["speed-up", "memory"]


@pytest.mark.parametrize(
    ("technique", "one_process"),
    [
        ("instances=2", ["eager", "cpus=all"]),
        ("cpus=all,instances=2", ["cpus=all"]),
        ("cpus=all,instances=2,threads=3", ["cpus=all,threads=6", "cpus=all"]),
    ],
)
def test_several_processes_are_set_against_one_with_their_threads_and_all_cpus(
    technique: str, one_process: list[str]
) -> None:
    speed_up, single, memory = baselines(f"{WORK}/{technique}")
    assert speed_up == Baseline("speed-up", (EAGER,), estimator="throughput")
    assert memory == Baseline("memory", (EAGER,))
    keys = tuple(f"{WORK}/{each}" for each in one_process)
    assert single == Baseline("one process", keys, estimator="throughput")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            axis.name: st.sampled_from([*axis.values, *(["1", "2", "8"] if axis.counts else [])])
            for axis in AXES.values()
        },
    )
)
def test_a_baseline_is_another_case_of_the_same_workload(technique: dict[str, str]) -> None:
    key = CaseKey.of("mlp", "train", {"batch": 4}, technique)
    for baseline in baselines(str(key)):
        assert baseline.cases and str(key) not in baseline.cases
        assert {CaseKey.parse(each).workload for each in baseline.cases} == {key.workload}
        assert {str(CaseKey.parse(each)) for each in baseline.cases} == set(baseline.cases)


@pytest.mark.torch
def test_only_replicates_of_one_real_session_pair(scratch: Scratch) -> None:
    eager, bf16 = "honest/infer/-/eager", "honest/infer/-/precision=amp-bf16"
    shared = conditions(scratch.folder, CASE_FILES / "answers.py")

    def gain_of(*sessions: list[str]) -> tuple[float | None, int, str]:
        found = gains(measure(forking, sessions).outcomes, baselines)
        (own,) = found.values()
        return own[0].ratio, own[0].n, refusal(own[0].reason)

    with forked(shared) as forking:
        ratio, n, reason = gain_of([eager, bf16])
        assert ratio is not None and ratio > 0
        assert (n, reason) == (1, "")
        apart = "not comparable: the two were not measured in one session"
        assert gain_of([eager], [bf16]) == (None, 0, apart)
