"""Job `confirm`: measure candidates again on their machine, old and new environment interleaved."""

import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from analysis.comparison.case_results import CaseResult
from analysis.decision.comparison import Comparison
from analysis.detection.confirmation import FindingVerdict, judge_finding
from db.connection.engine import Database
from db.findings import store as stored
from records.evidence import Confirmation, Evidence, RelatedVerdict, SessionEnvironment
from records.findings import Finding, FindingState
from records.tasks import Task, TaskState
from reports.text.finding_text import confirmation_reason
from scheduled_jobs.jobs.context import ChildExit, ChildLost, FollowUp, JobContext, JobResult
from scheduled_jobs.scheduler.task_runs import MeasuredRun, run_measurement, store_runs
from workflows.load_run import load_run
from workflows.measure import RunResult, new_run_id
from workflows.run_header import Header

from ..detection.confirmation_plan import (
    ConfirmationPlan,
    EnvironmentGone,
    conditions_mismatch,
    environment_mismatch,
    plan_confirmation,
)
from ..detection.evidence import bisect_offer, moved_with, operator_difference, pair_verdict
from ..detection.findings import OPEN, compared_runs
from ..detection.sessions import MOST_TRIES, RELATED_ONLY, detect_again, related_after

#: The most confirmed cases that are traced on both sides, those with the largest changes for the worse.
_TRACED = 2
#: The number and the period of findings that are searched for related ones.
_OTHERS, _LOOK_BACK = 2000, timedelta(days=14)


class _NoResult(Exception):
    """A session without a result; the text is the reason, in a sentence."""


class _OtherConditions(_NoResult):
    """A session on other hardware or under another preset; a repetition would fail in the same way."""


def confirm(task: Task, context: JobContext) -> JobResult:
    """Measure the candidates of a task again in pairs, and store the decision about each.

    A follow-up task of the same job measures the cases related to confirmed findings. Findings that cannot be
    measured stay candidates, with the reason. Raises JobStopped, and DatabaseUnavailable.
    """
    if task.spec.get(RELATED_ONLY):
        return _measure_related(task, context)
    with context.open_database() as database:
        found = _in_states(database, task.spec, OPEN)
        # An earlier attempt may have ended after its decisions and before its follow-ups.
        decided = _in_states(database, task.spec, (FindingState.CONFIRMED,))
        decided = [one for one in decided if task.run_id and one.evidence.confirmation.run == task.run_id]
        if not found:
            after = _follow_ups(task, decided, left=bool(task.spec.get("left")))
            return JobResult(result={"summary": "nothing was left to confirm"}, follow_ups=after)
        found, others = _of_one_pair(found)
        away = {one.key.case for one in others} - {one.key.case for one in found}
        cases = [str(case) for case in task.spec["cases"] if case not in away]
        try:
            session = plan_confirmation(database, context, found, cases)
        except EnvironmentGone as gone:
            return _defer_findings(database, found, str(gone))
        stored.set_state(database, [one.id for one in found], FindingState.CONFIRMING)
    done = run_measurement(task, context, [*session.command, "--confirms"])
    try:
        header, result, comparison = _load_session(context, session, done)
    except _NoResult as problem:
        attempts = MOST_TRIES if isinstance(problem, _OtherConditions) else 1
        with context.open_database() as database:
            return _defer_findings(database, found, str(problem), done.run, attempts)
    results = comparison.results(result.outcomes)
    by_case = {one.case: one for one in results}
    fingerprints = {session.old.environment.fingerprint, session.new.environment.fingerprint}
    rebuilt = {comparison.old, comparison.new} != fingerprints
    rulings = [judge_finding(one, by_case.get(one.key.case), rebuilt=rebuilt) for one in found]
    _trace(context, session, rulings)
    with context.open_database() as database:
        recent = _others(database, rulings)
        for each in rulings:
            about = _evidence(database, session, each, results, recent)
            about = _with_origin(about, header, comparison, each.finding.key.case)
            _decide(database, context, each, replace(about, rebuilt=rebuilt))
    confirmed = [*decided, *(one.finding for one in rulings if one.state == FindingState.CONFIRMED)]
    after = _follow_ups(task, confirmed, left=bool(task.spec.get("left") or others))
    return _done(done.run, rulings, after)


