"""The queries of the upgrade page: runs of pairs, and the cached judgement of each by every policy."""

from dataclasses import replace

import streamlit as st

from analysis.decision.comparison import Comparison, stored_comparison
from analysis.decision.reasons import Decision
from dashboard.components.load import cache
from dashboard.server.database import database_at
from dashboard.upgrades.rules import RuleChanges
from dashboard.upgrades.sections import Report, report
from dashboard.upgrades.view import UpgradeLists, upgrade_summaries
from db.runs import queries
from records.kinds import RunKind
from records.runs import Run
from reports import scorecard, wording
from reports.upgrade_report import JudgedUpgrade, judge_upgrade

#: The most upgrades in the list, of which a team has a few in a year, and the most sessions about findings,
#: of which there are some each day.
UPGRADES, SESSIONS = 200, 100
_REJUDGED = "judged by rules that a reader of the dashboard chose, not by those it was measured under"
#: The most cached judgements: a large suite takes some MiB each.
_KEPT = 8
#: The most cached summaries of runs on other hardware, which are small.
_HARDWARE = 200


@cache
def newest(url: str) -> UpgradeLists:
    """The newest upgrades and the newest sessions about findings."""
    records = queries.upgrade_runs(database_at(url), newest=UPGRADES + 1)
    sessions = queries.upgrade_runs(database_at(url), RunKind.CONFIRMATION, newest=SESSIONS + 1)
    return UpgradeLists(
        upgrade_summaries(records[:UPGRADES]),
        upgrade_summaries(sessions[:SESSIONS]),
        older=len(records) > UPGRADES,
        older_sessions=len(sessions) > SESSIONS,
    )


def comparison_of(run: Run) -> Comparison:
    """The comparison of a run; raises ValueError with a sentence for a run without a readable one."""
    try:
        comparison = stored_comparison(run.facts)
    except ValueError as error:
        raise ValueError(f"Run {run.id} holds {error}.") from error
    if comparison is None:
        raise ValueError(f"Run {run.id} compares no environments, according to this database.")
    return comparison


@st.cache_resource(max_entries=_KEPT, show_spinner="Judging")
def judged_by(url: str, run_id: str, outcome_count: int, state: str, rules: RuleChanges) -> Report:
    """The page of a run by these rules; raises ValueError with a sentence if it cannot be judged.

    `outcome_count`, the number of its outcomes, and `state` are a part of the cache key of a running run.
    """
    return report(*_judge_run(url, run_id, rules), rules)


@st.cache_resource(max_entries=_HARDWARE, show_spinner="Judging")
def scorecard_of(
    url: str, run_id: str, outcome_count: int, state: str, rules: RuleChanges
) -> tuple[Decision, str, tuple[scorecard.Entry, ...]]:
    """The decision on a run by these rules, its main reason, and its four metrics.

    Raises ValueError as `judged_by` does.
    """
    _, result = _judge_run(url, run_id, rules)
    entries = scorecard.entries(result.upgrade.scorecard, result.subject.policy)
    return result.upgrade.decision, wording.because(result.upgrade), entries


def _judge_run(url: str, run_id: str, rules: RuleChanges) -> tuple[Run, JudgedUpgrade]:
    run = queries.run_record(database_at(url), run_id)
    if run is None:
        raise ValueError(f"Run {run_id} has just been deleted from the database.")
    comparison = comparison_of(run)
    if rules.changed:
        # The exported report does not contain the address with the rules.
        run = replace(run, notes=(*run.notes, _REJUDGED))
    changed_comparison = replace(comparison, policy=rules.apply_to(comparison.policy))
    outcomes = queries.outcomes_of_run(database_at(url), run_id)
    try:
        return run, judge_upgrade(run, changed_comparison, outcomes)
    except ValueError as error:
        raise ValueError(f"Run {run_id} cannot be judged: {error}.") from error
