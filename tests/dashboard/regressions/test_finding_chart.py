"""The chart of a finding in a browser: a night stands at its date."""

import re

from playwright.sync_api import Locator

from support.pages import REGRESSIONS
from support.servers.browser import Visitor

#: The text or the accessible name of each element, and the middle of it from the left.
_PLACES = """all => all.map(e => {
  const box = e.getBoundingClientRect();
  return [e.getAttribute("aria-label") ?? e.textContent, box.x + box.width / 2];
})"""


def places(found: Locator, name: str) -> dict[str, float]:
    """Where those elements stand that have a date, by their dates."""
    named = [(re.search(name, text or ""), x) for text, x in found.evaluate_all(_PLACES)]
    return {match[1]: x for match, x in named if match}


def test_each_date_stands_at_its_night(past_visitor: Visitor) -> None:
    page = past_visitor.open(f"{REGRESSIONS}?finding=1")
    page.locator("svg .mark-symbol path").first.wait_for()
    nights = places(page.locator("svg .mark-symbol path"), r"^night: (\d\d \w{3});")
    dates = places(page.locator("svg .role-axis-label text"), r"^(\d\d \w{3})$")
    assert len(nights) == 4 and set(dates) >= set(list(nights)[1:])
    a_day = (nights["04 Sep"] - nights["01 Sep"]) / 3
    # Nights begin at 02:00 UTC, two hours after the tick of their day.
    assert all(abs(nights[date] - dates[date]) < a_day / 6 for date in dates)
