"""Made-up runs with earlier ones, for the tests of their report."""

from collections.abc import Sequence
from typing import Any

from analysis.decision.run_cases import run_cases
from records.outcomes import Outcome
from reports.run_report import JudgedRun
from support.builders.notifications import a_finding
from support.builders.run_records import BERT, MLP, RESNET, RESNET_COMPILED, a_run, an_environment, an_outcome

ENVIRONMENT = an_environment(name="default")
CALM = "calm/infer/batch=1/eager"
#: Ten earlier runs around 2 ms, within 1 %.
BEFORE = (2.0, 2.01, 1.99, 2.005, 1.995, 2.0, 2.01, 1.99, 2.0, 2.0)


def replicates(case: str, *latencies: float, **changes: Any) -> list[Outcome]:
    """One replicate that ended well for each latency, in ms."""
    return [
        an_outcome(case, environment=ENVIRONMENT, replicate=number, latency=latency, **changes)
        for number, latency in enumerate(latencies)
    ]


def badly(case: str, status: str, reason: str = "", replicate: int = 0) -> Outcome:
    """A replicate that did not end well."""
    return an_outcome(case, environment=ENVIRONMENT, replicate=replicate, status=status, reason=reason)


def judged_run(outcomes: Sequence[Outcome], *, state: str = "complete", **changes: Any) -> JudgedRun:
    """A run of these outcomes; keyword arguments are those of `run_cases`."""
    run = a_run("20261121-144620-57a7", environments=[ENVIRONMENT], state=state, suite="cpu")
    resume = f"pyrometer run --resume {run.id}" if state == "interrupted" else ""
    return JudgedRun(run, run_cases(outcomes, **changes), resume=resume)


def a_passed_run() -> JudgedRun:
    """Two cases that work, one within noise and one outside; a third is not supported."""
    outcomes = [
        *replicates(CALM, 2.0, 2.01),
        *replicates(MLP, 2.2, 2.21),
        badly(BERT, "unsupported", "no bf16 on this CPU"),
    ]
    return judged_run(outcomes, earlier={(case, "latency"): BEFORE for case in (CALM, MLP)})


def a_mixed_run(reason: str = "SIGSEGV in the worker") -> JudgedRun:
    """A case of every kind: it ends as failed."""
    outcomes = [
        *replicates(CALM, 2.0, 2.01, 2.005),
        *replicates(MLP, 2.2, 2.21),
        *replicates("late/infer/batch=1/eager", 3.0, 3.0),
        badly("late/infer/batch=1/eager", "skipped", "budget of 60 s", 2),
        badly("noisy/infer/batch=1/eager", "contended", "another program"),
        badly("left/infer/batch=1/eager", "skipped", "budget of 60 s"),
        badly(BERT, "unsupported", "no bf16 on this CPU"),
        *replicates(RESNET_COMPILED, 9.0),
        badly(RESNET_COMPILED, "crashed", reason, 1),
        *replicates(RESNET, 20.0, 20.2),
    ]
    return judged_run(
        outcomes,
        earlier={
            (CALM, "latency"): BEFORE,
            (MLP, "latency"): BEFORE,
            ("late/infer/batch=1/eager", "latency"): (2.9,),
        },
        regressions={RESNET: a_finding(7, RESNET)},
    )
