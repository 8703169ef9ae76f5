"""Metrics for Prometheus: successes, tasks, failures, schedulers, findings, and the cases of the last
nights.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from importlib.metadata import version

from db.connection.engine import Database
from db.findings.store import open_regressions
from db.queue.prometheus_counts import tallies
from db.queue.queries import schedulers
from db.runs.history import measured_for
from db.runs.queries import endings, measurements_of_run, run_summaries
from records.tasks import TaskState

#: The text format of Prometheus, version 0.0.4.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: The most cases and parts that are exported: Prometheus stores a series for each.
_CASES, _PARTS = 1000, 100

Labels = Mapping[str, str]
Samples = Iterable[tuple[Labels, float]]


def exposition(database: Database, now: datetime, results: int = 0) -> str:
    """All metrics as of `now` in the text format of Prometheus; times are seconds since 1970.

    At most `results` cases have value, change and verdict. Raises DatabaseError.
    """
    tally = tallies(database)
    last_seen: dict[str, float] = {}
    for one in schedulers(database):
        last_seen[one.machine] = max(last_seen.get(one.machine, 0.0), one.seen_at.timestamp())
    return "".join(
        [
            _family("build_info", "gauge", "Always 1; the version of Pyrometer.", _build()),
            _family(
                "last_success_timestamp_seconds",
                "gauge",
                "Time at which a part of a schedule was last done, by the clock of its machine.",
                [
                    ({"schedule": schedule, "part": part}, at.timestamp())
                    for (schedule, part), at in tally.succeeded.items()
                ],
            ),
            _family(
                "tasks",
                "gauge",
                "Stored tasks by state.",
                # 0 without a failure: a rule on a missing time series never fires.
                [({"state": state}, tally.tasks.get(state, 0)) for state in TaskState],
            ),
            _family(
                "task_failures_total",
                "counter",
                "Stored tasks of a schedule that failed or were lost.",
                [({"schedule": schedule}, count) for schedule, count in tally.failures.items()],
            ),
            _family(
                "scheduler_seen_timestamp_seconds",
                "gauge",
                "Time of the last heartbeat of a machine's scheduler.",
                [({"machine": machine}, at) for machine, at in last_seen.items()],
            ),
            _family(
                "findings",
                "gauge",
                "Changes that detection saw in a series, by state and direction.",
                [
                    ({"state": state, "direction": direction}, count)
                    for (state, direction), count in tally.findings.items()
                ],
            ),
            _family(
                "open_regressions",
                "gauge",
                "Confirmed regressions that are neither triaged nor muted.",
                [({}, open_regressions(database, now))],
            ),
            *_cases(database, tally.runs),
            *(_results(database, now, tally.runs, results) if results else ()),
        ]
    )


def _cases(database: Database, runs: Mapping[tuple[str, str], str]) -> list[str]:
    """The cases of the last completed night of each part; `runs`: its run by schedule and part."""
    first = dict(sorted(runs.items())[:_PARTS])
    summaries = run_summaries(database, first.values())
    # Of a run with several environments the last one is used: it is the candidate. A case that broke in it
    # has no latency, even if it has one in the other.
    candidates = {each.run: each.environment for each in measured_for(database, first.values()) if each.last}
    ending_list = endings(database, list(first.values()), only=candidates)
    latency: list[tuple[Labels, float]] = []
    replicates: list[tuple[Labels, float]] = []
    began: list[tuple[Labels, float]] = []
    export_count, parts = 0, 0
    for (schedule, part), run in first.items():
        # A run can be stored or deleted between two queries.
        cases = dict.fromkeys(one.case for one in ending_list[run] if run in summaries)
        if export_count + len(cases) > _CASES:
            continue
        export_count, parts = export_count + len(cases), parts + 1
        of = {case: {"schedule": schedule, "part": part, "case": case} for case in cases}
        points = {
            one.case: one.point
            for one in measurements_of_run(database, run)
            if one.metric == "latency" and one.environment == candidates.get(run)
        }
        latency += [(labels, points[case] / 1e3) for case, labels in of.items() if case in points]
        replicates += [
            ({**of[one.case], "status": one.status}, one.count) for one in ending_list[run] if one.case in of
        ]
        began += [(labels, summaries[run].started_at.timestamp()) for labels in of.values()]
    return [
        _family(
            "case_latency_seconds",
            "gauge",
            "Median latency of a case in the last completed night, by part of a schedule.",
            latency,
        ),
        _family(
            "case_replicates",
            "gauge",
            "Processes of a case by status in that night; for an upgrade those in the new environment.",
            replicates,
        ),
        _family("case_night_timestamp_seconds", "gauge", "When that night began.", began),
        _family(
            "case_parts_left_out",
            "gauge",
            f"Parts whose cases are not exported: the limit is {_CASES} cases of {_PARTS} parts.",
            [({}, len(runs) - parts)],
        ),
    ]


def _results(database: Database, now: datetime, runs: Mapping[tuple[str, str], str], most: int) -> list[str]:
    """The latency of at most `most` cases in the last night, its ratio to the nights before, and the
    verdict.
    """
    # Imported here: the modules take long to import, and few servers use these metrics.
    from dashboard.server.case_results import RESULT_PARTS, case_results

    result, left_out = case_results(database, now, runs, most)
    values: list[tuple[Labels, float]] = []
    changes: list[tuple[Labels, float]] = []
    verdicts: list[tuple[Labels, float]] = []
    for one in result:
        night = one.night
        labels = {
            "schedule": one.schedule,
            "part": one.part,
            "case": night.key.case,
            "metric": night.key.metric,
        }
        # Both metrics of a headline are in milliseconds.
        values.append((labels, night.latest.point / 1e3))
        verdicts.append(({**labels, "verdict": night.verdict}, 1))
        if night.against is not None:
            changes.append((labels, math.exp(night.against.change)))
    return [
        _family("case_result_seconds", "gauge", "Latency of a case in the last night of a part.", values),
        _family(
            "case_change_ratio",
            "gauge",
            "Ratio of that latency to the level of the nights before: 1.1 is 10 % more.",
            changes,
        ),
        _family(
            "case_verdict",
            "gauge",
            "Always 1; worse and better are confirmed, other verdicts are noise or not decided.",
            verdicts,
        ),
        _family(
            "case_result_parts_left_out",
            "gauge",
            f"Parts without results here: the limit is {most} cases of {RESULT_PARTS} parts.",
            [({}, left_out)],
        ),
    ]


def _build() -> list[tuple[Labels, float]]:
    return [({"version": version("pyrometer")}, 1)]


def _family(name: str, kind: str, about: str, samples: Samples) -> str:
    name = f"pyrometer_{name}"
    lines = [f"# HELP {name} {_line(about)}", f"# TYPE {name} {kind}"]
    lines += sorted(f"{name}{{{_labels(labels)}}} {_value(value)}" for labels, value in samples)
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels.items())


def _line(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escape_label(text: str) -> str:
    return _line(text).replace('"', r"\"")


def _value(value: float) -> str:
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))
