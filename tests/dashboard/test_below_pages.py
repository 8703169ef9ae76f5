"""An address below a page, as somebody types it who takes the id of a run for a folder, leads to the page."""

import urllib.request
from typing import Any

import pytest

from dashboard import front
from dashboard.navigation import PAGES


@pytest.mark.parametrize("page", [page for page in PAGES if page.path], ids=lambda page: page.path)
@pytest.mark.parametrize("below", ["/", "/20261122-020000-0", "/a/b//c", "//evil.example/"])
def test_below_a_page_is_the_page(served: Any, page: Any, below: str) -> None:
    with urllib.request.urlopen(f"{served.url}/{page.path}{below}?run=a%2Bb&case=c", timeout=30) as answer:
        assert answer.geturl() == f"{served.url}/{page.path}?run=a%2Bb&case=c"
        assert answer.read().decode() == front.text(page)
