"""Series as lines: tracks do not zigzag, what lines are set against, what moved and what changed."""

import math
from dataclasses import replace

import pytest

from analysis.metrics import METRICS
from dashboard.trends import lines, marks, moves, tables
from dashboard.trends.lines import OTHER
from dashboard.trends.view import Trends
from records.kinds import EnvironmentKind
from records.runs import RunChange
from records.series import SeriesPoint
from support.builders.run_records import MLP, RESNET
from support.builders.trends import EPYC, XEON, a_key, a_line, a_point, drawn, found, tracks_of_place

KEY = a_key()


def two_tracks() -> tuple[list[SeriesPoint], lines.PlaceTracks]:
    """Ten nights of a nightly and of the pinned baseline, each with a run of its own."""
    nightly = [a_point(night, f"2.14.0.dev{night}", point=2.2, run=f"new-{night}") for night in range(10)]
    pinned = [a_point(night, "2.13.0", point=2.0, run=f"old-{night}") for night in range(10)]
    about = tracks_of_place(nightly, track="nightly", baseline="2.13.0") | tracks_of_place(
        pinned, track="2.13.0", baseline="2.13.0"
    )
    return [point for pair in zip(nightly, pinned, strict=True) for point in pair], about


def test_what_a_schedule_measures_in_two_environments_is_two_tracks() -> None:
    points, about = two_tracks()
    (line,) = drawn({KEY: points}, about)
    assert [point.run for point in line.of_track("nightly")] == [f"new-{night}" for night in range(10)]
    assert [point.run for point in line.of_track("2.13.0")] == [f"old-{night}" for night in range(10)]
    assert lines.in_order(line.tracks, about) == ["nightly", "2.13.0"]
    assert line.within({"2.13.0"}).points == line.of_track("2.13.0")


def test_what_was_measured_by_hand_one_after_the_other_is_one_track() -> None:
    points = [a_point(night, version) for night, version in enumerate(("2.12.0", "2.12.0", "2.13.0"))]
    assert set(lines.tracks_of(points, tracks_of_place(points)).values()) == {OTHER}


def test_an_environment_that_comes_back_by_hand_is_a_track_of_its_own() -> None:
    versions = ["2.13.0", "2.14.0.dev1", "2.13.0", "2.14.0.dev2", "2.13.0"]
    points = [a_point(night, version) for night, version in enumerate(versions)]
    tracks = lines.tracks_of(points, tracks_of_place(points))
    assert [tracks[lines.place_of(point)] for point in points] == ["2.13.0", OTHER, "2.13.0", OTHER, "2.13.0"]


def test_the_old_side_of_a_session_is_no_part_of_the_line_of_its_candidate() -> None:
    old, new = a_point(0, "2.13.0", run="session"), a_point(0, "2.14.0", run="session", point=1.9)
    about = tracks_of_place([old], last=False) | tracks_of_place([new])
    assert lines.tracks_of([old, new], about) == {
        ("session", "environment-2.13.0"): "2.13.0",
        ("session", "environment-2.14.0"): OTHER,
    }
    (line,) = drawn({KEY: [old, new]}, about)
    assert lines.labels([line], ["2.13.0", OTHER], about) == {"2.13.0": "2.13.0", OTHER: "2.14.0"}


def test_a_session_of_a_pinned_release_is_no_night_of_it() -> None:
    points, about = two_tracks()
    session = [a_point(3, "2.13.0", run="s"), a_point(3, "2.14.0.dev3", run="s")]
    about |= tracks_of_place(session[:1], last=False) | tracks_of_place(session[1:])
    (line,) = drawn({KEY: [*points, *session]}, about)
    assert {p.run for p in line.of_track("2.13.0")} == {f"old-{night}" for night in range(10)}
    assert [p.run for p in line.of_track(f"2.13.0{lines.SINGLE}")] == ["s"]
    assert lines.scheduled_tracks([line], about) == {"nightly", "2.13.0"}
    (line,) = drawn({KEY: session}, tracks_of_place(session))
    assert lines.scheduled_tracks([line], tracks_of_place(session)) == set()


