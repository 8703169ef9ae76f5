"""A chart's legend taken along as Markdown: the letter of a line and its case are two words."""

from dashboard.components import markup
from reports.text.html_markdown import converted
from support.builders.run_records import MLP, RESNET


def test_a_letter_and_its_case_are_two_words() -> None:
    assert converted(markup.legend([MLP, RESNET])).splitlines() == [
        "- A mlp_overhead · infer `eager` · batch=8",
        "- B resnet50 · infer `eager` · batch=8 image=224",
    ]
