"""A bisection that is interrupted, killed or mended goes on where it was, and mixes nothing in."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.fakes.scripted_workers import World, a_row, end_of, one_world
from workflows.bisection.state import Bisection, Shelf

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A folder of this test's own."""
    return one_world(tmp_path, monkeypatch)


def _as_0_1_0_wrote_it(known: Bisection) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(known.to_body()))
    for step in body["steps"]:
        step["said"], step["told"] = step.pop("mark"), step.pop("message")
    return body | {"profile": body.pop("preset"), "profile_fingerprint": body.pop("preset_fingerprint")}


def test_an_interrupted_pair_is_all_that_is_lost(world: World) -> None:
    world.there_are(a_row(6, 3))
    at = 6

    def ask_for_the_end(number: int) -> None:
        if number == at:
            os.kill(os.getpid(), signal.SIGINT)

    world.before_pair = ask_for_the_end
    done = world.bisect()
    assert done.code == 130
    known = world.shelf().load("latest")
    assert done.err.endswith(f"resume with: pyrometer bisect --resume {known.id}\n")
    assert known.current is not None and len(known.steps) == 1
    assert len(world.pairs) == at + 1

    assert Bisection.from_body(_as_0_1_0_wrote_it(known)) == known

    again = world.call("bisect", "--resume", known.id, "--json")
    end = end_of(again)
    assert (again.code, end["end"]) == (0, "pair")
    assert [one["run"] for one in end["comparisons"]][:2] == [known.steps[0].run, known.current.run]
    # Four pairs decide a comparison, and the one that was interrupted went on with what it had.
    assert len(world.pairs) == 4 * len(world.compared())

    resumed = world.call("bisect", "--resume", "latest", "--json")
    assert (resumed.code, len(resumed.events)) == (0, 2)
    assert end_of(resumed) == end


def test_a_comparison_that_ended_before_it_was_written_down_is_not_measured_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.there_are(a_row(3, 1))
    save = Shelf.save

    def killed(shelf: Shelf, bisection: Any) -> None:
        if bisection.steps:
            raise KeyboardInterrupt
        save(shelf, bisection)

    with monkeypatch.context() as patch:
        patch.setattr(Shelf, "save", killed)
        assert world.bisect().code == 130
    assert world.shelf().load("latest").current is not None
    measured = len(world.pairs)
    end = end_of(world.call("bisect", "--resume", "latest", "--json"))
    assert end["end"] == "pair"
    assert world.compared() == [("v0", "v2"), ("v0", "v1")]
    assert len(world.pairs) == 2 * measured


def test_a_run_that_was_killed_before_it_began_is_begun_again(world: World) -> None:
    world.there_are(a_row(3, 1))

    def fall(number: int) -> None:
        raise KeyboardInterrupt

    world.before_pair = fall
    assert world.bisect().code == 130
    known = world.shelf().load("latest")
    assert known.current is not None
    world.place.journal(known.current.run).unlink()
    world.before_pair = lambda number: None
    assert end_of(world.call("bisect", "--resume", "latest", "--json"))["end"] == "pair"


def begun(world: World) -> str:
    """A bisection that was interrupted in its second comparison; its id."""
    world.there_are(a_row(4, 1))
    world.before_pair = lambda number: os.kill(os.getpid(), signal.SIGINT) if number == 5 else None
    assert world.bisect().code == 130
    world.before_pair = lambda number: None
    return world.shelf().load("latest").id


def test_what_has_changed_meanwhile_is_not_mixed_in(world: World) -> None:
    name = begun(world)
    world.renewed = {"v0"}
    changed = world.call("bisect", "--resume", name)
    assert changed.code == 2 and "environment v0 has changed since run" in changed.err
    bisection = world.shelf().load(name)
    world.shelf().save(replace(bisection, current=None))
    changed = world.call("bisect", "--resume", name)
    assert (
        changed.code == 2 and f"v0 has changed since bisection {name} used it; start a new one" in changed.err
    )

    world.renewed = set()
    settings = world.place.folder / "pyrometer.toml"
    settings.write_text(settings.read_text().replace("[presets.apart]", "[presets.apart]\nthreads = 1"))
    changed = world.call("bisect", "--resume", name)
    assert changed.code == 2 and f"preset apart has changed since bisection {name} began" in changed.err


def test_it_goes_on_with_the_metric_that_was_named(world: World) -> None:
    world.there_are(a_row(4, 9))
    world.more = {f"v{at}": {"rss_peak_steady": 900.0 if at >= 2 else 700.0} for at in range(4)}
    world.before_pair = lambda number: os.kill(os.getpid(), signal.SIGINT) if number == 3 else None
    assert world.bisect("--metric", "rss_peak_steady").code == 130
    world.before_pair = lambda number: None
    taken = world.call("bisect", "--resume", "latest", "--metric", "rss_peak_steady")
    assert "cannot be combined with a selection" in taken.one_sentence()
    end = end_of(world.call("bisect", "--resume", "latest", "--json"))
    assert (end["end"], end["metric"], Path(end["found"]["bad"]).name) == ("pair", "rss_peak_steady", "v2")


def test_what_cannot_be_gone_on_with_is_one_sentence(world: World) -> None:
    assert "there is no bisection in" in world.call("bisect", "--resume", "latest").one_sentence()
    name = begun(world)
    assert f'did you mean "{name}"?' in world.call("bisect", "--resume", name[:-1]).one_sentence()
    assert "cannot be combined with a selection" in world.call("bisect", "a", "--resume", name).one_sentence()
    with world.shelf().lock_bisection(name):
        assert "is running in another process" in world.call("bisect", "--resume", name).one_sentence()
    file = world.place.folder / f".pyrometer/bisects/{name}.json"
    whole = file.read_text()
    file.write_text(whole[:-9])
    assert f"{file} is damaged" in world.call("bisect", "--resume", name).one_sentence()
    file.write_text(whole.replace('"candidates"', '"contenders"'))
    assert "that this Pyrometer cannot read" in world.call("bisect", "--resume", name).one_sentence()
