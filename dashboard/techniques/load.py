"""The queries of the Techniques page: hardware, presets and versions with techniques, and their newest runs.

`url` is the database's. All functions raise `db.errors.DatabaseError`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import streamlit as st

from dashboard.components import frames, load
from dashboard.components.query_params import public
from dashboard.server.database import database_at
from dashboard.techniques.results import EAGER, TechniqueRun, environment_of, read_techniques
from dashboard.techniques.view import Where
from db.findings import store as findings
from db.runs import coverage, queries, releases
from records.findings import Finding, FindingGroup
from records.kinds import RunState
from records.runs import Run
from records.series import SeriesPoint

#: The number of points of each case that are read: the newest runs, for example upgrades, may have measured
#: it without its baseline.
POINTS_OF_A_CASE = 8
#: The most runs that are read for one page; each has hundreds of outcomes.
MOST_RUNS = 16
#: The number of runs searched at a time for the newest with a ratio, and the number of them that are read.
_SEARCHED_RUNS, _RUNS_AT_ONCE, _LOOKS = 1000, 100, 40

#: The number of newest open regressions that are searched.
_FINDINGS = 500

#: The results of a running run change; its row in the list of runs, a part of the key, changes with them.
_readings_cache = st.cache_resource(ttl=3600, max_entries=64, show_spinner=False)


@load.cache
def versions(url: str, hardware: str, preset: str) -> list[str]:
    """The PyTorch versions with measured techniques there, newest version first."""
    result = releases.technique_versions(database_at(url), load.EVERY_CASE, hardware, preset)
    return sorted(result, key=frames.version_order, reverse=True)


@load.cache
def points(url: str, hardware: str, preset: str, version: str) -> list[SeriesPoint]:
    """The newest points of cases under a technique, newest run first."""
    result = releases.points_of_version(
        database_at(url),
        load.EVERY_CASE,
        version,
        hardware=hardware,
        preset=preset,
        techniques=True,
        newest=POINTS_OF_A_CASE,
    )
    # Of two that began at the same moment the one that was stored last is the newer, as in every other list.
    return sorted((point for _, point in reversed(result)), key=lambda point: point.started_at, reverse=True)


@load.cache
def open_regressions(url: str, hardware: str, version: str, workload: str) -> list[Finding]:
    """Open regressions in the latency of a workload's cases, of this PyTorch version or one before it."""
    newest = frames.version_order(version)
    finding_list = findings.findings(
        database_at(url), group=(FindingGroup.OPEN, datetime.now(UTC)), newest=_FINDINGS
    )
    return [
        one
        for one in finding_list
        if (one.key.case.rpartition("/")[0], one.key.hardware) == (workload, hardware)
        and one.key.metric in ("latency", load.EVERY_CASE)
        and frames.version_order(one.new_torch_version) <= newest
    ]


def run_readings(url: str, run_ids: Sequence[str], version: str, baseline: str = EAGER) -> list[TechniqueRun]:
    """The readings of these runs for a version, newest run first; runs without it are left out."""
    every = (_reading(url, run_id, version, baseline) for run_id in run_ids)
    matches = [reading for reading in every if reading is not None]
    return sorted(matches, key=lambda reading: reading.started_at, reverse=True)


@dataclass(frozen=True, slots=True)
class Newest:
    """The readings of the newest runs, newest first.

    Older `runs` were not read, in which `cases` may have a ratio; so may the cases of `cut`, of which only
    the newest points were read.
    """

    readings: list[TechniqueRun]
    runs: tuple[str, ...]
    cases: frozenset[str]
    cut: frozenset[str]


def newest(url: str, newest_first: Sequence[SeriesPoint], version: str) -> Newest:
    """The newest runs, as far back as needed until every case is conclusive, and those left out."""
    cases: dict[str, set[str]] = {}
    for point in newest_first:
        cases.setdefault(point.run, set()).add(point.case)
    missing = {point.case for point in newest_first}
    results: list[TechniqueRun] = []
    unread: list[str] = []
    for run_id, case_points in cases.items():
        if not missing & case_points:
            continue
        if len(results) == MOST_RUNS:
            unread.append(run_id)
        elif (reading := _reading(url, run_id, version)) is not None:
            results.append(reading)
            missing -= {one.case for one in reading.brought if one.is_conclusive}
    unread_cases = missing & {case for run_id in unread for case in cases[run_id]}
    many = Counter(point.case for point in newest_first)
    cut = {case for case in missing - unread_cases if many[case] >= POINTS_OF_A_CASE}
    return Newest(results, tuple(unread), frozenset(unread_cases), frozenset(cut))


@load.cache
def newest_with_ratios(
    url: str, hardware: str = "", preset: str = "", version: str = "", but: Where | None = None
) -> Where | None:
    """The place and version of the newest run with a ratio; None if a few queries find none.

    Of all places and versions, or of a hardware, a preset (fingerprints) and a PyTorch version; an empty
    value does not filter. With `but` another place or version than that.
    """
    looks = 0
    for offset in range(0, _SEARCHED_RUNS, _RUNS_AT_ONCE):
        result = coverage.technique_runs(
            database_at(url), hardware=hardware, preset=preset, limit=_RUNS_AT_ONCE, offset=offset
        )
        for run_id in result:
            if (where := _place_with_ratios(url, run_id, version, but)) is not None:
                return where
            if (looks := looks + 1) == _LOOKS:
                return None
        if len(result) < _RUNS_AT_ONCE:
            break
    return None


def _place_with_ratios(url: str, run_id: str, version: str, but: Where | None) -> Where | None:
    """The place of a run with a ratio under a version, or under any of its versions, the candidate first."""
    record = load.run(url, run_id)
    if record is None:
        return None
    run = record[0]
    for each in reversed(run.environments):
        where = Where(run.machine.hardware.fingerprint, run.preset.fingerprint, each.torch_version)
        is_wanted = version in ("", each.torch_version, public(each.torch_version))
        if not each.torch_version or not is_wanted or where == but:
            continue
        reading = _reading(url, run_id, each.torch_version)
        if reading is not None and reading.has_ratio:
            return where
    return None


def with_ratios(url: str, place: Where, *, elsewhere: bool) -> Where | None:
    """A place whose runs have ratios, other than `place` if `elsewhere`; None if a few queries find none.

    The same hardware and preset come first, then the same hardware; among equals the newest run.
    """
    but = place if elsewhere else None
    near = (place.hardware, place.preset), (place.hardware, ""), ("", "")
    return next(
        (where for each in near if (where := newest_with_ratios(url, *each, but=but)) is not None), None
    )


def _reading(url: str, run_id: str, version: str, baseline: str = EAGER) -> TechniqueRun | None:
    stored_run = load.run(url, run_id)
    if stored_run is None or environment_of(stored_run[0], version) is None:
        return None
    run, summary = stored_run
    missing_count = (
        max(0, summary.planned - sum(summary.counts.values())) if summary.state != RunState.COMPLETE else 0
    )
    outcome_count = sum(summary.counts.values())
    return _build_reading(url, run_id, version, baseline, summary.state, missing_count, outcome_count, run)


@_readings_cache
def _build_reading(
    url: str,
    run_id: str,
    version: str,
    baseline: str,
    state: str,
    missing_count: int,
    outcome_count: int,
    _run: Run,
) -> TechniqueRun:
    """As `results.read_techniques`; `outcome_count` is only a part of the key."""
    database = database_at(url)
    outcomes = queries.outcomes_of_run(database, run_id)
    reading = read_techniques(
        _run, version, outcomes, queries.measurements_of_run(database, run_id), baseline
    )
    return replace(reading, state=state, unreached=missing_count)
