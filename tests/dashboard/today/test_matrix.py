"""All cases of a track as workload by technique: what a cell says, and what has a colour."""

from dataclasses import replace
from typing import Any

import pytest

from analysis.recent_level import RecentChange
from analysis.staleness import LostCase
from dashboard.today.headlines import CaseNight
from dashboard.today.matrix import MOST, MatrixCell, matrix, table
from db.connection.engine import Database
from records.findings import Finding
from records.series import SeriesKey
from support.builders.detection_nights import Nights, a_finding, a_regression
from support.builders.run_records import MLP, RESNET, RESNET_COMPILED


@pytest.fixture
def regression(database: Database) -> Finding:
    """A confirmed regression."""
    Nights(database).add(range(4))
    return a_regression(database)


def night(key: SeriesKey, case: str, change: float | None, **more: Finding | None) -> CaseNight:
    """A case whose noise is 1 %; None for one without nights before."""
    compared = None if change is None else RecentChange(10.0, 14, change, 0.01)
    return CaseNight(replace(key, case=case), None, compared, **more)  # pyright: ignore[reportArgumentType]


def lost(name: str, status: Any) -> LostCase:
    """A case that used to be measured, and how it ended instead."""
    return LostCase("nightly", "nightly", f"{name}/train/b=8/eager", status, "")


def test_only_what_is_confirmed_or_lost_has_a_colour(database: Database, regression: Finding) -> None:
    key, candidate = regression.key, a_finding(database, RESNET)
    found = matrix(
        [
            night(key, MLP, 0.09, finding=regression),
            night(key, RESNET, 0.05, candidate=candidate),
            night(key, RESNET_COMPILED, 0.001),
            night(key, "new/infer/b=1/eager", None),
        ],
        [lost("gone", "crashed"), lost("hot", "throttled"), lost("late", "not reached")],
    )
    cells = {
        workload.split()[0]: cell
        for (technique, workload), cell in found.cells.items()
        if technique == "eager"
    }
    assert cells["mlp_overhead"] == MatrixCell("▲ +10.0 %", "bad", regression.id)
    assert cells["resnet50"] == MatrixCell("+5.1 % ?", "quiet", candidate.id)
    assert cells["new"] == MatrixCell("new") and cells["gone"] == MatrixCell("× broke", "bad")
    # The machine's doing is not the case's.
    assert cells["hot"] == MatrixCell("! throttled", "odd")
    assert cells["late"] == MatrixCell("! not reached", "odd")
    (compiled,) = [cell for (technique, _), cell in found.cells.items() if technique != "eager"]
    assert compiled == MatrixCell("·")
    assert found.techniques[0] == "eager" and len(found.workloads) == 6


def test_what_is_confirmed_and_was_not_there_last_night_has_no_colour(regression: Finding) -> None:
    (cell,) = matrix([night(regression.key, MLP, 0.0, finding=regression)]).cells.values()
    assert (cell.text, cell.tone) == ("·", "quiet")


def test_of_a_confirmed_change_that_was_there_in_part_the_rest_is_no_noise(regression: Finding) -> None:
    (cell,) = matrix([night(regression.key, MLP, 0.04, finding=regression)]).cells.values()
    assert cell == MatrixCell("+4.1 % ?", "quiet", regression.id)


def test_many_workloads_are_cut_and_names_stay_text(regression: Finding) -> None:
    names = [f"m{number:02}<b>/infer/b=1/eager" for number in range(MOST + 3)]
    found = matrix([night(regression.key, name, 0.0) for name in names])
    assert (len(found.workloads), found.omitted) == (MOST, 3)
    made = table(found, "All cases")
    assert "<b>" not in made.html() and len(made.shown) == MOST + 1
