"""The census of a program: what is recorded of real ones, what is kept, and what is refused."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from common.text import key_matches
from runner.census import (
    KEPT_SHARE,
    RECORDER,
    BadCensus,
    Census,
    from_raw,
    read_census,
    record_program,
    summary,
)
from runner.execution import harness
from support.site import INDUCTOR, ROOT, measured_python

#: A census up to the arguments of its operator.
OPERATOR = (
    'schema = "pyrometer.census/1"\ntorch = "2"\nsteps = 1\nseconds = 1.0\nseen = 1\n'
    'compiled = false\n[[operator]]\nname = "aten::mm"\nworkload = "census"\n'
)
PROGRAMS = Path(__file__).parent / "programs"
LINEAR = {"args": [{"tensor": {"shape": [2, 3], "dtype": "float32", "device": "cpu"}}, 1.5], "kwargs": {}}


def recorded(*program: str, steps: int = 2, skip: int = 1) -> tuple[Census, int]:
    """The census of a real program in the measured environment, and the program's exit code."""
    found = record_program([str(measured_python()), *program], steps, skip)
    return found.census, found.code


def counts(census: Census) -> dict[str, int]:
    """How often each operator was called, whatever its shapes."""
    found: dict[str, int] = {}
    for one in census.operators:
        found[one.name] = found.get(one.name, 0) + one.count
    return found


