"""Case keys in tables: broken at their parts, and the report of a run that came from outside."""

from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from cli.output.console import CaseName
from cli.output.run_report import print_foreign
from interchange.errors import SourcePlace
from interchange.foreign_runs import ForeignOrigin, Point, assemble_run
from records.outcomes import Outcome
from reports.text.numbers import figure
from workflows.load_run import LoadedRun
from workflows.measure import RunResult

KEY = "resnet50/infer/batch=8,device=cuda,image=224/compile=max-autotune,precision=[bf16]"


@pytest.mark.parametrize("width", [21, 30, 60, 100])
def test_a_key_is_broken_at_its_separators_only(width: int) -> None:
    lines = CaseName(KEY).lines(width)
    assert "".join(lines) == KEY and max(map(len, lines)) <= width
    assert all(line[-1] in "/," for line in lines[:-1])
    assert (len(lines) == 1) == (width == 100)


def test_a_part_that_is_too_wide_is_broken_anywhere() -> None:
    assert CaseName("abcdefgh/i").lines(4) == ["abcd", "efgh", "/", "i"]
    assert CaseName("").lines(4) == [""]


def test_a_table_keeps_every_part_whole_and_takes_no_markup() -> None:
    table = Table(box=None)
    table.add_column("case")
    table.add_column("metric")
    table.add_row(CaseName(KEY), "a metric with a long name of many words " * 2)
    file = StringIO()
    Console(width=60, file=file).print(table)
    shown = file.getvalue()
    assert all(part in shown for part in ("image=224/", "compile=max-autotune,", "precision=[bf16]"))


@pytest.mark.parametrize(("values", "has_interval"), [((2.0,), False), ((2.0, 3.0, 4.0), True)])
def test_the_report_of_a_foreign_run_shows_an_interval_where_there_is_one(
    values: tuple[float, ...], has_interval: bool
) -> None:
    origin = ForeignOrigin(format="torchbench", suite="s", started_at=datetime(2024, 3, 7, tzinfo=UTC))
    point = Point(
        case=KEY, metric="latency", unit="ms", better="lower", values=values, place=SourcePlace("f")
    )
    run, _, _ = assemble_run(origin, [point])
    outcomes = tuple(
        Outcome(o.case, o.environment, o.replicate, "ok", metrics=o.metrics) for o in run.outcomes
    )
    result = RunResult(run.run.id, "complete", outcomes, stored=True, seconds=None)
    file = StringIO()
    loaded = LoadedRun(
        result,
        run.run.started_at,
        1,
        traced=False,
        source=run.run.source,
        source_format=run.run.source_format,
    )
    print_foreign(Console(width=140, file=file), loaded)
    shown = file.getvalue()
    assert ("95 % interval" in shown) == has_interval
    (stored,) = run.measurements
    if stored.low is not None and stored.high is not None:
        assert f"{figure(stored.low)} to {figure(stored.high)}" in shown
    assert "imported from TorchBench user benchmark" in shown
