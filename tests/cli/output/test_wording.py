"""Outcomes as the command line writes them."""

from analysis.comparison.screening import as_evidence
from cli.output.progress import outcome_line
from support.builders.run_records import an_outcome


def test_a_process_of_a_short_pair_is_named_as_one() -> None:
    short = as_evidence(an_outcome("mlp/infer/-/eager", metrics={"latency": 2.5}))
    assert outcome_line(short) == "mlp/infer/-/eager #0: short pair of the screen, median 2.500 ms"


def test_a_process_without_a_latency_has_a_line() -> None:
    assert outcome_line(an_outcome("mlp/infer/-/eager", metrics={"rss_peak": 9.0})) == (
        "mlp/infer/-/eager #0: no latency"
    )
    compiled = an_outcome("mlp/infer/-/eager", metrics={"compile_cold": 2.5, "latency": 4.0})
    assert outcome_line(compiled) == "mlp/infer/-/eager #0: median 4.000 ms, compile, cold cache 2.500 s"
