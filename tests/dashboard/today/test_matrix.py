"""All cases of a track as workload by technique: what a cell says, and what has a colour."""

from dataclasses import replace
from typing import Any

import pytest

from analysis.recent_level import RecentChange
from analysis.staleness import LostCase
from dashboard.components import links
from dashboard.components.markup import HeatCell
from dashboard.today.headlines import MOST_WORKLOADS, CaseNight, matrix
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


def by_case(nights: list[CaseNight], gone: list[LostCase]) -> dict[tuple[str, str], HeatCell]:
    """The cells of the matrix by the workload and technique that stand at their heads."""
    found, _ = matrix("All cases", nights, gone)
    return {
        (column.title.split()[0], head.title): cell
        for head, cells in found.lines
        for column, cell in zip(found.columns, cells, strict=True)
        if cell is not None
    }


def test_only_what_is_confirmed_or_lost_has_a_colour(database: Database, regression: Finding) -> None:
    key, candidate = regression.key, a_finding(database, RESNET)
    nights = [
        night(key, MLP, 0.09, finding=regression),
        night(key, RESNET, 0.05, candidate=candidate),
        night(key, RESNET_COMPILED, 0.001),
        night(key, "new/infer/b=1/eager", None),
    ]
    ended = {
        "gone": "crashed",
        "hot": "throttled",
        "late": "not reached",
        "off": "lost",
        "slow": "not_compiled",
    }
    gone = [lost(name, status) for name, status in ended.items()]
    cells = by_case(nights, gone)
    changed = HeatCell("▲", "worse", "+10.0 %", "bad", link=links.finding(regression.id))
    assert cells.pop(("mlp_overhead", "eager")) == changed
    seen = HeatCell("?", "not confirmed", "+5.1 %", link=links.finding(candidate.id))
    assert cells.pop(("resnet50", "eager")) == seen
    assert cells.pop(("new", "eager")) == HeatCell("new", "")
    for name in ("gone", "slow"):
        assert cells.pop((name, "eager")) == HeatCell("×", "", "broke", "bad")
    # The machine's doing is not the case's.
    assert cells.pop(("hot", "eager")) == HeatCell("!", "", "throttled", "odd")
    assert cells.pop(("late", "eager")) == HeatCell("!", "", "not reached", "odd")
    assert cells.pop(("off", "eager")) == HeatCell("!", "", "lost", "odd")
    assert list(cells.values()) == [HeatCell("·", "within noise")], "the compiled one"
    found, _ = matrix("All cases", nights, gone)
    assert found.lines[0][0].title == "eager" and len(found.columns) == 8


def test_what_is_confirmed_and_was_not_there_last_night_has_no_colour(regression: Finding) -> None:
    (cell,) = by_case([night(regression.key, MLP, 0.0, finding=regression)], []).values()
    assert (cell.sign, cell.tone, cell.link) == ("·", "quiet", "")


def test_of_a_confirmed_change_that_was_there_in_part_the_rest_is_no_noise(regression: Finding) -> None:
    (cell,) = by_case([night(regression.key, MLP, 0.04, finding=regression)], []).values()
    assert cell == HeatCell("?", "not confirmed", "+4.1 %", link=links.finding(regression.id))


def test_many_workloads_are_cut_and_names_stay_text(regression: Finding) -> None:
    names = [f"m{number:02}<b>/infer/b=1/eager" for number in range(MOST_WORKLOADS + 3)]
    found, omitted = matrix("All cases", [night(regression.key, name, 0.0) for name in names])
    assert (len(found.columns), omitted) == (MOST_WORKLOADS, 3)
    assert "<b>" not in found.html()
