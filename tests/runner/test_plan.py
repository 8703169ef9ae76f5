"""Planning: cases are found by pattern, refused with a reason, grouped and put in order."""

import pytest

from runner import plan
from runner.records import Planned, Timing
from runner.suites import SUITES, Suite
from runner.worker.case_key import CaseKey

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


def planned(case: str, replicate: int, environment: str = "default") -> Planned:
    """A replicate."""
    return Planned(case, environment, replicate)


def test_every_combination_is_offered() -> None:
    assert plan.offered(WORKLOADS) == OFFERED
    assert plan.offered(WORKLOADS, source="user_cases.") == OFFERED[4:]


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
        "nonsense": "'nonsense' is no case key: expected name/phase/parameters/technique",
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
    sessions = plan.sessions(replicates, Timing())
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
    (session,) = plan.sessions(
        [planned("m/infer/-/eager", 0), planned("m/infer/-/compile=default", 0)], timing
    )
    assert session.estimate_seconds == pytest.approx(eager + cold)
    assert plan.estimate(planned("m/infer/-/eager", 0), Timing(measure_seconds=12.0)) > eager + 10.0


@pytest.mark.parametrize("suite", SUITES.values(), ids=lambda suite: suite.name)
def test_the_suites_name_cases_by_their_only_spelling_and_once(suite: Suite) -> None:
    assert [str(CaseKey.parse(case)) for case in suite.cases] == list(suite.cases)
    assert len(set(suite.cases)) == len(suite.cases)
