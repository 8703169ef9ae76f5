"""`pyrometer report` prints the end of a run again: from its journal, or from the database alone."""

import json
import shutil
from datetime import datetime
from typing import Any

import pytest

from support.command_line import typed
from support.site import LINEAR, Done, Site

pytestmark = pytest.mark.torch


def outcomes(done: Done) -> list[dict[str, Any]]:
    """The report of each replicate, in the plan's order."""
    found = [event for event in done.events if event["event"] == "outcome"]
    for one in found:
        # Postgres and SQLite write the same moment down in their own way.
        one["started_at"] = datetime.fromisoformat(one["started_at"])
    return sorted(found, key=lambda one: (one["case"], one["replicate"]))


@pytest.fixture
def without_journal(site: Site, measured_once: tuple[Site, Done]) -> Site:
    """A folder with the database of a finished run, and nothing else of it."""
    shutil.copy(measured_once[0].folder / "pyrometer.db", site.folder)
    return site


def test_the_journal_reports_what_the_run_reported(measured_once: tuple[Site, Done]) -> None:
    site, done = measured_once
    again = typed(site, "report", "--json")
    assert (again.code, again.err) == (0, "")
    assert [event["event"] for event in again.events] == ["outcome"] * 8 + ["ended"]
    assert outcomes(again) == outcomes(done)
    assert again.events[-1] == {**done.events[-1], "seconds": None}


def test_the_database_alone_tells_the_same(without_journal: Site, measured_once: tuple[Site, Done]) -> None:
    site, done = measured_once
    again = typed(without_journal, "report", "--json")
    assert (again.code, again.err) == (0, "")
    assert outcomes(again) == outcomes(done)
    ended = {**again.events[-1], "gains": sorted(again.events[-1]["gains"], key=str)}
    assert ended == {**done.events[-1], "gains": sorted(done.events[-1]["gains"], key=str), "seconds": None}
    assert lines(without_journal) == lines(site)


def lines(site: Site) -> list[str]:
    """The report for people; cases stand in the order in which they ended, or began."""
    done = typed(site, "report", "latest")
    assert done.code == 0, done
    assert any(line.startswith(LINEAR) for line in done.out.splitlines())
    assert " is complete: 4 ok, 2 crashed, 2 wrong of 8 planned, begun 20" in done.out.splitlines()[-1]
    return sorted(done.out.splitlines())


def test_an_unknown_run_gets_the_nearest_one(measured_once: tuple[Site, Done]) -> None:
    site, done = measured_once
    said = typed(site, "report", done.run[:-1]).one_sentence()
    assert said.startswith(f'pyrometer: unknown run "{done.run[:-1]}": did you mean "{done.run}"?')


def test_half_a_run_is_reported_with_the_command_that_resumes_it(
    site: Site, measured_once: tuple[Site, Done]
) -> None:
    assert (
        typed(site, "report").one_sentence()
        == "pyrometer: no run is stored yet: `pyrometer run` measures one"
    )
    _, done = measured_once
    whole = measured_once[0].journal(done.run).read_bytes().splitlines(keepends=True)
    first = next(at for at, line in enumerate(whole) if json.loads(line)["kind"] == "outcome")
    site.journal(done.run).parent.mkdir(parents=True)
    site.journal(done.run).write_bytes(b"".join(whole[: first + 1]))
    text = typed(site, "report", done.run).out
    assert f"run {done.run} is interrupted: 1 " in text and " of 8 planned, begun " in text
    assert text.endswith(f"resume with: pyrometer run --resume {done.run}\n")
