"""Tables: a row for each thing, types that last, and no cell that a spreadsheet would run."""

import csv
import errno
import io
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interchange.exporters import parquet
from interchange.exporters.parquet import write_parquet
from interchange.exporters.tables import TABLES, write_csv
from interchange.runs import Catalogue, ExportedRun
from records.outcomes import MetricDefinition, Outcome
from support.builders.run_records import MLP, a_recording, a_run, an_outcome, measurements_for

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'=1", "＝1"]
SIGNS = {text[:1] for text in FORMULAS}
CATALOGUE = Catalogue({"dynamo.speedup": MetricDefinition("dynamo.speedup", "Speed-up", "x", "higher")}, str)


def a_whole_run(*outcomes: Outcome, id: str = "run-1") -> ExportedRun:
    """A run with these outcomes, whose samples and recordings are at hand."""
    return ExportedRun(
        a_run(id),
        outcomes,
        measurements_for(outcomes),
        lambda outcome: outcome.blocks,
        lambda outcome: outcome.telemetry,
    )


GPU = a_recording(
    "GPU-1", utilisation_source="gpm", values={"power": (700.5, None, 0.1), "sm_clock": (1980.0,) * 3}
)
RUN = a_whole_run(
    an_outcome(MLP, latency=0.1 + 0.2, telemetry=[GPU]),
    an_outcome(MLP, replicate=1, metrics={"dynamo.speedup": -1.5}, blocks=()),
    an_outcome(MLP, replicate=2, status="crashed", reason="=HYPERLINK(1)", log_tail='a,"b"\n\0c\r\n'),
)


def as_csv(table: str, *runs: ExportedRun) -> list[dict[str, str]]:
    """The rows of a table, read back from CSV."""
    sink = io.BytesIO()
    write_csv(TABLES[table], runs, CATALOGUE, sink)
    return list(csv.DictReader(io.StringIO(sink.getvalue().decode(), newline="")))


def as_parquet(table: str, *runs: ExportedRun) -> pa.Table:
    """A table, read back from Parquet."""
    sink = io.BytesIO()
    write_parquet(TABLES[table], runs, CATALOGUE, sink)
    return pq.read_table(io.BytesIO(sink.getvalue()))


@pytest.mark.parametrize("table", list(TABLES))
def test_both_forms_hold_the_same(table: str) -> None:
    def cell(value: Any) -> str:
        if isinstance(value, datetime):
            return value.astimezone(UTC).isoformat(timespec="microseconds")
        text = "" if value is None else str(value)
        return f"'{text}" if isinstance(value, str) and text and text[0] in SIGNS else text

    rows = as_parquet(table, RUN, a_whole_run(id="run-2")).to_pylist()
    again = [{name: cell(value) for name, value in row.items()} for row in rows]
    assert again == as_csv(table, RUN, a_whole_run(id="run-2"))
    assert list(rows[0]) == [column.name for column in TABLES[table].columns]


def test_the_page_describes_every_column() -> None:
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text().splitlines()
    shared = {"run", "case", "environment", "machine", "hardware", "preset", "torch_version", "started_at"}
    for name, table in TABLES.items():
        (row,) = [line for line in page if line.startswith(f"| `{name}` |")]
        columns = {each.name for each in table.columns if not each.name.endswith("_fingerprint")}
        assert {column for column in columns - shared if f"`{column}`" not in row} == set()


def test_there_is_one_row_for_each_thing() -> None:
    counts = {name: as_parquet(name, RUN, a_whole_run(id="run-2")).num_rows for name in TABLES}
    assert counts == {"runs": 2, "outcomes": 3, "measurements": 4, "samples": 4, "telemetry": 6}


def test_numbers_keep_every_bit_and_times_their_zone() -> None:
    rows = as_csv("measurements", RUN)
    assert {row["metric"]: float(row["point"]) for row in rows}["latency"] == 0.1 + 0.2
    assert {row["metric"]: row["unit"] for row in rows}["dynamo.speedup"] == "x"
    measured = as_parquet("measurements", RUN)
    assert measured.schema.field("started_at").type == pa.timestamp("us", tz="UTC")
    assert measured.schema.field("point").type == pa.float64()
    assert measured.schema.field("n").type == pa.int64()
    samples = as_parquet("samples", RUN)
    assert samples.column("duration_ns").to_pylist() == [n for block in RUN.outcomes[0].blocks for n in block]
    assert samples.column("block").to_pylist() == [0, 0, 0, 1]
    assert samples.schema.field("duration_ns").type == pa.int64()


def test_a_missing_reading_is_none_and_never_zero() -> None:
    rows = [row for row in as_parquet("telemetry", RUN).to_pylist() if row["column"] == "power"]
    assert [row["value"] for row in rows] == [700.5, None, 0.1]
    assert [row["value"] for row in as_csv("telemetry", RUN) if row["column"] == "power"][1] == ""


def test_a_text_cannot_start_a_formula_and_comes_back() -> None:
    outcomes = [
        an_outcome(MLP, status="crashed", reason=text, replicate=n) for n, text in enumerate(FORMULAS)
    ]
    cells = [row["reason"] for row in as_csv("outcomes", a_whole_run(*outcomes))]
    assert cells == [f"'{text}" for text in FORMULAS]
    assert as_parquet("outcomes", a_whole_run(*outcomes)).column("reason").to_pylist() == FORMULAS


def test_a_negative_number_stays_a_number() -> None:
    points = [row["point"] for row in as_csv("measurements", RUN) if row["metric"] == "dynamo.speedup"]
    assert points == ["-1.5"]


def test_a_text_that_is_no_utf8_is_escaped() -> None:
    odd = a_whole_run(an_outcome(MLP, status="lost", reason="half \ud800"))
    assert as_csv("outcomes", odd)[0]["reason"] == "half \\ud800"
    assert as_parquet("outcomes", odd).column("reason").to_pylist() == ["half \\ud800"]


def test_only_some_rows_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_ROWS", 3)
    sink = io.BytesIO()
    write_parquet(TABLES["telemetry"], [RUN, RUN], CATALOGUE, sink)
    groups = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata
    assert [groups.row_group(number).num_rows for number in range(groups.num_row_groups)] == [3, 3, 3, 3]


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_full_disk_is_reported_as_such(write: Callable[..., None]) -> None:
    class Full(io.BytesIO):
        def write(self, *_: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left on device"):
        write(TABLES["samples"], [RUN] * 2000, CATALOGUE, Full())


@pytest.mark.parametrize("read", [as_csv, lambda *given: as_parquet(*given).to_pylist()])
def test_no_run_gives_a_table_without_rows(read: Callable[..., list[Any]]) -> None:
    assert read("samples") == []
