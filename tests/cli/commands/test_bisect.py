"""`pyrometer bisect`: every turn that a walk can take, and wrong usage."""

import json
from pathlib import Path

import pytest

from db.connection.engine import open_database
from db.runs import queries
from support.fakes.scripted_workers import CASE, World, a_row, end_of, one_world

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A folder of this test's own."""
    return one_world(tmp_path, monkeypatch)


def test_the_pair_is_found_with_its_evidence(world: World) -> None:
    world.there_are(a_row(8, 6))
    done = world.bisect("--report", "found.json")
    end = end_of(done)
    assert (done.code, end["end"]) == (0, "pair")
    assert world.compared() == [("v0", "v7"), ("v0", "v4"), ("v0", "v6"), ("v0", "v5"), ("v5", "v6")]
    found = end["found"]
    assert (found["good"], found["bad"]) == tuple(str(world.place.folder / name) for name in ("v5", "v6"))
    assert found["changes"] == [{"what": "planted", "old": "v5", "new": "v6"}]
    assert found["evidence"]["verdict"]["ratio"] == pytest.approx(1.1, abs=0.001)
    assert found["message"].startswith("slower, +10.0 % [")
    good, bad = found["good"], found["bad"]
    assert found["reproduce"] == f"pyrometer upgrade {good} {bad} --case {CASE} --pairs 12"
    written = json.loads((world.place.folder / "found.json").read_text())
    assert {"event": "bisected", **written} == end
    with open_database(world.place.url, create=False) as database:
        runs = [comparison["run"] for comparison in end["comparisons"]]
        assert sorted(runs) == sorted(queries.run_ids(database))


def test_every_command_of_a_comparison_measures_the_same(world: World) -> None:
    world.there_are(a_row(3, 1))
    options = ("--preset", "as-it-comes", "--device", "cpu", "--deadline", "300")
    found = end_of(world.bisect(*options, "--pairs", "8"))["found"]
    said = " ".join((*options, "--pairs", "8"))
    assert found["reproduce"] == f"pyrometer upgrade {found['good']} {found['bad']} --case {CASE} {said}"
    assert found["evidence"]["reproduce"] == found["reproduce"]
    report = world.call("report", found["run"])
    assert f"measure a case again with: {found['reproduce']}\n" in report.out


def test_progress_is_printed_for_people(world: World) -> None:
    world.there_are(a_row(4, 2))
    done = world.call("bisect", "./v0", "./v3", "--candidates", "./v1,./v2", "--case", CASE)
    assert done.code == 0, done
    folder = world.place.folder
    for line in (
        f"first the two ends, then about 2 steps: {folder}/v3 against {folder}/v0",
        f"2 candidates left, about 2 steps: {folder}/v2 against {folder}/v0",
        f"1 candidate left, about 1 step: {folder}/v1 against {folder}/v0",
        f"the pair itself: {folder}/v2 against {folder}/v1",
        "    planted: v1 -> v2",
    ):
        assert line in done.out.splitlines()
    assert f"{folder}/v2 is the first bad one, {folder}/v1 the last good one: slower, +10.0 % [" in done.out


def test_what_breaks_is_found_in_few_pairs(world: World) -> None:
    world.there_are(a_row(4, 1, "crashed"))
    end = end_of(world.bisect())
    assert end["end"] == "pair"
    assert end["found"]["message"] == "broke: ended crashed (2 of 2 replicates: planted)"
    assert len(world.pairs) == 2 * len(world.compared()) == 6


@pytest.mark.parametrize(
    ("good", "bad", "headline"),
    [
        (1.0, 1.0, "the two ends do not differ: same within ±1 %, "),
        (1.0, 0.5, "nothing to bisect: faster, -50.0 % ["),
        ("crashed", 1.0, "nothing to bisect: the good one cannot be used: it ended crashed (2 of 2"),
        ("crashed", "crashed", "nothing to bisect: the good one cannot be used: it ended crashed (2 of 2"),
    ],
)
def test_ends_between_which_nothing_got_worse_are_refused(
    world: World, good: float | str, bad: float | str, headline: str
) -> None:
    world.there_are({"v0": good, "v1": 1.0, "v2": bad})
    done = world.bisect()
    end = end_of(done)
    assert (done.code, end["end"], end["found"]) == (3, "alike", None)
    assert end["headline"].startswith(headline)
    assert world.compared() == [("v0", "v2")]