def test_runs_by_hand_of_several_pytorchs_have_no_name_in_common() -> None:
    scheduled = [a_point(night, "2.13.0", run=f"night-{night}") for night in range(3)]
    by_hand = [a_point(5, "2.13.0", run="hand-5"), a_point(6, "2.14.0", run="hand-6")]
    about = tracks_of_place(scheduled, track="2.13.0") | tracks_of_place(by_hand)
    (line,) = drawn({KEY: [*scheduled, *by_hand]}, about)
    assert lines.labels([line], ["2.13.0", OTHER], about) == {"2.13.0": "2.13.0", OTHER: "other runs"}


def test_environments_that_take_turns_are_tracks_also_where_they_name_no_pytorch() -> None:
    first, second = (
        [
            replace(
                a_point(night, "", run=f"{name}-{night}", environment=name),
                environment_kind=EnvironmentKind.FOREIGN,
            )
            for night in range(3)
        ]
        for name in ("py3.8", "py3.9")
    )
    about = tracks_of_place(first, name="py3.8") | tracks_of_place(second, name="py3.9")
    (line,) = drawn({KEY: [*first, *second]}, about)
    assert [line.of_track(name) for name in ("py3.8", "py3.9")] == [tuple(first), tuple(second)]


def test_the_canary_is_never_a_track_of_its_own() -> None:
    canary = [
        replace(a_point(night, "", environment="canary"), environment_kind=EnvironmentKind.CANARY)
        for night in range(3)
    ]
    models = [a_point(night, "2.13.0") for night in range(3)]
    about = tracks_of_place(canary, name="canary", last=False) | tracks_of_place(models)
    assert set(lines.tracks_of([*canary, *models], about).values()) == {OTHER}
    # Nothing is known of a run that went meanwhile.
    assert lines.tracks_of(models, {}) == {("run-0", "environment-2.13.0"): OTHER} | {
        (f"run-{night}", "environment-2.13.0"): OTHER for night in (1, 2)
    }


def test_tracks_are_those_of_each_hardware() -> None:
    points_of_xeon = [a_point(0, "2.12.0", run="a"), a_point(3, "2.13.0", run="d")]
    points_of_epyc = [a_point(1, "2.13.0", run="b"), a_point(2, "2.12.0", run="c")]
    keys = {a_key(): points_of_xeon, a_key(hardware=EPYC): points_of_epyc}
    both = drawn(keys, tracks_of_place([*points_of_xeon, *points_of_epyc]))
    assert {track for line in both for track in line.tracks} == {OTHER}
    assert [line.letter for line in both] == ["A", "B"]


def test_the_default_baseline_is_the_pinned_one_else_the_oldest_version_else_the_oldest_run() -> None:
    points, about = two_tracks()
    (line,) = drawn({KEY: points}, about)
    assert lines.default_baseline([line], about) == "2.13.0"
    assert lines.default_baseline([line], {}) == "2.14.0.dev0"
    assert lines.default_baseline([a_line([a_point(1, ""), a_point(2, "")])], {}) == "run-1"
    assert lines.default_baseline([], {}) == ""


def test_a_level_is_the_median_of_a_version_or_the_point_of_a_run() -> None:
    values = [("2.13.0+cpu", 2.0), ("2.13.0+cpu", 4.0), ("2.13.0+cu130", 8.0), ("2.14.0+cpu", 0.0)]
    line = a_line([a_point(night, version, point=value) for night, (version, value) in enumerate(values)])
    assert lines.level(line, "2.13.0") == 8.0, "of one build: a median of both was measured by none"
    assert lines.level(line, "2.13.0+cpu") == 3.0
    assert lines.level(line, "run-1") == 4.0
    assert lines.level(line, "2.12.0") is None
    assert lines.level(line, "2.14.0") is None, "there is nothing to divide by"


