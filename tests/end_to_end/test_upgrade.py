"""`pyrometer upgrade` over real interpreters, one of which was made slower, and one broken."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from common.journal_lines import encode_line
from db.connection.engine import open_database
from db.runs import queries
from runner import journal
from support.command_line import typed
from support.interpreters import make_interpreter, measured_packages
from support.site import Done, Site, one_site
from workflows.ingest import FORGOTTEN
from workflows.run_header import Header

#: What a step does depends on the environment it runs in: which is what an upgrade is about.
CASES = '''"""A case that spins, longer where it was planted."""

import sys
import time
from pathlib import Path

import torch
from runner.worker.case import case

FILE = Path(sys.prefix) / "planted"
PLANTED = FILE.read_text().split() if FILE.exists() else ["1"]
MILLISECONDS = float(PLANTED[0])


def adding(milliseconds, copied=False):
    """An addition that takes so long."""
    ones = torch.ones(4)

    def step():
        end = time.perf_counter() + 0.001 * milliseconds
        while time.perf_counter() < end:
            pass
        return (ones.clone() if copied else ones) + ones

    return step


@case()
def spins():
    """A millisecond of work, or as the environment has it."""
    return adding(MILLISECONDS, copied=MILLISECONDS > 1)


@case()
def waits():
    """As slow as the environment has it, by the same operators."""
    return adding(MILLISECONDS)


@case()
def breaks():
    """Takes as long everywhere, and works but where it was planted otherwise."""
    if "breaks" in PLANTED:
        raise RuntimeError("the API is gone")
    return adding(1)
'''
SPINS, WAITS, BREAKS = (f"{name}/infer/-/eager" for name in ("spins", "waits", "breaks"))
PAIRS = ("--pairs", "4")


#: Real environments by name, and what the cases find planted in them.
PLANTED_IN = {"old": "", "slow": "2", "broken": "1 breaks"}
STRICT = '[policies.strict]\nmust_not_regress = ["spins", "resnet5O"]\n'


def add_cases(site: Site) -> Site:
    """A site with those cases, and steps of a millisecond."""
    (site.folder / "cases.py").write_text(CASES)
    text = (site.folder / "pyrometer.toml").read_text()
    suite = f'[suites.tiny]\ncases = ["{SPINS}", "{WAITS}", "{BREAKS}"]\n'
    short = "measure_seconds = 0.05\nwarm_up_max_seconds = 0.1\n"
    (site.folder / "pyrometer.toml").write_text(text + suite + short + STRICT)
    return site


@pytest.fixture
def fresh(site: Site) -> Site:
    """A site with the cases in which nothing was measured."""
    return add_cases(site)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with the cases and three environments, which the upgrades of this file share."""
    for site in one_site(tmp_path_factory.mktemp("upgrade")):
        for name, planted in PLANTED_IN.items():
            make_interpreter(site.folder / name, measured_packages())
            if planted:
                (site.folder / name / "planted").write_text(planted)
        yield add_cases(site)


def narrowed(*cases: str) -> tuple[str, ...]:
    return ("--suite", "tiny", "--cases", "cases.py", *(part for case in cases for part in ("--case", case)))


def resume(place: Site, run: str, *options: str) -> tuple[Done, dict[str, Any]]:
    """Go on with an upgrade to its end; answers what the command did, and its JSON report."""
    done = place.call("upgrade", "--resume", run, "--report", "verdict.json", *options)
    body = json.loads((place.folder / "verdict.json").read_text())
    assert body["run"]["id"] == run
    return done, body


def assert_each_once(contents: journal.Contents) -> None:
    """Assert that every replicate of the plan has one outcome."""
    found = [outcome.planned_replicate for outcome in contents.outcomes]
    assert len(found) == len(set(found))
    assert set(found) == set(Header.from_body(contents.header).replicates)


