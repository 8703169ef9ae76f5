"""The dashboard on a million results: time to marks, CPU of a rerun, its questions, fifty readers at once.

    python benchmarks/dashboard.py [--results N | --database URL] [--page PATH ...] [--quick]
                                   [--only pages|browser|readers ...] [--private] [--readers N ...]

Fills an SQLite file from a seed, as store.py does, and serves it by the command that users type. Every page
of the running dashboard is opened with real content: through a websocket that speaks Streamlit's protocol,
as browsers do, and in Chromium, where pages served by Streamlit alone are opened in turns with it: an empty
one, and one of a plain chart and the choices of Trends, which shows how much of a page is Streamlit's own.
Answers are `kept` when all that a page asks was asked within the last ten seconds, else `anew`. Readers think
for 30 s on average between two pages; what they wait is compared with the page's time anew without any load.
"""

import argparse
import asyncio
import json
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from nights.history import History
from nights.timetable import fill_file
from readers import serving
from readers.chromium import WARMING, BrowserVisit, browser, until_marks
from readers.serving import Server
from readers.tab import PageView, Tab, Visit, crowd

from analysis.replicates import summarise
from db.connection.engine import Database, open_database
from db.findings import store as findings
from db.runs import queries, series_queries
from db.telemetry import queries as telemetry
from records.runs import RunSummary
from records.series import SeriesKey

GOAL_RATIO, GOAL_CPU_MS, GOAL_POINTS, GOAL_QUESTION_MS, GOAL_ABOVE_MS = 2.0, 80.0, 2000, 50.0, 500.0
#: Layout shift of a visit at most, as of web pages that are called good.
GOAL_SHIFT = 0.1
#: Seconds for which the dashboard shows an answer again without asking, and a little more.
FRESH_SECONDS = 10.5
#: What a run of the script still has to do once everything is sent.
SETTLE_SECONDS = 0.15
#: Rows of telemetry for each result: pages ask for the newest windows only.
TELEMETRY = 0.2
PARTS = ("pages", "browser", "readers")
EMPTY = "an empty Streamlit page"
Query = Mapping[str, object]

#: Cases on one chart, runs of the list among which the largest is opened, runs on a page of the list.
_CASES, _NEWEST, _A_PAGE = 6, 50, 50


@dataclass(slots=True)
class Found:
    """What reruns of one page came to; times in milliseconds."""

    first: Visit
    kept_cpu: float = math.nan
    kept: list[float] = field(default_factory=list[float])
    anew_cpu: list[float] = field(default_factory=list[float])
    anew: list[float] = field(default_factory=list[float])


