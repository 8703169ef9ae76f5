"""`pyrometer profile`: one case traced, two tables subtracted, and no number that a series could take."""

import csv
import io
import json
from collections.abc import Iterator

import pytest

from db.connection.engine import open_database
from db.runs import queries, series_queries
from db.runs.store import save_outcomes, save_run
from runner import journal
from support.builders.run_records import a_run, an_outcome
from support.command_line import typed
from support.site import ADD, LINEAR, Done, Site, one_site
from workflows.errors import UsageError
from workflows.planning.select_cases import one_each

pytestmark = pytest.mark.torch

BF16 = "linear/infer/width=8/precision=amp-bf16"
CASES = ("--cases", "cases.py")


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Done]]:
    """A case traced and set against another technique."""
    for place in one_site(tmp_path_factory.mktemp("profiled")):
        yield place, place.call("profile", LINEAR, "--against", BF16, "--steps", "3", *CASES)


def run_of(site: Site) -> str:
    (run,) = [path.name for path in (site.folder / ".pyrometer/runs").iterdir()]
    return run


def test_the_tables_their_difference_and_the_traces_are_printed(profiled: tuple[Site, Done]) -> None:
    site, done = profiled
    assert (done.code, done.err) == (0, "")
    for part in (
        f"{LINEAR}, per step, including the overhead of the profiler",
        f"against  {BF16}\ncase     {LINEAR}",
        "case - against us",
        "aten::addmm",
        "us on the CPU outside operators",
        "2 ok of 2 planned",
        "chrome://tracing",
    ):
        assert part in done.out
    traces = [line.removeprefix("trace: ") for line in done.out.splitlines() if line.startswith("trace: ")]
    assert len(traces) == 2
    assert all(site.folder.joinpath(trace).stat().st_size > 100 for trace in traces)


def test_the_report_prints_tables_and_traces_again(profiled: tuple[Site, Done]) -> None:
    site, done = profiled
    *again, last = typed(site, "report").out.splitlines()
    assert len(again) > 20 and done.out.splitlines()[-len(again) - 1 : -1] == again
    assert " is complete: 2 ok of 2 planned, begun " in last


def test_a_trace_is_an_outcome_and_nothing_of_it_is_a_measurement(profiled: tuple[Site, Done]) -> None:
    site, _ = profiled
    run = run_of(site)
    contents = journal.read_contents(site.journal(run))
    assert [o.case for o in contents.outcomes] == [LINEAR, BF16]
    assert contents.header["timing"]["trace_steps"] == 3
    with open_database(site.url, create=False) as database:
        summary = queries.run_summary(database, run)
        assert summary is not None
        assert (summary.suite, summary.state, summary.counts) == ("profile", "complete", {"ok": 2})
        assert queries.measurements_of_run(database, run) == []
        assert series_queries.series_keys(database) == []


def test_two_tables_are_subtracted(profiled: tuple[Site, Done]) -> None:
    site, _ = profiled
    a, b = f"latest:{BF16}", f"{run_of(site)}:{LINEAR}"
    difference = json.loads(typed(site, "profile", "diff", a, b, "--json").out)
    assert (difference["a"]["case"], difference["b"]["case"]) == (BF16, LINEAR)
    casts = next(change for change in difference["changes"] if change["name"] == "aten::to")
    assert casts["calls_b"] is None and casts["delta_us"] == -casts["self_us_a"] < 0
    rows = list(csv.DictReader(io.StringIO(typed(site, "profile", "diff", a, b, "--csv").out)))
    assert [row["name"] for row in rows] == [change["name"] for change in difference["changes"]]
    itself = json.loads(typed(site, "profile", "diff", b, b, "--json").out)
    assert {change["delta_us"] for change in itself["changes"]} == {0.0}


def test_names_come_back_from_csv_and_start_no_formula(site: Site) -> None:
    names = ["=1+1", "two\rlines", "aten::mm"]
    operators = [{"name": name, "kind": "operator", "calls": 1.0, "self_cpu_us": 2.5} for name in names]
    outcome = an_outcome(LINEAR, metrics={}, facts={"operators": operators}, blocks=())
    with open_database(site.url) as database:
        save_run(database, a_run("hostile", suite="profile"))
        save_outcomes(database, "hostile", [outcome])
    text = typed(site, "profile", "diff", "hostile", "hostile", "--csv").out
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(text, newline=""))}
    assert rows.keys() == {"'=1+1", "two\rlines", "aten::mm"}
    assert {(row["calls_a"], row["self_us_b"], row["delta_us"]) for row in rows.values()} == {
        ("1.0", "2.5", "0.0")
    }


def test_an_empty_table_is_none(site: Site) -> None:
    outcome = an_outcome(LINEAR, metrics={}, facts={"operators": []}, blocks=())
    with open_database(site.url) as database:
        save_run(database, a_run("empty", suite="profile"))
        save_outcomes(database, "empty", [outcome])
    for form in ("--csv", "--json"):
        said = typed(site, "profile", "diff", "empty", "empty", form).one_sentence()
        assert said == "pyrometer: no run has an operator table: `pyrometer profile CASE` records one"


def test_what_cannot_be_subtracted_gets_one_sentence(profiled: tuple[Site, Done]) -> None:
    site, _ = profiled
    run = run_of(site)
    for arguments, sentence in (
        (("latest", "latest"), "has several tables: name one, such as"),
        (("latest:lineer", "latest"), 'unknown case "lineer"'),
        (("20260101", f"{run}:{LINEAR}"), f'unknown run "20260101" (valid: latest, {run})'),
    ):
        assert sentence in typed(site, "profile", "diff", *arguments).one_sentence()


def test_without_a_table_it_says_what_makes_one(site: Site) -> None:
    said = typed(site, "profile", "diff", "latest", "latest").one_sentence()
    assert said == "pyrometer: no run has an operator table: `pyrometer profile CASE` records one"


def test_each_pattern_means_one_case_in_its_own_order() -> None:
    assert one_each([ADD, LINEAR, BF16], (BF16, LINEAR)) == [BF16, LINEAR]
    assert one_each([ADD, LINEAR, BF16], ("add",)) == [ADD]


@pytest.mark.parametrize(
    ("patterns", "sentence"),
    [
        ((LINEAR, ADD), "are different workloads: only techniques can be subtracted"),
        ((LINEAR, LINEAR), "cannot be compared with itself"),
        (("linear", BF16), "linear matches 2 cases"),
    ],
)
def test_what_means_no_pair_is_refused(patterns: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        one_each([ADD, LINEAR, BF16], patterns)