def test_builds_are_distinguished_where_a_line_has_several_and_else_have_the_public_version() -> None:
    of_cpu = a_line([a_point(0, "2.13.0+cpu"), a_point(3, "2.15.0+cpu")])
    of_gpu = a_line([a_point(0, "2.13.0+cu126"), a_point(1, "2.13.0+cu130"), a_point(2, "2.15.0+cu130")], "B")
    assert lines.baselines([of_cpu]) == {"2.13.0+cpu": "2.13.0", "2.15.0+cpu": "2.15.0"}
    assert lines.baselines([of_cpu, of_gpu]) == {
        "2.13.0+cpu": "2.13.0+cpu",
        "2.15.0+cpu": "2.15.0",
        "2.13.0+cu126": "2.13.0+cu126",
        "2.13.0+cu130": "2.13.0+cu130",
        "2.15.0+cu130": "2.15.0",
    }
    assert (lines.default_baseline([of_cpu], {}), lines.default_baseline([of_gpu], {})) == (
        "2.13.0",
        "2.13.0+cu126",
    )
    assert (lines.build(of_cpu, "2.13.0"), lines.build(of_gpu, "2.13.0")) == ("2.13.0+cpu", "2.13.0+cu130")
    assert lines.build(a_line([a_point(0, "2.13.0"), a_point(1, "2.13.0+cpu")]), "2.13.0") == "2.13.0"
    assert lines.build(of_gpu, "2.12.0") == lines.build(of_gpu, "") == ""


def test_of_a_run_with_two_environments_the_candidate_is_the_level() -> None:
    line = a_line([a_point(0, "2.13.0", run="s", point=2.0), a_point(0, "2.14.0", run="s", point=3.0)])
    assert lines.level(line, "s") == 3.0


def stepped(better: str = "lower", at: int = 15, nights: int = 30) -> list[SeriesPoint]:
    """A line that takes ten per cent more from a night on, with noise of about half a per cent."""
    noise = (0.0, 0.006, -0.004, 0.003, -0.006, 0.001, 0.005, -0.002, -0.005, 0.004, 0.002, -0.001)
    return [
        a_point(night, point=(2.2 if night >= at else 2.0) * (1 + noise[night % 12]))
        for night in range(nights)
    ]


def test_a_confirmed_finding_stands_at_its_first_night_and_no_other_move_is_computed() -> None:
    points, about = stepped(), {}
    line = a_line(points)
    one = found(points[16], KEY, track=OTHER)
    (move,) = moves.moves_of_findings([line], [one])
    assert (move.point.run, move.finding, move.word) == ("run-16", 7, "regression")
    assert (marks.sign(move), marks.tone(move)) == ("▲", "bad")
    assert marks.what(move) == "regression: +10.0 % [+9.4 %, +10.5 %], worse"
    assert moves.detect_moves([line], [one], about, (), "lower") == []


@pytest.mark.parametrize(
    ("state", "change", "direction", "sign", "tone"),
    [
        ("confirmed", -0.05, "better", "▼", "good"),
        ("confirmed", -0.05, "worse", "▼", "bad"),
        ("candidate", 0.05, "worse", "?", "odd"),
        ("confirming", 0.05, "worse", "?", "odd"),
        ("unclear", 0.05, "worse", "?", "odd"),
        ("machine", 0.05, "worse", "!", "odd"),
    ],
)
def test_a_mark_says_by_its_sign_what_is_known(
    state: str, change: float, direction: str, sign: str, tone: str
) -> None:
    point = a_point(3)
    one = found(point, KEY, state=state, change=change, direction=direction)
    (move,) = moves.moves_of_findings([a_line([point])], [one])
    assert (marks.sign(move), marks.tone(move)) == (sign, tone)


@pytest.mark.parametrize("changes", [{"state": "refuted"}, {"state": "no longer"}, {"at_run": "older"}])
def test_what_was_taken_back_or_is_not_shown_has_no_mark(changes: dict[str, str]) -> None:
    point = a_point(3)
    assert moves.moves_of_findings([a_line([point])], [found(point, KEY, **changes)]) == []
    assert moves.moves_of_findings([a_line([point])], [found(point, a_key(RESNET))]) == []