def _measure_related(task: Task, context: JobContext) -> JobResult:
    """Measure cases related to confirmed findings in the same two environments, and record the results."""
    with context.open_database() as database:
        found = _in_states(database, task.spec, (FindingState.CONFIRMED,))
        if not found:
            return JobResult(result={"summary": "no finding is left whose related cases were to be measured"})
        try:
            session = plan_confirmation(database, context, found, [str(case) for case in task.spec["cases"]])
        except EnvironmentGone as gone:
            return JobResult(TaskState.FAILED, error=str(gone))
    done = run_measurement(task, context, [*session.command, "--confirms"])
    try:
        _, result, comparison = _load_session(context, session, done)
    except _NoResult as problem:
        return JobResult(TaskState.FAILED, {"run": done.run}, str(problem))
    results = comparison.results(result.outcomes)
    revisions = {one.id: partial(_with_related, found=_related_verdicts(one, results)) for one in found}
    with context.open_database() as database:
        stored.revise_evidence(database, revisions)
    count = f"{len(results)} related {'case' if len(results) == 1 else 'cases'}"
    return JobResult(result={"run": done.run, "summary": f"{count} measured"})


def _with_related(evidence: Evidence, found: tuple[RelatedVerdict, ...]) -> Evidence:
    """The evidence with these cases; a repeated attempt does not add them twice."""
    confirmation, cases = evidence.confirmation, {one.case for one in found}
    others = (one for one in confirmation.related if one.case not in cases)
    return replace(evidence, confirmation=replace(confirmation, related=(*others, *found)))


def _related_verdicts(one: Finding, results: Sequence[CaseResult]) -> tuple[RelatedVerdict, ...]:
    """The result of a session for the metric of a finding in its other cases."""
    others = [(each.case, each.verdicts.get(one.key.metric)) for each in results if each.case != one.key.case]
    return tuple(RelatedVerdict(case, pair_verdict(verdict)) for case, verdict in others if verdict)


def _in_states(
    database: Database, spec: Mapping[str, Any], states: Collection[FindingState]
) -> list[Finding]:
    found = [stored.finding(database, int(each)) for each in spec["findings"]]
    return [one for one in found if one is not None and one.state in states]


def _defer_findings(
    database: Database, found: Sequence[Finding], why: str, run: str = "", attempts: int = 1
) -> JobResult:
    stored.defer(database, [one.id for one in found], why, attempts)
    return JobResult(TaskState.FAILED, {"run": run, "findings": [one.id for one in found]}, why)


def _load_session(
    context: JobContext, session: ConfirmationPlan, done: MeasuredRun
) -> tuple[Header, RunResult, Comparison]:
    """The measured comparison, after checking that it is the requested one; raises _Unjudged."""
    if not done.stored:
        sentence = done.refused or (done.ended.sentence if done.ended else "")
        raise _NoResult(sentence or "the session did not finish")
    loaded = load_run(context.data_dir, done.run, context.open_database)
    comparison = loaded.header.pair_comparison if loaded.header else None
    if loaded.header is None or comparison is None:
        raise _NoResult(f"run {done.run} compares no environments")
    if problem := conditions_mismatch(session.hardware, session.preset, loaded.header):
        raise _OtherConditions(problem)
    if problem := environment_mismatch(session.old, session.new, loaded.header, comparison):
        raise _NoResult(problem)
    return loaded.header, loaded.result, comparison


def _trace(context: JobContext, session: ConfirmationPlan, rulings: Sequence[FindingVerdict]) -> None:
    """Trace both sides of the cases that became worse, so that their operator tables can be subtracted."""
    worse = [
        one.finding
        for one in rulings
        if one.state == FindingState.CONFIRMED and one.finding.direction == "worse"
    ]
    largest = sorted(worse, key=lambda one: -abs(one.change))
    traced: list[str] = []
    for case in list(dict.fromkeys(one.key.case for one in largest))[:_TRACED]:
        for side in (session.old, session.new):
            run = new_run_id()
            command = ["profile", case, "--environment", side.text, *session.options, "--json"]
            try:
                ended = context.child([*command, "--run-id", run], run=run)
            except ChildLost as error:
                ended = ChildExit(None, None, str(error))
            if ended.code != 0:
                # The verdict does not depend on it.
                context.say(f"{case} was not traced in {side.text}: {ended.sentence}")
                break
            traced.append(run)
    if traced and context.away:
        # On another machine they are in its own database.
        store_runs(context, *traced)


