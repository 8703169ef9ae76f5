"""Step scripts: what is one, and the sentence for what is none."""

from pathlib import Path

import pytest

from records.runs import StepScript
from runner.errors import BadStep
from runner.step_file import read_step, spelled_step, step_case
from runner.worker.case_key import CaseKey


def script(folder: Path, content: str | bytes, name: str = "repro.py") -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


@pytest.mark.parametrize(
    ("content", "function"),
    [
        ("def step():\n    pass\n", ""),
        ("def step(size=3, *rest, flag=True, **more):\n    pass\n", ""),
        ("def lookup():\n    pass\n", "lookup"),
        ("import torch\nstep = torch.compile(lambda: 1)\n", ""),
        ("first, (step, other) = make()\n", ""),
        ("if True:\n    def step():\n        pass\n", ""),
        ("try:\n    import a\nexcept ImportError:\n    def step():\n        pass\n", ""),
        ("match 1:\n    case 1:\n        def step():\n            pass\n", ""),
        ("with open('x') as step:\n    pass\n", ""),
        ("from helpers import lookup as step\n", ""),
        ("from helpers import *\n", ""),
        # What a decorator makes of it is not known before it runs.
        ("@filled\ndef step(size):\n    pass\n", ""),
        ("def step():\n    def values():\n        yield 1\n    return list(values())\n", ""),
        ("\ufeff# -*- coding: utf-8 -*-\ndef step():\n    return '\\d é'\n", ""),
    ],
)
def test_a_function_that_can_be_called_is_a_step(tmp_path: Path, content: str, function: str) -> None:
    given = script(tmp_path, content)
    found = read_step(f"{given}:{function}" if function else given)
    assert found == StepScript("repro.py", function or "step", content)
    assert StepScript.from_body(found.to_body()) == found


@pytest.mark.parametrize(
    ("content", "function", "said"),
    [
        ("", "", "repro.py has no function step: it defines none"),
        (
            "def lookup():\n    pass\ndef other():\n    pass\n",
            "",
            "repro.py has no function step: it defines lookup, other; name one with repro.py:FUNCTION",
        ),
        ("def step():\n    pass\n", "lookup", "repro.py has no function lookup: it defines step; name one"),
        ("def outer():\n    def step():\n        pass\n", "", "has no function step: it defines outer"),
        ("def outer():\n    step = 1\n", "", "has no function step: it defines outer"),
        ("class Net:\n    def step(self):\n        pass\n", "", "has no function step: it defines none"),
        ("class step:\n    pass\n", "", "step is a class"),
        ("async def step():\n    pass\n", "", "step is a coroutine: a call of it alone runs nothing"),
        ("def step():\n    yield 1\n", "", "step is a generator: a call of it alone runs nothing"),
        (
            "def step(model):\n    pass\n",
            "",
            "step takes 1 argument (model), and a step is called without any",
        ),
        ("def step(a, b=1, *, c, d=2):\n    pass\n", "", "step takes 2 arguments (a, c)"),
        ("def step(:\n", "", "repro.py is not Python 3."),
        ("x = 1\ndef step(:\n", "", "line 2: invalid syntax"),
        ("(" * 5000, "", "repro.py is not Python 3."),
        (b"\x00def step(): pass", "", "repro.py is not Python 3."),
        (b"\xff\xfe\x00", "", "repro.py is not Python: it is not UTF-8 text"),
        ("def step():\n    pass\n" + "#" * (256 << 10), "", "has at most 256 KiB"),
    ],
)
def test_what_cannot_be_a_step_is_refused_in_one_sentence(
    tmp_path: Path, content: str | bytes, function: str, said: str
) -> None:
    given = script(tmp_path, content)
    with pytest.raises(BadStep) as error:
        read_step(f"{given}:{function}" if function else given)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_no_step(tmp_path: Path) -> None:
    for given, said in (
        (tmp_path / "missing.py", "missing.py: No such file or directory"),
        (tmp_path, f"{tmp_path} is no file"),
        (f"{tmp_path}/missing.py:step", "missing.py: No such file or directory"),
        ("repro.py:", '"repro.py:" is no step'),
        (":step", '":step" is no step'),
        ("", "is no file"),
    ):
        with pytest.raises(BadStep) as error:
            read_step(str(given))
        assert said in str(error.value)


def test_the_key_of_a_step_names_script_and_content() -> None:
    one, other = StepScript("repro.py", "step", "a = 1"), StepScript("repro.py", "step", "a = 2")
    assert step_case(one).startswith("repro.py:step/infer/script=sha256:")
    keys = {step_case(one), step_case(other), step_case(StepScript("repro.py", "lookup", "a = 1"))}
    assert len(keys) == 3
    for key in keys:
        assert str(CaseKey.parse(key)) == key
    assert step_case(StepScript("my repro=[1]/é.py", "step", "")).startswith("my-repro--1---.py:step/infer/")


def test_a_command_for_another_folder_names_the_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "", "repro.py")
    assert spelled_step("repro.py") == f"{tmp_path}/repro.py:step"
    assert spelled_step("repro.py:lookup") == f"{tmp_path}/repro.py:lookup"
    script(tmp_path, "", "a:b")
    assert spelled_step("a:b") == f"{tmp_path}/a:b:step"
