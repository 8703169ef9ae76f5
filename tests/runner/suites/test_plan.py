"""Planning: cases are found by pattern, refused with a reason, grouped and put in order."""

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from records.outcomes import PlannedReplicate
from runner.session_plan import Timing
from runner.suites import plan

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
WORKLOADS = [
    {
        "name": "resnet50",
        "phases": ["infer", "train"],
        "grid": {"image": [64], "batch": [1, 8]},
        "source": "runner.cases.resnet",
    },
    {"name": "resnet50_wide", "phases": ["infer"], "grid": {}, "source": "user_cases.mine"},
]
OFFERED = [
    "resnet50/infer/batch=1,image=64/eager",
    "resnet50/infer/batch=8,image=64/eager",
    "resnet50/train/batch=1,image=64/eager",
    "resnet50/train/batch=8,image=64/eager",
    "resnet50_wide/infer/-/eager",
]


def planned(case: str, replicate: int, environment: str = "default") -> PlannedReplicate:
    """A replicate."""
    return PlannedReplicate(case, environment, replicate)


def test_every_combination_is_offered() -> None:
    assert plan.eager_cases(WORKLOADS) == OFFERED
    assert plan.eager_cases(WORKLOADS, source="user_cases.") == OFFERED[4:]


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        ([], OFFERED),
        (["resnet50"], OFFERED[:4]),
        (["resnet50/"], OFFERED[:4]),
        (["resnet50/train"], OFFERED[2:4]),
        (["resnet"], []),
        (["resnet50*"], OFFERED),
        (["*/batch=8,*"], [OFFERED[1], OFFERED[3]]),
        ([OFFERED[4], "resnet50/infer"], [*OFFERED[:2], OFFERED[4]]),
        (["RESNET50"], []),
    ],
)
def test_a_pattern_is_a_key_a_beginning_or_a_glob(patterns: list[str], wanted: list[str]) -> None:
    assert plan.select(OFFERED, patterns) == wanted


def test_cases_that_cannot_be_built_have_a_reason_each() -> None:
    reasons = {
        "nonsense": "'nonsense' is not a case key: expected name/phase/parameters/technique",
        "resnet18/infer/-/eager": "no case is named 'resnet18'",
        "resnet50_wide/train/-/eager": "resnet50_wide has no phase 'train', only infer",
        "resnet50/infer/batch=1/eager": "resnet50 takes the parameters batch, image",
        "resnet50_wide/infer/batch=1/eager": "resnet50_wide takes the parameters none",
    }
    assert plan.invalid([*OFFERED, *reasons], WORKLOADS) == reasons


def test_rounds_come_first_and_cases_of_one_workload_share_a_session() -> None:
    eager, compiled = "mlp/infer/batch=1/eager", "mlp/infer/batch=1/compile=default"
    other = "mlp/infer/batch=2/eager"
    replicates = [planned(case, number) for case in (eager, other, compiled) for number in (0, 1)]
    replicates.append(planned(eager, 0, "nightly"))
    sessions = plan.sessions(replicates)
    assert [(session.id, session.contenders) for session in sessions] == [
        ("mlp/infer/batch=1#0", (planned(eager, 0), planned(compiled, 0), planned(eager, 0, "nightly"))),
        ("mlp/infer/batch=2#0", (planned(other, 0),)),
        ("mlp/infer/batch=1#1", (planned(eager, 1), planned(compiled, 1))),
        ("mlp/infer/batch=2#1", (planned(other, 1),)),
    ]


def test_an_estimate_knows_that_compiling_takes_longer_and_longest_at_first() -> None:
    timing = Timing(measure_seconds=2.0)
    eager = plan.estimate(planned("m/infer/-/eager", 0), timing)
    warm, cold = (plan.estimate(planned("m/infer/-/compile=default", n), timing) for n in (1, 0))
    assert 2.0 < eager < warm < cold
    assert plan.estimate(planned("m/infer/-/compile=default", 1), replace(timing, cold_replicates=2)) == cold
    assert plan.estimate(planned("m/infer/-/eager", 0), Timing(measure_seconds=12.0)) > eager + 10.0


