"""`pyrometer fingerprint`: taken once and stored, compared case by case, and failures said."""

import json
from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from db.connection.engine import open_database
from db.schema.core_tables import CaseFingerprintRow, FingerprintRow
from support.command_line import typed
from support.site import ADD, LINEAR, RAISES, Done, Site, one_site
from workflows.ingest import ingest

pytestmark = pytest.mark.torch

CASES = ("--cases", "cases.py")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A folder that the tests of this file share: what one stores, the next one finds."""
    yield from one_site(tmp_path_factory.mktemp("fingerprints"))


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


def test_one_is_taken_once_and_stored(place: Site) -> None:
    done = place.call("fingerprint", LINEAR, "--json", *CASES)
    assert done.code == 0
    assert "fingerprint 1 of 1" in done.err
    (body,) = json.loads(done.out)
    assert (body["case"], body["status"], body["reason"]) == (LINEAR, "ok", "")
    assert body["fingerprint"]["parts"]["operators"]["aten::linear(fp32, fp32, fp32)"] == 1
    again = typed(place, "fingerprint", LINEAR, "--json", *CASES)
    assert again.err == ""
    assert json.loads(again.out) == [body]
    assert _stored(place) == (1, 1)
    anew = typed(place, "fingerprint", LINEAR, "--json", "--again", *CASES)
    assert "fingerprint 1 of 1" in anew.err
    assert json.loads(anew.out) == [body]
    assert _stored(place) == (1, 1)
    left = list((place.folder / ".pyrometer/fingerprints").iterdir())
    assert left == []


def test_an_environment_against_itself_runs_nothing_differently(place: Site) -> None:
    done = typed(place, "fingerprint", "diff", "default", "default", LINEAR, ADD, *CASES)
    assert done.code == 0
    assert done.out.endswith("0 of 2 cases run differently.\n")


def test_a_case_that_fails_is_said_and_tried_again(place: Site) -> None:
    done = typed(place, "fingerprint", RAISES, *CASES)
    assert done.code == 1
    assert "crashed: RuntimeError: no such weather" in done.out
    compared = typed(place, "fingerprint", "diff", "default", "default", RAISES, "--json", *CASES)
    assert compared.code == 0
    assert "fingerprint 1 of 1" in done.err and "fingerprint 1 of 1" in compared.err
    (case,) = json.loads(compared.out)["cases"]
    assert case["old_failure"] == case["new_failure"] == "crashed: RuntimeError: no such weather"
    assert case["changes"] == []


def test_what_does_not_exist_is_refused(place: Site) -> None:
    for arguments in ((LINEAR, "-e", "nowhere"), ("liner", *CASES), ("diff", "default", "nowhere", LINEAR)):
        assert typed(place, "fingerprint", *arguments).one_sentence()


def test_help_says_what_a_fingerprint_is(place: Site) -> None:
    done = typed(place, "fingerprint", "--help")
    assert done.code == 0
    assert "Nothing is timed" in done.out


SHY = '''"""A case that cannot be looked at."""

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


def test_a_night_takes_those_that_are_missing_once_and_one_that_fails_fails_no_night(
    site: Site, measured_once: tuple[Site, Done]
) -> None:
    (site.folder / "shy.py").write_text(SHY)
    once = ("--suite", "quick", "--replicates", "1", "--cases", "cases.py", "--json")
    assert _stored(measured_once[0]) == (0, 0), "without the option"
    for _ in range(2):
        night = site.call("run", *once, "--cases", "shy.py", "--case", ADD, "--case", "shy", "--fingerprint")
        assert night.code == 0, night
        assert "fingerprint 1 of 1, shy/infer/-/eager" in night.err or "fingerprint 1 of 2" in night.err
        # The one that failed has a row with the reason and no content, and is tried again.
        assert _stored(site) == (2, 1)
    assert "fingerprint 1 of 1, shy/infer/-/eager: " in night.err
    # The journals carry them to another database, as from a node to the head.
    with open_database(f"sqlite:///{site.folder}/other.db") as other:
        for journal in sorted((site.folder / ".pyrometer/runs").glob("*/journal.jsonl")):
            assert ingest(journal, other).set_aside == ()
    assert _stored(site, "other.db") == (2, 1)
