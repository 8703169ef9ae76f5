"""The GPU kernels of a case: those of one process, and what became of them in an upgrade."""

from pathlib import Path

import pytest

from dashboard.exports.page_recorder import PageRecord, frame_of
from db.runs import store
from support.builders.run_records import MLP, RESNET, a_run, an_environment, an_outcome
from support.builders.upgrade_journals import RESNET as SLOWER
from support.builders.upgrade_journals import RESNET_COMPILED, Story, store_upgrades
from support.pages import RUNS, TECHNIQUES, UPGRADE, Open, csv_of_section, html
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