def test_what_cannot_be_imported_is_skipped_and_said(world: World) -> None:
    world.there_are(a_row(5, 3))
    world.broken = {"v2"}
    done = world.bisect()
    end = end_of(done)
    assert (done.code, end["end"]) == (3, "range")
    assert end["between"] == [str(world.place.folder / "v2")]
    (skipped,) = [one for one in end["comparisons"] if one["mark"] == "skip"]
    assert skipped["message"] == "environment v2 cannot import torch: it is gone" and skipped["run"] is None
    assert world.compared() == [("v0", "v4"), ("v0", "v3"), ("v0", "v1"), ("v1", "v3")]


def test_a_build_that_does_not_see_the_gpu_is_skipped_and_an_end_refused(world: World) -> None:
    world.there_are(a_row(4, 2))
    h200 = {"name": "NVIDIA H200", "uuid": "GPU-1", "memory_mib": 143155}
    world.gpus = {"v0": [h200], "v2": [h200], "v3": [h200]}
    end = end_of(world.bisect())
    assert (end["end"], end["between"]) == ("range", [str(world.place.folder / "v1")])
    (skipped,) = [one for one in end["comparisons"] if one["mark"] == "skip"]
    assert skipped["message"].startswith("environment v0 sees 1 GPU (1 x NVIDIA H200) and v1 sees no GPU: ")
    del world.gpus["v3"]
    assert "environment v0 sees 1 GPU (1 x NVIDIA H200) and v3 sees no GPU" in world.bisect().one_sentence()


def test_what_was_skipped_can_be_mended_and_tried_again(world: World) -> None:
    world.there_are(a_row(5, 3))
    world.broken = {"v1", "v2"}
    assert end_of(world.bisect())["end"] == "range"
    again = world.call("bisect", "--resume", "latest")
    assert again.code == 3
    assert again.out.splitlines()[-5].startswith(
        "try the skipped candidates again: pyrometer bisect --resume 20"
    )
    world.broken = {"v1"}
    end = end_of(world.call("bisect", "--resume", "latest", "--json"))
    assert (end["end"], end["between"]) == ("pair", [])
    assert (Path(end["found"]["good"]).name, Path(end["found"]["bad"]).name) == ("v2", "v3")


def test_a_broken_end_is_for_people_to_mend(world: World) -> None:
    world.there_are(a_row(3, 1))
    world.broken = {"v0"}
    assert world.bisect().one_sentence() == "pyrometer: environment v0 cannot import torch: it is gone"
    assert not list((world.place.folder / ".pyrometer/bisects").iterdir())
    world.broken = {"v2"}
    assert "environment v2 cannot import torch" in world.bisect().one_sentence()


def test_a_good_end_that_breaks_on_the_way_is_no_fault_of_the_middle(world: World) -> None:
    world.there_are(a_row(3, 1))
    world.before_pair = lambda number: world.broken.add("v0")
    done = world.bisect()
    assert done.code == 2 and "environment v0 cannot import torch" in done.err
    assert "resume with: pyrometer bisect --resume 20" in done.err
    world.broken, world.before_pair = set(), lambda number: None
    end = end_of(world.call("bisect", "--resume", "latest", "--json"))
    assert end["end"] == "pair"
    assert world.compared() == [("v0", "v2"), ("v0", "v1")]


def test_it_follows_the_metric_that_is_named(world: World) -> None:
    world.there_are(a_row(5, 2))
    world.more = {f"v{at}": {"rss_peak_steady": 900.0 if at >= 3 else 700.0} for at in range(5)}
    done = world.bisect("--metric", "rss_peak_steady")
    end = end_of(done)
    assert (done.code, end["end"], end["metric"]) == (0, "pair", "rss_peak_steady")
    assert [Path(end["found"][side]).name for side in ("good", "bad")] == ["v2", "v3"]
    assert end["found"]["message"].startswith("worse, +28.6 %")
    assert end["found"]["evidence"]["verdict"]["metric"] == "rss_peak_steady"
    # An upgrade is judged by its policy, and measures what else is asked for until that has a verdict too.
    assert end["found"]["reproduce"].endswith(f" --case {CASE} --also rss_peak_steady --pairs 12")
    assert world.shelf().load("latest").timing.cold_replicates == 1


