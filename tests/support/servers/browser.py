"""Pages in a real browser as people look at them, and everything that may not happen meanwhile."""

import re
from collections.abc import MutableMapping
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, expect

from support.waiting import PATIENCE_SECONDS

#: How a page can be looked at: colour scheme, width and height of the window.
LOOKS = {"light": ("light", 1440, 1000), "dark": ("dark", 1440, 1000), "phone": ("light", 390, 844)}

#: Browsers that have been here before, by how pages are looked at: what they loaded once they have still.
Browsers = MutableMapping[str, BrowserContext]


def a_context(browser: Browser, **options: Any) -> BrowserContext:
    """A browser without a past, whose clicks and pages may take as long as a busy machine needs."""
    context = browser.new_context(**options)
    context.set_default_timeout(1000 * PATIENCE_SECONDS)
    return context


class Visitor:
    """A visitor who opens pages of the dashboard at `home`, and notes the complaints of the browser.

    The visitor has browsers of its own, or those in `known`, which were here before.
    """

    def __init__(self, browser: Browser, home: str, known: Browsers | None = None) -> None:
        self.home = home
        self.complaints: list[str] = []
        self._browser = browser
        self._known: Browsers = {} if known is None else known
        self._is_known = known is not None
        # What another test chose on these pages is no choice of this visitor.
        for context in self._known.values():
            context.clear_cookies(name="pyrometer_context")
        self._pages: list[Page] = []

    def open(self, address: str, how: str = "light") -> Page:
        """A page of its own, as it is once nothing is to be drawn any more."""
        page = self._with(how).new_page()
        self._pages.append(page)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self.complaints.append(complaint(message)))
        page.on("request", lambda request: self.complaints.append(elsewhere(request.url, self.home)))
        page.on("dialog", self._refuse)
        page.goto(self.home + address)
        settle(page)
        return page

    def _with(self, how: str) -> BrowserContext:
        if how in self._known:
            return self._known[how]
        scheme, width, height = LOOKS[how]
        self._known[how] = a_context(
            self._browser,
            color_scheme=scheme,
            viewport={"width": width, "height": height},
            timezone_id="Asia/Kolkata",
            reduced_motion="reduce",
        )
        return self._known[how]

    def _refuse(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def leave(self) -> list[str]:
        """Close every page; what should not have happened."""
        for page in self._pages:
            page.close()
        if not self._is_known:
            for context in self._known.values():
                context.close()
        return [each for each in self.complaints if each]


def complaint(message: ConsoleMessage) -> str:
    """An error in a browser's console; Streamlit's search for its server below a page's path is none."""
    if message.type != "error" or re.search(r"/[a-z]+/_stcore/", message.location.get("url", "")):
        return ""
    return f"{message.text} {message.location}"


def elsewhere(url: str, home: str) -> str:
    """A request that went to another host."""
    return "" if url.startswith((home, "data:", "blob:")) else f"asked {url}"


def settle(page: Page) -> None:
    """Wait until the script has ended and nothing of it is still to be drawn."""
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
    page.wait_for_function(
        "!document.querySelector('[data-testid=stSkeleton], [data-testid=stSpinner], [data-stale=true]')"
    )


def drawn(page: Page, marks: int) -> None:
    """Wait until that many points are drawn."""
    expect(page.locator("svg .mark-symbol path")).to_have_count(marks)


def beyond(page: Page, what: str) -> list[str]:
    """The texts of those elements that end beyond the window's right edge, also where a table scrolls."""
    found: list[str] = page.locator(what).evaluate_all(
        "all => all.filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.textContent)"
    )
    return found


def fits(page: Page) -> bool:
    """Whether nothing is cut off at the right: neither page nor column scrolls sideways."""
    overflow = "e => e.scrollWidth - e.clientWidth"
    places = (page.locator("html"), page.locator('[data-testid="stMain"]'))
    return all(place.evaluate(overflow) <= 0 for place in places)
