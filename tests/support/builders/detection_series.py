"""A series with a change in it as detection sees one, and the finding that is made of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.detection.nights import Change, JudgedSeries
from records.findings import Finding
from records.series import HistoryPoint, HistoryRun, SeriesKey, Track
from scheduled_jobs.detection.findings import MachineSeries, series_findings
from support.builders.run_records import MLP, a_night

KEY = SeriesKey(MLP, "latency_floor", "hardware", "Xeon", "profile", "quiet")
TRACK = Track("nightly", "nightly", "")
CHANGE = Change(6, 0.1, "worse", "step", 9.0, raised=8, since=0)


def a_series(nights: int = 12, environment: Callable[[int], str] = "environment-{}".format) -> MachineSeries:
    """A night's PyTorch each night, unless another `environment` is named for a night."""
    points = tuple(
        HistoryPoint(HistoryRun(f"run-{n}", a_night(n), environment(n), "m"), 10.0) for n in range(nights)
    )
    return MachineSeries(KEY, "m", points)


def noise(seed: int, nights: int, spread: float = 0.02) -> NDArray[np.float64]:
    """The logarithms of nights that only scatter, normally."""
    return np.random.default_rng(seed).normal(0.0, spread, nights)


def judged(*candidates: Change, returned: tuple[Change, ...] = ()) -> JudgedSeries:
    return JudgedSeries(candidates, returned, 0.01, 0.05)


def known(**changes: Any) -> Finding:
    """The finding of `CHANGE` as it is stored."""
    (new,) = series_findings(TRACK, a_series(), judged(CHANGE), ()).findings
    values = {name: getattr(new, name) for name in new.__slots__}
    finding = Finding(
        id=7,
        at=a_night(6),
        before=a_night(5),
        machine="m",
        old_torch_version="2.4",
        new_torch_version="2.7",
        found_at=a_night(8),
        decided_at=None,
        **values,
    )
    return replace(finding, **changes)
