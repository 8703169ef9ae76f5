"""Fingerprints of real cases: what is in them, that they repeat, and how a worker may end."""

from pathlib import Path

import pytest

from records.dispatch import CaseFingerprint, DispatchFingerprint, DispatchPart
from runner.dispatch.capture import FingerprintSettings, take_fingerprint
from runner.execution import harness
from runner.preset import MachinePreset
from support.measuring import CASE_FILES
from support.site import PATIENCE_SECONDS, measured_python

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

CASES = CASE_FILES / "dispatches.py"


def take(folder: Path, case: str, deadline: float = PATIENCE_SECONDS) -> CaseFingerprint:
    """The fingerprint of one case in the measured environment."""
    built = harness.build(folder / "harness", [CASES])
    preset = MachinePreset("as-it-comes")
    about = (str(measured_python()), built, preset, "cpu", deadline, folder / "work", "fingerprint-test")
    taken = take_fingerprint(case, FingerprintSettings(*about))
    left = [path for path in (folder / "work").iterdir() if path.name != "cache"]
    assert left == []
    return taken


def recorded(folder: Path, case: str) -> DispatchFingerprint:
    """A fingerprint that was taken without any problem."""
    taken = take(folder, case)
    assert (taken.status, taken.reason) == ("ok", "")
    assert taken.fingerprint is not None
    return taken.fingerprint


def test_a_linear_layer(tmp_path: Path):
    """Its operators with number formats and layouts, and one matrix product of a library."""
    found = recorded(tmp_path, "affine/infer/width=32/eager")
    operators = found.parts[DispatchPart.OPERATORS]
    assert operators["aten::linear(fp32, fp32, fp32)"] == 1
    assert operators["aten::addmm(fp32, fp32, fp32:transposed)"] == 1
    products = {**found.parts[DispatchPart.MKL], **found.parts[DispatchPart.ONEDNN]}
    assert sum(products.values()) == 1
    assert not found.missing
    assert DispatchPart.COMPILER not in found.parts
    assert DispatchFingerprint.from_body(found.to_body()) == found


def test_a_convolution_names_its_implementation(tmp_path: Path):
    """oneDNN's lines reach the fingerprint."""
    found = recorded(tmp_path, "small_convolution/infer/channels=8/eager")
    names = [name for name in found.parts[DispatchPart.ONEDNN] if name.startswith("convolution ")]
    assert len(names) == 1
    assert " by " in names[0]


def test_a_compiled_case_has_graphs_kernels_and_code(tmp_path: Path):
    """And the same twice: paths, process ids and cache folders are not part of it."""
    case = "activated/infer/width=32/compile=default"
    found = recorded(tmp_path, case)
    assert found.parts[DispatchPart.COMPILER]["graphs"] == 1
    assert found.parts[DispatchPart.COMPILER]["frames run eager"] == 0
    assert found.parts[DispatchPart.COMPILER]["guards"] > 0
    assert found.parts[DispatchPart.FUSED] == {"cpp_fused_gelu": 1}
    assert len(found.parts[DispatchPart.CODE]) == 1
    assert recorded(tmp_path, case) == found


def test_shapes_that_change_are_recorded_alike_twice(tmp_path: Path):
    """A training step with its optimizer is in suite `smoke`, see `test_twice`."""
    case = "dynamic_shapes/infer/batch=4,layers=2,lengths=3/eager"
    first, second = recorded(tmp_path, case), recorded(tmp_path, case)
    assert first.to_body() == second.to_body()
    assert first.content_hash == second.content_hash


def test_another_kernel_is_another_fingerprint(tmp_path: Path):
    """Two copies more."""
    plain = recorded(tmp_path, "affine/infer/width=32/eager")
    copied = recorded(tmp_path, "affine_copied/infer/width=32/eager")
    assert plain.content_hash != copied.content_hash
    assert copied.parts[DispatchPart.OPERATORS]["aten::copy_(fp64, fp32)"] == 1


def test_lines_that_cannot_be_read_leave_their_part_out(tmp_path: Path):
    """The rest is recorded."""
    found = recorded(tmp_path, "prints/infer/-/eager")
    assert set(found.missing) == {DispatchPart.ONEDNN, DispatchPart.MKL}
    assert DispatchPart.ONEDNN not in found.parts
    assert "aten::ones()" in found.parts[DispatchPart.OPERATORS]


def test_a_worker_that_dies_or_hangs_or_raises(tmp_path: Path):
    """Each ends with a status and a reason without what differs from process to process."""
    died = take(tmp_path, "dies/infer/-/eager")
    assert died.status == "crashed"
    assert "SIGILL" in died.reason
    hung = take(tmp_path, "hangs/infer/-/eager", deadline=20.0)
    assert hung.status == "timeout"
    raised = take(tmp_path, "raises_with_path/infer/-/eager")
    assert (raised.status, raised.reason) == ("crashed", "RuntimeError: cannot open ...")
    group = take(tmp_path, "affine/infer/width=32/instances=2")
    assert group.status == "unsupported"
    assert {taken.fingerprint for taken in (died, hung, raised, group)} == {None}
