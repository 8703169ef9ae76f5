"""What the upgrade page knows: runs of pairs, and each judged once for every policy it is looked at by."""

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

#: Upgrades in the list at most, for a team decides about a few in a year, and sessions about findings, of
#: which the nights make some each day.
UPGRADES, SESSIONS = 200, 100
_REJUDGED = "judged by rules that a reader of the dashboard chose, and not by those it was measured under"
#: What is kept is judged in full, and a large suite takes some MiB each time.
_KEPT = 8
#: Of a run on other hardware only four lines are kept.
_HARDWARE = 200


@cache
def newest(url: str) -> UpgradeLists:
    """The newest upgrades and the newest sessions about findings."""
    found = queries.upgrade_runs(database_at(url), newest=UPGRADES + 1)
    sessions = queries.upgrade_runs(database_at(url), RunKind.CONFIRMATION, newest=SESSIONS + 1)
    return UpgradeLists(
        upgrade_summaries(found[:UPGRADES]),
        upgrade_summaries(sessions[:SESSIONS]),
        older=len(found) > UPGRADES,
        older_sessions=len(sessions) > SESSIONS,
    )


def comparison_of(run: Run) -> Comparison:
    """What a run compares; raises ValueError, a sentence, for one that says it of nothing or otherwise."""
    try:
        found = stored_comparison(run.facts)
    except ValueError as error:
        raise ValueError(f"Run {run.id} holds {error}.") from error
    if found is None:
        raise ValueError(f"Run {run.id} compares no environments, as far as this database knows.")
    return found


@st.cache_resource(max_entries=_KEPT, show_spinner="Judging")
def judged_by(url: str, run_id: str, stored: int, state: str, rules: RuleChanges) -> Report:
    """The page of a run by these rules; raises ValueError, a sentence, where it cannot be judged.

    `stored`, how many of its outcomes there are, and `state` identify what is still being measured.
    """
    return report(*_judge_run(url, run_id, rules), rules)


@st.cache_resource(max_entries=_HARDWARE, show_spinner="Judging")
def scorecard_of(
    url: str, run_id: str, stored: int, state: str, rules: RuleChanges
) -> tuple[Decision, str, tuple[scorecard.Entry, ...]]:
    """The decision on a run by these rules, what weighs most for it, and its four metrics.

    Raises ValueError as `judged_by` does.
    """
    _, found = _judge_run(url, run_id, rules)
    entries = scorecard.entries(found.upgrade.scorecard, found.subject.policy)
    return found.upgrade.decision, wording.because(found.upgrade), entries


def _judge_run(url: str, run_id: str, rules: RuleChanges) -> tuple[Run, JudgedUpgrade]:
    run = queries.run_record(database_at(url), run_id)
    if run is None:
        raise ValueError(f"Run {run_id} has just gone from the database.")
    comparison = comparison_of(run)
    if rules.changed:
        # A reader of the exported report sees no address.
        run = replace(run, notes=(*run.notes, _REJUDGED))
    wanted = replace(comparison, policy=rules.apply_to(comparison.policy))
    outcomes = queries.outcomes_of_run(database_at(url), run_id)
    try:
        return run, judge_upgrade(run, wanted, outcomes)
    except ValueError as error:
        raise ValueError(f"Run {run_id} cannot be judged: {error}.") from error