@pytest.fixture(autouse=True)
def quick_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    """What programs compile is compiled soon."""
    for name, value in INDUCTOR.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def everything_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operator is kept, so that none is missed for taking little time."""
    monkeypatch.setattr("runner.census.KEPT_SHARE", 2.0)


@pytest.mark.torch
@pytest.mark.usefixtures("everything_kept")
def test_a_training_is_recorded_forward_backward_and_update(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    census, code = recorded(str(PROGRAMS / "training.py"))
    assert (code, census.steps, census.compiled) == (0, 2, False)
    found = counts(census)
    # Two linear layers in each of two steps, and their two or three products backward.
    assert found["aten.addmm.default"] == 4
    assert found["aten.mm.default"] == 8
    assert found["aten.embedding.default"] == found["aten.embedding_dense_backward.default"] == 2
    assert found["aten.native_layer_norm_backward.default"] == 2
    assert "aten.view.default" not in found and "aten.t.default" not in found
    assert {one.inputs for one in census.operators if one.name == "aten.embedding.default"} == {
        "float32[50, 32] int64[16, 8]"
    }
    # The program is ended when its steps are recorded, the third update done.
    assert capfd.readouterr().out.split("\n") == ["step 1", "step 2", "step 3", ""]
    every_operator_can_be_called_again(census, tmp_path)


@pytest.mark.torch
@pytest.mark.usefixtures("everything_kept")
def test_what_comes_before_the_first_step_is_no_part_of_it() -> None:
    census, code = recorded(str(PROGRAMS / "training.py"), steps=1, skip=0)
    assert (code, census.steps) == (0, 1)
    assert counts(census)["aten.addmm.default"] == 2
    # Weights and data are drawn at random; of a step only dropout draws.
    drawn = ("aten.normal_", "aten.uniform_", "aten.randint")
    assert not [name for name in counts(census) if name.startswith(drawn)]


@pytest.mark.torch
@pytest.mark.usefixtures("everything_kept")
def test_a_loop_of_inference_is_recorded_call_by_call(tmp_path: Path) -> None:
    census, code = recorded(str(PROGRAMS / "denoising.py"), steps=3)
    assert (code, census.steps) == (0, 3)
    assert counts(census)["aten.convolution.default"] == 6
    assert {one.inputs for one in census.operators if "group_norm" in one.name} == {
        "float32[2, 16, 16, 16] float32[16] float32[16]"
    }
    every_operator_can_be_called_again(census, tmp_path)


def losses(printed: str) -> list[float]:
    """The losses that the compiled program printed."""
    return [float(line.split()[1]) for line in printed.splitlines() if line.startswith("loss ")]


@pytest.mark.torch
@pytest.mark.usefixtures("everything_kept")
def test_a_compiled_module_is_one_region_and_the_rest_operators(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    census, code = recorded(str(PROGRAMS / "compiled.py"))
    assert (code, census.steps, census.compiled) == (0, 2, True)
    (region,) = census.regions
    assert (region.count, region.trains, region.phase) == (2, True, "train")
    assert region.calls == {"linear": 2, "layer_norm": 1, "gelu": 1, "add": 1}
    # Of the products only those of the head are operators.
    found = counts(census)
    assert (found["aten.addmm.default"], found["aten.mm.default"]) == (2, 4)
    assert "aten.native_layer_norm_backward.default" not in found and "aten.gelu.default" not in found
    assert census.share == pytest.approx(1.0)
    assert 0 < census.region_share < 1
    assert "1 compiled region" in summary(census) and "all measured compiled" in summary(census)
    written = census.to_toml()
    assert "secret_name" not in written and str(PROGRAMS) not in written
    # The program has its own answers: those of a call without the recorder, and without the compiler.
    seen = losses(capfd.readouterr().out)
    alone = subprocess.run(
        [str(measured_python()), str(PROGRAMS / "compiled.py")],
        env={**os.environ, "TORCHDYNAMO_DISABLE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(seen) == 3
    assert seen == pytest.approx(losses(alone.stdout)[:3], rel=1e-5)
    every_operator_can_be_called_again(census, tmp_path)


@pytest.mark.torch
@pytest.mark.usefixtures("everything_kept")
def test_a_program_that_breaks_leaves_its_operators_and_regions_though_no_graph_can_be_made_again() -> None:
    census, code = recorded(str(PROGRAMS / "compiled.py"), "checkpoint", "crash", "3", steps=5)
    assert code == 1
    # The head of two steps: the second broke after it.
    assert census.steps >= 1 and counts(census)["aten.addmm.default"] >= 2
    (region,) = census.regions
    assert region.count >= 1
    assert region.arguments is None and region.trains
    assert region.case not in census.weights
    assert census.share <= 1 - region.share + 1e-9
    assert "is not measured" in summary(census)


@pytest.mark.torch
def test_steps_of_a_compiled_function_are_its_calls(tmp_path: Path) -> None:
    program = tmp_path / "function.py"
    program.write_text(
        "import torch\n@torch.compile(fullgraph=True)\ndef product(a, b):\n"
        "    return torch.einsum('...i,ij->...j', a, b)\n"
        "for number in range(9):\n"
        "    product(torch.ones(4, 3), torch.ones(3, 2))\n    print(number, flush=True)\n"
    )
    census, code = recorded(str(program), steps=3, skip=1)
    assert (code, census.steps) == (0, 3)
    assert [(one.count, one.trains, one.phase) for one in census.regions] == [(3, False, "infer")]


@pytest.mark.torch
def test_a_program_that_is_killed_leaves_its_whole_steps(tmp_path: Path) -> None:
    raw = tmp_path / "raw.json"
    recorder = RECORDER
    options = ["--raw", str(raw), "--steps", "9", "--skip", "0"]
    program = [str(PROGRAMS / "training.py")]
    with subprocess.Popen(
        [str(measured_python()), str(recorder), *options, *program], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        while "step 4" not in child.stdout.readline():
            assert child.poll() is None
        child.send_signal(signal.SIGKILL)
    assert from_raw(json.loads(raw.read_text())).steps >= 3


@pytest.mark.torch
def test_a_step_that_raises_ends_there(tmp_path: Path) -> None:
    program = tmp_path / "raises.py"
    program.write_text(
        "import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(3, 2))\n"
        "for width in (4, 3, 4, 3, 3, 3):\n"
        "    try:\n        model(torch.ones(1, width))\n"
        "    except RuntimeError:\n        pass\n"
    )
    census, code = recorded(str(program), steps=3, skip=1)
    assert (code, census.steps) == (0, 3)
    # Of the calls 2 to 4 the third raised.
    assert counts(census)["aten.addmm.default"] == 2


@pytest.mark.torch
@pytest.mark.usefixtures("everything_kept")
def test_no_number_and_no_path_is_in_the_file(tmp_path: Path) -> None:
    program = tmp_path / "secret_name.py"
    data = tmp_path / "weights"
    data.write_bytes(bytes(64))
    program.write_text(
        "import torch\nmodel = torch.nn.Linear(3, 2)\n"
        "model(torch.tensor([[7.25, 9.5, 31337.0]])).sum().backward()\n"
        f"torch.from_file({str(data)!r}, size=8).cos()\n"
    )
    census, _ = recorded(str(program), skip=0)
    written = census.to_toml()
    found = counts(census)
    # An operator that reads a file is not recorded, nor is the file's name; what follows it is.
    assert "aten.cos.default" in found and not any("from_file" in name for name in found)
    assert "31337" not in written and "secret_name" not in written and str(tmp_path) not in written


def every_operator_can_be_called_again(census: Census, folder: Path) -> None:
    """Assert that the cases of a census, whose every operator was kept, can be built and run."""
    cases = folder / "census_cases.py"
    cases.write_text(census.to_case_file())
    built = harness.build(folder / "harness", [cases])
    program = (
        "import sys, json; sys.path.insert(0, sys.argv[1])\n"
        "import user_cases.census_cases\n"
        "from runner.worker.case_key import CaseKey\n"
        "from runner.worker.techniques.apply import build\n"
        "for case in json.loads(sys.argv[2]):\n"
        "    prepared = build(CaseKey.parse(case), 'cpu', 0)\n"
        "    for _ in range(3): prepared.step()\n"
        "print('called')\n"
    )
    # A recorded region too is run as it stands: `pyrometer run` compiles one, in the test of the command.
    keys = json.dumps([case.replace("/compile=default", "/eager") for case in census.weights])
    done = subprocess.run(
        [str(measured_python()), "-I", "-c", program, str(built.path), keys],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "called\n"), done.stderr[-2000:]


@pytest.mark.torch
def test_an_operator_that_writes_its_input_leaves_no_denormal_numbers() -> None:
    tensor = {"tensor": {"shape": [64], "dtype": "float32", "device": "cpu"}}
    program = (
        "import json, sys, torch\n"
        "from runner.worker.case_key import CaseKey\n"
        "from runner.worker.census import register\n"
        "from runner.worker.techniques import apply\n"
        "register('decays', 'aten.mul_.Tensor', json.loads(sys.argv[1]))\n"
        "made = apply.make(CaseKey.parse('decays/infer/-/eager'), 0)\n"
        "for _ in range(2000): made.model(*made.inputs)\n"
        "print(int(made.inputs[0].count_nonzero()))\n"
    )
    done = subprocess.run(
        [str(measured_python()), "-c", program, json.dumps({"args": [tensor, 0.9], "kwargs": {}})],
        capture_output=True,
        text=True,
        check=False,
        cwd=PROGRAMS.parents[3],
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr[-2000:]


def raw(*seconds: float) -> dict[str, Any]:
    """What a recorder writes of operators that took so long."""
    operators = [
        {"name": f"aten.op{number}.default", "arguments": LINEAR, "count": 2, "seconds": one}
        for number, one in enumerate(seconds)
    ]
    body = {"torch": "2.13.0", "steps": 2, "compiled": False, "operators": operators}
    return {**body, "regions": [], "left_out": {}}


def raw_region(seconds: float, nodes: list[Any] | None) -> dict[str, Any]:
    """What a recorder writes of a region: one product of a weight with an input."""
    tensor = LINEAR["args"][0]
    arguments = {"nodes": nodes, "inputs": [tensor, tensor, 7], "grads": [1], "autocast": None}
    times = {"count": 3, "seconds": seconds}
    return {"arguments": arguments, "calls": {"mul": 1, "add": 2}, "trained": True, **times}


HOSTILE = """
import json, sys
from runner.worker.case import REGISTER
from runner.worker.census import register, register_region
from runner.worker.prepared_case import UnsupportedCase