@pytest.mark.torch
def test_killed_in_the_middle_it_measures_nothing_twice_and_takes_missing_fingerprints(place: Site) -> None:
    given = (*narrowed(SPINS), *PAIRS, "--policy", "strict", "--budget", "1")
    running = place.start_command("upgrade", "./old", "./slow", *given)
    run = str(running.until("began")["run"])
    # The budget has room for the first pair.
    for _ in range(2):
        running.until("outcome")
    running.process.kill()
    running.process.wait()
    assert "enough for about 0 pairs of each case, and fewer than 4 are not judged" in running.said()
    assert 'policy strict: must_not_regress "resnet5O" matches none of 1 case\n' in running.said()
    assert '"spins"' not in running.said()
    # As of a run whose fingerprints were refused, or that began before there were any.
    line, _ = encode_line("header", {**journal.read_contents(place.journal(run)).header, "dispatch": []})
    text = place.journal(run).read_bytes().split(b"\n", 1)[1]
    place.journal(run).write_bytes(line + text)
    done, body = resume(place, run)
    assert_each_once(journal.read_contents(place.journal(run)))
    (differs,) = body["dispatch"]
    assert (differs["case"], differs["warnings"]) == (SPINS, ["copy"])
    assert "aten::clone(fp32)" in {change["after"] for change in differs["changes"]}
    assert "what runs differently: 1 of 1 case runs differently: more copies in 1." in done.err


@pytest.mark.torch
def test_what_stopped_working_outweighs_everything_and_no_fingerprints_stay_none(place: Site) -> None:
    run = place.kill_after(2, "upgrade", "./old", "./broken", *narrowed(BREAKS), *PAIRS, "--no-fingerprint")
    done, body = resume(place, run, "--json")
    assert done.code == 1, done
    verdict = next(event for event in done.events if event["event"] == "verdict")
    assert verdict["broken"] == [BREAKS]
    assert "the API is gone" in json.dumps(verdict["reasons"])
    contents = journal.read_contents(place.journal(run))
    assert_each_once(contents)
    # Twice is enough to know; the other pairs are not measured.
    assert [outcome.status for outcome in contents.outcomes].count("crashed") == 2
    spared = [event for event in done.events if event["event"] == "spared"]
    assert spared and "crashed" in spared[0]["reason"]
    assert body["dispatch"] == []


@pytest.mark.torch
def test_a_screen_measures_in_full_only_what_looks_slower(place: Site) -> None:
    # What runs differently goes on to full pairs too: `test_step` has such a case.
    sides = ("./old", "./slow")
    # What a run left that was killed among its fingerprints, and another that was forgotten since.
    left = [place.folder / ".pyrometer/runs" / name for name in ("killed", "dropped")]
    for folder in left:
        (folder / "cache").mkdir(parents=True)
        os.utime(folder / "cache", (0, 0))
    (left[1] / FORGOTTEN).touch()
    # Killed after all short pairs and the first full one.
    killed = 2 * (3 + 1)
    run = place.kill_after(killed, "upgrade", *sides, *narrowed(WAITS, BREAKS), *PAIRS, "--screen")
    done, body = resume(place, run, "--report", "verdict.html", "--report", "verdict.md")
    assert [sorted(path.name for path in folder.rglob("*")) for folder in left] == [[], [FORGOTTEN]]
    assert not left[0].exists()
    assert done.code == 1, done
    assert "No-go" in done.out and "slower" in done.out
    assert body["decision"] == "no-go"
    for suffix in ("html", "md"):
        assert WAITS.split("/")[0] in (place.folder / f"verdict.{suffix}").read_text()
    screen = {one["case"]: one for one in body["screen"]["cases"]}
    because = {case: one["full_pairs_because"] for case, one in screen.items()}
    assert because == {WAITS: "change", BREAKS: None}
    assert all(1.9 < ratio < 2.1 for ratio in screen[WAITS]["short_pairs"])
    statuses = {one["case"]: one["status"] for one in body["cases"]}
    assert statuses == {WAITS: "slower", BREAKS: "screened"}
    verdict = next(one["verdict"] for one in body["cases"] if one["case"] == WAITS)
    assert (verdict["metric"], verdict["word"]) == ("latency_floor", "slower")
    assert 1.0 < verdict["ratio_low"] < verdict["ratio"] < verdict["ratio_high"]
    assert 1.9 < verdict["ratio"] < 2.1
    numbers: dict[str, set[int]] = {}
    checked: set[tuple[int, bool]] = set()
    for outcome in journal.read_contents(place.journal(run)).outcomes:
        if outcome.status == "ok":
            numbers.setdefault(outcome.case, set()).add(outcome.replicate)
            checked.add((outcome.replicate, "check" in outcome.facts))
    # An answer of the second short pair is that of the first.
    assert checked == {(number, number != 1) for number in (0, 1, 4, 5, 6, 7)}
    # Two short pairs for what shows nothing, one for what does.
    assert numbers == {WAITS: {0, 4, 5, 6, 7}, BREAKS: {0, 1}}
    with open_database(place.url, create=False) as database:
        measured = queries.measurements_of_run(database, run)
        outcomes = [one for one in queries.outcomes_of_run(database, run) if one.case == WAITS]
    assert len({one.environment for one in outcomes}) == 2
    counted = {one.case: one.n for one in measured if one.metric == "latency"}
    # Short pairs are no measurements.
    assert {case: counted.get(case) for case in (WAITS, BREAKS)} == {WAITS: 4, BREAKS: None}
    loaded = typed(place, "report", run)
    assert (loaded.code, "1 went on to full pairs" in loaded.out) == (0, True), loaded


