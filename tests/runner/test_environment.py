"""Environments describe themselves; broken ones, and broken files of cases, get one sentence."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runner import environment
from runner.environment import MeasuredEnvironment
from runner.errors import BadCaseFile, BrokenEnvironment
from runner.execution import harness
from runner.preset import MachinePreset
from runner.suites import plan
from support.fakes.torch_wheels import write_wheel
from support.measuring import CASE_FILES, Scratch
from support.site import measured_python

PRESET = MachinePreset("of the test", {"OMP_WAIT_POLICY": "passive"})

BROKEN_FILES = {
    "syntax": "from runner.worker.case import case\n\ndef half(:\n",
    "imports": "import torch\nimport a_module_that_nobody_has\n",
    "twice": (
        "from runner.worker.case import case\n\n"
        "@case()\ndef once(): return print\n\n"
        "@case()\ndef once(): return print\n"
    ),
    "taken": "from runner.worker.case import case\n\n@case()\ndef resnet50(): return print\n",
    "strange_grid": "from runner.worker.case import case\n\n@case(size=['1'])\ndef sized(size): pass\n",
    "not_a_grid": "from runner.worker.case import case\n\n@case(size=8)\ndef other(size): return print\n",
    "other_grid": "from runner.worker.case import case\n\n@case(width=[8])\ndef wide(size): return print\n",
    "other_phase": "from runner.worker.case import case\n\n@case(phases=['fly'])\ndef bird(): return print\n",
    "exits": "import sys\nsys.exit('not today')\n",
}


@pytest.fixture(scope="module")
def described(module_scratch: Scratch) -> MeasuredEnvironment:
    """The measured environment, asked with good and broken files of cases."""
    files = [CASE_FILES / "answers.py"]
    for name, text in BROKEN_FILES.items():
        files.append(module_scratch.folder / f"{name}.py")
        files[-1].write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYROMETER_DATABASE_URL", "postgresql://somebody:secret@somewhere/db")
        built = harness.build(module_scratch.folder / "harness", files)
        found = environment.describe("default", measured_python(), built, PRESET)
    module_scratch.assert_no_child_process()
    return found


@pytest.mark.torch
def test_an_environment_says_what_it_is(described: MeasuredEnvironment) -> None:
    facts = described.facts
    assert facts["torch"][0].isdigit()
    assert len(described.fingerprint) == 16
    assert any(package.startswith("torch==") for package in facts["packages"])
    assert facts["variables"]["OMP_WAIT_POLICY"] == "passive"
    assert not any(name.startswith("PYROMETER") for name in facts["variables"])
    assert described.python == str(measured_python())


@pytest.mark.torch
def test_builds_are_distinguished_by_their_flags_and_not_by_the_cpu_they_run_on(
    described: MeasuredEnvironment, tmp_path: Path
) -> None:
    preset = MachinePreset("of the test", {"ATEN_CPU_CAPABILITY": "default"})
    elsewhere = environment.describe("default", measured_python(), harness.build(tmp_path), preset)
    assert described.facts["build"] != elsewhere.facts["build"]
    assert described.fingerprint == elsewhere.fingerprint
    kept = [line for line in described.facts["build"].splitlines() if "CPU capability" not in line]
    digest = hashlib.sha256("\n".join(kept).encode()).hexdigest()[:16]
    assert described.facts["build_digest"] == digest


@pytest.mark.torch
def test_it_offers_its_own_cases_and_those_that_joined(described: MeasuredEnvironment) -> None:
    sources = {str(workload["name"]): workload["source"] for workload in described.workloads}
    assert sources["resnet50"] == "runner.cases.resnet"
    assert sources["honest"] == "user_cases.answers"
    joined = plan.eager_cases(described.workloads, source="user_cases.answers")
    assert "honest/train/-/eager" in joined
    assert "resnet50" not in {case.split("/")[0] for case in joined}
    assert plan.invalid(joined, described.workloads) == {}


@pytest.mark.torch
@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("syntax", "line 3: SyntaxError: "),
        ("imports", "line 2: ModuleNotFoundError: No module named 'a_module_that_nobody_has'"),
        ("twice", "line 6: ValueError: two cases are named 'once'"),
        ("taken", "line 3: ValueError: two cases are named 'resnet50'"),
        ("strange_grid", "line 3: CaseKeyError: size='1' cannot be part of a case key"),
        ("not_a_grid", "line 3: ValueError: case other: size needs a list of values, not 8"),
        ("other_grid", "line 3: ValueError: case wide: takes ['size'], but its grid names ['width']"),
        ("other_phase", "line 3: ValueError: case bird: unknown phase 'fly', one of infer, train"),
        ("exits", "line 2: SystemExit: not today"),
    ],
)
def test_a_broken_file_of_cases_is_named_with_its_line(
    described: MeasuredEnvironment, file: str, sentence: str
) -> None:
    assert set(described.broken_cases) == set(BROKEN_FILES)
    assert described.broken_cases[file].startswith(sentence)
    assert "\n" not in described.broken_cases[file]


@pytest.mark.parametrize("name", ["my-cases.py", "1st.py", "cases.txt", "__init__.py", "two words.py"])
def test_a_file_of_cases_needs_a_name_that_can_be_imported(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(BadCaseFile, match=r"needs a name like my_cases\.py"):
        harness.build(tmp_path / "harness", [tmp_path / name])


def test_files_of_cases_that_cannot_join_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadCaseFile, match=r"missing\.py: No such file"):
        harness.build(tmp_path, [tmp_path / "missing.py"])
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(BadCaseFile, match=r"folder\.py: Is a directory"):
        harness.build(tmp_path, [tmp_path / "folder.py"])
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text("")
    with pytest.raises(BadCaseFile, match=r"two files of cases are named same\.py"):
        harness.build(tmp_path, [tmp_path / "a/same.py", tmp_path / "b/same.py"])


def script(folder: Path, text: str) -> Path:
    """An executable file."""
    file = folder / "interpreter"
    file.write_text(text)
    file.chmod(0o755)
    return file


def complaint(folder: Path, python: Path) -> str:
    """The sentence about a broken environment."""
    with pytest.raises(BrokenEnvironment) as caught:
        environment.describe("mine", python, harness.build(folder / "harness"), MachinePreset("plain"))
    sentence = str(caught.value)
    assert sentence.startswith("environment mine")
    assert "\n" not in sentence
    return sentence


#: What a CUDA build answers; GPU, CUDNN and KERNELS stand for the machine that it is asked on.
CUDA_BUILD = """
import os
cuda.is_available = lambda: os.environ["GPU"] == "there"
def _cudnn_version():
    if os.environ.get("CUDNN") == "another":
        raise RuntimeError("cuDNN version incompatibility")
    return 91200