def test_of_a_run_with_two_environments_the_one_that_the_finding_is_about_is_marked() -> None:
    old, new = a_point(0, "2.13.0", run="s"), a_point(0, "2.14.0", run="s")
    (move,) = moves.moves_of_findings([a_line([old, new])], [found(new, KEY)])
    assert move.point is new


def test_an_unwatched_line_marks_where_it_moved() -> None:
    line = a_line(stepped(at=15))
    (move,) = moves.detect_moves([line], [], {}, (), "lower")
    assert (move.point.run, move.state, move.direction, move.before) == ("run-15", "moved", "worse", "run-14")
    assert move.change == pytest.approx(math.log(1.1), abs=0.005)
    assert (marks.sign(move), marks.tone(move), move.finding) == ("△", "quiet", None)
    assert marks.what(move).startswith("moved here by +") and "(not confirmed), worse" in marks.what(move)
    (move,) = moves.detect_moves([line], [], {}, (), "higher")
    assert move.direction == "better"


def test_a_border_hides_a_step_and_machines_are_judged_apart() -> None:
    points = stepped(at=15)
    line = a_line(points)
    assert moves.detect_moves([line], [], {}, {("A", lines.place_of(points[15]))}, "lower") == []
    assert moves.detect_moves([line], [], {}, {("B", lines.place_of(points[15]))}, "lower")
    mixed = [a_point(night, point=2.0 + night % 2, machine=f"bench-{night % 2}") for night in range(30)]
    assert moves.detect_moves([a_line(mixed)], [], {}, (), "lower") == []


def test_what_a_schedule_watches_is_left_to_its_findings() -> None:
    points = stepped()
    watched, other = a_key(metric="latency_floor"), a_key(metric="throughput")
    about = tracks_of_place(points, track="nightly")
    for key, many in ((watched, 0), (other, 1)):
        (line,) = drawn({key: points}, about)
        assert len(moves.detect_moves([line], [], about, (), "lower")) == many
    # A manual run is not watched.
    (line,) = drawn({watched: points}, tracks_of_place(points))
    assert len(moves.detect_moves([line], [], tracks_of_place(points), (), "lower")) == 1


@pytest.mark.parametrize("metric", ["latency", "throughput"])
def test_a_finding_of_the_watched_metric_stands_on_what_follows_from_it(metric: str) -> None:
    points = stepped(at=15)
    (line,) = drawn({a_key(metric=metric): points}, tracks_of_place(points, track="nightly"))
    one = found(points[16], a_key(metric="latency_floor"))
    (move,) = moves.moves_of_findings([line], [one])
    assert (move.word, move.finding, move.metric) == ("regression", 7, "latency_floor")
    # The same change is not a second, unconfirmed one.
    better, about = METRICS[metric].better, tracks_of_place(points, track="nightly")
    same = replace(one, direction="worse" if better == "lower" else "better")
    assert moves.detect_moves([line], [same], about, (), better) == []
    far = replace(same, at_run=points[25].run)
    assert len(moves.detect_moves([line], [far], about, (), better)) == 1
    other = found(points[16], a_key(RESNET, metric="latency_floor"))
    assert moves.moves_of_findings([line], [other]) == []


def test_values_without_a_logarithm_are_passed_over() -> None:
    points = [*stepped(), a_point(40, point=0.0), a_point(41, point=math.inf)]
    (move,) = moves.detect_moves([a_line(points)], [], {}, (), "lower")
    assert move.point.run == "run-15"
    assert moves.detect_moves([a_line([a_point(0, point=0.0)])], [], {}, (), "lower") == []


def test_a_metric_of_another_tool_is_judged_by_the_usual_rules() -> None:
    line = a_line(stepped(), key=a_key(metric="tool.speed"))
    (move,) = moves.detect_moves([line], [], {}, (), "neither")
    assert move.change > 0 and move.direction == ""
    assert marks.what(move).startswith("moved here by +") and marks.what(move).endswith("(not confirmed)")
    table = tables.moves([move], {OTHER: "other runs"}, several=False)
    (row,) = table.records()
    assert (row["what"], row["direction"]) == ("moved, not confirmed", "")
    assert "worse" not in table.html()


