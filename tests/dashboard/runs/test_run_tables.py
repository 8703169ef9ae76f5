"""A run's measurements with a row for each case: one column a metric, its unit once, the interval at hand."""

from dataclasses import replace

from dashboard.components import tables
from dashboard.runs.run_tables import by_case
from support.builders.run_records import MLP, RESNET, a_run, an_environment, an_outcome, measurements_for
from support.pages import TableCells


def test_each_case_has_one_row_and_each_metric_a_column() -> None:
    outcomes = [an_outcome(MLP, replicate=r, latency=2.0 + r) for r in (0, 1)]
    measured = measurements_for([*outcomes, an_outcome(RESNET, metrics={"graph_breaks": 2.0})])
    table = by_case(a_run(), list(reversed(measured)))
    heads, *rows = TableCells(table.html()).rows
    assert heads[1] == "Latency (ms)" and heads[-2:] == ["Graph breaks (count)", "n"]
    assert [row[0].split()[0] for row in rows] == ["mlp_overhead", "resnet50"]
    assert (rows[0][1], rows[0][-2], rows[0][-1]) == ("2.50", "–", "2")
    assert rows[1][1:] == ["–"] * (len(heads) - 3) + ["2", "1"]
    assert 'title="95 % interval 2.00 to 3.00, min-max 2.00 to 3.00, spread ' in table.html()


def test_a_unit_stands_in_the_cells_where_cases_count_different_things() -> None:
    outcomes = [
        an_outcome(RESNET, metrics={"throughput": 5.0}, facts={"unit": "images"}),
        an_outcome(MLP, metrics={"throughput": 7.0}),
    ]
    counted = tables.items_of(outcomes)
    heads, *rows = TableCells(by_case(a_run(), measurements_for(outcomes), None, counted).html()).rows
    assert heads[1] == "Throughput" and [row[1] for row in rows] == ["7.00 items/s", "5.00 images/s"]
    heads, _ = TableCells(by_case(a_run(), measurements_for(outcomes[:1]), None, counted).html()).rows
    assert heads[1] == "Throughput (images/s)"


def test_environments_of_a_case_have_a_row_each_and_metrics_their_own_n() -> None:
    sides = [an_environment("2.14.0"), an_environment("2.13.0", "stable")]
    measured = measurements_for([an_outcome(MLP, environment=each, latency=2.0) for each in sides])
    fewer = [replace(each, n=3) if each.metric == "latency" else each for each in measured]
    _, *rows = TableCells(by_case(a_run(environments=sides), fewer).html()).rows
    assert len(rows) == 2 and {row[-1] for row in rows} == {"1 to 3"}
    assert {row[0].rpartition(" ")[2] for row in rows} == {"2.13.0", "2.14.0"}