def _evidence(
    database: Database,
    session: ConfirmationPlan,
    found: FindingVerdict,
    results: Sequence[CaseResult],
    recent: Sequence[Finding],
) -> Confirmation:
    """The result of a session for a finding; for a confirmed one with the difference of operators."""
    one = found.finding
    evidence = Confirmation(
        reason=confirmation_reason(found),
        verdict=pair_verdict(found.verdict) if found.verdict else None,
        related=_related_verdicts(one, results),
    )
    if found.state != FindingState.CONFIRMED:
        return evidence
    # Always given, because the policy on the machine of the reader may have another metric.
    options = (*session.options, "--metric", one.key.metric)
    offer = bisect_offer(*session.versions, one.key.case, options)
    return replace(
        evidence,
        operators=operator_difference(database, one.key, *session.versions),
        bisect=offer if one.direction == "worse" else "",
        moved_with=moved_with(one, recent),
    )


def _with_origin(evidence: Confirmation, header: Header, comparison: Comparison, case: str) -> Confirmation:
    """The run that decided, its environments, and the command that repeats it."""
    facts = {str(each["fingerprint"]): each for each in header.environments}
    sides = [facts[fingerprint] for fingerprint in (comparison.old, comparison.new)]
    again = ["pyrometer", "upgrade", *comparison.asked, "--case", case, *comparison.options]
    return replace(
        evidence,
        run=header.run,
        compared=tuple(SessionEnvironment(each["name"], each["facts"].get("torch")) for each in sides),
        reproduce=shlex.join(again),
        dispatch=next((body for body in header.dispatch if body.get("case") == case), {}),
    )


def _decide(
    database: Database, context: JobContext, found: FindingVerdict, confirmation: Confirmation
) -> None:
    one = _with_decision(found)
    stored.decide(database, one.id, one.state, one.change, one.low, one.high, confirmation, context.now())


def _with_decision(found: FindingVerdict) -> Finding:
    """The finding with the state and the numbers that its session gave it."""
    one, verdict = replace(found.finding, state=found.state), found.verdict
    if verdict is None or verdict.change is None:
        return one
    return replace(one, change=verdict.change, low=verdict.low, high=verdict.high)


def _others(database: Database, rulings: Sequence[FindingVerdict]) -> list[Finding]:
    """The findings that are searched for changes related to confirmed ones; empty without any.

    Findings of this session have the state that it gave them: before that is stored, a refuted one would look
    like a change.
    """
    if all(one.state != FindingState.CONFIRMED for one in rulings):
        return []
    ruled = {one.finding.id: _with_decision(one) for one in rulings}
    since = min(one.found_at for one in ruled.values()) - _LOOK_BACK
    newest = stored.findings(database, since=since, newest=_OTHERS)
    return [ruled.get(one.id, one) for one in newest]


def _of_one_pair(found: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """The findings that compare the same environments as the first one, and the others.

    While a session waits, later nights may change which nights a finding compares.
    """
    pairs = [(compared_runs(one).old, compared_runs(one).new) for one in found]
    own = [one for one, pair in zip(found, pairs, strict=True) if pair == pairs[0]]
    return own, [one for one, pair in zip(found, pairs, strict=True) if pair != pairs[0]]


def _follow_ups(task: Task, confirmed: Sequence[Finding], *, left: bool) -> tuple[FollowUp, ...]:
    """The follow-ups of a task: a session of related cases, and the detection that plans waiting
    candidates.
    """
    return (*((detect_again(task.spec),) if left else ()), *related_after(task, confirmed))


def _done(run: str, rulings: Sequence[FindingVerdict], after: tuple[FollowUp, ...]) -> JobResult:
    counts = Counter(one.state for one in rulings)
    summary = ", ".join(f"{many} {state}" for state, many in counts.most_common())
    result = {"run": run, **counts, "findings": {str(one.finding.id): one.state for one in rulings}}
    return JobResult(result={**result, "summary": f"{summary} of {len(rulings)}"}, follow_ups=after)
