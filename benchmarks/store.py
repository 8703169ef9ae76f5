"""The store at the size of years: every question of the pages, a night's ingest, readers beside a writer.

    python benchmarks/store.py [--results N] [--telemetry N] [--growth [N ...]] [--on sqlite|postgres]

Fills SQLite, and Postgres where initdb is found, from a seed. A night is one run with 350 results, 210
outcomes and their samples, stored through `db.runs.store`. Beside it stands the driver's bare executemany of
the same rows into the same tables in one transaction, in turns, with and without the time to encode them;
only the store looks for what is stored already. Neither pays for the other's pages
in SQLite's log, and the time of a night has that of its own ones. A reader is set beside a process that
commits a night every 50 ms. `--growth` asks the questions at several sizes: 10 k, 100 k and 1 M results, or
those given.
"""

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any

from nights.filling import Names, Rows, Values, fill, run_row, size
from nights.history import A_NIGHT, CASES, MACHINES, REPLICATES, History, Night, case, environment
from sqlalchemy import Connection

from analysis.replicates import summarise
from db.connection.engine import Database, one_transaction, open_database
from db.runs import metric_definitions, queries, sample_codec, series_queries, store, traces
from db.runs import releases as runs_releases
from db.schema import core_tables as tables
from db.telemetry import queries as telemetry
from records.outcomes import Measurement, Outcome
from records.runs import Run
from records.series import SeriesKey

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.servers.postgres import PostgresServer, postgres_binaries  # noqa: E402

GOAL_MS, GOAL_INGEST_MS, GOAL_MIXED = 150.0, 1000.0, 1.5
SIZES = (10_000, 100_000, 1_000_000)
#: How often a question is asked, a night is stored, and how long readers are looked at each time.
ROUNDS, NIGHTS, READER_SECONDS = 40, 15, 4.0
#: A night is committed every so many seconds beside the reader.
EVERY_SECONDS = 0.05

Times = dict[str, list[float]]
#: A question is called with a number that rises; its answer is not empty.
Question = Callable[[int], Any]

#: Runs on a page of the list, as the Runs page has them.
_A_PAGE = 50
#: What the Utilisation page looks for the newest telemetry in.
_WINDOWS = 2000
#: Points of a series: two years of nights; and of each of eight series on a chart, as the Trends page has it.
_NEWEST, _OF_EIGHT = 730, 250
_NUMBERS = attrgetter("point", "low", "high", "smallest", "largest", "spread", "n")

Records = tuple[Run, list[Outcome], list[Measurement]]


