"""Outcomes as the command line writes them."""

from analysis.comparison.screening import as_evidence
from cli.output.wording import outcome_line
from support.builders.run_records import an_outcome


def test_a_process_of_a_short_pair_is_named_as_one() -> None:
    short = as_evidence(an_outcome("mlp/infer/-/eager", metrics={"latency": 2.5}))
    assert outcome_line(short) == "mlp/infer/-/eager #0: short pair of the screen, median 2.500 ms"