def main() -> None:
    """Print the tables that were asked for."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="pyrometer-") as name, ExitStack() as servers:
        folder = Path(name)
        url = options.database or fill_file(folder, _history(options.results))
        server = serving.dashboard(url, folder)
        servers.callback(server.stop)
        pages = asyncio.run(_first_visitors(server))
        chosen = {
            path: title for path, title in pages.items() if options.page is None or path in options.page
        }
        with open_database(url) as database:
            places = _addresses(database, chosen)
        found: dict[str, Found] = {}
        if "pages" in options.only or "readers" in options.only:
            found = asyncio.run(_reruns(server, places, options))
            _print_reruns(found, options.visits)
        if "pages" in options.only:
            _print_questions(_questions(url, folder, places, options.rounds))
        if "browser" in options.only:
            bare = {EMPTY: serving.empty(folder), "a plain chart, 7 widgets": serving.plain(folder)}
            for one in bare.values():
                servers.callback(one.stop)
            opened = {name: one.url for name, one in bare.items()}
            opened |= {name: server.url + address for name, address in places.items()}
            _print_marks(opened, options.rounds, private=options.private)
        if "readers" in options.only:
            _print_readers(server, places, found, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=int, default=1_000_000)
    parser.add_argument("--database", metavar="URL", help="one that is filled already")
    parser.add_argument("--page", action="append", metavar="PATH", help="only this page: explore, runs, ...")
    parser.add_argument("--only", choices=PARTS, action="append", help="by default all three")
    parser.add_argument("--visits", type=int, default=20, help="of every page, with its answers kept")
    parser.add_argument("--rounds", type=int, default=7, help="visits in turns: anew, and in the browser")
    parser.add_argument("--private", action="store_true", help="a window that keeps no compiled code")
    parser.add_argument("--readers", type=int, nargs="+", default=[1, 10, 50], metavar="N")
    parser.add_argument("--think", type=float, default=30.0, help="seconds between two pages, on average")
    parser.add_argument("--minutes", type=float, default=2.0, help="for each number of readers")
    parser.add_argument("--quick", action="store_true", help="all of it small: to see that it works")
    options = parser.parse_args()
    options.only = options.only or list(PARTS)
    if options.quick:
        options.results, options.visits, options.rounds = min(options.results, 28_000), 3, 2
        options.readers, options.think, options.minutes = [1, 4], 2.0, 0.1
    return options


def _history(results: int) -> History:
    """Up to the first night that is still to come, or goes on: pages show the result of the last."""
    now = datetime.now(UTC)
    night = now.replace(hour=2, minute=0, second=0, microsecond=0)
    end = night if now < night + timedelta(hours=2) else night + timedelta(days=1)
    return History(results, round(results * TELEMETRY), end)


async def _first_visitors(server: Server) -> dict[str, str]:
    """The pages in the navigation; prints the waits of the first visitor, and of the next ones."""
    waits: list[float] = []
    pages: dict[str, str] = {}
    for _ in range(2):
        started = time.perf_counter()
        tab = await Tab.opened(server.url)
        await tab.visit("/")
        waits.append(time.perf_counter() - started)
        pages = tab.pages
        await tab.closed()
    print(
        f"serves {server.ready:.1f} s after its start; the first visitor waits {waits[0]:.2f} s, the next "
        f"{waits[1]:.2f} s; {server.resident_mib():.0f} MiB resident"
    )
    return pages


async def _reruns(server: Server, places: Mapping[str, str], options: argparse.Namespace) -> dict[str, Found]:
    """Every page again and again in one tab: with its answers kept, then in turns with answers anew."""
    tab = await Tab.opened(server.url)
    found: dict[str, Found] = {}
    for name, address in places.items():
        found[name] = page = Found(await tab.visit(address))
        await asyncio.sleep(SETTLE_SECONDS)
        before = server.cpu_seconds()
        page.kept = [(await tab.visit(address)).seconds * 1e3 for _ in range(options.visits)]
        await asyncio.sleep(SETTLE_SECONDS)
        page.kept_cpu = (server.cpu_seconds() - before) / options.visits * 1e3
    for turn in range(options.rounds):
        await asyncio.sleep(FRESH_SECONDS)
        # Who comes first asks what all pages ask; so each is first in its turn.
        names = list(places)
        names = names[turn % len(names) :] + names[: turn % len(names)]
        for name in names:
            before = server.cpu_seconds()
            found[name].anew.append((await tab.visit(places[name])).seconds * 1e3)
            await asyncio.sleep(SETTLE_SECONDS)
            found[name].anew_cpu.append((server.cpu_seconds() - before) * 1e3)
    await tab.closed()
    return found


def _print_reruns(found: Mapping[str, Found], visits: int) -> None:
    print(f"\nreruns over a websocket: {visits} kept, {len(next(iter(found.values())).anew)} anew")
    print(
        f"{'':28}{'CPU ms':>8}{'anew':>8}{'p50 ms':>9}{'p95':>8}{'anew p50':>10}{'KiB':>8}   points of charts"
    )
    for name, page in found.items():
        points = [str(each) for each in page.first.points]
        wrong = [f"above {GOAL_CPU_MS:g} ms"] if page.kept_cpu > GOAL_CPU_MS else []
        wrong += [f"above {GOAL_POINTS:,} points"] if max(page.first.points, default=0) > GOAL_POINTS else []
        wrong += [f"SHOWS {each}" for each in page.first.wrong]
        print(
            f"{name:28}{page.kept_cpu:8.0f}{median(page.anew_cpu):8.0f}{_share(page.kept, 0.5):9.0f}"
            f"{_share(page.kept, 0.95):8.0f}{median(page.anew):10.0f}{page.first.size / 1024:8.0f}   "
            f"{' '.join(points) or '-'}  {', '.join(wrong)}"
        )
    reached = sum(page.kept_cpu <= GOAL_CPU_MS for page in found.values())
    print(
        f"goal: at most {GOAL_CPU_MS:g} ms of CPU a rerun: {reached} of {len(found)} with their answers kept"
    )


def _questions(
    url: str, folder: Path, places: Mapping[str, str], rounds: int
) -> dict[str, list[dict[str, float]]]:
    """By page and asking function, the time (ms) and the statements of every question of `rounds` visits."""
    written = folder / "questions"
    server = serving.observed(url, folder, written)
    try:
        return asyncio.run(_ask_rounds(server, written, places, rounds))
    finally:
        server.stop()


async def _ask_rounds(
    server: Server, written: Path, places: Mapping[str, str], rounds: int
) -> dict[str, list[dict[str, float]]]:
    times: dict[str, list[dict[str, float]]] = {name: [] for name in places}
    tab = await Tab.opened(server.url)
    with written.open() as lines:
        for turn in range(rounds + 1):
            for name, address in places.items():
                await tab.forget()
                await tab.visit(address)
                found = [json.loads(line) for line in lines]
                # The first time the database's pages come from the disk.
                times[name] += found if turn else []
    await tab.closed()
    return times


def _print_questions(measured: Mapping[str, list[dict[str, float]]]) -> None:
    print(f"\n{'questions to the database':62}{'times':>6}{'p50 ms':>9}{'p95':>8}")
    for name, questions in measured.items():
        by: dict[str, list[float]] = {}
        for each in questions:
            by.setdefault(str(each["question"]), []).append(each["ms"])
        print(name)
        for question, times in sorted(by.items(), key=lambda one: -median(one[1])):
            p95 = _share(times, 0.95)
            slow = f"  above {GOAL_QUESTION_MS:g} ms" if p95 > GOAL_QUESTION_MS else ""
            print(f"    {question:58}{len(times):6}{_share(times, 0.5):9.2f}{p95:8.2f}{slow}")


def _print_marks(opened: Mapping[str, str], rounds: int, *, private: bool) -> None:
    """From navigation to marks, all in turns; the empty one is what the others are compared with."""
    with browser(private=private) as found:
        if found is None:
            print("\nno Chromium on PATH: nothing was looked at in a browser")
            return
        context, version = found
        visits: dict[str, list[BrowserVisit | None]] = {name: [] for name in opened}
        for turn in range(WARMING + rounds):
            for name, url in opened.items():
                visit = until_marks(context, url)
                visits[name] += [visit] if turn >= WARMING else []
    nothing = visits[EMPTY]
    kept = "files are kept" if private else "files and compiled code are kept"
    print(f"\nfrom navigation to marks, {rounds} times in turns in Chromium {version}, whose {kept}")
    print(f"{'':28}{'p50 ms':>9}{'p95':>8}{'shift':>8}   times an empty page")
    for name, taken in visits.items():
        pairs = [(one, none) for one, none in zip(taken, nothing, strict=True) if one and none]
        if len(pairs) < len(taken) or not pairs:
            print(f"{name:28}   {len(taken) - len(pairs)} of {len(taken)} times its marks never stood")
            continue
        marks, shift = [one.marks_ms for one, _ in pairs], max(one.layout_shift for one, _ in pairs)
        ratio = summarise([one.marks_ms / none.marks_ms for one, none in pairs])
        interval = f"[{ratio.low or math.nan:.2f}, {ratio.high or math.nan:.2f}]"
        interval += "" if ratio.point <= GOAL_RATIO else f"  above {GOAL_RATIO:g}"
        interval += "" if shift <= GOAL_SHIFT else f"  shift above {GOAL_SHIFT:g}"
        spread = f"{_share(marks, 0.5):9.0f}{_share(marks, 0.95):8.0f}{shift:8.2f}"
        print(f"{name:28}{spread}   {ratio.point:.2f} {interval}")


def _print_readers(
    server: Server, places: Mapping[str, str], found: Mapping[str, Found], options: argparse.Namespace
) -> None:
    unloaded = {places[name]: median(page.anew) for name, page in found.items()}
    print(
        f"\nreaders, thinking {options.think:g} s on average, {options.minutes:g} min for each number of them"
    )
    print(f"{'readers':>8}{'visits':>8}{'p50 ms':>9}{'p95':>8}{'above unloaded: p50, p95':>27}", end="")
    print(f"{'CPU ms a visit':>16}{'CPU':>6}{'MiB':>6}")
    for many in options.readers:
        before, started = server.cpu_seconds(), time.perf_counter()
        watch = partial(crowd, server.url, list(places.values()), many, options.think)
        views = asyncio.run(watch(options.minutes * 60))
        cpu = server.cpu_seconds() - before
        _print_crowd(many, views, unloaded, cpu, cpu / (time.perf_counter() - started), server)
    print(f"goal: p95 at most {GOAL_ABOVE_MS:g} ms above the unloaded")


def _print_crowd(
    many: int,
    views: Sequence[PageView],
    unloaded: Mapping[str, float],
    cpu: float,
    busy: float,
    server: Server,
) -> None:
    counted = [one for one in views if one.counts]
    if not counted:
        print(f"{many:8}{0:8}   no page was opened in that time")
        return
    times = [one.seconds * 1e3 for one in counted]
    above = [one.seconds * 1e3 - unloaded[one.address] for one in counted]
    wrong = sorted({each for one in views for each in one.wrong})
    print(
        f"{many:8}{len(counted):8}{_share(times, 0.5):9.0f}{_share(times, 0.95):8.0f}"
        f"{_share(above, 0.5):20.0f},{_share(above, 0.95):6.0f}{cpu / len(views) * 1e3:16.0f}{busy:6.0%}"
        f"{server.resident_mib():6.0f}{'  SHOWS ' + ', '.join(wrong) if wrong else ''}"
    )


def _addresses(database: Database, pages: Mapping[str, str]) -> dict[str, str]:
    """Titles and addresses: each page of the navigation (titles by paths), some with several contents."""
    known = _queries_by_page(database)
    found: dict[str, str] = {}
    for path, title in pages.items():
        for content, query in known.get(path, {"": {}}).items():
            name = f"{title}, {content}" if content else title
            found[name] = f"/{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
    return found


def _queries_by_page(database: Database) -> dict[str, dict[str, Query]]:
    """What pages are asked for that show something else without a query."""
    runs = queries.recent_runs(database, limit=_NEWEST)
    series = [key for key in series_queries.series_keys(database) if key.metric == "latency"]
    older = queries.count_runs(database) // _A_PAGE // 2
    known: dict[str, dict[str, Query]] = {}
    if runs:
        known["runs"] = {"the list": {}, "an older page": {"page": max(1, older)}, **_a_run(database, runs)}
        known["runs"] |= {view: {"view": view} for view in ("machines", "schedule")}
    known["compare"] = {"upgrade": {}, "hardware": {"view": "hardware"}}
    explored: dict[str, Query] = {"techniques": {}}
    if series:
        explored |= {f"{_CASES} cases": _trend(series, _CASES), "1 case": _trend(series, 1)}
    if windows := telemetry.windows(database, limit=1):
        window = windows[0]
        replicate = _replicate(window.run, window.case, window.environment, window.replicate)
        explored["utilisation"] = {"view": "utilisation", **replicate}
    known["explore"] = explored
    if found := findings.findings(database, newest=1):
        known["regressions"] = {"the list": {}, "a finding": {"finding": found[0].id}}
    return known


def _a_run(database: Database, runs: Sequence[RunSummary]) -> dict[str, Query]:
    largest = max(runs, key=lambda run: run.planned)
    found: dict[str, Query] = {"a run": {"run": largest.id}}
    sampled = [one for one in queries.outcomes_of_run(database, largest.id) if one.status == "ok"]
    if sampled:
        one = sampled[0]
        found["an outcome"] = _replicate(largest.id, one.case, one.environment, one.replicate)
    return found


def _trend(series: Sequence[SeriesKey], cases: int) -> Query:
    first = series[0]
    place = first.hardware, first.preset
    return {
        "view": "history",
        "metric": first.metric,
        "hardware": first.hardware,
        "preset": first.preset,
        "axis": "date",
        "case": [key.case for key in series if (key.hardware, key.preset) == place][:cases],
    }


def _replicate(run: str, case: str, environment: str, replicate: int) -> Query:
    return {"run": run, "case": case, "environment": environment, "replicate": replicate}


def _share(values: Sequence[float], share: float) -> float:
    """The value below which a share of all lies, by nearest rank."""
    return sorted(values)[max(0, round(share * len(values)) - 1)]


if __name__ == "__main__":
    main()
