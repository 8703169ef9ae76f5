"""The run page of traced outcomes: the table, the trace, and another table subtracted."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.runs.operators import trace_file
from db.runs.store import save_outcomes, save_run
from records.kinds import RunKind
from records.outcomes import Outcome
from records.runs import Run
from support.builders.run_records import (
    FIRST_NIGHT,
    MLP,
    RESNET,
    RESNET_COMPILED,
    a_machine,
    a_run,
    an_environment,
    an_outcome,
)
from support.pages import RUNS, Open, typed
from support.sqlite_files import open_with_tables

TRACE = "traces/abc/case-0.json.gz"


def a_row(name: str, self_us: float) -> dict[str, Any]:
    return {"name": name, "kind": "operator", "calls": 3.0, "self_cpu_us": self_us, "total_cpu_us": self_us}


def a_traced(case: str, *rows: dict[str, Any], second: int = 1) -> Outcome:
    totals = {"steps": 5.0, "self_cpu_us": 100.0, "self_device_us": 0.0, "outside_us": 8.0}
    facts = {"operators": list(rows), "traced": totals, "device": "cpu", "trace": TRACE}
    started_at = FIRST_NIGHT + timedelta(seconds=second)
    return an_outcome(case, metrics={}, blocks=(), facts=facts, started_at=started_at)


def fill(url: str, run: Run, *outcomes: Outcome) -> None:
    with open_with_tables(url) as database:
        save_run(database, run)
        save_outcomes(database, run.id, outcomes)


@pytest.fixture
def opened(open_page: Open, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens runs of a database with two like tables, one of other hardware, and one trace in its folder."""
    monkeypatch.setenv("PYROMETER_DATA_DIR", str(tmp_path))
    convolution, batch_norm = a_row("aten::convolution", 60.0), a_row("aten::batch_norm", 40.0)
    facts = {"timing": {"trace_steps": 5}}
    one = replace(a_run("one", suite="profile"), facts=facts, kind=RunKind.TRACE)
    compiled = a_traced(RESNET_COMPILED, a_row("fused", 70.0), second=2)
    fill(url, one, a_traced(RESNET, convolution, batch_norm), compiled)
    elsewhere = a_run("elsewhere", suite="profile", machine=a_machine("bench-2", "EPYC"))
    fill(url, elsewhere, a_traced(RESNET, convolution))
    fill(url, a_run("measured"), an_outcome(MLP))
    trace = tmp_path / "runs/one" / TRACE
    trace.parent.mkdir(parents=True)
    trace.write_bytes(bytes(2048))

    def open_run(**query: str) -> AppTest:
        at = open_page(url, RUNS, **query)
        assert not at.exception
        return at

    return open_run


def buttons(at: AppTest) -> list[str]:
    return [each.proto.label for each in at.get("download_button")]


def captions(at: AppTest) -> str:
    return "\n".join(f"{caption.value} {caption.help}" for caption in at.caption)


def test_a_traced_run_opens_on_its_first_table(opened: Open) -> None:
    at = opened(run="one")
    (table,) = [each.value for each in at.dataframe]
    assert list(table["name"]) == ["aten::convolution", "aten::batch_norm"]
    assert list(table["share"]) == [0.6, 0.4]
    assert "over 5 steps under the profiler" in captions(at)
    assert "Trace, 2.00 KiB" in buttons(at)
    html = "\n".join(each.proto.body for each in at.main if each.type == "html")
    assert "aten::convolution" not in html, "the facts do not repeat the table"
    assert typed(at)[0].startswith(f"pyrometer profile {RESNET} --steps 5 --environment ")


def test_another_table_is_subtracted_by_the_address(opened: Open) -> None:
    at = opened(run="one", case=RESNET, against=f"one/{RESNET_COMPILED}")
    changes = at.dataframe[1].value.set_index("name")["B - A µs"]
    assert dict(changes) == {"fused": -70.0, "aten::convolution": 60.0, "aten::batch_norm": 40.0}
    assert "above zero, B is slower; +30.0 µs on the CPU in all" in captions(at)


def test_a_table_that_is_cut_says_so_and_so_does_its_difference(opened: Open, url: str) -> None:
    assert "not kept" not in captions(opened(run="one", case=RESNET, against=f"one/{RESNET_COMPILED}"))
    traced = a_traced(RESNET, a_row("aten::convolution", 60.0))
    totals = {**traced.facts["traced"], "rows_left_out": 1234.0}
    cut = replace(traced, facts={**traced.facts, "traced": totals})
    later = FIRST_NIGHT + timedelta(days=1)
    fill(url, a_run("cut", suite="profile", started_at=later), cut)
    table, difference = (
        caption.help
        for caption in opened(run="cut", case=RESNET, against=f"one/{RESNET}").caption
        if "not kept" in caption.help
    )
    assert "1,234 rows" in table and "(0 of A, 1,234 of B)" in difference


