"""Why a verdict is open, in words: a share of a core is on its side of the limit."""

import pytest

from reports.text import verdict_text


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.55, "had 55 % of its core"),
        (0.896, "had 89.6 % of its core"),
        (0.0, "had 0 % of its core"),
        (None, ""),
    ],
)
def test_what_is_less_than_the_limit_does_not_read_as_the_limit(share: float | None, said: str) -> None:
    assert verdict_text.had_of_core(share) == said
