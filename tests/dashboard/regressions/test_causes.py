"""Findings by cause: what belongs to one, what it is called, and where its buttons lead."""

from dataclasses import replace
from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import altair as alt
import pytest

from dashboard.regressions import causes, findings, night_chart
from dashboard.regressions.causes import FindingCause
from dashboard.trends.lines import TrendLine, place_of
from db.connection.engine import Database
from records.findings import Finding, FindingTriage
from records.runs import RunChange
from records.series import MeasuredFor, SeriesPoint
from support.builders import detection_nights
from support.builders.detection_nights import HOSTILE, Nights, a_finding, a_regression
from support.builders.run_records import MLP, RESNET, a_night


@pytest.fixture
def regression(database: Database) -> Finding:
    """A confirmed regression of one case."""
    Nights(database).add(range(4))
    return a_regression(database)


def test_one_night_machine_pair_of_builds_and_direction_are_one_cause(
    database: Database, regression: Finding
) -> None:
    alike = replace(regression, id=2, key=replace(regression.key, case=RESNET), change=0.2)
    others = [
        replace(regression, id=3, at_run="another-night"),
        replace(regression, id=4, machine="bench-2"),
        replace(regression, id=5, old_environment="another-build"),
        replace(regression, id=6, direction="better", change=-0.3),
        a_finding(database, RESNET),
    ]
    found = causes.causes([regression, alike, *others])
    assert [each.id for each in found[0].items] == [2, 1], "the largest change comes first"
    assert sorted(each.largest.id for each in found[1:]) == sorted(each.id for each in others)
    assert [each.tone for each in found] == ["bad", "bad", "bad", "bad", "good", "quiet"]
    assert found[0].cases == (RESNET, MLP) and found[-1].pairs is None
    assert causes.sentence(found[-1]).endswith("not measured again yet: it may be noise.")


def test_a_cause_names_what_runs_differently(regression: Finding) -> None:
    (line,) = causes.differences(FindingCause((regression,)))
    assert line.startswith("[reference kernel] oneDNN: matmul by ref:any instead of ")
    confirmation = replace(regression.evidence.confirmation, dispatch={})
    unknown = replace(regression, evidence=replace(regression.evidence, confirmation=confirmation))
    assert causes.differences(FindingCause((unknown,))) == []


def test_a_cause_is_named_by_what_moved_most(regression: Finding) -> None:
    one = FindingCause((regression,))
    assert causes.title(one) == "mlp_overhead infer: latency (min-based) rose by 10.0 %"
    assert causes.sentence(one) == "Confirmed by 8 pairs, A/B interleaved on bench-1."
    (line,) = causes.case_lines(one)
    assert line.endswith("latency (min-based) 10.0 → 11.0 ms (+10.0 % [+9.4 %, +10.5 %])")
    many = [
        replace(regression, id=n, key=replace(regression.key, case=f"m{n}/infer/b=1/eager")) for n in range(5)
    ]
    several = FindingCause(tuple(many))
    assert causes.title(several) == "5 workloads: up to +10.0 % latency (min-based)"
    assert len(causes.case_lines(several)) == 4 and causes.case_lines(several)[-1] == "and 2 more"
    assert causes.cause_counts([one, several]) == "2 causes, 6 cases"


def test_the_triage_of_a_cause_is_marked(regression: Finding) -> None:
    now = a_night(5)
    known = replace(
        regression, triage=FindingTriage.ACKNOWLEDGED, returns_of=7, muted_until=now + timedelta(days=1)
    )
    assert causes.marks(FindingCause((regression,)), now) == []
    assert causes.marks(FindingCause((known, known)), now) == [
        "came back: finding 7 was marked fixed",
        "acknowledged",
        f"muted until {now + timedelta(days=1):%Y-%m-%d}",
    ]


def test_an_issue_has_the_evidence_filled_in(regression: Finding) -> None:
    parts = urlsplit(causes.issue_address(FindingCause((regression,))))
    assert (parts.scheme, parts.netloc) == ("https", "github.com")
    query = {name: value for name, (value,) in parse_qs(parts.query).items()}
    assert query["title"].startswith("[performance] mlp_overhead infer: latency (min-based) rose by 10.0 %")
    for text in ("Confirmed by 8 pairs", "10.0 → 11.0 ms", "pyrometer bisect", "pyrometer upgrade old new"):
        assert text in query["body"]


