"""What the Techniques page asks: where techniques were measured, and what the newest runs there say.

`url` is the database's. All functions raise `db.errors.DatabaseError`.
"""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from dashboard import frames, load, origins
from dashboard.database import opened
from dashboard.techniques.measured import Reading, environment_of, read
from dashboard.techniques.view import Where
from db import places as asked
from db import queries
from db.place_records import Place
from db.records import Run, SeriesPoint

#: The metric that every case of ours has, and that tells where techniques were measured.
TOLD_BY = "latency_floor"
#: Of each case so many points are looked at: the newest runs may have measured it without its baseline, as
#: an upgrade does.
_POINTS_OF_A_CASE = 8
#: Runs that are read for one page at most; each has hundreds of outcomes.
MOST_RUNS = 8
#: Where nothing tells a ratio, the newest versions of so many places are looked at, and of each so many runs.
_PLACES, _VERSIONS, _RUNS = 4, 2, 2

_kept = st.cache_data(ttl=load.FRESH_SECONDS, show_spinner=False)
#: What a run says changes while it goes on; its row in the list of runs, a part of the key, changes with it.
_readings_kept = st.cache_resource(ttl=3600, max_entries=64, show_spinner=False)


@_kept
def places(url: str) -> list[Place]:
    """Where Pyrometer itself measured techniques, the newest first."""
    found = asked.places(opened(url), TOLD_BY, techniques=True)
    return [place for place in found if origins.measured(place.run)]


@_kept
def versions(url: str, hardware: str, profile: str) -> list[str]:
    """The PyTorch versions of which techniques were measured there, newest version first."""
    found = asked.measured_versions(opened(url), TOLD_BY, hardware, profile, techniques=True)
    return sorted(found, key=frames.version_order, reverse=True)


@_kept
def points(url: str, hardware: str, profile: str, version: str) -> list[SeriesPoint]:
    """The newest points of cases under a technique, newest run first."""
    found = asked.points_of_version(
        opened(url),
        TOLD_BY,
        version,
        hardware=hardware,
        profile=profile,
        techniques=True,
        newest=_POINTS_OF_A_CASE,
    )
    # Of two that began in one moment the one that was stored last is the newer, as for every other list.
    return sorted((point for _, point in reversed(found)), key=lambda point: point.started_at, reverse=True)


def pinned(url: str, run_ids: Sequence[str], version: str) -> list[Reading]:
    """What these runs say of a version, newest run first; those that have none of it are left out."""
    found = [reading for run_id in run_ids if (reading := _reading(url, run_id, version)) is not None]
    return sorted(found, key=lambda reading: reading.started_at, reverse=True)


def newest(url: str, newest_first: Sequence[SeriesPoint], version: str) -> list[Reading]:
    """What the newest runs say, as far back as it takes to settle every case, newest run first."""
    cases: dict[str, set[str]] = {}
    for point in newest_first:
        cases.setdefault(point.run, set()).add(point.case)
    untold = {point.case for point in newest_first}
    found: list[Reading] = []
    for run_id, measured in cases.items():
        if len(found) == MOST_RUNS or not untold:
            break
        if not untold & measured:
            continue
        if (reading := _reading(url, run_id, version)) is not None:
            found.append(reading)
            untold -= {one.case for one in reading.brought if one.settles}
    return found


@_kept
def with_ratios(url: str, here: Where, *, elsewhere: bool) -> Where | None:
    """Where runs tell ratios, `here` too unless it is to be `elsewhere`; None if a few looks find none.

    The same hardware and profile come first, then the same hardware; of what is as near, the newest first.
    """
    nearest = sorted(places(url), key=lambda at: (at.hardware != here.hardware, at.profile != here.profile))
    for place in nearest[:_PLACES]:
        found = [Where(place.hardware, place.profile, each) for each in versions(url, *_of(place))]
        for where in [each for each in found if not (elsewhere and each == here)][:_VERSIONS]:
            runs = list(dict.fromkeys(point.run for point in points(url, *where)))[:_RUNS]
            if any(reading.tells for reading in pinned(url, runs, where.version)):
                return where
    return None


def _of(place: Place) -> tuple[str, str]:
    return place.hardware, place.profile


def _reading(url: str, run_id: str, version: str) -> Reading | None:
    found = load.run(url, run_id)
    if found is None or environment_of(found[0], version) is None:
        return None
    run, summary = found
    unreached = max(0, summary.planned - sum(summary.counts.values())) if summary.state != "complete" else 0
    return _read(url, run_id, version, summary.state, unreached, sum(summary.counts.values()), run)


@_readings_kept
def _read(url: str, run_id: str, version: str, state: str, unreached: int, ended: int, _run: Run) -> Reading:
    """As `measured.read`; `ended` is there for the key alone."""
    database = opened(url)
    outcomes = queries.outcomes_of_run(database, run_id)
    reading = read(_run, version, outcomes, queries.measurements_of_run(database, run_id))
    return replace(reading, state=state, unreached=unreached)