def test_newer_tables_of_other_hardware_hide_none_that_can_be_subtracted(opened: Open, url: str) -> None:
    machine = a_machine("bench-2", "EPYC")
    newer = a_run("newer", suite="profile", machine=machine, started_at=FIRST_NIGHT + timedelta(days=1))
    traced = a_traced(RESNET, a_row("aten::convolution", 60.0))
    many = [replace(traced, replicate=number) for number in range(100)]
    fill(url, newer, *many)
    at = opened(run="one", case=RESNET, against=f"one/{RESNET_COMPILED}")
    assert not at.warning and len(at.dataframe) == 2


def test_choosing_a_table_writes_the_address(opened: Open) -> None:
    at = opened(run="one", case=RESNET)
    (choice,) = at.selectbox
    assert [option.split(" · ")[0] for option in choice.options] == ["compile=default"]
    choice.select(f"one/{RESNET_COMPILED}").run()
    assert at.query_params["against"] == f"one/{RESNET_COMPILED}"
    assert len(at.dataframe) == 2


@pytest.mark.parametrize("unlike", [f"elsewhere/{RESNET}", f"measured/{MLP}", "nonsense"])
def test_what_is_not_alike_is_refused_in_one_sentence(opened: Open, unlike: str) -> None:
    at = opened(run="one", case=RESNET, against=unlike)
    assert [warning.value for warning in at.warning] != []
    assert "is no operator table that can be subtracted" in at.warning[0].value
    assert len(at.dataframe) == 1


def test_a_trace_that_is_elsewhere_is_named(opened: Open) -> None:
    at = opened(run="elsewhere")
    assert not [label for label in buttons(at) if label.startswith("Trace")]
    assert f"it lies in the run's folder: {TRACE}" in captions(at)
    assert "No other table of this workload" in captions(at)


HOSTILE = "**b** [x](javascript:alert(1)) <img src=x>"


def test_names_in_captions_stay_text(opened: Open, url: str) -> None:
    environment = replace(an_environment(), name=HOSTILE, fingerprint="f" * 64)
    for number, about in enumerate(({"trace": HOSTILE}, {"trace": None, "trace_note": HOSTILE})):
        run = a_run(f"hostile-{number}", suite="profile", environments=[environment])
        traced = a_traced(RESNET, a_row("aten::mm", 1.0))
        facts = {**traced.facts, **about}
        fill(url, run, replace(traced, facts=facts, environment=environment.fingerprint))
    for query in (
        {"run": "hostile-0"},
        {"run": "hostile-1"},
        {"run": "one", "case": RESNET, "against": f"hostile-0/{RESNET}"},
    ):
        texts = captions(opened(**query))
        assert r"\*\*b\*\* \[x\](javascript\:alert(1)) \<img src=x\>" in texts and HOSTILE not in texts


def test_a_measured_run_has_no_operators(opened: Open) -> None:
    at = opened(run="measured", case=MLP)
    assert "Operators" not in [header.value for header in at.header]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one run that has a trace, and what lies around it."""
    for run in ("run-1", "run-2"):
        (tmp_path / "data/runs" / run / "traces/abc").mkdir(parents=True)
    for file in (f"data/runs/run-1/{TRACE}", "data/runs/run-1/journal.jsonl", "data/secret.json.gz"):
        (tmp_path / file).write_text("x")
    (tmp_path / "data/runs/run-2/traces/abc/case-0.json.gz").symlink_to(tmp_path / "data/secret.json.gz")
    return tmp_path / "data"


def test_a_trace_in_its_runs_folder_is_found(data: Path) -> None:
    assert trace_file(data, "run-1", TRACE) == (data / "runs/run-1" / TRACE).resolve()


def test_the_data_folder_may_be_a_link(data: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(data)
    assert trace_file(tmp_path / "linked", "run-1", TRACE) == data / "runs/run-1" / TRACE


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("run-1", "traces/abc/other.json.gz"),
        ("run-1", "../../secret.json.gz"),
        ("run-1", "../run-2/../../secret.json.gz"),
        ("run-1", "journal.jsonl"),
        ("run-1", "traces/abc"),
        ("run-1", "nul\0.json.gz"),
        ("run-1", None),
        ("run-1", ["traces"]),
        ("run-2", TRACE),
        ("..", "secret.json.gz"),
        (".", f"run-1/{TRACE}"),
        ("", f"run-1/{TRACE}"),
        ("run-9", TRACE),
    ],
)
def test_nothing_else_is_a_trace(data: Path, run: str, name: object) -> None:
    assert trace_file(data, run, name) is None


def test_no_trace_is_found_outside_by_an_absolute_path(data: Path) -> None:
    assert trace_file(data, "run-1", str(data / "secret.json.gz")) is None
    assert trace_file(data, str(data), "secret.json.gz") is None
