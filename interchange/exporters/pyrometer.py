"""Complete runs, as the lines of a journal (`common.journal_lines`).

For each run there is a `header` with the run as it is stored, `metric` for each metric that the file has not
defined yet, `outcome` or, of the canary, `canary`, with samples and recordings, and `measurement`. The last
line is `end`: how many lines of each kind there are, the sum of their checksums modulo 2^64, and who wrote
the file when.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from common.journal_lines import encode_line
from records.json_values import finite
from records.kinds import EnvironmentKind
from records.runs import Run

from ..runs import Catalogue, ExportedRun

#: Checksums are summed modulo this.
SUMS = 2**64


def lines_of(
    runs: Iterable[ExportedRun], catalogue: Catalogue, *, program: str, written_at: datetime
) -> Iterator[bytes]:
    """The lines of a file; one outcome is in memory at a time. `program` is the version of Pyrometer.

    A fact that is not finite is written as null: JSON has no such numbers.
    """
    counts: dict[str, int] = dict.fromkeys(("header", "metric", "outcome", "canary", "measurement"), 0)
    total = 0
    defined: set[str] = set()
    for exported in runs:
        for kind, body in _bodies(exported, catalogue, defined):
            line, crc = _encode_body(kind, body)
            counts[kind] += 1
            total += crc
            yield line
    written = {"program": program, "written_at": _in_utc(written_at)}
    yield _encode_body("end", {"lines": counts, "sum": total % SUMS, **written})[0]


def _bodies(
    exported: ExportedRun, catalogue: Catalogue, defined: set[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    run = exported.run
    yield "header", {"record": _run_body(run)}
    used = {each.metric for each in exported.measurements}
    used.update(*(outcome.metrics for outcome in exported.outcomes))
    for name in sorted(used - defined):
        defined.add(name)
        # Also those of Pyrometer's catalogue: the reader may be another version, with another catalogue.
        if metric := catalogue.metric(name):
            about = {"title": metric.title, "unit": metric.unit, "better": metric.better}
            yield "metric", {"name": metric.name, **about}
    canaries = {each.fingerprint for each in run.environments if each.kind == EnvironmentKind.CANARY}
    for outcome in exported.outcomes:
        whole = replace(outcome, blocks=exported.samples(outcome), telemetry=exported.recordings(outcome))
        kind = "canary" if outcome.environment in canaries else "outcome"
        # Times of another zone are the same instants in UTC.
        yield kind, {"run": run.id, **whole.to_body(), "started_at": _in_utc(outcome.started_at)}
    for measurement in exported.measurements:
        yield "measurement", {"run": run.id, **asdict(measurement)}


def _run_body(run: Run) -> dict[str, Any]:
    ended = {"ended_at": _in_utc(run.ended_at) if run.ended_at else None}
    return {**asdict(run), "started_at": _in_utc(run.started_at), **ended}


def _encode_body(kind: str, body: Mapping[str, Any]) -> tuple[bytes, int]:
    try:
        return encode_line(kind, body, allow_nan=False)
    except ValueError:
        return encode_line(kind, finite(body), allow_nan=False)


def _in_utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
