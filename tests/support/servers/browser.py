"""Pages in a real browser as people look at them, and everything that may not happen meanwhile."""

import re
from collections.abc import Callable
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, expect

from support.waiting import PATIENCE_SECONDS

#: How a page can be looked at: colour scheme, width and height of the window.
LOOKS: dict[str, tuple[Literal["light", "dark"], int, int]] = {
    "light": ("light", 1440, 1000),
    "dark": ("dark", 1440, 1000),
    "phone": ("light", 390, 844),
}


def a_context(browser: Browser, **options: Any) -> BrowserContext:
    """A browser without a past, whose clicks and pages may take as long as a busy machine needs."""
    context = browser.new_context(**options)
    context.set_default_timeout(1000 * PATIENCE_SECONDS)
    return context


class KnownBrowser:
    """A browser that was here before: it has what it loaded once, and in an idle tab what it compiled."""

    def __init__(self, browser: Browser) -> None:
        self.context = a_context(browser, timezone_id="Asia/Kolkata")
        self.idle: list[Page] = []


class Visitor:
    """A visitor who opens pages of the dashboard at `home`, and notes the complaints of the browser.

    The visitor has a browser of its own, or one that is `known`.
    """

    def __init__(self, browser: Browser, home: str, known: KnownBrowser | None = None) -> None:
        self.home = home
        self.complaints: list[str] = []
        self._browser, self._is_known = known or KnownBrowser(browser), known is not None
        # What another test chose on these pages is no choice of this visitor.
        self._browser.context.clear_cookies(name="pyrometer_context")
        self._pages: list[Page] = []
        self._listeners: dict[Any, Callable[[Any], object]] = {
            "pageerror": lambda error: self.complaints.append(str(error)),
            "console": lambda message: self.complaints.append(complaint(message)),
            "request": lambda request: self.complaints.append(elsewhere(request.url, self.home)),
            "dialog": self._refuse,
        }

    def open(self, address: str, how: str = "light") -> Page:
        """A page of its own, as it is once nothing is to be drawn any more."""
        idle = self._browser.idle
        page = idle.pop() if idle else self._browser.context.new_page()
        self._pages.append(page)
        scheme, width, height = LOOKS[how]
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for event, listener in self._listeners.items():
            page.on(event, listener)
        page.goto(self.home + address)
        settle(page)
        return page

    def _refuse(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def close(self, page: Page) -> None:
        """Be done with a page: its tab is the next one's, and Streamlit's program is not compiled again."""
        for event, listener in self._listeners.items():
            page.remove_listener(event, listener)
        self._pages.remove(page)
        self._browser.idle.append(page)

    def leave(self) -> list[str]:
        """Be done with every page; what should not have happened."""
        for page in [*self._pages]:
            self.close(page)
        if not self._is_known:
            self._browser.context.close()
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
    """Wait until the script has ended, nothing of it is still to be drawn, and the page is shown."""
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
    page.wait_for_function(
        "!document.querySelector('[data-testid=stSkeleton], [data-testid=stSpinner], [data-stale=true]')"
        " && document.documentElement.classList.contains('py-shown')"
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