def main() -> None:
    """Print a table per database and size, or one over all sizes."""
    options = _options()
    if options.write:
        _write_nights(options.write, History(options.results, options.telemetry))
        return
    sizes: Sequence[int] = [options.results] if options.growth is None else options.growth or SIZES
    for kind in options.on or ("sqlite", "postgres"):
        with tempfile.TemporaryDirectory(prefix="pyrometer-") as folder, _server(kind, Path(folder)) as url:
            if url is None:
                print("postgres: no initdb under /usr/lib/postgresql or on PATH")
                continue
            tables = {many: _one(url(many), kind, many, options) for many in sizes}
            if len(tables) > 1:
                _print_growth(kind, tables)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--telemetry", type=int, help="rows of telemetry; by default ten times the results")
    parser.add_argument("--growth", type=int, nargs="*", metavar="N", help="several sizes; 10 M on request")
    parser.add_argument("--on", choices=("sqlite", "postgres"), action="append")
    parser.add_argument("--write", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.rows = options.telemetry
    if options.telemetry is None:
        options.telemetry = 10 * options.results
    return options


@contextmanager
def _server(kind: str, folder: Path) -> Iterator[Callable[[int], str] | None]:
    """Gives the URL of a new database by its size; None where there is no server."""
    if kind == "sqlite":
        yield lambda many: f"sqlite:///{folder}/{many}.db"
        return
    binaries = postgres_binaries()
    if binaries is None:
        yield None
        return
    server = PostgresServer(binaries, folder, durable=True)
    try:
        yield lambda many: server.new_database()
    finally:
        server.stop()


def _one(url: str, kind: str, many: int, options: argparse.Namespace) -> Times:
    samples = 10 * many if options.rows is None else options.rows
    history = History(many, samples)
    with open_database(url) as database:
        started = time.perf_counter()
        fill(database, history)
        seconds = time.perf_counter() - started
        print(
            f"\n{kind}: {many:,} results, {samples:,} rows of telemetry; "
            f"filled in {seconds:.0f} s, {size(database) / 2**20:,.0f} MiB"
        )
        answered = _ask(questions(database, history))
        _print_questions(answered)
        if options.growth is None:
            _print_ingest(database, history)
            _print_mixed(database, url, many, samples)
    return answered


def _timed(call: Callable[[], object]) -> float:
    """Milliseconds that a call takes."""
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1e3


def _ask(questions: Mapping[str, Question]) -> Times:
    times: Times = {}
    for name, question in questions.items():
        question(0)
        times[name] = [_timed(lambda: question(number)) for number in range(1, ROUNDS + 1)]  # noqa: B023
    return times


def _share(times: Sequence[float], share: float) -> float:
    """The time below which a share of all times lies, by nearest rank."""
    return sorted(times)[max(0, round(share * len(times)) - 1)]


def _print_questions(answered: Times) -> None:
    print(f"{'':34}{'p50 ms':>9}{'p95 ms':>9}")
    for name, times in answered.items():
        p50, p95 = _share(times, 0.5), _share(times, 0.95)
        print(f"{name:34}{p50:9.2f}{p95:9.2f}{'' if p95 < GOAL_MS else f'  above {GOAL_MS:g} ms'}")


def _print_growth(kind: str, tables: Mapping[int, Times]) -> None:
    print(f"\n{kind}, p50 / p95 ms" + "".join(f"{many:>18,}" for many in tables))
    for name in next(iter(tables.values())):
        cells = [(_share(answered[name], 0.5), _share(answered[name], 0.95)) for answered in tables.values()]
        print(f"{name:34}" + "".join(f"{p50:9.2f} /{p95:7.2f}" for p50, p95 in cells))


def _print_ingest(database: Database, history: History) -> None:
    """Nights through the store, and nights as bare rows, in turns: A B B A."""
    bare = BareNight(database, history)
    store_ms: list[float] = []
    whole: list[float] = []
    bare_ms: list[float] = []
    ready: list[float] = []
    numbers = iter(range(history.count, history.count + 10 * NIGHTS))
    rows = 0
    for pair in range(NIGHTS + 1):
        for through_the_store in (True, False) if pair % 2 else (False, True):
            night = history.night(next(numbers), pair % MACHINES)
            records = history.run(night), history.outcomes_of(night), history.measurements_of(night)
            checkpoint(database)
            started = time.perf_counter()
            if through_the_store:
                store_night(database, history, night, records)
                store_ms.append((time.perf_counter() - started) * 1e3)
                checkpoint(database)
                whole.append((time.perf_counter() - started) * 1e3)
                continue
            prepared = bare.rows(night, records)
            encoded = time.perf_counter()
            bare.store(prepared)
            bare_ms.append((time.perf_counter() - started) * 1e3)
            ready.append((time.perf_counter() - encoded) * 1e3)
            rows = sum(map(len, prepared.values()))
    # The first of each is warming up.
    p50, p95 = _share(whole[1:], 0.5), _share(whole[1:], 0.95)
    goal = _verdict(p95, GOAL_INGEST_MS)
    print(f"a night of {A_NIGHT} results, {rows} rows in all: p50 {p50:.1f}, p95 {p95:.1f} ms, {goal}")
    for what, times in (("with encoding", bare_ms), ("rows ready", ready)):
        found = summarise([bare / own for bare, own in zip(times[1:], store_ms[1:], strict=True)])
        low, high = found.low or math.nan, found.high or math.nan
        print(
            f"  bare executemany, {what}: p50 {_share(times[1:], 0.5):.1f} ms; the store's rate is "
            f"{found.point:.2f} [{low:.2f}, {high:.2f}] of it"
        )


def _verdict(smaller: float, larger: float) -> str:
    return "goal reached" if smaller <= larger else "goal missed"


def _print_mixed(database: Database, url: str, many: int, samples: int) -> None:
    """A reader alone and beside a process that commits a night every 50 ms, in turns."""
    all_questions = questions(database, History(many, samples))
    mixed = [all_questions[name] for name in ("overview: headlines", "trends: one series", "run: outcomes")]
    alone: list[float] = []
    during: list[float] = []
    for turn in range(4):
        times = during if turn % 2 else alone
        writer = _writer(url, many, samples) if turn % 2 else None
        until = time.perf_counter() + READER_SECONDS
        number = 0
        while time.perf_counter() < until:
            times.extend(_timed(lambda: question(number)) for question in mixed)  # noqa: B023
            number += 1
        if writer is not None:
            writer.terminate()
            writer.communicate()
    ratio = _share(during, 0.95) / _share(alone, 0.95)
    print(
        f"reader alone p50 {_share(alone, 0.5):.2f}, p95 {_share(alone, 0.95):.2f} ms; beside a writer "
        f"{_share(during, 0.5):.2f}, {_share(during, 0.95):.2f} ms; p95 {ratio:.2f} times, "
        f"{_verdict(ratio, GOAL_MIXED)}"
    )


def _writer(url: str, many: int, samples: int) -> subprocess.Popen[bytes]:
    """A process that writes nights; returns when the first one is stored."""
    arguments = ["--results", str(many), "--telemetry", str(samples), "--write", url]
    writer = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    return writer


def _write_nights(url: str, history: History) -> None:
    first = history.count + 20 * NIGHTS + int(time.time()) % 100_000
    with open_database(url) as database:
        for number in range(first, first + 100_000):
            started = time.perf_counter()
            night = history.night(number, number % 4)
            store_night(database, history, night)
            if number == first:
                print("writing", flush=True)
            time.sleep(max(0.0, EVERY_SECONDS - (time.perf_counter() - started)))


def questions(database: Database, history: History) -> dict[str, Question]:
    """By name. Answers are what the pages wait for, records and all."""
    keys = [key for key in series_queries.series_keys(database) if key.metric == "latency"]
    runs = MACHINES * history.count
    return {
        "runs: how many": lambda _: queries.count_runs(database),
        "runs: newest": lambda _: queries.latest_run_id(database),
        "runs: first page": lambda _: queries.recent_runs(database, limit=_A_PAGE),
        "runs: any page": lambda n: queries.recent_runs(
            database, limit=_A_PAGE, offset=n * 7919 % max(1, runs - _A_PAGE)
        ),
        "run: summary": lambda n: queries.run_summary(database, _any(history, n).run),
        "run: all about it": lambda n: queries.run_record(database, _any(history, n).run),
        "run: outcomes": lambda n: queries.outcomes_of_run(database, _any(history, n).run),
        "run: measurements": lambda n: queries.measurements_of_run(database, _any(history, n).run),
        "run: samples": lambda n: queries.samples(database, *_outcome(history, n)),
        "overview: headlines": lambda _: series_queries.headlines(database, "latency"),
        "trends: series to choose": lambda _: series_queries.series_keys(database),
        "trends: one series": lambda n: series_queries.series(database, _chosen(keys, n, 1), newest=_NEWEST),
        "trends: eight series": lambda n: series_queries.series(
            database, _chosen(keys, n, 8), newest=_OF_EIGHT
        ),
        "no page: eight series, 730 points": lambda n: series_queries.series(
            database, _chosen(keys, n, 8), newest=_NEWEST
        ),
        "releases: all": lambda _: runs_releases.releases(database),
        "releases: two, all cases": lambda n: runs_releases.release_points(
            database, [_version(history, n), _version(history, n + 1)], "latency"
        ),
        "utilisation: newest windows": lambda _: telemetry.windows(database, limit=_WINDOWS),
        "utilisation: windows of a run": lambda n: telemetry.windows(
            database, run=_newest(history, n).run, limit=20_000
        ),
        "utilisation: a recording": lambda n: telemetry.recording(
            database, *_outcome(history, n, newest=True), "GPU-0"
        ),
        "traces: of a workload": lambda n: traces.operator_tables(
            database, workload=case(n % CASES).rpartition("/")[0]
        ),
        "traces: of a run": lambda n: traces.operator_tables(
            database, run=f"{history.night(0, 0).run}-trace"
        ),
        "metrics from outside": lambda _: metric_definitions.metric_definitions(database),
    }


def _any(history: History, number: int) -> Night:
    return history.night(number * 7919 % history.count, number % MACHINES)


def _newest(history: History, number: int) -> Night:
    return history.night(history.count - 1, number % MACHINES)


def _outcome(history: History, number: int, *, newest: bool = False) -> tuple[str, str, str, int]:
    night = _newest(history, number) if newest else _any(history, number)
    return night.run, case(number % CASES), environment(night.release).fingerprint, number % 3


def _version(history: History, number: int) -> str:
    return environment(number % history.releases).torch_version


def _chosen(keys: list[SeriesKey], number: int, many: int) -> list[SeriesKey]:
    return [keys[(number * 13 + each * 29) % len(keys)] for each in range(many)]


def store_night(database: Database, history: History, night: Night, records: Records | None = None) -> None:
    """What ingesting a journal comes to once it is read."""
    run, outcomes, measurements = records or (
        history.run(night),
        history.outcomes_of(night),
        history.measurements_of(night),
    )
    with one_transaction(database) as one:
        store.save_run(one, run)
        store.save_outcomes(one, run.id, outcomes)
        store.save_measurements(one, run.id, measurements)


def checkpoint(database: Database) -> None:
    """Empty SQLite's log, so that no night pays for the pages of the one before it."""
    if database.engine.dialect.name == "sqlite":
        with database.engine.connect() as connection:
            driver: Any = connection.connection.dbapi_connection
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class BareNight:
    """Nights as rows that are ready for the driver, stored by nothing but its executemany."""

    def __init__(self, database: Database, history: History) -> None:
        self._database = database
        self._values = Values(database, history)
        with database.writing() as connection:
            self._names = Names(connection, history)
        self._number = 1_000_000_000

    def rows(self, night: Night, records: Records) -> Rows:
        """The rows of the records, encoded as the store does it, of a run that the store will not number."""
        # SQLite counts on from the highest number there is.
        self._number += 1000
        _, outcomes, measurements = records
        document, moment = self._values.document, self._values.moment
        at, used = moment(night.started_at), self._names.environments[night.release]
        numbered = Night(self._number, night.run, night.machine, night.release, night.started_at)
        series = self._names.series[night.machine]
        keys = [
            (self._number, self._names.cases[place // REPLICATES], used, each.replicate)
            for place, each in enumerate(outcomes)
        ]
        return {
            tables.RunRow: [run_row(self._names, self._values, numbered, "nightly")],
            tables.RunEnvironmentRow: [(self._number, used, 0)],
            tables.OutcomeRow: [
                (
                    *key,
                    each.status,
                    each.reason,
                    each.phase,
                    moment(each.started_at),
                    each.wall_seconds,
                    document(each.metrics),
                    document(each.facts),
                    each.log_tail,
                )
                for key, each in zip(keys, outcomes, strict=True)
            ],
            tables.SamplesRow: [
                (*key, *sample_codec.encode(each.blocks))
                for key, each in zip(keys, outcomes, strict=True)
                if each.blocks
            ],
            tables.MeasurementRow: [
                (number, at, self._number, used, *_NUMBERS(each))
                for number, each in zip(series, measurements, strict=True)
            ],
        }

    def store(self, rows: Rows) -> None:
        """One transaction."""
        with self._database.writing() as connection:
            driver = _driver(connection)
            mark = "?" if connection.dialect.name == "sqlite" else "%s"
            for table, new in rows.items():
                driver.executemany(_insert(table, mark), new)


def _driver(connection: Connection) -> Any:
    return connection.connection.cursor()


def _insert(table: type[tables.Base], mark: str) -> str:
    columns = [f'"{column.name}"' for column in table.__table__.columns]
    places = ", ".join([mark] * len(columns))
    return f"INSERT INTO {table.__tablename__} ({', '.join(columns)}) VALUES ({places})"


if __name__ == "__main__":
    main()
