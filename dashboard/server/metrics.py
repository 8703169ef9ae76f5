"""Metrics for Prometheus: last successes, waiting tasks, failures, and live schedulers."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from importlib.metadata import version

from db.connection.engine import Database
from db.findings.store import open_regressions
from db.queue.prometheus_counts import tallies
from db.queue.queries import schedulers
from records.tasks import TaskState

#: The text format of Prometheus, version 0.0.4.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Exported as 0 where there is none: a rule on a time series that is missing never fires.

Labels = Mapping[str, str]


def exposition(database: Database, now: datetime) -> str:
    """All metrics as of `now` in the text format of Prometheus; times are seconds since 1970.

    Raises DatabaseError.
    """
    counted = tallies(database)
    seen: dict[str, float] = {}
    for one in schedulers(database):
        seen[one.machine] = max(seen.get(one.machine, 0.0), one.seen_at.timestamp())
    return "".join(
        [
            _family("build_info", "gauge", "Always 1; the version of Pyrometer.", _build()),
            _family(
                "last_success_timestamp_seconds",
                "gauge",
                "When a part of a schedule was last done, by the clock of the machine that did it.",
                [
                    ({"schedule": schedule, "part": part}, at.timestamp())
                    for (schedule, part), at in counted.succeeded.items()
                ],
            ),
            _family(
                "tasks",
                "gauge",
                "Tasks by state, as far back as they are kept.",
                [({"state": state}, counted.tasks.get(state, 0)) for state in TaskState],
            ),
            _family(
                "task_failures_total",
                "counter",
                "Tasks of a schedule that failed or were lost, as far back as they are kept.",
                [({"schedule": schedule}, count) for schedule, count in counted.failures.items()],
            ),
            _family(
                "scheduler_seen_timestamp_seconds",
                "gauge",
                "When a scheduler of a machine was last there.",
                [({"machine": machine}, at) for machine, at in seen.items()],
            ),
            _family(
                "findings",
                "gauge",
                "Changes that detection saw in a series, by state and direction.",
                [
                    ({"state": state, "direction": direction}, count)
                    for (state, direction), count in counted.findings.items()
                ],
            ),
            _family(
                "open_regressions",
                "gauge",
                "Confirmed regressions that are neither triaged nor muted.",
                [({}, open_regressions(database, now))],
            ),
        ]
    )


def _build() -> list[tuple[Labels, float]]:
    return [({"version": version("pyrometer")}, 1)]


def _family(name: str, kind: str, about: str, samples: Iterable[tuple[Labels, float]]) -> str:
    name = f"pyrometer_{name}"
    lines = [f"# HELP {name} {_line(about)}", f"# TYPE {name} {kind}"]
    lines += sorted(f"{name}{{{_labels(labels)}}} {_value(value)}" for labels, value in samples)
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _line(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escaped(text: str) -> str:
    return _line(text).replace('"', r"\"")


def _value(value: float) -> str:
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))
