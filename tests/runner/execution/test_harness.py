"""The harness: the same content is the same file, and only what changes a measurement changes its name."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from records.runs import StepScript
from runner.execution import harness
from runner.worker.messages import PROTOCOL
from support.site import measured_python

CASES = "from runner.worker.case import case\n\n@case()\ndef mine(): return print\n"


def cases_file(folder: Path, text: str = CASES, name: str = "mine.py") -> Path:
    """A user's file of cases."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def test_the_same_content_is_the_same_folder(tmp_path: Path) -> None:
    one = harness.build(tmp_path / "one", [cases_file(tmp_path / "a")])
    other = harness.build(tmp_path / "other", [cases_file(tmp_path / "b")])
    assert harness._sources(one.path) == harness._sources(other.path)
    assert one.path.name == other.path.name == f"harness-{one.version}-{one.user_version}"


def test_a_harness_names_the_protocol_of_its_worker(tmp_path: Path) -> None:
    assert harness.protocol_of(harness.build(tmp_path).path) == PROTOCOL
    # As of a Pyrometer that wrote a zip.
    (tmp_path / "harness.zip").write_bytes(b"PK")
    assert harness.protocol_of(tmp_path / "harness.zip") is None
    assert harness.protocol_of(tmp_path / "nowhere") is None


def test_a_harness_that_is_there_is_left_alone_and_a_damaged_one_is_written_again(tmp_path: Path) -> None:
    built = harness.build(tmp_path)
    before, main = built.path.stat(), built.path / "runner/worker/main.py"
    (main.parent / "__pycache__").mkdir()
    harness.build(tmp_path)
    assert (before.st_ino, before.st_mtime_ns) == (built.path.stat().st_ino, built.path.stat().st_mtime_ns)
    text = main.read_bytes()
    main.write_bytes(text[:100])
    assert not harness.is_whole(built)
    assert harness.is_whole(harness.build(tmp_path)) and main.read_bytes() == text
    assert list(tmp_path.iterdir()) == [built.path] and not (main.parent / "__pycache__").exists()


def test_a_worker_finds_the_byte_code_that_the_first_one_left(tmp_path: Path) -> None:
    path = harness.build(tmp_path).path
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import runner.worker.case_key as m; "
        "print(m.__spec__.cached)"
    )
    command = [sys.executable, "-I", "-c", program, path]
    kept: list[float] = []
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        file = Path(done.stdout.strip())
        assert file.is_relative_to(path)
        kept.append(file.stat().st_mtime_ns)
    assert kept[0] == kept[1]


def test_a_users_cases_leave_our_version_as_it_is(tmp_path: Path) -> None:
    plain = harness.build(tmp_path)
    joined = harness.build(tmp_path, [cases_file(tmp_path / "cases")])
    edited = harness.build(tmp_path, [cases_file(tmp_path / "cases", CASES + "\n")])
    renamed = harness.build(tmp_path, [cases_file(tmp_path / "cases", name="yours.py")])
    versions = {plain.version, joined.version, edited.version, renamed.version}
    assert versions == {harness.own_version()}
    assert plain.user_version == ""
    assert plain.user_cases == ()
    assert len({joined.user_version, edited.user_version, renamed.user_version}) == 3
    assert (joined.user_cases, renamed.user_cases) == (("mine",), ("yours",))
    assert len({h.path for h in (plain, joined, edited, renamed)}) == 4


def test_the_order_of_files_does_not_matter(tmp_path: Path) -> None:
    a, b = cases_file(tmp_path / "cases", name="a.py"), cases_file(tmp_path / "cases", name="b.py")
    assert harness.build(tmp_path, [a, b]) == harness.build(tmp_path, [b, a])


def test_a_step_script_joins_as_a_case_and_is_hashed_as_one(tmp_path: Path) -> None:
    plain = harness.build(tmp_path)
    steps = [StepScript("repro.py", "step", f"def step(): return {n}") for n in (1, 2)]
    one, other = (harness.build(tmp_path, step=step) for step in steps)
    assert (one.version, one.user_cases, one.step) == (plain.version, ("step",), steps[0])
    assert len({plain.user_version, one.user_version, other.user_version}) == 3
    assert len({each.path for each in (plain, one, other)}) == 3


def test_only_the_worker_and_the_cases_travel(tmp_path: Path) -> None:
    path = harness.build(tmp_path).path
    names = [file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()]
    assert {
        "__main__.py",
        "runner/__init__.py",
        "runner/worker/main.py",
        "runner/cases/gpt2.py",
    } <= set(names)
    others = [n for n in names if not n.startswith(("runner/worker/", "runner/cases/"))]
    assert sorted(others) == ["__main__.py", "runner/__init__.py"]
    assert all(name.endswith(".py") for name in names)


def test_what_travels_decides_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = harness.build(tmp_path).version
    source = harness._ROOT
    copy = tmp_path / "runner"
    for path in [
        source / "__init__.py",
        source / "journal.py",
        *source.glob("worker/**/*.py"),
        *source.glob("cases/**/*.py"),
    ]:
        target = copy / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    monkeypatch.setattr(harness, "_ROOT", copy)
    assert harness.build(tmp_path).version == before
    (copy / "journal.py").write_text("# the controller's side may change\n")
    assert harness.build(tmp_path).version == before
    with (copy / "cases/gpt2.py").open("a") as file:
        file.write("\n")
    assert harness.build(tmp_path).version != before


def test_processes_that_build_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    program = f"""
        import sys
        from pathlib import Path
        from runner.execution import harness
        print("here", flush=True)
        sys.stdin.readline()
        print(harness.build(Path({str(tmp_path / "shared")!r})).path)
    """
    builders = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for builder in builders:
        assert builder.stdout and builder.stdout.readline() == "here\n"
    answers = {answer for builder in builders if (answer := builder.stdin and builder.communicate("go\n")[0])}
    assert [builder.returncode for builder in builders] == [0] * 4
    (path,) = {Path(answer.strip()) for answer in answers}
    assert harness._sources(path) == harness._sources(harness.build(tmp_path / "own").path)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.torch
def test_an_eager_case_pays_for_no_compiler(tmp_path: Path) -> None:
    path = harness.build(tmp_path).path
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from runner.worker.main import load_cases\n"
        "import runner.worker.worker_loop\n"
        "load_cases([])\n"
        "print([name for name in ('torch._dynamo', 'torch._inductor') if name in sys.modules])"
    )
    done = subprocess.run(
        [measured_python(), "-I", "-c", program, path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
