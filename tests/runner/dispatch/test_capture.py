"""Fingerprints of real cases: what is in them, that they repeat, and how a worker may end."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from records.dispatch import CaseFingerprint, DispatchFingerprint, DispatchPart
from runner.dispatch.capture import FingerprintSettings, take_fingerprint
from runner.execution import harness
from runner.execution.compile_cache import caches_of
from runner.execution.fork_server import ForkServers
from support.measuring import AS_IT_COMES, CASE_FILES, ENVIRONMENT, QUICK, Scratch, conditions, measure
from support.site import measured_python

pytestmark = pytest.mark.torch

CASES = CASE_FILES / "dispatches.py"
COMPILED = "activated/infer/width=32/compile=default"


@pytest.fixture(scope="module")
def forking(module_scratch: Scratch) -> Iterator[FingerprintSettings]:
    """Fingerprints by workers that are forked where they may be, as commands take them."""
    folder = module_scratch.folder
    built = harness.build(folder / "harness", [CASES])
    about = (str(measured_python()), built, AS_IT_COMES, "cpu", 600.0)
    with closing(ForkServers(folder / "logs", "fingerprint-test:fork", profiler=True)) as forks:
        yield FingerprintSettings(*about, folder / "work", "fingerprint-test", forks)


def take(case: str, settings: FingerprintSettings) -> CaseFingerprint:
    """The fingerprint of one case in the measured environment; no file of its worker is left."""
    taken = take_fingerprint(case, settings)
    left = [path for path in settings.folder.iterdir() if path.name != "cache"]
    assert left == []
    return taken


def recorded(case: str, settings: FingerprintSettings) -> DispatchFingerprint:
    """A fingerprint that was taken without any problem."""
    taken = take(case, settings)
    assert (taken.status, taken.reason) == ("ok", "")
    assert taken.fingerprint is not None
    return taken.fingerprint


@pytest.fixture(scope="module")
def affine(forking: FingerprintSettings) -> DispatchFingerprint:
    """That of one linear layer."""
    return recorded("affine/infer/width=32/eager", forking)


def test_a_linear_layer(affine: DispatchFingerprint) -> None:
    """Its operators with number formats and layouts, and one matrix product of a library."""
    operators = affine.parts[DispatchPart.OPERATORS]
    assert operators["aten::linear(fp32, fp32, fp32)"] == 1
    assert operators["aten::addmm(fp32, fp32, fp32:transposed)"] == 1
    products = {**affine.parts[DispatchPart.MKL], **affine.parts[DispatchPart.ONEDNN]}
    assert sum(products.values()) == 1
    assert not affine.missing
    assert DispatchPart.COMPILER not in affine.parts
    assert DispatchFingerprint.from_body(affine.to_body()) == affine


def test_a_convolution_names_its_implementation(forking: FingerprintSettings) -> None:
    """oneDNN's lines reach the fingerprint."""
    found = recorded("small_convolution/infer/channels=8/eager", forking)
    names = [name for name in found.parts[DispatchPart.ONEDNN] if name.startswith("convolution ")]
    assert len(names) == 1
    assert " by " in names[0]


@pytest.fixture(scope="module")
def compiled(forking: FingerprintSettings) -> DispatchFingerprint:
    """That of a layer that is compiled."""
    return recorded(COMPILED, forking)


def test_a_compiled_case_has_graphs_kernels_and_code(compiled: DispatchFingerprint) -> None:
    """That they are the same twice is asserted below."""
    parts = compiled.parts
    compiler = parts[DispatchPart.COMPILER]
    assert (compiler["graphs"], compiler["frames run eager"]) == (1, 0)
    assert compiler["guards"] > 0
    assert parts[DispatchPart.FUSED] == {"cpp_fused_gelu": 1}
    assert len(parts[DispatchPart.CODE]) == 1


def test_what_it_compiles_is_kept_for_the_processes_that_measure_it(
    forking: FingerprintSettings, compiled: DispatchFingerprint, scratch: Scratch
) -> None:
    """The first of them finds a warm cache; the fingerprint is the one without."""
    shared = conditions(scratch.folder, CASES, timing=replace(QUICK, cold_replicates=0))
    caches = caches_of(shared.folder) / ENVIRONMENT
    assert recorded(COMPILED, replace(forking, caches=caches)) == compiled
    outcome = measure(shared, [[COMPILED]]).of("activated")
    assert (outcome.status, outcome.facts["cache"]) == ("ok", "warm")
    assert (outcome.facts["compile"]["cache_hits"], outcome.facts["compile"]["cache_misses"]) == (1, 0)


def test_shapes_that_change_are_recorded_alike_twice(forking: FingerprintSettings) -> None:
    """A training step with its optimizer is in suite `smoke`, see `test_twice`."""
    case = "dynamic_shapes/infer/batch=1,layers=1,lengths=3/eager"
    first, second = recorded(case, forking), recorded(case, forking)
    assert first.to_body() == second.to_body()
    assert first.content_hash == second.content_hash


def test_another_kernel_is_another_fingerprint(
    forking: FingerprintSettings, affine: DispatchFingerprint
) -> None:
    """Two copies more."""
    copied = recorded("affine_copied/infer/width=32/eager", forking)
    assert affine.content_hash != copied.content_hash
    assert copied.parts[DispatchPart.OPERATORS]["aten::copy_(fp64, fp32)"] == 1


def test_lines_that_cannot_be_read_leave_their_part_out(forking: FingerprintSettings) -> None:
    """The rest is recorded."""
    found = recorded("prints/infer/-/eager", forking)
    assert set(found.missing) == {DispatchPart.ONEDNN, DispatchPart.MKL}
    assert DispatchPart.ONEDNN not in found.parts
    assert "aten::ones()" in found.parts[DispatchPart.OPERATORS]


def test_a_worker_that_dies_or_hangs_or_raises(forking: FingerprintSettings) -> None:
    """Each ends with a status and a reason without what differs from process to process."""
    alone = replace(forking, forks=None)
    died = take("dies/infer/-/eager", alone)
    assert died.status == "crashed"
    assert "SIGILL" in died.reason
    hung = take("hangs/infer/-/eager", replace(alone, deadline_seconds=5.0))
    assert hung.status == "timeout"
    raised = take("raises_with_path/infer/-/eager", forking)
    assert (raised.status, raised.reason) == ("crashed", "RuntimeError: cannot open ...")
    group = take("affine/infer/width=32/instances=2", alone)
    assert group.status == "unsupported"
    assert {taken.fingerprint for taken in (died, hung, raised, group)} == {None}
