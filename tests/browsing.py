"""Pages in a real browser as people look at them, and everything that may not happen meanwhile."""

from typing import Any

from playwright.sync_api import Browser, Dialog, Page, expect

#: How a page can be looked at: colour scheme, width and height of the window.
LOOKS = {"light": ("light", 1440, 1000), "dark": ("dark", 1440, 1000), "phone": ("light", 390, 844)}

#: Streamlit asks for these below every page's own path and carries on without.
HARMLESS = ("/_stcore/health", "/_stcore/host-config")


class Visitor:
    """Somebody who opens pages of the dashboard at `home`, and notes what a browser would complain of."""

    def __init__(self, browser: Browser, home: str) -> None:
        self.home = home
        self.complaints: list[str] = []
        self._browser = browser
        self._contexts: list[Any] = []

    def open(self, address: str, how: str = "light") -> Page:
        """A page of its own, as it is once nothing is to be drawn any more."""
        scheme, width, height = LOOKS[how]
        context = self._browser.new_context(
            color_scheme=scheme,  # pyright: ignore[reportArgumentType]
            viewport={"width": width, "height": height},
            timezone_id="Asia/Kolkata",
            reduced_motion="reduce",
        )
        self._contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self.complaints.append(complaint(message)))
        page.on("request", lambda request: self.complaints.append(elsewhere(request.url, self.home)))
        page.on("dialog", self._refuse)
        page.goto(self.home + address, timeout=60_000)
        settle(page)
        return page

    def _refuse(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def leave(self) -> list[str]:
        """Close every page; what should not have happened."""
        for context in self._contexts:
            context.close()
        return [each for each in self.complaints if each]


def complaint(message: Any) -> str:
    """What a browser's console says, if it is an error."""
    harmless = message.type != "error" or message.location["url"].endswith(HARMLESS)
    return "" if harmless else f"{message.text} {message.location}"


def elsewhere(url: str, home: str) -> str:
    """A request that went to another host."""
    return "" if url.startswith((home, "data:", "blob:")) else f"asked {url}"


def settle(page: Page) -> None:
    """Wait until the script has ended and nothing of it is still to be drawn."""
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=60_000)
    page.wait_for_function(
        "!document.querySelector('[data-testid=stSkeleton], [data-testid=stSpinner], [data-stale=true]')"
    )


def drawn(page: Page, marks: int) -> None:
    """Wait until that many points are drawn."""
    expect(page.locator("svg .mark-symbol path")).to_have_count(marks, timeout=20_000)


def fits(page: Page) -> bool:
    """Whether nothing is cut off at the right: neither page nor column scrolls sideways."""
    overflow = "e => e.scrollWidth - e.clientWidth"
    places = (page.locator("html"), page.locator('[data-testid="stMain"]'))
    return all(place.evaluate(overflow) <= 0 for place in places)
