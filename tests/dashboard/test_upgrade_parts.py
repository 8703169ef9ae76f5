"""What the upgrade page is made of: addresses, order, charts, files, and the policy as TOML."""

import math
import tomllib
from pathlib import Path

import altair as alt
import pytest

from analysis.comparison.policy import Limits, Policy
from analysis.comparison.thresholds import Threshold
from dashboard.exports.page_recorder import frame_of
from dashboard.upgrades import charts, load, rules, tables, view
from dashboard.upgrades.rules import RuleChanges
from support.builders.upgrade_journals import (
    GPT_COMPILED,
    KINDS,
    RESNET,
    RESNET_COMPILED,
    RUN,
    Story,
    store_upgrades,
)


def test_what_moved_most_by_its_weight_comes_first(tmp_path: Path) -> None:
    url = store_upgrades(tmp_path)
    for weights, first in ((None, RESNET_COMPILED), (((RESNET, 30.0),), RESNET)):
        (section,) = [
            each
            for each in load.judged_by(url, RUN, 0, "complete", RuleChanges(weights=weights)).sections
            if each.title.startswith("What moved")
        ]
        assert section.chart is not None
        frame = frame_of(section.tables)
        assert frame["case"].iloc[0] == first and set(frame["case"]) == set(KINDS)
        assert list(frame["status"])[:2] in (["faster", "slower"], ["slower", "faster"])
        # Worse is above 0, and the weight counts.
        impact = frame.set_index("case")["impact"]
        assert impact[RESNET] == pytest.approx(0.0677 * (30 if weights else 1), rel=0.05)
        assert impact[RESNET_COMPILED] < 0
        assert frame.set_index("case").loc[RESNET, "ratio"] == pytest.approx(1.07, abs=0.002)
        # What is slower, faster and unclear, and the geomean.
        assert len(section.chart.rows) == 3 + 1


def test_old_addresses_stay_valid() -> None:
    chosen = view.UpgradeView(RUN, RuleChanges("latency", 2.5, (("bert*", 3.0), ("a:b", 0.5)), ()))
    literal = f"/compare?run={RUN}&metric=latency&threshold=2.5&weight=bert%2A%3A3&weight=a%3Ab%3A0.5&must="
    assert chosen.address == literal
    policy = Policy(must_not_regress=("x",))
    assert rules.rule_changes(chosen.query(), policy) == (chosen.rules, [])
    assert chosen.after("run", "other") == view.UpgradeView("other")
    # What the policy says itself is no change.
    own = {"metric": ["latency_floor"], "threshold": ["1"], "must": ["x"]}
    own |= {"case": ["5"], "worst": ["latency_floor:10"]}
    assert rules.rule_changes(own, policy) == (RuleChanges(), [])


def test_limits_of_single_cases_are_changed_by_the_address_and_stand_over_the_policys() -> None:
    policy = Policy(worst={"latency_floor": 0.2, "rss_peak": 0.5})
    query = {"case": ["8"], "worst": ["latency_floor:15%", "first_call:50", "rss_peak:50"]}
    changes, complaints = rules.rule_changes(query, policy)
    assert complaints == []
    assert changes == RuleChanges(case=8.0, worst=(("latency_floor", 15.0), ("first_call", 50.0)))
    applied = changes.apply_to(policy)
    assert (applied.case, applied.worst) == (
        0.08,
        {"latency_floor": 0.15, "rss_peak": 0.5, "first_call": 0.5},
    )
    address = view.UpgradeView(RUN, changes).address
    assert address == f"/compare?run={RUN}&case=8&worst=latency_floor%3A15&worst=first_call%3A50"
    kept = tomllib.loads(rules.toml(applied, "ours"))["policies"]["ours"]
    assert kept["case"] == 0.08 and kept["worst"] == dict(applied.worst)


def test_a_limit_of_the_policy_can_be_taken_away() -> None:
    policy = Policy(worst={"latency_floor": 0.1, "rss_peak": 0.5})
    query = {"worst": ["latency_floor:none", "first_call:none"]}
    changes, complaints = rules.rule_changes(query, policy)
    assert complaints == [] and changes == RuleChanges(worst=(("latency_floor", math.inf),))
    applied = changes.apply_to(policy)
    assert applied.worst == {"rss_peak": 0.5}
    assert view.UpgradeView(RUN, changes).address == f"/compare?run={RUN}&worst=latency_floor%3Anone"
    kept = tomllib.loads(rules.toml(applied, "ours"))["policies"]["ours"]
    # The built-in limit would hold where nothing stands in its place.
    assert kept["worst"] == {"latency_floor": 1e6, "rss_peak": 0.5}
    assert rules.rule_changes({"worst": ["latency_floor:inf"]}, policy)[1]


@pytest.mark.parametrize("dark", [False, True])
def test_the_chart_is_vega_lite_and_draws_what_lies_beyond_at_its_edge(tmp_path: Path, dark: bool) -> None:
    found = load.judged_by(store_upgrades(tmp_path), RUN, 0, "complete", RuleChanges())
    drawn = next(each.chart for each in found.sections if each.chart)
    look = charts.IntervalStyle(3, drawn.look.axis, 0.01, "Latency (min-based)", "faster", "slower", dark)
    spec = charts.intervals(look)
    assert alt.LayerChart.from_dict({**spec, "datasets": {"rows": [{}]}}).to_dict()["layer"]
    ends = drawn.rows[["low", "change", "high"]]
    assert ((ends.abs() <= drawn.look.axis.limit + 1e-12) | ends.isna()).all().all()
    assert len(drawn.rows) <= 2000 and "resnet50" in drawn.alt and "-12." in drawn.alt


def test_policies_come_back_from_toml_whatever_they_are_called() -> None:
    policy = Policy(
        metric="throughput",
        thresholds={"throughput": Threshold(0.03)},
        must_not_regress=('a"b\\c/*', "naïve — 測定\x7f\n"),
        may_break=("x/*",),
        weights={"b*": 2.0, "a*": 0.5},
        worst={"latency_floor": 0.1, "rss_peak": 0.5},
        overall=-0.02,
        peak_memory=Limits(0.04, 0.2, 0.03, blocks=("worst", "mean")),
    )
    read = tomllib.loads(rules.toml(policy, "ours"))["policies"]["ours"]
    assert read["must_not_regress"] == list(policy.must_not_regress)
    assert list(read["weights"].items()) == [("b*", 2.0), ("a*", 0.5)]
    assert read["worst"] == {"rss_peak": 0.5} and read["overall"] == -0.02
    assert read["thresholds"] == {"throughput": 0.03} and "slower_share" not in read
    limits = {"case": 0.04, "worst": 0.2, "mean": 0.03, "blocks": ["worst", "mean"]}
    assert read["peak_memory"] == limits and "compile_time" not in read


def test_every_table_can_be_had_as_csv(tmp_path: Path) -> None:
    found = load.judged_by(
        store_upgrades(tmp_path, Story(broken=(GPT_COMPILED,))), RUN, 0, "complete", RuleChanges()
    )
    made = {each.title: frame_of(each.tables) for each in found.sections if each.tables}
    assert {each.title for each in found.sections if "<table" in str(each.content)} <= set(made)
    assert all(len(frame) for frame in made.values())
    assert list(made["Correctness"]["new_status"]) == ["crashed"]
    assert set(made["Memory"]["ratio"].round(4)) == {round(654 / 600, 4)}
    assert frame_of(tables.upgrades("Upgrades", [], "", 1)).empty