backends.cudnn.version = _cudnn_version
cuda.device_count = lambda: 1
cuda.get_device_properties = lambda index: types.SimpleNamespace(
    name="NVIDIA GPU", uuid="1", major=7, minor=0, total_memory=2**34, multi_processor_count=80
)
def _init():
    if os.environ["GPU"] != "there":
        raise RuntimeError("Found no NVIDIA driver on your system. Please check it.\\nMore about it.")
cuda.init = _init
class _Ones:
    def __init__(self, size, device):
        if os.environ.get("KERNELS"):
            raise RuntimeError("CUDA error: " + os.environ["KERNELS"])
    def __add__(self, one):
        return self
    def item(self):
        return 2.0
ones = _Ones
_seen = '''  - CUDA Runtime 13.0
  - Built with CUDA Runtime 13.1
  - NVCC architecture flags: -gencode;arch=compute_90,code=sm_90
  - CuDNN 91.2  (built against CUDA 13.1)
    - Built with CuDNN 91.1
  - Magma 2.6.1
  - HIP Runtime 6.4
  - MIOpen 3.4.0
'''
_first, _last = "PyTorch built with:\\n  - GCC 13.3\\n", "  - Build settings: USE_CUDA=1\\n"
__config__.show = lambda: _first + _seen * cuda.is_available() + _last
sys.modules[__name__]._C._cuda_getArchFlags = lambda: os.environ.get("ARCHITECTURES", "sm_90 compute_90")
"""


@pytest.fixture(scope="module")
def cuda_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with a stand-in for a PyTorch with CUDA: this machine need not have one."""
    folder = tmp_path_factory.mktemp("cuda")
    wheel = write_wheel(folder / "wheels", "2.14.0", cuda="13.0", extra=CUDA_BUILD)
    python = folder / "cuda/bin/python"
    made = [sys.executable, "-I", "-m", "venv", "--without-pip", str(python.parent.parent)]
    subprocess.run(made, check=True)
    command = [python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    with zipfile.ZipFile(wheel) as file:
        file.extractall(packages)
    return python


def test_the_same_cuda_build_is_the_same_environment_with_and_without_a_gpu(
    cuda_build: Path, tmp_path: Path
) -> None:
    built = harness.build(tmp_path / "harness")
    with_gpu, without = (
        environment.describe("mine", cuda_build, built, MachinePreset("of the test", {"GPU": gpu}))
        for gpu in ("there", "away")
    )
    assert (with_gpu.facts["cuda"], with_gpu.facts["cudnn"]) == ("13.0", 91200)
    assert without.facts["cudnn"] == 91200 and without.fingerprint == with_gpu.fingerprint
    assert with_gpu.facts["build"].splitlines()[2:-1] and not without.facts["build"].splitlines()[2:-1]


@pytest.mark.parametrize(
    ("variables", "devices", "problem"),
    [
        ({"GPU": "there"}, 1, None),
        ({"GPU": "away"}, 0, "Found no NVIDIA driver on your system. Please check it."),
        (
            {"GPU": "there", "KERNELS": "no kernel image is available for execution on the device"},
            0,
            "CUDA error: no kernel image is available for execution on the device",
        ),
        # Another process has it now: that says nothing about the build.
        ({"GPU": "there", "KERNELS": "CUDA-capable device(s) is/are busy or unavailable"}, 1, None),
    ],
)
def test_a_gpu_that_a_build_cannot_compute_on_is_none_and_pytorch_says_why(
    cuda_build: Path, tmp_path: Path, variables: dict[str, str], devices: int, problem: str | None
) -> None:
    built = harness.build(tmp_path / "harness")
    facts = environment.describe("mine", cuda_build, built, MachinePreset("of the test", variables)).facts
    assert (len(facts["devices"]), facts.get("cuda_problem")) == (devices, problem)


def test_builds_for_other_gpus_are_distinguished_also_where_there_is_none(
    cuda_build: Path, tmp_path: Path
) -> None:
    built = harness.build(tmp_path / "harness")
    one, other = (
        environment.describe("mine", cuda_build, built, MachinePreset("of the test", variables))
        for variables in ({"GPU": "away"}, {"GPU": "away", "ARCHITECTURES": "sm_80 sm_90 compute_90"})
    )
    assert one.facts["build"] == other.facts["build"]
    assert one.facts["build_digest"] != other.facts["build_digest"]


def test_a_cudnn_that_torch_refuses_matters_only_where_there_is_a_gpu(
    cuda_build: Path, tmp_path: Path
) -> None:
    built = harness.build(tmp_path / "harness")
    without = MachinePreset("of the test", {"GPU": "away", "CUDNN": "another"})
    assert environment.describe("mine", cuda_build, built, without).facts["cudnn"] is None
    with pytest.raises(BrokenEnvironment, match="cuDNN version incompatibility"):
        variables = {**without.variables, "GPU": "there"}
        environment.describe("mine", cuda_build, built, MachinePreset("of the test", variables))


def test_a_missing_interpreter(tmp_path: Path) -> None:
    assert f"there is no interpreter at {tmp_path}/nothing" in complaint(tmp_path, tmp_path / "nothing")


def test_something_that_cannot_be_executed(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("")
    assert "is not an executable interpreter" in complaint(tmp_path, tmp_path / "text")
    assert "is not an executable interpreter" in complaint(tmp_path, tmp_path)


def test_an_interpreter_without_torch(tmp_path: Path) -> None:
    sentence = complaint(tmp_path, Path(sys.executable))
    assert sentence.endswith("cannot import torch: ModuleNotFoundError: No module named 'torch'")


def test_a_program_that_is_no_python(tmp_path: Path) -> None:
    python = script(tmp_path, "#!/bin/sh\necho usage: something else >&2\nexit 64\n")
    assert complaint(tmp_path, python).endswith("does not answer: usage: something else")
    silent = script(tmp_path, "#!/bin/sh\nexit 64\n")
    assert complaint(tmp_path, silent).endswith("does not answer: it ended with 64")


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    assert "cannot start" in complaint(tmp_path, script(tmp_path, "just text\n"))


def test_a_program_that_answers_garbage(tmp_path: Path) -> None:
    # -I HARNESS describe --in N --out M
    python = script(tmp_path, "#!/bin/sh\necho hello > /proc/self/fd/$7\nsleep 600\n")
    assert "does not answer" in complaint(tmp_path, python)


def test_a_program_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_DESCRIBE_SECONDS", 0.5)
    python = script(tmp_path, "#!/bin/sh\nsleep 600\n")
    assert complaint(tmp_path, python).endswith("does not answer: nothing within 0.5 s")