@pytest.mark.torch
def test_an_environment_against_itself_and_a_budget_without_room_for_a_screen_are_said(place: Site) -> None:
    # What a screen selects is few cases: they keep their pairs, whatever a budget allows for all.
    given = (*narrowed(SPINS, WAITS), "--pairs", "8", "--budget", "1", "--screen", "--json")
    done = place.call("upgrade", "default", "default", *given)
    assert done.code == 3, done
    assert "both are the same environment" in done.err
    assert "may not be enough for the short pairs of 2 cases" in done.err
    header = journal.read_contents(place.journal(done.run)).header
    assert header["comparison"]["plan"]["largest"] == 8


@pytest.mark.torch
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give both environments"),
        (("default", "no-such"), "unknown environment"),
        (("default", "default", "--pairs", "5"), "even number"),
        (("default", "default", "--pairs", "10002"), "--pairs takes at most 10,000"),
        (
            ("default", "default", "--pairs", "9000"),
            "x 18,000 replicates are too many: one run measures 100,000",
        ),
        (("default", "no-such", "--pairs", "9000"), "cases x 18,000 replicates are too many"),
        (("default", "default", "--report", "verdict.pdf"), ".html"),
        (("default", "default", "--policy", "defalt"), 'did you mean "default"'),
        (("default", "default", "--also", "compile_wam"), 'did you mean "compile_warm"'),
        (("default", "default", "--also", "sm_clock"), 'unknown metric "sm_clock"'),
        (("--resume", "latest"), "no run"),
        (("default", "default", "--resume", "latest"), "cannot be combined with a selection"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(
    fresh: Site, arguments: tuple[str, ...], said: str
) -> None:
    assert said in typed(fresh, "upgrade", *arguments).one_sentence()


@pytest.mark.torch
def test_too_many_replicates_of_what_patterns_leave_are_no_run(fresh: Site) -> None:
    done = typed(fresh, "upgrade", "default", "default", "--case", "*", "--pairs", "9000")
    assert done.code == 2
    assert done.err.endswith(" cases x 18,000 replicates are too many: one run measures 100,000 at most\n")
    assert not list((fresh.folder / ".pyrometer/runs").glob("*"))


@pytest.mark.torch
def test_a_policy_that_knows_no_such_metric_is_refused(fresh: Site) -> None:
    settings = fresh.folder / "pyrometer.toml"
    settings.write_text(settings.read_text() + '[policies.odd]\nmetric = "speed"\n')
    refused = typed(fresh, "upgrade", "default", "default", "--policy", "odd")
    assert "there is no metric speed" in refused.one_sentence()


def test_reports_go_where_they_can_be_written(fresh: Site, tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere" / "verdict.md")
    refused = typed(fresh, "upgrade", "default", "default", "--report", missing)
    assert "the file cannot be written" in refused.one_sentence()
