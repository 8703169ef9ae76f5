"""From navigation to marks in a real Chromium, with its own clock, and how far the page jumped meanwhile."""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import BrowserContext, Error, ViewportSize, sync_playwright

_PATIENCE_MS = 60_000
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
_WINDOW: ViewportSize = {"width": 1440, "height": 1000}
#: Visits after which a browser has all it keeps: files with the first, compiled code once they came from
#: its own cache.
WARMING = 3
#: What a page does once its marks stand, keeping compiled code above all.
_AFTERWARDS_MS = 300

#: Adds up the layout shifts that no reader caused, as Core Web Vitals score each.
_SHIFTS = """
    window.layoutShift = 0;
    new PerformanceObserver(list => {
        for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.layoutShift += shift.value;
    }).observe({ type: 'layout-shift', buffered: true });
"""

#: Milliseconds since the navigation began once the script has ended, nothing of it is still to be drawn, and
#: every chart has marks and every table its cells; 0 before.
_MARKS = """() => {
    const one = selector => document.querySelector(selector);
    const all = selector => [...document.querySelectorAll(selector)];
    if (!one('[data-testid=stApp][data-test-script-state=notRunning]')) return 0;
    if (one('[data-testid=stSkeleton], [data-testid=stSpinner], [data-stale=true]')) return 0;
    if (!one('[data-testid=stMain] [data-testid=stHtml]')) return 0;
    const marks = 'svg .role-mark path, svg .role-mark line, svg .role-mark text, svg .role-mark image';
    if (!all('[data-testid=stVegaLiteChart]').every(chart => chart.querySelector(marks))) return 0;
    if (!all('[data-testid=stDataFrame]').every(table => table.querySelector('canvas'))) return 0;
    return performance.now();
}"""


@contextmanager
def browser(*, private: bool) -> Generator[tuple[BrowserContext, str] | None]:
    """A browser that keeps what it loaded once, and its version; None where there is none on PATH.

    A `private` window keeps files and no compiled code; any other keeps both, as that of a daily reader.
    """
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        yield None
        return
    arguments = list(_ARGUMENTS)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory(prefix="pyrometer-") as profile:
        chromium = playwright.chromium
        if private:
            launched = chromium.launch(executable_path=path, args=arguments)
            yield launched.new_context(viewport=_WINDOW), launched.version
            launched.close()
            return
        context = chromium.launch_persistent_context(
            profile, executable_path=path, args=arguments, viewport=_WINDOW
        )
        yield context, context.browser.version if context.browser else ""
        context.close()


@dataclass(frozen=True, slots=True)
class BrowserVisit:
    """Milliseconds from the navigation until all marks stand, and the sum of the layout shifts till then."""

    marks_ms: float
    layout_shift: float


def until_marks(context: BrowserContext, url: str) -> BrowserVisit | None:
    """One visit to an address; None if its marks never stand."""
    page = context.new_page()
    page.add_init_script(_SHIFTS)
    try:
        page.goto(url, timeout=_PATIENCE_MS, wait_until="commit")
        found = page.wait_for_function(_MARKS, polling="raf", timeout=_PATIENCE_MS)
        marks = float(found.json_value())
        page.wait_for_timeout(_AFTERWARDS_MS)
        return BrowserVisit(marks, float(page.evaluate("window.layoutShift")))
    except Error:
        return None
    finally:
        page.close()