calls, regions = json.loads(sys.argv[1])
for number, (name, arguments) in enumerate(calls):
    register(f"call_{number}", name, arguments)
for number, arguments in enumerate(regions):
    register_region(f"region_{number}", "infer", arguments)
ended = []
for name in [name for name in REGISTER if name.startswith(("call_", "region_"))]:
    try:
        workload = REGISTER[name].build()
        workload.model(*workload.inputs)
        ended.append([name, "ran"])
    except UnsupportedCase:
        ended.append([name, "unsupported"])
    except Exception as error:
        ended.append([name, f"{type(error).__name__}: {error}"])
print(json.dumps(ended))
"""


@pytest.mark.torch
def test_a_census_calls_nothing_but_operators_and_functions_of_tensors(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    tensor = {"tensor": {"shape": [2, 3], "dtype": "float32", "device": "cpu"}}
    touch = f"open({str(mark)!r}, 'w').close()"
    given = {"input": True}

    def region(node: dict[str, Any]) -> dict[str, Any]:
        whole = {"args": [{"node": 0}], "kwargs": {}, **node}
        nodes = [given, whole, {"output": [{"node": 1}]}]
        return {"nodes": nodes, "inputs": [tensor], "grads": [], "autocast": None}

    calls = [
        ("load_library.__call__", {"args": [str(mark)], "kwargs": {}}),
        ("aten.from_file.default", {"args": [str(mark), True, 4], "kwargs": {}}),
        ("aten.to.dtype", {"args": [tensor, {"dtype": "save"}], "kwargs": {}}),
    ]
    regions = [
        region({"function": "torch.relu"}),
        region({"function": "os.mkdir", "args": [str(mark)]}),
        region({"function": "builtins.exec", "args": [touch]}),
        region({"function": "torch.save", "args": [{"node": 0}, str(mark)]}),
        region({"function": "torch.serialization.save", "args": [{"node": 0}, str(mark)]}),
        region({"function": "torch.os.mkdir", "args": [str(mark)]}),
        region({"function": "operator.methodcaller", "args": ["numpy"]}),
        region({"method": f"relu({touch}), input_0.relu"}),
        region({"method": "__class__"}),
        region({"function": "torch.relu", "kwargs": {f"out={touch}, x": 1}}),
    ]
    done = subprocess.run(
        [measured_python(), "-c", HOSTILE, json.dumps([calls, regions])],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    ended = dict(json.loads(done.stdout.splitlines()[-1]))
    assert not mark.exists()
    assert ended.pop("region_0") == "ran"
    assert len(ended) == len(calls) + len(regions) - 1 and set(ended.values()) == {"unsupported"}, ended


def test_a_census_is_cut_to_what_takes_the_time_and_says_so() -> None:
    census = from_raw(raw(0.01, 6.0, 3.0, *[0.0001] * 500))
    assert [one.name for one in census.operators] == ["aten.op1.default", "aten.op2.default"]
    assert census.share >= KEPT_SHARE
    assert "2 operator calls of 503 distinct ones take" in summary(census)


def test_time_of_operators_that_cannot_be_called_again_is_no_share_of_the_others() -> None:
    census = from_raw({**raw(6.0), "left_out": {"library.operator": 2.0}})
    assert census.seconds == 8.0
    assert census.share == pytest.approx(0.75)


def test_a_census_comes_back_from_its_file(tmp_path: Path) -> None:
    census = from_raw(raw(2.0, 1.0))
    file = tmp_path / "census.toml"
    file.write_text(census.to_toml())
    again = read_census(file)
    assert again.weights.keys() == census.weights.keys()
    assert [one.arguments for one in again.operators] == [one.arguments for one in census.operators]
    assert tomllib.loads(file.read_text())["operator"][0]["inputs"] == "float32[2, 3]"


def test_regions_come_back_from_the_file_and_only_whole_graphs_are_measured(tmp_path: Path) -> None:
    nodes = [{"input": True}, {"output": {"tuple": [{"node": 0}]}}]
    census = from_raw({**raw(2.0, 1.0), "regions": [raw_region(6.0, nodes), raw_region(1.0, None)]})
    assert [(one.share, one.arguments is None) for one in census.regions] == [(0.6, False), (0.1, True)]
    # What is kept reaches 95 % with both operators, of which one region is not measured.
    assert census.share == pytest.approx(0.9)
    assert census.region_share == pytest.approx(0.7)
    assert [key_matches(one, "compiled_region_*/train/-/compile=default") for one in census.weights] == [
        True,
        False,
        False,
    ]
    assert census.regions[0].inputs == "float32[2, 3]"
    file = tmp_path / "census.toml"
    file.write_text(census.to_toml())
    again = read_census(file)
    assert again.weights == pytest.approx(census.weights)
    assert [one.calls for one in again.regions] == [one.calls for one in census.regions]
    assert again.to_toml() == census.to_toml()
    assert "60.0% is measured compiled, and 10.0% is not measured" in summary(again)


def test_what_takes_next_to_no_time_has_a_weight_too(tmp_path: Path) -> None:
    nodes = [{"input": True}, {"output": {"tuple": [{"node": 0}]}}]
    file = tmp_path / "census.toml"
    file.write_text(from_raw({**raw(100.0), "regions": [raw_region(2e-5, nodes)]}).to_toml())
    weights = read_census(file).weights
    assert len(weights) == 2 and 0 < min(weights.values()) < 1e-5


def test_cases_of_a_census_have_keys_and_other_arguments_have_others() -> None:
    first, second = from_raw(raw(1.0)).operators[0], from_raw(raw(1.0)).operators[0]
    assert first.case == second.case and key_matches(first.case, first.case)
    other = {**raw(1.0)}
    other["operators"] = [{**other["operators"][0], "arguments": {"args": [2], "kwargs": {}}}]
    assert from_raw(other).operators[0].case != first.case


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("schema = 3", "it lacks schema"),
        ("schema = ", "is no census"),
        pytest.param("schema = " + "[" * 100_000, "is no census", id="deep"),
        pytest.param(".".join("a" * 5000) + " = 1", "a key of more than 100 parts", id="deep key"),
        pytest.param("#" * ((8 << 20) + 1), "it is larger than 8,192 KiB", id="large"),
        pytest.param(OPERATOR + f"arguments = '{'[' * 100_000}'\n", "is damaged", id="deep arguments"),
        ('schema = "pyrometer.census/1"\n', "is damaged"),
        (
            'schema = "pyrometer.census/1"\ntorch = "2"\nsteps = 1\nseconds = 1.0\nseen = 1\n'
            "compiled = false\noperator = []\n",
            "holds no operator",
        ),
    ],
)
def test_a_file_that_is_no_census_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "census.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BadCensus, match=said):
        read_census(file)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ([], "name the program"),
        (["no-such-interpreter-anywhere"], "there is no program"),
        (["sh", "x.py"], "is no Python"),
        ([sys.executable], "comes a script"),
        ([sys.executable, "-c", "pass"], "comes a script"),
        ([sys.executable, "missing.py"], "there is no script missing.py"),
    ],
)
def test_a_command_that_is_no_program_of_python_is_refused(command: list[str], said: str) -> None:
    with pytest.raises(BadCensus, match=said):
        record_program(command, 1, 0)


def test_an_interpreter_without_pytorch_is_named(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('never')")
    # The application's own environment has no PyTorch.
    with pytest.raises(BadCensus, match="needs PyTorch"):
        record_program([sys.executable, str(program)], 1, 0)


@pytest.mark.torch
def test_a_program_without_operators_is_said_to_have_none(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"print({os.getpid()})")
    with pytest.raises(BadCensus, match="called no operator"):
        recorded(str(program), skip=0)