@pytest.mark.parametrize(
    ("old", "new", "known"),
    [
        ("a" * 40, "b" * 40, True),
        ("a" * 40, "a" * 40, False),
        ("a" * 40, "", False),
        (HOSTILE, "b" * 40, False),
    ],
)
def test_commits_are_linked_where_both_hashes_are_known(old: str, new: str, known: bool) -> None:
    assert causes.commits_address(old, new) == (
        f"https://github.com/pytorch/pytorch/compare/{old}...{new}" if known else ""
    )


def a_point(run: str, at: datetime, value: float, machine: str = "bench-1") -> SeriesPoint:
    """A night of a series."""
    return SeriesPoint(
        **{
            **dict.fromkeys(SeriesPoint.__dataclass_fields__, None),
            **{"run": run, "environment": "e", "case": MLP, "machine": machine, "torch_version": "2.16"},
            **{"started_at": at, "point": value},
        }
    )


def test_the_chart_has_the_track_the_baseline_and_what_changed(regression: Finding) -> None:
    nights = [a_point(f"n{day}", a_night(day), 10.0 + (day > 1)) for day in range(4)]
    pinned = [a_point(f"p{day}", a_night(day), 9.0) for day in range(4)]
    elsewhere = a_point("x", a_night(2), 99.0, "bench-2")
    points = (*nights, *pinned, elsewhere)
    tracks = ("nightly",) * 4 + ("2.13.0",) * 4 + ("nightly",)
    line = TrendLine("A", regression.key, points, tracks)
    known = {
        place_of(each): MeasuredFor(each.run, "e", track, last=True, track=track, baseline="2.13.0")
        for each, track in zip(points, tracks, strict=True)
    }
    changed = {
        ("A", ("n2", "e")): [RunChange("machine", "driver", "575", "580")],
        ("A", ("n3", "e")): [RunChange("environment", "triton", "3.6", "3.8")],
    }
    one = replace(regression, at_run="n2")
    candidate = replace(regression, id=2, at_run="n3", state="candidate")
    made = night_chart.night_chart(one, line, known, changed, [one, candidate])
    assert made is not None
    assert list(made.nights["value"][~made.nights["baseline"]]) == [10.0, 10.0, 11.0, 11.0]
    assert list(made.nights["value"][made.nights["baseline"]]) == [9.0] * 4
    assert made.changes[["value", "label", "tone"]].to_numpy().tolist() == [[11.0, "▲ +10.0 %", "bad"]]
    assert list(made.borders["label"]) == ["driver 575 → 580"], "a package is PyTorch's side"
    assert made.tracks == ("nightly", "2.13.0")
    assert "over 4 nights on bench-1, beside the pinned 2.13.0" in made.words
    # Of a candidate its own mark is shown, without a colour.
    (mark,) = night_chart.night_chart(candidate, line, known, {}, [candidate]).changes.to_numpy().tolist()
    assert mark[2:] == ["▲ +10.0 % ?", "quiet"]
    alone = TrendLine("A", regression.key, points[:1], tracks[:1])
    assert night_chart.night_chart(one, alone, known, {}, []) is None


def test_a_cause_of_which_a_part_is_triaged_says_how_many(regression: Finding) -> None:
    items = tuple(
        replace(regression, id=number, triage=triage, owner=owner)
        for number, (triage, owner) in enumerate((("acknowledged", "ada"), ("open", ""), ("open", "")), 1)
    )
    whole, alone = (findings.table([FindingCause(own)], {}, a_night(5)).html() for own in (items, items[:1]))
    assert "1 acknowledged, 2 open" in whole and "by ada" in whole
    assert "1 acknowledged" not in alone and "acknowledged" in alone


def test_the_chart_of_an_old_finding_has_its_night(regression: Finding) -> None:
    many = 2 * night_chart.NIGHTS
    nights = tuple(a_point(f"n{day}", a_night(day), 10.0 + (day >= 40)) for day in range(many))
    line = TrendLine("A", regression.key, nights, ("nightly",) * many)
    for day, before in ((40, 30), (many - 3, 0)):
        one = replace(regression, at_run=f"n{day}")
        made = night_chart.night_chart(one, line, {}, {}, [one])
        assert made is not None and list(made.changes["night"]) == [a_night(day)]
        values = list(made.nights["value"])
        assert (values.count(10.0), values[-1]) == (before, 11.0)
        assert len(values) == (many - 10 if before else night_chart.NIGHTS)


def test_the_chart_is_a_valid_specification() -> None:
    made = night_chart.spec("Latency (ms)", ("nightly", "2.13.0"), dark=True)
    alt.Chart.from_dict({name: value for name, value in made.items() if name != "usermeta"})
    assert made["height"] == 260 and detection_nights.METRIC == "latency_floor"
