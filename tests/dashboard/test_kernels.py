"""The GPU kernels of a case: those of one process, and what became of them between two sides."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import streamlit as st

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.decision.comparison import COMPARED, Comparison
from dashboard.exports.page_recorder import PageRecord, frame_of
from db.connection.engine import Database, open_database
from db.findings import store as findings
from db.runs import store
from records.environments import Environment
from records.evidence import Confirmation
from records.outcomes import Outcome
from support.builders.detection_nights import Nights, a_finding, nightly
from support.builders.run_records import (
    FIRST_NIGHT,
    MLP,
    RESNET,
    a_night,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.technique_runs import save
from support.builders.upgrade_journals import RESNET as SLOWER
from support.builders.upgrade_journals import RESNET_COMPILED, Story, store_upgrades
from support.pages import (
    REGRESSIONS,
    RUN_PAIR,
    RUNS,
    TECHNIQUES,
    UPGRADE,
    Open,
    csv_of_section,
    html,
)
from support.sqlite_files import open_with_tables

KERNELS = [["gemm<float, 8>", 2.0, 60.0], ["<script>alert(1)</script>", 1.0, 20.0]]


@pytest.fixture
def measured(tmp_path: Path) -> str:
    """A run of two cases, of which one has kernels."""
    url = f"sqlite:///{tmp_path}/pyrometer.db"
    with open_with_tables(url) as database:
        run = a_run("run-1", environments=[an_environment()], planned=2)
        store.save_run(database, run)
        found = [an_outcome(MLP, facts={"kernels": KERNELS}), an_outcome(RESNET, facts={"kernels": "many"})]
        store.save_outcomes(database, run.id, found)
    return url


def test_the_kernels_of_a_process_are_on_its_page_and_in_its_file(
    open_page: Open, measured: str, records: list[PageRecord]
) -> None:
    shown = html(open_page(measured, RUNS, run="run-1", replicate="0", case=MLP))
    found = csv_of_section(records[-1], "GPU kernels")
    assert list(found["us"]) == [60.0, 20.0] and list(found["share"]) == [0.75, 0.25]
    assert list(found["calls"]) == [2.0, 1.0]
    # Once, as text of the table: the facts of the case leave them to it.
    assert shown.count("gemm&lt;float, 8&gt;") == 1 and "<script>" not in shown


def test_a_case_without_kernels_has_no_such_section(
    open_page: Open, measured: str, records: list[PageRecord]
) -> None:
    page = open_page(measured, RUNS, run="run-1", replicate="0", case=RESNET)
    assert not page.exception
    assert "GPU kernels" not in [piece.text for piece in records[-1].pieces]


def test_an_upgrade_shows_which_kernels_are_new_gone_or_slower(
    open_page: Open, tmp_path: Path, records: list[PageRecord]
) -> None:
    url = store_upgrades(tmp_path, Story(kernels=True))
    words = {"gemm<float, 8>": "slower", "split_k_reduce": "new", "copy": "gone"}
    open_page(url, UPGRADE)
    every = csv_of_section(records[-1], "GPU kernels")
    own = every[every["case"] == SLOWER].set_index("kernel")
    assert own["change"].to_dict() == words
    assert own.loc["gemm<float, 8>", ["before_us", "after_us"]].to_list() == [60.0, 90.0]
    open_page(url, UPGRADE, detail=SLOWER)
    *_, panel = [piece.table for piece in records[-1].pieces if piece.text == "GPU kernels" and piece.table]
    assert next(column.name for column in panel.columns) == "kernel", "the panel is of one case"
    assert frame_of(panel).set_index("kernel")["change"].to_dict() == words


def test_the_panel_of_a_technique_has_the_median_of_its_processes(
    open_page: Open, tmp_path: Path, records: list[PageRecord]
) -> None:
    open_page(store_upgrades(tmp_path, Story(kernels=True)), TECHNIQUES, detail=RESNET_COMPILED)
    found = csv_of_section(records[-1], "GPU kernels")
    assert list(found["us"]) == [90.0, 6.0]


def with_gemm(
    us: float, case: str = MLP, environment: Environment | None = None, latency: float = 2.0
) -> list[Outcome]:
    """Three processes of a case with a kernel that takes so long."""
    return [
        an_outcome(
            case,
            environment=environment,
            replicate=number,
            latency=latency + number / 1000,
            facts={"kernels": [["gemm", 2.0, us], ["copy", 1.0, 5.0]]},
        )
        for number in range(3)
    ]


def times(records: Sequence[PageRecord]) -> list[tuple[str, float, float]]:
    """Kernel, time before and time after, of the section of the page that was opened last."""
    found = csv_of_section(records[-1], "GPU kernels")
    return list(found[["kernel", "before_us", "after_us"]].itertuples(index=False, name=None))


def store_session(database: Database, old: Environment, new: Environment) -> None:
    """A run that measured both environments in turns."""
    compares = Comparison(old.fingerprint, new.fingerprint, Plan(), Policy(), ("old", "new"))
    # Given in the other order: the comparison says which is the old one.
    run = replace(a_run("session", environments=[new, old]), facts={COMPARED: compares.to_body()})
    store.save_run(database, run)
    store.save_outcomes(
        database, run.id, [*with_gemm(75.0, environment=new), *with_gemm(50.0, environment=old)]
    )


def test_a_finding_shows_the_kernels_of_its_session_and_before_it_those_of_both_nights(
    open_page: Open, url: str, records: list[PageRecord]
) -> None:
    old, new = nightly(1), nightly(2)
    with open_with_tables(url) as database:
        Nights(database).add(range(4))
        one = a_finding(database, MLP)
    open_page(url, REGRESSIONS, finding="1")
    assert "GPU kernels" not in [piece.text for piece in records[-1].pieces], "no night has any"
    with open_database(url) as database:
        store.save_outcomes(database, one.before_run, with_gemm(60.0, environment=old))
        store.save_outcomes(database, one.at_run, with_gemm(80.0, environment=new))
    st.cache_resource.clear()
    open_page(url, REGRESSIONS, finding="1")
    assert times(records) == [("gemm", 60.0, 80.0), ("copy", 5.0, 5.0)]
    with open_database(url) as database:
        store_session(database, old, new)
        session = Confirmation(run="session")
        findings.decide(database, one.id, "confirmed", 0.1, 0.09, 0.11, session, a_night(4))
    st.cache_resource.clear()
    open_page(url, REGRESSIONS, finding="1")
    assert times(records) == [("gemm", 50.0, 75.0), ("copy", 5.0, 5.0)]


def test_two_runs_show_the_kernels_that_differ_in_cases_that_differ(
    open_page: Open, url: str, records: list[PageRecord]
) -> None:
    old, new = an_environment("2.13.0+cu130"), an_environment("2.14.0+cu130")
    for name, environment, us, slower in (("a", old, 60.0, 1.0), ("b", new, 90.0, 1.1)):
        measured = [
            *with_gemm(us, RESNET, environment, 48 * slower),
            # The time of the whole step did not move.
            *with_gemm(us, MLP, environment),
        ]
        save(url, a_run(name, environments=[environment], started_at=FIRST_NIGHT), measured)
    open_page(url, RUN_PAIR, a="a", b="b")
    assert times(records) == [("gemm", 60.0, 90.0)]
    assert list(csv_of_section(records[-1], "GPU kernels")["case"]) == [RESNET]
