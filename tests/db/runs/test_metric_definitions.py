"""Metrics from outside mean one thing each."""

import pytest

from analysis.metrics import DIRECTIONS
from db.connection.engine import Database
from db.errors import DatabaseError
from db.runs import metric_definitions
from db.schema import core_tables as tables
from records.outcomes import MetricDefinition

SPEEDUP = MetricDefinition("dynamo.speedup", "Speed-up", "x", "higher")
GRAPHS = MetricDefinition("dynamo.graphs", "Graphs", "", "neither")


def test_what_is_stored_is_found_by_its_name(database: Database) -> None:
    assert metric_definitions.metric_definitions(database) == {}
    metric_definitions.save_metrics(database, [SPEEDUP, GRAPHS])
    metric_definitions.save_metrics(database, [])
    assert metric_definitions.metric_definitions(database) == {
        "dynamo.graphs": GRAPHS,
        "dynamo.speedup": SPEEDUP,
    }


def test_the_first_title_stays(database: Database) -> None:
    renamed = MetricDefinition("dynamo.speedup", "Speed-up over eager", "x", "higher")
    metric_definitions.save_metrics(database, [SPEEDUP, renamed])
    metric_definitions.save_metrics(database, [renamed])
    assert metric_definitions.metric_definitions(database) == {"dynamo.speedup": SPEEDUP}


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (
            MetricDefinition("dynamo.speedup", "Speed-up", "%", "higher"),
            "metric dynamo.speedup is stored as x, better higher and cannot also be %, better higher",
        ),
        (
            MetricDefinition("dynamo.speedup", "Speed-up", "", "neither"),
            "metric dynamo.speedup is stored as x, better higher "
            "and cannot also be a number without a unit, no direction",
        ),
    ],
)
def test_a_name_does_not_change_its_meaning(
    database: Database, other: MetricDefinition, sentence: str
) -> None:
    metric_definitions.save_metrics(database, [SPEEDUP])
    with pytest.raises(ValueError) as refused:
        metric_definitions.save_metrics(database, [GRAPHS, other])
    assert str(refused.value) == sentence
    assert metric_definitions.metric_definitions(database) == {"dynamo.speedup": SPEEDUP}, (
        "nothing of it is stored"
    )


def test_one_name_cannot_mean_two_things_at_once(database: Database) -> None:
    other = MetricDefinition("dynamo.speedup", "Speed-up", "%", "higher")
    with pytest.raises(ValueError, match="cannot also be"):
        metric_definitions.save_metrics(database, [SPEEDUP, other])
    assert metric_definitions.metric_definitions(database) == {}


def test_a_name_that_cannot_be_printed_is_refused(database: Database) -> None:
    with pytest.raises(ValueError, match="not a valid name of a metric"):
        metric_definitions.save_metrics(database, [MetricDefinition("a\0b", "", "", "lower")])


def test_a_direction_is_one_of_the_catalogues(database: Database) -> None:
    assert DIRECTIONS == tables.DIRECTIONS
    with pytest.raises(DatabaseError, match="ck_metric_better"):
        metric_definitions.save_metrics(database, [MetricDefinition("other", "", "", "sideways")])
