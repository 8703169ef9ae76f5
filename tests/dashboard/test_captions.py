"""What stands in small print on the pages: twelve words or fewer, the rest behind an (i)."""

import pytest

from dashboard.components import links
from support.builders import upgrade_journals
from support.builders.run_records import RESNET
from support.pages import VIEWS, Open

MOST_WORDS = 12
ADDRESSES = (
    *(*VIEWS, "/regressions?finding=1", "/regressions?state=all", "/runs?run=latest"),
    *("/explore?view=history&scale=relative", "/explore?view=history&axis=version"),
    *("/explore?run=techniques-cpu", links.outcome("run-11", RESNET, "", 1)),
    f"/compare?run={upgrade_journals.RUN}&detail={upgrade_journals.RESNET}",
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_small_print_is_short(address: str, open_page: Open, full_url: str, empty_url: str) -> None:
    for url in (full_url, empty_url):
        small = [each.value for each in open_page(url, address).caption]
        assert [each for each in small if len(each.split()) > MOST_WORDS] == []
