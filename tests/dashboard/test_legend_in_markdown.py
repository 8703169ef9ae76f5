"""A chart's legend taken along as Markdown: the letter of a line and its case are two words."""

from dashboard.components import markup
from reports.text import markdown
from support.builders.run_records import MLP, RESNET


def test_a_letter_and_its_case_are_two_words() -> None:
    assert markdown.converted(markup.legend([MLP, RESNET])).splitlines() == [
        "- A mlp_overhead · infer · batch=8 · eager",
        "- B resnet50 · infer · batch=8 image=224 · eager",
    ]