def test_changes_between_points_are_listed_once_and_without_pytorch_itself() -> None:
    points, others = [a_point(night) for night in range(3)], [a_point(n, case=RESNET) for n in range(3)]
    both = [a_line(points), a_line(others, "B")]
    driver = RunChange("machine", "driver", "580", "590")
    own = RunChange("environment", "torch", "2.13.0", "2.14.0")
    changes = {lines.place_of(points[1]): [driver, own], lines.place_of(points[2]): [own]}
    (step,) = marks.steps(both, changes)
    assert (step.point.run, step.changes, step.text) == ("run-1", (driver,), "driver 580 → 590")
    (tick,) = marks.ticks([step]).to_dict("records")
    assert (tick["x"], tick["what"], tick["where"]) == (
        points[1].started_at,
        "driver 580 → 590",
        f"bench-1, {XEON}",
    )
    (row,) = marks.step_table([step], {OTHER: "other runs"}).to_dict("records")
    assert (row["of"], row["what"], row["was"], row["is"], row["run"]) == (
        "machine",
        "driver",
        "580",
        "590",
        "run-1",
    )


def test_the_canary_next_to_a_case_repeats_no_change() -> None:
    case, canary = a_point(1), a_point(1, "", environment="canary")
    harness, triton = RunChange("harness", "harness", "1", "2"), RunChange("environment", "triton", "3", "4")
    changes = {lines.place_of(case): [harness, triton], lines.place_of(canary): [harness]}
    for both in ([case, canary], [canary, case]):
        (step,) = marks.steps([a_line([both[0]]), a_line([both[1]], "B")], changes)
        assert set(step.changes) == {harness, triton} and len(step.changes) == 2


def test_many_changes_before_one_point_are_counted_and_those_of_one_moment_are_one_tick() -> None:
    many = tuple(RunChange("environment", f"package-{number}", "1", "2") for number in range(7))
    point = a_point(1)
    steps = [marks.TrackChange(point, track, XEON, many) for track in ("nightly", "2.13.0")]
    assert steps[0].text.endswith("package-3 1 → 2 and 3 more")
    assert len(marks.ticks(steps)) == 1
    assert marks.ticks([]).empty


def test_the_moves_table_says_what_is_confirmed() -> None:
    points = stepped()
    line = a_line(points)
    moved = [
        *moves.moves_of_findings([line], [found(points[16], KEY)]),
        *moves.detect_moves([line], [], {}, (), "lower"),
    ]
    first, second = tables.moves(moved, {OTHER: "other runs"}, several=False).records()
    assert (first["what"], second["what"]) == ("regression", "moved, not confirmed")
    assert (first["case"], second["case"], first["finding"]) == (MLP, MLP, 7)
    assert [first["ratio"], second["ratio"]] == [math.exp(each.change) for each in moved]
    assert not {"change", "low", "high"} & {*first}


def test_a_border_without_a_baseline_says_by_how_much_the_level_moved() -> None:
    points = [a_point(night, point=2.0 if night < 5 else 2.2) for night in range(8)]
    line = a_line(points)
    place = lines.place_of(points[5])
    (level,) = moves.levels([line], tracks_of_place(points), {("A", place)})
    assert (level.point, level.nights, level.change) == (points[5], 3, pytest.approx(math.log(1.1)))
    changes = {place: [RunChange("machine", "driver", "575", "580")]}
    (step,) = marks.steps([line], changes, [level])
    assert (
        "A +10.0 % (3 nights). Not judged: there is no baseline."
        in tables.steps([step], {OTHER: "other runs"}).html()
    )
    # Beside a baseline that is judged.
    assert moves.levels([line], tracks_of_place(points, baseline="2.13.0"), {("A", place)}) == []
    assert moves.levels([line], tracks_of_place(points), set()) == []