def test_what_only_an_empty_cache_tells_finds_one_in_every_pair(world: World) -> None:
    world.there_are(a_row(3, 9))
    world.more = {"v0": {"rss_peak": 700.0}, "v1": {"rss_peak": 900.0}, "v2": {"rss_peak": 900.0}}
    end = end_of(world.bisect("--metric", "rss_peak"))
    assert [Path(end["found"][side]).name for side in ("good", "bad")] == ["v0", "v1"]
    # Also where what was unclear has twice the pairs, spare ones included.
    assert world.shelf().load("latest").timing.cold_replicates >= 2 * 12 * 5 / 4
    assert "--cold-pairs" in end["found"]["reproduce"]


def test_a_metric_that_nothing_has_is_said(world: World) -> None:
    world.there_are(a_row(3, 1))
    end = end_of(world.bisect("--metric", "compile_warm"))
    assert (end["end"], end["headline"]) == ("alike", "nothing to bisect: no pair has compile_warm")


def test_what_is_unclear_is_measured_once_more_with_more_pairs_then_passed_over(world: World) -> None:
    world.there_are(a_row(4, 3))
    world.noise = {"v2": 0.5}
    end = end_of(world.bisect("--pairs", "4"))
    said = [(one["new"][-2:], one["mark"]) for one in end["comparisons"]]
    assert said == [("v3", "bad"), ("v2", "unclear"), ("v2", "unclear"), ("v1", "good"), ("v3", "bad")]
    assert [one["reproduce"][-1] for one in end["comparisons"]] == ["4", "4", "8", "4", "4"]
    assert (end["end"], end["between"]) == ("range", [str(world.place.folder / "v2")])


def test_a_change_in_small_steps_is_no_pair(world: World) -> None:
    world.there_are({"v0": 1.0, "v1": 1.006, "v2": 1.012, "v3": 1.018})
    done = world.bisect()
    end = end_of(done)
    assert (done.code, end["end"]) == (3, "gradual")
    assert "v1 is good and " in end["headline"]
    assert "v2 is not, but no difference of the two is proved: same within ±1 %" in end["headline"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("./v0", "./v1"), "give both ends and a case"),
        (("./v0", "./v0", "--case", CASE), "both ends of the bisection are ./v0"),
        (("./v0", "./v1", "--case", CASE), "is not a version that the package index can list neighbours of"),
        (("./v0", "./v1", "--case", CASE, "--candidates", "./v2,./v2"), "v2 twice"),
        (("./v0", "./v1", "--case", CASE, "--candidates", "defualt"), 'did you mean "default"?'),
        (
            ("./v0", "./v1", "--case", CASE, "--candidates", "./v2", "--pairs", "5"),
            "an even number from 4 on",
        ),
        # What is unclear is compared once more, with twice the pairs.
        (
            ("./v0", "./v1", "--case", CASE, "--candidates", "./v2", "--pairs", "5002"),
            "--pairs takes at most 5,000",
        ),
        (
            ("./v0", "./v1", "--case", CASE, "--candidates", "./v2", "--report", "x.html"),
            "needs the suffix .json",
        ),
        (("./v0", "./v1", "--case", CASE, "--metric", "rss_peek"), 'did you mean "rss_peak'),
        (("./v0", "./v1", "--case", CASE, "--metric", "sm_clock"), 'unknown metric "sm_clock"'),
        (
            ("./v0", "./v1", "--case", "plantde", "--candidates", "./v2"),
            'did you mean "planted/infer/-/eager"?',
        ),
        (("./v0", "./v1", "--case", "*", "--candidates", "./v2"), "follows one case"),
        (("2.9.1", "nightly 2026-11-20", "--case", CASE), "is a nightly and the other is not"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(world: World, arguments: tuple[str, ...], sentence: str) -> None:
    world.there_are(a_row(3, 1))
    assert sentence in world.call("bisect", *arguments).one_sentence()
