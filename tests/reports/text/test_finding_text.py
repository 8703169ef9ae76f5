"""Findings in words: what is confirmed does not read as nothing."""

import math

import pytest

from reports.text import finding_text
from reports.text.finding_text import triage_complaint


@pytest.mark.parametrize(
    ("low", "said"), [(1.003, "+1.2 % [+0.30 %, +2.0 %]"), (1.00003, "+1.2 % [+0.003 %, +2.0 %]")]
)
def test_an_interval_that_leaves_nothing_outside_does_not_begin_with_it(low: float, said: str) -> None:
    assert finding_text.interval(math.log(1.012), math.log(low), math.log(1.02)) == said


def test_what_says_nothing_or_too_much_is_refused() -> None:
    assert triage_complaint("acknowledge", "", "ada") == ""
    assert triage_complaint("note", "x" * 2000, "a" * 200) == ""
    assert triage_complaint("acknowledge", "", " ")
    assert triage_complaint("note", " ", "ada") and triage_complaint("link", "", "ada")
    for text, who in (("x" * 2001, "ada"), ("x", "a" * 201), ("x\0", "ada"), ("x", "a\0")):
        assert triage_complaint("note", text, who)


@pytest.mark.parametrize("address", ["https://example.org/issues/7", "http://bugs.example/?id=3&x=y"])
def test_addresses_of_pages_are_links(address: str) -> None:
    assert triage_complaint("link", address, "ada") == triage_complaint("link", f" {address}\n", "ada") == ""


@pytest.mark.parametrize(
    "address",
    [
        "example.org",
        "ftp://x/y",
        "https://",
        "https://u:p@example.org/",
        "https://[",
        "http://a b/",
        "javascript:alert(1)",
    ],
)
def test_nothing_else_is_a_link(address: str) -> None:
    assert "without a password" in triage_complaint("link", address, "ada")
