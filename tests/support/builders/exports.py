"""Files of our own format for tests: a run, and what it becomes."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from interchange.exporters.pyrometer import lines_of
from interchange.importers import pyrometer
from interchange.runs import Catalogue, ExportedRun, ImportBatch, ImportedRun
from records.outcomes import MetricDefinition, OutcomeStatus
from records.runs import Run
from support.builders.run_records import BERT, MLP, a_recording, a_run, an_outcome, measurements_for

WRITTEN = datetime(2026, 11, 21, 20, 15, tzinfo=UTC)
SPEEDUP = MetricDefinition("dynamo.speedup", "Speed-up", "x", "higher")


def exported(one: ImportedRun) -> ExportedRun:
    """A run as the database would hand it out: bare outcomes, and the rest on demand."""
    bare = [replace(each, blocks=(), telemetry=()) for each in one.outcomes]
    whole = {id(each): full for each, full in zip(bare, one.outcomes, strict=True)}
    return ExportedRun(
        one.run,
        bare,
        one.measurements,
        lambda outcome: whole[id(outcome)].blocks,
        lambda outcome: whole[id(outcome)].telemetry,
    )


def everything_in(them: Sequence[ImportedRun]) -> dict[str, MetricDefinition]:
    """A definition of every metric that these runs have."""
    used = {each.metric for one in them for each in one.measurements}
    used.update(*(outcome.metrics for one in them for outcome in one.outcomes))
    return {name: MetricDefinition(name, name, "x", "higher") for name in used}


def file_of(
    *them: ImportedRun, definitions: Mapping[str, MetricDefinition] | None = None, program: str = "0.1.0"
) -> bytes:
    """The file that these runs become."""
    catalogue = Catalogue(definitions or everything_in(them), lambda _: "%")
    return b"".join(lines_of(map(exported, them), catalogue, program=program, written_at=WRITTEN))


def read(content: bytes, name: str = "runs.jsonl") -> ImportBatch:
    """What is read of a file with that content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return pyrometer.read_runs(path)


def a_whole_run(run: Run | None = None) -> ImportedRun:
    """A run with a bad outcome, samples, recordings and an imported metric."""
    good = an_outcome(MLP, metrics={"latency": 0.1 + 0.2, SPEEDUP.name: 1.5}, telemetry=[a_recording()])
    done = [
        good,
        an_outcome(MLP, replicate=1, latency=2.5),
        an_outcome(BERT, status=OutcomeStatus.OOM, log_tail="…killed\n"),
    ]
    return ImportedRun(run or a_run(), tuple(done), tuple(measurements_for(done)))


def sentences(found: ImportBatch) -> list[str]:
    """What was set aside, with its line."""
    return [str(problem) for problem in found.set_aside]
