"""A pass under torch.profiler: what its table holds, and that nothing of it passes for a measurement."""

import gzip
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.operators import difference, operators
from runner.execution.tracing import of_replicate
from runner.telemetry.telemetry_interface import Telemetry
from runner.worker.messages import Trace, Traced
from support.measuring import CASE_FILES, QUICK, Happened, Scratch, conditions, key, measure
from support.site import ROOT, measured_python

FILE = CASE_FILES / "traced.py"
EAGER = "mlp_overhead/infer/batch=8/eager"
COMPILED = "mlp_overhead/infer/batch=8/compile=default"
CLOSURE = key("closure")
BROKEN = key("breaks_under_the_profiler")
STEPS = 4

#: The worker's own module with smaller limits: one trace is too large, one has no place to go.
BOUNDED = """
import json, sys, torch
from runner.worker.measurements import tracing
ones = torch.ones(8)
step = lambda: ones + ones
tracing._TRACE_BYTES = 64
told = [tracing.trace(step, "cpu", 2, sys.argv[1] + "/large.json.gz")]
told.append(tracing.trace(step, "cpu", 2, "/proc/nowhere/trace.json.gz"))
print(json.dumps([[t.note, t.trace, len(t.operators)] for t in told]))
"""


def sampler(*_: object) -> Telemetry:
    raise AssertionError("the machine is sampled under the profiler")


@pytest.fixture(scope="module")
def happened(module_scratch: Scratch) -> Happened:
    """One run that traces: an eager and a compiled case together, a closure, one that breaks."""
    timing = replace(QUICK, trace_steps=STEPS)
    shared = conditions(module_scratch.folder, FILE, timing=timing, telemetry=sampler)
    measured = measure(shared, [[EAGER, COMPILED], ["closure"], ["breaks_under_the_profiler"]])
    module_scratch.assert_no_process_left(measured.run)
    return measured


def rows(happened: Happened, case: str) -> dict[str, float]:
    """Calls a step by name."""
    (outcome,) = [o for o in happened.outcomes if o.case == case]
    assert outcome.status == "ok", outcome
    return {str(row["name"]): float(row["calls"]) for row in outcome.facts["operators"]}


@pytest.mark.torch
def test_a_table_counts_calls_per_step(happened: Happened) -> None:
    table = rows(happened, EAGER)
    assert table["aten::addmm"] == 3 and table["aten::relu"] == 2
    assert not [name for name in table if name.startswith("ProfilerStep")]


@pytest.mark.torch
def test_a_compiled_case_shows_its_region_and_its_kernels(happened: Happened) -> None:
    table = rows(happened, COMPILED)
    assert [name for name in table if name.startswith("Torch-Compiled Region")]
    assert [name for name in table if "fused_relu" in name]
    assert not [name for name in table if "CompiledFxGraph f" in name], "a hash would differ in every version"


@pytest.mark.torch
def test_a_closure_is_traced_too(happened: Happened) -> None:
    assert rows(happened, CLOSURE)["aten::add"] == 2


@pytest.mark.torch
def test_nothing_of_a_traced_process_is_a_measurement(happened: Happened) -> None:
    for outcome in happened.outcomes:
        assert (dict(outcome.metrics), outcome.blocks) == ({}, ())
        assert "measure" not in outcome.phases
    assert happened.of("closure").facts["traced"]["steps"] == STEPS
    assert happened.of("closure").facts["traced"]["self_cpu_us"] > 0


@pytest.mark.torch
def test_a_trace_is_whole_and_lies_in_the_runs_folder(happened: Happened, module_scratch: Scratch) -> None:
    name = happened.of("closure").facts["trace"]
    assert name == "traces/default/closure__infer__-__eager-0.json.gz"
    file = module_scratch.folder / "run" / name
    with gzip.open(file) as packed:
        events = json.load(packed)["traceEvents"]
    assert sum(event.get("name") == "aten::add" for event in events) == 2 * STEPS
    assert len(list(file.parent.iterdir())) == 3, "nothing but the traces of the three cases that were traced"


@pytest.mark.torch
def test_a_case_that_breaks_under_the_profiler_has_an_outcome(happened: Happened) -> None:
    broken = happened.of("breaks_under_the_profiler")
    assert (broken.status, broken.reason, broken.phase) == ("crashed", "RuntimeError: do not look", "trace")
    assert "operators" not in broken.facts


@pytest.mark.torch
def test_a_real_table_differs_from_itself_by_nothing_and_from_another_by_something(
    happened: Happened,
) -> None:
    eager, compiled = (
        operators(o.facts["operators"])
        for case in (EAGER, COMPILED)
        for o in happened.outcomes
        if o.case == case
    )
    assert {change.delta_us for change in difference(eager, eager)} == {0.0}
    only_eager = [c.name for c in difference(eager, compiled) if c.calls_b is None]
    assert "aten::relu" in only_eager


@pytest.mark.torch
def test_a_trace_that_cannot_be_kept_leaves_the_table_and_a_note(tmp_path: Path) -> None:
    done = subprocess.run(
        [measured_python(), "-c", BOUNDED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    large, nowhere = json.loads(done.stdout.splitlines()[-1])
    assert large == ["the trace was larger than 0 MiB, and only the table is kept", "", 1]
    assert nowhere[0].startswith("the trace could not be written: ") and nowhere[1:] == ["", 1]
    assert list(tmp_path.iterdir()) == []


def test_an_outcome_names_the_trace_within_the_runs_folder(tmp_path: Path) -> None:
    assert of_replicate(tmp_path, "abc", "case-0", 0) is None
    traced = of_replicate(tmp_path, "abc", "case-0", 5)
    assert traced is not None
    assert traced.request == Trace(5, f"{tmp_path}/traces/abc/case-0.json.gz")
    kept = traced.facts(Traced(({"name": "x"},), {"steps": 5.0}, traced.request.path))
    assert kept == {
        "operators": [{"name": "x"}],
        "traced": {"steps": 5.0},
        "trace": "traces/abc/case-0.json.gz",
    }
    assert traced.facts(Traced((), {}, "", "too large"))["trace_note"] == "too large"
