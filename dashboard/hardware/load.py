"""What the Hardware page asks: where Pyrometer measured, and what each case came to there.

`url` is the database's. All functions raise `db.errors.DatabaseError`.
"""

from collections.abc import Sequence

import streamlit as st

from dashboard import load, origins
from dashboard.database import opened
from dashboard.hardware import measured
from dashboard.hardware.normalised import Column
from dashboard.hardware.view import NEWEST, Side, Spread
from db import places as asked
from db import rollups
from db.place_records import Place
from db.records import ReleasePoint, SeriesKey, SeriesPoint

#: The metric that every case of ours has, and that tells where something was measured.
_TOLD_BY = "latency_floor"
#: Versions that are on offer at most, the newest ones; an address may name an older one.
_NEWEST_VERSIONS = 60

_kept = st.cache_data(ttl=load.FRESH_SECONDS, show_spinner=False)
#: For answers of a thousand records, which nobody changes and which take longer to copy than to use.
_shared = st.cache_resource(ttl=load.FRESH_SECONDS, max_entries=32, show_spinner=False)


@_kept
def places(url: str) -> list[Place]:
    """Where Pyrometer itself measured, the newest first."""
    return [place for place in asked.places(opened(url), _TOLD_BY) if origins.measured(place.run)]


@_kept
def spread(url: str, wanted: str | None) -> Spread:
    """Where the newest versions were measured, and the `wanted` one: see `places.version_places`."""
    releases = rollups.releases(opened(url))
    base = None if wanted is None else wanted.partition("+")[0]
    named = [version for version in releases if version == wanted or version.partition("+")[0] == base]
    return asked.version_places(opened(url), _TOLD_BY, [*releases[:_NEWEST_VERSIONS], *named])


def columns(url: str, metric: str, version: str, sides: Sequence[Side]) -> list[Column]:
    """What every case came to on each side, of one version or of the newest run."""
    if version == NEWEST:
        return measured.of_newest(load.headlines(url, metric), sides)
    return measured.of_version(
        _releases(url, metric, version),
        _points(url, metric, version),
        _harnesses(url, metric, version),
        sides,
    )


@_shared
def _releases(url: str, metric: str, version: str) -> list[ReleasePoint]:
    return rollups.release_points(opened(url), [version], metric)


@_shared
def _points(url: str, metric: str, version: str) -> list[tuple[SeriesKey, SeriesPoint]]:
    return asked.points_of_version(opened(url), metric, version)


@_kept
def _harnesses(url: str, metric: str, version: str) -> dict[tuple[str, str], tuple[str, ...]]:
    return asked.version_harnesses(opened(url), version, metric)
