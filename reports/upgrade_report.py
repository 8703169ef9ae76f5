"""Judges a run of pairs, collects the context of its report, and lists the formats of reports."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from analysis.decision.comparison import Comparison
from analysis.decision.upgrade import leave_open
from analysis.dispatch_difference import differences_in
from analysis.kernel_difference import kernel_changes
from records.environments import Environment, packages_in
from records.kinds import RunState
from records.outcomes import Outcome
from records.runs import Run, step_in

from . import junit, wording
from .body import upgrade_json
from .markdown import step_markdown, upgrade_markdown
from .page import upgrade_html
from .report_context import ComparedEnvironment, JudgedUpgrade, Subject, build_of


def judge_upgrade(run: Run, comparison: Comparison, outcomes: Iterable[Outcome]) -> JudgedUpgrade:
    """The verdict on the outcomes of a run; outcomes of the canary are ignored.

    Raises ValueError for a comparison of environments that the run does not have.
    """
    outcomes = list(outcomes)
    results = comparison.results(outcomes)
    subject = replace(subject_of(run, comparison), kernels=kernel_changes(*comparison.sides(outcomes)))
    if subject.step is not None:
        subject = replace(subject, tracebacks=_tracebacks(comparison, outcomes))
    upgrade = comparison.verdict(results)
    if run.state != RunState.COMPLETE:
        upgrade = leave_open(upgrade, len(results))
    return JudgedUpgrade(subject, results, upgrade)


def _tracebacks(comparison: Comparison, outcomes: Sequence[Outcome]) -> tuple[str, str]:
    """The first traceback of the old side and of the new one, empty without an exception."""
    old, new = (
        next((text for one in side if (text := str(one.facts.get("traceback") or ""))), "")
        for side in comparison.sides(outcomes)
    )
    return old, new


def subject_of(run: Run, comparison: Comparison) -> Subject:
    """The context of a report on the run; raises ValueError if the run lacks an environment of
    `comparison`.
    """
    environments = {one.fingerprint: one for one in run.environments}
    old, new = (
        _environment(environments, fingerprint, asked)
        for fingerprint, asked in zip((comparison.old, comparison.new), comparison.asked, strict=True)
    )
    return Subject(
        old=old,
        new=new,
        run=run.id,
        suite=run.suite,
        machine=run.machine.name,
        hardware=run.machine.hardware.label,
        device=str(run.facts.get("device", "")),
        started_at=run.started_at,
        ended_at=run.ended_at,
        state=run.state,
        preset=run.preset.name,
        settings=run.preset.settings,
        harness=run.harness,
        pyrometer=str(run.facts.get("pyrometer", "")),
        command=run.command,
        notes=run.notes,
        options=comparison.options,
        plan=comparison.plan,
        policy=comparison.policy,
        dispatch=differences_in(run.facts),
        step=step_in(run.facts),
    )


def _environment(
    environments: Mapping[str, Environment], fingerprint: str, asked: str
) -> ComparedEnvironment:
    if fingerprint not in environments:
        raise ValueError(f"a comparison with environment {fingerprint}, which the run does not have")
    return environment_of(environments[fingerprint], asked)


def environment_of(one: Environment, asked: str = "") -> ComparedEnvironment:
    """An environment in a report; `asked` is the spec that was typed for it."""
    return ComparedEnvironment(
        name=one.name,
        torch=one.torch_version,
        python=one.python_version,
        fingerprint=one.fingerprint,
        cuda=str(one.facts.get("cuda") or ""),
        packages=packages_in(one.facts),
        asked=asked,
        build=build_of(one.facts),
    )


def _markdown(judged: JudgedUpgrade) -> str:
    return upgrade_markdown(judged) if judged.subject.step is None else step_markdown(judged)


def _json(judged: JudgedUpgrade) -> str:
    return json.dumps(upgrade_json(judged), indent=2) + "\n"


def _junit(judged: JudgedUpgrade) -> str:
    return junit.document([junit.upgrade_suite(judged)], wording.headline(judged.upgrade))


#: The writers of a report, by the suffix of the file.
FORMATS: Mapping[str, Callable[[JudgedUpgrade], str]] = {
    ".html": upgrade_html,
    ".md": _markdown,
    ".json": _json,
    ".xml": _junit,
}
