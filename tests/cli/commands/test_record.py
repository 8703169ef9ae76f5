"""`pyrometer record`, and `--census` of run and upgrade: from a real program to a weighted verdict."""

import json
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.commands import profile
from runner.census import Census, CensusRecording, read_census
from support.command_line import typed
from support.site import Done, Site, measured_python, one_site

PROGRAM = Path(__file__).parents[2] / "runner" / "census" / "programs" / "training.py"

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    for place in one_site(tmp_path_factory.mktemp("census")):
        place.measure_shortly()
        yield place


@pytest.fixture(scope="module")
def recorded(site: Site) -> Done:
    """A program recorded by a real command."""
    return site.call("record", "--steps", "1", "--", str(measured_python()), str(PROGRAM))


@pytest.fixture(scope="module")
def small(site: Site, recorded: Done) -> Census:
    """The two operators that took longest, as a census of their own in `small.toml`."""
    assert recorded.code == 0
    census = read_census(site.folder / "census.toml")
    two = Census(census.torch, census.steps, census.seconds, census.operators[:2], census.seen)
    (site.folder / "small.toml").write_text(two.to_toml())
    return two


def test_a_program_is_recorded_and_the_next_command_named(site: Site, recorded: Done) -> None:
    assert recorded.code == 0 and "step 1" in recorded.out
    census = read_census(site.folder / "census.toml")
    assert census.steps == 1
    assert f"census.toml: 1 step in PyTorch {census.torch}: " in recorded.out
    assert "pyrometer upgrade OLD NEW --census census.toml" in recorded.out
    assert census.operators[0].name in recorded.out


def test_a_census_for_which_there_is_no_room_leaves_the_former_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.folder / "kept.toml").write_text("kept\n")
    census = Census("2.9.1", 1, 1.0, (), 0)
    monkeypatch.setattr(profile, "record_program", lambda *_: CensusRecording(census, 0, ()))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Of bytecode written meanwhile, Python would keep a part for good.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))
    try:
        done = typed(site, "record", "--output", "kept.toml", "--", "python", "train.py")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.code == 2 and "kept.toml: File too large" in done.err, done
    assert (site.folder / "kept.toml").read_text() == "kept\n"


@pytest.mark.slow
def test_a_run_measures_a_recorded_region_compiled(site: Site) -> None:
    program = PROGRAM.with_name("compiled.py")
    how = ("--steps", "1", "--output", "compiled.toml", "--json")
    done = site.call("record", *how, "--", str(measured_python()), str(program), "product")
    assert done.code == 0, done.err
    body: dict[str, Any] = json.loads(done.out[done.out.index("{") :])
    (region,) = body["regions"]
    assert region["case"].endswith("/train/-/compile=default") and 0 < region["share"] < 1
    census = read_census(site.folder / "compiled.toml")
    alone = Census(census.torch, census.steps, census.seconds, (), census.seen, True, census.regions)
    (site.folder / "region.toml").write_text(alone.to_toml())
    done = site.call("run", "--census", "region.toml", "--replicates", "1", "--yes", "--json")
    assert done.code == 0, done.err
    assert "in 1 compiled region, all measured compiled" in done.err
    outcomes = {(each["case"], each["status"]) for each in done.events if each["event"] == "outcome"}
    # A compiled case is measured beside its eager one.
    eager = region["case"].replace("/compile=default", "/eager")
    assert outcomes == {(region["case"], "ok"), (eager, "ok")}


@pytest.mark.slow
def test_an_upgrade_weighs_each_operator_by_its_share(site: Site, small: Census) -> None:
    # The budget has room for one pair: shares of time are weights whatever is measured.
    how = ("--census", "small.toml", "--budget", "1", "--no-fingerprint", "--report", "verdict.json")
    done = site.call("upgrade", "default", "default", *how)
    assert done.code == 3, done.err
    body: dict[str, Any] = json.loads((site.folder / "verdict.json").read_text())
    weights = {one["case"]: one["weight"] for one in body["cases"]}
    assert weights == pytest.approx(small.weights)
    assert "2 operator calls of" in done.err
    assert ("ok", "ok") in {(one["old"]["status"], one["new"]["status"]) for one in body["cases"]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--census", "missing.toml"), "No such file"),
        (("run", "--census", "cases.py"), "is no census"),
        (("run", "--census", "x.toml", "--suite", "smoke"), "leave out --suite"),
        (("upgrade", "a", "b", "--census", "x.toml", "--case", "gemm"), "leave out --suite"),
        (("upgrade", "a", "b", "--census", "x.toml", "--step", "x.py"), "leave out --suite"),
        (("record", "--", "python3", "missing.py"), "there is no script missing.py"),
        (("record", "--output", "nowhere/x.toml", "--", "python3", "x.py"), "not a file that can be written"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(site: Site, words: tuple[str, ...], said: str) -> None:
    assert said in typed(site, *words).one_sentence()
