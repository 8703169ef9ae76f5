"""One case has one name, however it is typed, and a short name does not mean hours."""

import re
from dataclasses import replace

import pytest

from configuration.settings import load_settings
from runner.environment import MeasuredEnvironment
from runner.session_plan import Timing
from runner.suites import plan
from runner.suites.suite import built_in, workloads
from workflows.errors import UsageError
from workflows.planning.select_cases import (
    CHOSEN,
    canonical_key,
    choose_cases,
    choose_suite,
    refuse_long,
    with_telemetry,
)

SETTINGS = load_settings(environ={})
OFFERED = MeasuredEnvironment("e", "python", {}, workloads(), {})
OWN = {
    "name": "mine",
    "phases": ["infer"],
    "grid": {"width": [8, 16]},
    "summary": "",
    "source": "user_cases.x",
}


def chosen(*patterns: str, suite: str | None = None, environment: MeasuredEnvironment = OFFERED) -> list[str]:
    """The cases that patterns mean."""
    return choose_cases(
        choose_suite(SETTINGS, suite, list(patterns), False), list(patterns), environment, SETTINGS
    )


@pytest.mark.parametrize("name", [str(one["name"]) for one in workloads()])
def test_the_bare_name_of_a_workload_means_something_small(name: str) -> None:
    cases = chosen(name)
    assert cases and all(case.startswith(f"{name}/") for case in cases)
    timing = choose_suite(SETTINGS, None, [name], False).timing
    refuse_long([name], plan.replicates(cases, 3), timing)
    assert len(cases) <= 3


def test_a_bare_name_is_what_smoke_has_of_it_and_more_is_said_otherwise() -> None:
    smoke = [case for case in built_in()["smoke"].cases if case.startswith("resnet50/")]
    assert chosen("resnet50") == smoke != []
    assert chosen("gemm") == ["gemm/infer/size=511/eager"]
    assert len(chosen("resnet50/infer")) > 10 and len(chosen("resnet50*")) > 20
    assert len(chosen("resnet50", suite="cpu")) > len(smoke)
    own = replace(OFFERED, workloads=(*OFFERED.workloads, OWN))
    assert chosen("mine", environment=own) == ["mine/infer/width=8/eager", "mine/infer/width=16/eager"]


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("mine/infer/width=8/compile=fast", "unknown compile 'fast'"),
        ("min/infer/width=8/eager", 'unknown case "min": did you mean "mine"?'),
    ],
)
def test_a_case_that_does_not_exist_is_refused_with_the_nearest(pattern: str, sentence: str) -> None:
    own = replace(OFFERED, workloads=(*OFFERED.workloads, OWN))
    with pytest.raises(UsageError, match=re.escape(sentence)):
        chosen(pattern, environment=own)


def test_what_takes_long_is_refused_with_its_number_and_minutes() -> None:
    planned = plan.replicates(chosen("gpt2*", "resnet50*"), 3)
    least = sum(plan.estimate(one, Timing()) for one in planned) / 60
    with pytest.raises(
        UsageError, match=f"in {len(planned)} processes, which take {least:.0f} minutes .* --yes"
    ):
        refuse_long(["gpt2*", "resnet50*"], planned, Timing())
    refuse_long(["gpt2*", "resnet50*"], planned[:9], Timing())
    # What was named case by case, or brought as a file, is no surprise.
    refuse_long([one.case for one in planned], planned, Timing())
    refuse_long([], planned, Timing())


def test_chosen_cases_have_the_telemetry_window_of_suites() -> None:
    smoke, mine = built_in()["smoke"], choose_suite(SETTINGS, None, ["gemm"], False)
    assert mine.name == CHOSEN
    assert with_telemetry(mine).timing.observe_seconds == smoke.timing.observe_seconds > 0
    assert with_telemetry(smoke) is smoke


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        (
            "resnet50/infer/image=64,batch=8/precision=bf16,compile=default",
            "resnet50/infer/batch=8,image=64/compile=default,precision=bf16",
        ),
        ("mlp/infer/batch=08/compile=none", "mlp/infer/batch=8/eager"),
        ("mlp", "mlp"),
        ("mlp/infer", "mlp/infer"),
        ("mlp/infer/*/eager", "mlp/infer/*/eager"),
        ("mlp/infer/-/colour=red", "mlp/infer/-/colour=red"),
    ],
)
def test_a_whole_key_gets_its_only_spelling_and_all_else_is_left(typed: str, key: str) -> None:
    assert canonical_key(typed) == key
