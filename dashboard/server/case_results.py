"""The results of cases in the last nights for Prometheus: the changes and verdicts of the page Today."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from dashboard.today.headlines import METRICS, CaseNight, headlines_since_changes, recent_runs
from dashboard.today.track_status import TrackStatus
from db.connection.engine import Database
from db.findings.store import findings_of_series
from db.runs.series_queries import lines, points_of_runs
from records.tasks import Task
from workflows.fleet_status import recent_nights

#: The most parts with results: each takes a few queries.
RESULT_PARTS = 100


@dataclass(frozen=True, slots=True)
class ExportedCase:
    """A case in the last completed night of a part."""

    schedule: str
    part: str
    night: CaseNight


def case_results(
    database: Database, now: datetime, runs: Mapping[tuple[str, str], str], most: int
) -> tuple[list[ExportedCase], int]:
    """The cases of parts in the order of their names, complete parts up to `most` cases, and the number of
    parts left out.

    `runs` has the last run by schedule and part. Raises DatabaseError.
    """
    parts: dict[tuple[str, str], list[Task]] = defaultdict(list)
    for task in recent_nights(database, now):
        if (task.schedule, task.part) in runs:
            parts[task.schedule, task.part].append(task)
    results: list[ExportedCase] = []
    export_count = 0
    for (schedule, part), tasks in sorted(parts.items())[:RESULT_PARTS]:
        if len(results) == most:
            break
        nights = _nights(database, tasks, runs[schedule, part])
        if len(results) + len(nights) <= most:
            export_count += 1
            results += [ExportedCase(schedule, part, each) for each in nights]
    return results, len(parts) - export_count


def _nights(database: Database, tasks: list[Task], newest: str) -> tuple[CaseNight, ...]:
    """The cases of the run `newest` of a part; `tasks` are its nights, newest first."""
    one = TrackStatus(tuple(tasks), tuple((task.due_at, task.state) for task in tasks))
    series_points = points_of_runs(database, recent_runs(one, newest), METRICS)
    findings = findings_of_series(database, tuple(series_points))
    return headlines_since_changes(one, newest, series_points, findings, partial(lines, database))
