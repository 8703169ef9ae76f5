"""A small good file of every format that can be imported, made by hand as its tool writes it."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

from interchange import formats
from interchange.errors import BadFile, SourcePlace
from interchange.exporters.pyrometer import lines_of
from interchange.importers import pyrometer, submission
from interchange.runs import Catalogue, ExportedRun, ImportBatch
from interchange.source_file import json_of, text_of
from records.outcomes import OutcomeStatus
from support.builders.run_records import a_run, an_outcome, measurements_for

#: The files of each format by their paths, and the path that is read.
Sample = tuple[Mapping[str, bytes], str]


def written(folder: Path, sample: Sample) -> Path:
    """The sample as files below `folder`; the path to read."""
    files, path = sample
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return folder / path


def one_file(name: str, content: bytes) -> Sample:
    """A format that has one file."""
    return {name: content}, name


def of_json(name: str, document: object) -> Sample:
    """A format that is one JSON document."""
    return one_file(name, json.dumps(document).encode())


def our_own() -> bytes:
    """An export of one run with two outcomes."""
    run = a_run("20260901-020000-1f3a", planned=2)
    outcomes = [an_outcome(replicate=replicate, latency=2.0 + replicate) for replicate in range(2)]
    blocks = {outcome.replicate: outcome.blocks for outcome in outcomes}
    exported = ExportedRun(
        run, outcomes, measurements_for(outcomes), lambda each: blocks[each.replicate], lambda _: ()
    )
    catalogue = Catalogue({}, lambda column: "")
    return b"".join(lines_of([exported], catalogue, program="1", written_at=datetime(2026, 9, 2, tzinfo=UTC)))


def csv(*rows: Iterable[object]) -> bytes:
    """A CSV file."""
    return "".join(",".join(map(str, row)) + "\n" for row in rows).encode()


TORCHBENCH = {
    "name": "group_bench",
    "environ": {"pytorch_version": "2.3.0a0+git2ed1b17", "device": "NVIDIA A100"},
    "metrics": {
        "model=BERT_pytorch, test=eval, device=cuda, bs=16, metric=latencies": 21.5,
        "model=resnet50, test=train, device=cuda, bs=None, metric=latencies": "err",
    },
}
V3 = [
    {
        "timestamp": 1733000000,
        "name": "nightly",
        "repo": "pytorch/pytorch",
        "head_sha": "0" * 40,
        "job_id": 7,
        "runners": [{"name": "cuda", "type": "NVIDIA H100", "gpu_count": 1}],
        "benchmark": {"name": "TorchInductor", "mode": "inference", "dtype": "bfloat16"},
        "model": {"name": "resnet50", "backend": "inductor"},
        "metric": {"name": "speedup", "benchmark_values": [1.5]},
    }
]
PYTEST = {
    "machine_info": {"node": "bench-1", "cpu": {"brand_raw": "Xeon 6430"}, "python_version": "3.12.3"},
    "commit_info": {"id": "0" * 40, "branch": "main"},
    "datetime": "2026-09-01T02:00:00.000000+00:00",
    "version": "5.1.0",
    "benchmarks": [
        {
            "name": "test_step[8]",
            "fullname": "test_steps.py::test_step[8]",
            "params": {"batch": 8},
            "extra_info": {"torch": "2.13.0"},
            "stats": {"min": 0.001, "max": 0.003, "mean": 0.002, "median": 0.0021, "rounds": 5},
        }
    ],
}
ACTION = {
    "lastUpdate": 1725000000000,
    "repoUrl": "https://github.com/example/project",
    "entries": {
        "CPU benchmarks": [
            {
                "commit": {
                    "id": "0" * 40,
                    "message": "first",
                    "timestamp": "2026-09-01T02:00:00Z",
                    "url": "",
                },
                "date": 1725000000000,
                "tool": "pytest",
                "benches": [
                    {"name": "test_step", "value": 512.5, "unit": "iter/sec", "range": "stddev: 0.01"}
                ],
            }
        ]
    },
}
ASV = {
    "results/benchmarks.json": {
        "version": 2,
        "steps.time_step": {
            "name": "steps.time_step",
            "type": "time",
            "unit": "seconds",
            "param_names": ["batch"],
            "params": [["1", "8"]],
            "version": "1",
        },
    },
    "results/bench-1/machine.json": {"machine": "bench-1", "cpu": "Xeon 6430", "ram": "64", "version": 1},
    "results/bench-1/00000000-virtualenv-py3.12-torch2.13.json": {
        "commit_hash": "0" * 40,
        "env_name": "virtualenv-py3.12-torch2.13",
        "date": 1725000000000,
        "params": {"machine": "bench-1", "cpu": "Xeon 6430", "python": "3.12"},
        "python": "3.12",
        "requirements": {"torch": "2.13"},
        "result_columns": ["result", "params", "version"],
        "results": {"steps.time_step": [[0.0021, 0.0072], [["1", "8"]], "1"]},
        "version": 2,
    },
}
OPTIMUM_CONFIG = {
    "name": "bert",
    "backend": {"name": "pytorch", "version": "2.5.0", "model": "bert-base-uncased", "device": "cpu"},
    "scenario": {"name": "inference", "input_shapes": {"batch_size": 1, "sequence_length": 16}},
    "environment": {"cpu": " Xeon 6430", "python_version": "3.12.3", "machine": "x86_64"},
}
OPTIMUM_REPORT = {
    "forward": {
        "memory": {"unit": "MB", "max_ram": 812.5},
        "latency": {"unit": "s", "values": [0.011, 0.012], "mean": 0.0115, "p50": 0.0115, "count": 2},
        "throughput": {"unit": "samples/s", "value": 87.0},
        "energy": None,
    }
}

SAMPLES: Mapping[str, Sample] = {
    "pyrometer": one_file("night.jsonl", our_own()),
    "oss-v3": of_json("records.json", V3),
    "torchbench": of_json("metrics-20240307222831.json", TORCHBENCH),
    "pytest-benchmark": of_json("steps.json", PYTEST),
    "action-benchmark": one_file("data.js", b"window.BENCHMARK_DATA = " + json.dumps(ACTION).encode()),
    "asv": ({name: json.dumps(each).encode() for name, each in ASV.items()}, "results"),
    "optimum": of_json("benchmark.json", {"config": OPTIMUM_CONFIG, "report": OPTIMUM_REPORT}),
    "dynamo-csv": one_file(
        "inductor_torchbench_performance_cuda_performance.csv",
        csv(
            ("dev", "name", "batch_size", "speedup", "abs_latency", "compilation_latency"),
            ("cuda", "resnet50", 32, 1.1437, 23.2979, 27.0392),
        ),
    ),
    "timm-csv": one_file(
        "benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv",
        csv(
            ("model", "infer_img_size", "infer_samples_per_sec", "infer_step_time", "infer_batch_size"),
            ("resnet50", 224, 2543.21, 402.6, 1024),
        ),
    ),
}

SUBMITTED = {
    "suite": "training",
    "case": "my_model/train/batch=8",
    "started_at": "2026-11-21T20:15:00+00:00",
    "torch": "2.13.0",
    "metrics": {
        "tokens_per_second": {"values": [51300, 51500], "unit": "tokens/s", "better": "higher"},
        "latency": {"value": 12.5},
    },
}


def good(name: str) -> bytes:
    """The file of a sample that a fuzzer changes: the one with the results."""
    if name == "submitted":
        return json.dumps([SUBMITTED]).encode()
    files, _ = SAMPLES[name]
    return max(files.values(), key=len)


def fuzzed(folder: Path, name: str) -> Path:
    """Where that file lies below `folder`."""
    if name == "submitted":
        return folder / "results.json"
    files, _ = SAMPLES[name]
    return folder / max(files, key=lambda file: len(files[file]))


def tried(name: str, path: Path) -> ImportBatch | None:
    """Read what a fuzzer wrote; None where it was refused with BadFile. Anything else is a defect.

    What is read must be storable: finite numbers, keys of four parts, facts that are JSON.
    """
    importer = next((each for each in formats.FORMATS if name == each.NAME), None)
    try:
        if importer is None:
            at = json_of(text_of(path / "results.json"), SourcePlace("results.json"))
            parts = submission.submissions(at, datetime(2026, 9, 1, tzinfo=UTC))
            imported = submission.group_submissions(parts, lambda gpus: a_run().machine)
        else:
            importer.knows(path)
            imported = importer.read_runs(path)
    except BadFile as error:
        assert "\n" not in error.place.file
        return None
    for one in imported.runs:
        environments = {each.fingerprint for each in one.run.environments}
        assert one.run.started_at.tzinfo is not None
        json.dumps([one.run.facts, [each.facts for each in one.run.environments]], default=repr)
        for outcome in one.outcomes:
            assert outcome.status in tuple(OutcomeStatus) and outcome.environment in environments
            assert all(map(isfinite, outcome.metrics.values()))
            json.dumps(outcome.facts)
        for measurement in one.measurements:
            assert isfinite(measurement.point) and measurement.environment in environments
            # Our own export holds whatever keys a database holds.
            assert importer is pyrometer or len(measurement.case.split("/")) == 4
    return imported