def test_a_small_picture_has_the_nights_and_is_compared_with_the_median_before() -> None:
    points, about = two_tracks()
    last = a_point(10, "2.14.0.dev10", point=2.42, run="new-10")
    about |= tracks_of_place([last], track="nightly", baseline="2.13.0")
    (one,) = tables.histories({KEY: [*points, last]}, about)
    assert [point.run for point in one.points] == [f"new-{night}" for night in range(11)]
    assert one.change == pytest.approx(0.1)
    # Without a schedule there is every point, and one night has nothing before it.
    (alone,) = tables.histories({KEY: points[:1]}, {})
    assert len(alone.points) == 1 and alone.change is None
    assert tables.histories({KEY: []}, {}) == []


def test_points_of_files_without_a_time_stand_in_the_order_of_their_pytorch() -> None:
    versions = ("2.4.0", "1.9.0", "2.10.0")
    points = [a_point(night, version, run=f"undated-{version}") for night, version in enumerate(versions)]
    assert [point.torch_version for point in lines.in_time(points)] == ["1.9.0", "2.4.0", "2.10.0"]
    (one,) = tables.histories({KEY: points}, {})
    assert one.points == tuple(lines.in_time(points))
    (line,) = drawn({KEY: points}, {})
    assert lines.default_baseline([line], {}) == "1.9.0" and lines.without_dates([line])
    dated = [replace(point, run=f"run-{number}") for number, point in enumerate(points)]
    assert lines.in_time(dated) == dated and not lines.without_dates(drawn({KEY: dated}, {}))
    assert not lines.without_dates(drawn({KEY: points[:1]}, {})), "along one version there is no line"
    assert not lines.without_dates(drawn({KEY: []}, {}))


def test_what_no_time_is_known_of_moved_at_no_time() -> None:
    dated = stepped()
    undated = [replace(point, run=f"undated-{point.run}") for point in dated]
    moved = [moves.detect_moves(drawn({KEY: points}, {}), [], {}, (), "lower") for points in (dated, undated)]
    assert [len(each) for each in moved] == [1, 0]


def test_of_more_cases_than_a_table_holds_those_that_moved_most_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [
        tables.CaseHistory(a_key(case), tuple(a_point(night, case=case, point=value) for night, value in own))
        for case, own in (
            (MLP, enumerate((2.0, 2.0, 2.0))),
            (RESNET, enumerate((2.0, 2.0, 1.0))),
        )
    ]
    chosen = Trends("latency", (XEON,), "quiet", "date", (MLP,))
    listed = [row["case"] for row in tables.every_case(rows, chosen, METRICS["latency"]).records()]
    monkeypatch.setattr("dashboard.trends.tables._MOST", 1)
    cut = [row["case"] for row in tables.every_case(rows, chosen, METRICS["latency"]).records()]
    assert (listed, cut) == ([MLP, RESNET], [RESNET, MLP])


def test_a_small_picture_never_mixes_tracks_or_machines() -> None:
    nightly = [a_point(night, f"2.14.0.dev{night}", point=2.2, run=f"new-{night}") for night in range(6)]
    release = [a_point(night, "2.13.0", point=2.0, run=f"old-{night}") for night in range(6)]
    other = [
        a_point(night, f"2.14.0.dev{night}", point=1.0, run=f"far-{night}", machine="bench-2")
        for night in range(6)
    ]
    about = tracks_of_place([*nightly, *other], track="nightly") | tracks_of_place(release, track="2.13.0")
    points = [one for night in zip(other, release, nightly, strict=True) for one in night]
    (one,) = tables.histories({KEY: points}, about)
    assert [point.run for point in one.points] == [f"new-{night}" for night in range(6)]
    assert (one.track, one.change) == ("nightly", pytest.approx(0.0))
    (one,) = tables.histories({KEY: points[:-1]}, about)
    assert {point.torch_version for point in one.points} == {"2.13.0"} and one.track == "2.13.0"
