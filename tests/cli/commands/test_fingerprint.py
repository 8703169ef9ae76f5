"""`pyrometer fingerprint`: taken once and stored, compared case by case, and failures said."""

import json
import re
from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from db.connection.engine import open_database
from db.schema.core_tables import CaseFingerprintRow, FingerprintRow
from support.command_line import typed
from support.site import ADD, LINEAR, RAISES, Done, Site, one_site
from support.waiting import until
from workflows.ingest import ingest

pytestmark = pytest.mark.torch

CASES = ("--cases", "cases.py", "--cases", "shy.py")
TRAINED, SHY = "linear/train/width=8/eager", "shy/infer/-/eager"

SHY_FILE = '''"""A case that cannot be looked at."""

import torch
from runner.worker.case import case


@case()
def shy():
    """Works until a profiler watches."""
    ones = torch.ones(4)

    def step():
        if torch.autograd._profiler_enabled():
            raise RuntimeError("not while others watch")
        return ones + ones

    return step
'''


LATE_FILE = '''"""A case that takes until a file exists."""

from pathlib import Path
from time import sleep

import torch
from runner.worker.case import case

GO = Path("FOLDER/go")


@case()
def late():
    """Built when there is a file `go`."""
    while not GO.exists():
        sleep(0.05)
    return lambda: torch.ones(4)


@case()
def prompt():
    """Built at once."""
    return lambda: torch.ones(4)
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A folder that the tests of this file share: what one stores, the next one finds."""
    for site in one_site(tmp_path_factory.mktemp("fingerprints")):
        (site.folder / "shy.py").write_text(SHY_FILE)
        yield site


def _stored(place: Site, database_file: str = "pyrometer.db") -> tuple[int, int]:
    with (
        open_database(f"sqlite:///{place.folder}/{database_file}") as database,
        database.reading() as connection,
    ):
        tables = (CaseFingerprintRow, FingerprintRow)
        cases, contents = (
            connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables
        )
    return cases, contents


@pytest.fixture(scope="module")
def taken(place: Site) -> Done:
    """The real command for three cases, two of which fail."""
    return place.call("fingerprint", LINEAR, RAISES, SHY, *CASES)


def test_one_is_taken_once_and_stored_and_those_that_fail_are_said(place: Site, taken: Done) -> None:
    assert taken.code == 1
    assert "fingerprint 3 of 3" in taken.err
    assert "crashed: RuntimeError: no such weather" in taken.out
    # One that failed has a row with the reason and no content.
    assert _stored(place) == (3, 1)
    stored = typed(place, "fingerprint", LINEAR, "--json", *CASES)
    assert (stored.code, stored.err) == (0, "")
    (body,) = json.loads(stored.out)
    assert (body["case"], body["status"], body["reason"]) == (LINEAR, "ok", "")
    assert body["fingerprint"]["parts"]["operators"]["aten::linear(fp32, fp32, fp32)"] == 1
    anew = typed(place, "fingerprint", LINEAR, "--json", "--again", *CASES)
    assert "fingerprint 1 of 1" in anew.err
    assert json.loads(anew.out) == [body]
    assert _stored(place) == (3, 1)
    left = list((place.folder / ".pyrometer/fingerprints").iterdir())
    assert left == []


def test_an_environment_against_itself_runs_nothing_differently_and_what_failed_is_tried_again(
    place: Site, taken: Done
) -> None:
    cases = (LINEAR, TRAINED, RAISES)
    compared = typed(place, "fingerprint", "diff", "default", "default", *cases, "--json", *CASES)
    assert compared.code == 0
    assert "fingerprint 1 of 2" in compared.err
    found = {one["case"]: one for one in json.loads(compared.out)["cases"]}
    assert {case: one["changes"] for case, one in found.items()} == {case: [] for case in cases}
    failure = "crashed: RuntimeError: no such weather"
    assert found[RAISES]["old_failure"] == found[RAISES]["new_failure"] == failure
    done = typed(place, "fingerprint", "diff", "default", "default", LINEAR, TRAINED, *CASES)
    assert done.code == 0
    assert done.out.endswith("0 of 2 cases run differently.\n")


def test_one_that_takes_long_keeps_no_other_from_being_stored(place: Site) -> None:
    (place.folder / "late.py").write_text(LATE_FILE.replace("FOLDER", str(place.folder)))
    before, _ = _stored(place)
    cases = ("late/infer/-/eager", "prompt/infer/-/eager")
    running = place.start_command("fingerprint", *cases, "--cases", "late.py")
    until(lambda: _stored(place)[0] > before, "the one that is done is stored")
    (place.folder / "go").touch()
    done = running.end()
    assert done.code == 0
    assert [body["case"] for body in json.loads(done.out)] == list(cases)


def test_what_does_not_exist_is_refused(place: Site) -> None:
    for arguments in ((LINEAR, "-e", "nowhere"), ("liner", *CASES), ("diff", "default", "nowhere", LINEAR)):
        assert typed(place, "fingerprint", *arguments).one_sentence()


def test_help_says_what_a_fingerprint_is(place: Site) -> None:
    done = typed(place, "fingerprint", "--help")
    assert done.code == 0
    assert "Nothing is timed" in done.out


def test_a_night_takes_those_that_are_missing_once_and_one_that_fails_fails_no_night(
    place: Site, taken: Done, measured_once: tuple[Site, Done]
) -> None:
    assert _stored(measured_once[0]) == (0, 0), "without the option"
    before, contents = _stored(place)
    chosen = [part for case in (LINEAR, ADD, SHY) for part in ("--case", case)]
    once = ("--suite", "quick", "--replicates", "1", "--json")
    night = place.call("run", *once, *CASES, *chosen, "--fingerprint")
    assert night.code == 0, night
    # One is stored, one is missing, and the one that failed is tried again.
    assert sorted(re.findall(r"fingerprint \d of 2, (\S+): ", night.err)) == [ADD, SHY]
    assert _stored(place) == (before + 1, contents + 1)
    # The journals carry them to another database, as from a node to the head.
    with open_database(f"sqlite:///{place.folder}/other.db") as other:
        (journal,) = (place.folder / ".pyrometer/runs").glob("*/journal.jsonl")
        assert ingest(journal, other).set_aside == ()
    assert _stored(place, "other.db") == (2, 1)