def test_only_the_first_replicate_is_looked_at() -> None:
    plain, observed = Timing(), Timing(observe_seconds=3.0)
    more = [
        plan.estimate(planned("m/infer/-/eager", n), observed)
        - plan.estimate(planned("m/infer/-/eager", n), plain)
        for n in (0, 1)
    ]
    assert more == pytest.approx([3.0, 0.0])


@pytest.mark.parametrize(
    "technique",
    [
        "compile=max-autotune",
        "export=aot-inductor",
        "precision=int8-static",
        "parallel=ddp,ranks=2",
        "cpus=all,instances=2",
    ],
)
def test_an_estimate_knows_what_a_technique_costs_before_it_is_measured(technique: str) -> None:
    eager, case = (plan.estimate(planned(f"m/infer/-/{t}", 1), Timing()) for t in ("eager", technique))
    assert case > eager
    more = technique.replace("2", "4")
    assert more == technique or plan.estimate(planned(f"m/infer/-/{more}", 1), Timing()) > case


def replay(file: Path) -> list[tuple[PlannedReplicate, Timing, float]]:
    """The eager and the compiled cases that went well in the runs of a file: their timing, and seconds."""
    timing: dict[str, Timing] = {}
    found: list[tuple[PlannedReplicate, Timing, float]] = []
    plain = ("/eager", "/compile=default")
    with gzip.open(file, "rt") as lines:
        for line in lines:
            part = json.loads(line)
            body = part["body"]
            if part["kind"] == "header":
                timing[body["record"]["id"]] = Timing(**body["record"]["facts"]["timing"])
            elif part["kind"] == "outcome" and body["status"] == "ok" and body["case"].endswith(plain):
                one = planned(body["case"], body["replicate"])
                found.append((one, timing[body["run"]], sum(body["phases"].values())))
    return found


def test_estimates_on_a_gpu_are_nearer_to_what_an_h100_took() -> None:
    measured = replay(EXAMPLES / "gpu/h100/run.jsonl.gz")
    assert len(measured) > 10
    by_gpu, by_cpu = (
        [plan.estimate(one, timing, on_cuda=on_cuda) / seconds for one, timing, seconds in measured]
        for on_cuda in (True, False)
    )
    assert 0.9 < median(by_gpu) < 1.3
    assert median(map(abs, map(math.log, by_gpu))) < median(map(abs, map(math.log, by_cpu)))


def test_on_a_gpu_blocks_and_windows_have_their_least_length() -> None:
    one, short = planned("m/infer/-/eager", 0), Timing(measure_seconds=0.1, observe_seconds=1.0)
    long = replace(short, min_blocks=10)
    more = plan.estimate(one, long, on_cuda=True) - plan.estimate(one, short, on_cuda=True)
    assert more == pytest.approx(5 * 0.5)
    assert plan.estimate(one, long) == plan.estimate(one, short)
    unobserved = plan.estimate(one, replace(short, observe_seconds=0.0), on_cuda=True)
    assert plan.estimate(one, short, on_cuda=True) - unobserved == pytest.approx(5.0)


def test_shares_tell_what_each_axis_takes_and_add_up_where_axes_do_not_meet() -> None:
    cases = [
        "m/infer/-/eager",
        "m/infer/-/compile=default",
        "m/infer/-/layout=channels-last",
        "n/infer/-/eager",
    ]
    everything = plan.replicates(cases, 2)
    assert [(one.case, one.replicate) for one in everything] == [(c, n) for n in (0, 1) for c in cases]
    found = plan.shares(everything, Timing())
    assert [(share.axis, share.values, share.cases) for share in found] == [
        ("eager", (), 2),
        ("compile", ("default",), 1),
        ("layout", ("channels-last",), 1),
    ]
    assert sum(s.seconds for s in found) == pytest.approx(
        sum(plan.estimate(one, Timing()) for one in everything)
    )
    both = plan.shares(plan.replicates(["m/infer/-/compile=default,layout=channels-last"], 1), Timing())
    assert [share.cases for share in both] == [1, 1] and both[0].seconds == both[1].seconds
