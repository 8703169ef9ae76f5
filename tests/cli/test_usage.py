"""A mistake gets one sentence with a way out, exit code 2, nothing on stdout, and never a traceback."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.main import get_command
from typer.testing import CliRunner

from cli.registry import _PLACES, app
from support.command_line import called, typed
from support.site import ADD, COMMAND, Done, Site

#: What is typed after `pyrometer`, and what the sentence must hold.
MISTAKES = [
    (["run", "--suite", "smok"], 'unknown suite "smok": did you mean "smoke"?'),
    (["run", "--environment", "defalt"], 'unknown environment "defalt": did you mean "default"?'),
    (["run", "--suite", ""], 'unknown suite ""'),
    (["run", "--environment", ""], '"" is no environment'),
    (["run", "--preset", ""], 'unknown preset ""'),
    (["upgrade", "default", "default", "--policy", ""], 'unknown policy ""'),
    (["run", "--preset", "quite"], 'unknown preset "quite": did you mean "quiet"?'),
    (["run", "--cases", "none.py"], "none.py: No such file or directory"),
    (["run", "--python", "bin/python"], "there is no interpreter at"),
    (["run", "--python", "cases.py"], "is not an executable interpreter"),
    (["run", "--python", "bin/python", "--environment", "default"], "--environment and --python"),
    (
        ["profile", "add", "--python", "bin/python", "--environment", "default"],
        "--environment and --python",
    ),
    (["run", "--resume", "latest"], "there is no run in"),
    (["run", "--resume", "latest", "--suite", "quick"], "it cannot be combined with a selection"),
    (["run", "--resume", "latest", "--budget", "9"], "it cannot be combined with a selection"),
    (["suites", "show", "smok"], 'unknown suite "smok": did you mean "smoke"?'),
]

#: What no option or no value of one is.
NO_OPTIONS = [
    (["--replicates", "0"], "Invalid value for '--replicates': Input should be greater than or equal to 1"),
    (["--budget", "inf"], "Invalid value for '--budget': inf is not a number of seconds"),
    (["--deadline", "inf"], "Invalid value for '--deadline': inf is not a number of seconds"),
    (["--suit", "smoke"], "No such option: --suit (Possible options: --suite)"),
    (["--colour", "red"], "No such option: --colour"),
]

#: These ask the measured environment which cases there are.
CASE_MISTAKES = [
    (["--case", "resnt50"], 'unknown case "resnt50": did you mean "resnet50/'),
    (["--suite", "unmatched"], 'suites.unmatched.cases.0: unknown case "resnt50*": did you mean "resnet50/'),
]

MORE_SUITES = """
[suites.unmatched]
cases = ["resnt50*"]
"""


@pytest.mark.torch
@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES, ids=[" ".join(a) for a, _ in MISTAKES])
def test_a_mistake_gets_one_sentence(site: Site, arguments: list[str], sentence: str) -> None:
    said = typed(site, *arguments).one_sentence()
    assert said.startswith("pyrometer: ") and sentence in said


@pytest.mark.torch
def test_the_command_is_the_same_however_it_is_started(site: Site) -> None:
    (arguments, sentence), *_ = MISTAKES
    said = site.call(*arguments).one_sentence()
    assert said.startswith("pyrometer: ") and sentence in said
    (options, sentence), *_ = NO_OPTIONS
    says_usage(site.call("run", *options), sentence)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("arguments", "sentence"), CASE_MISTAKES, ids=[" ".join(a) for a, _ in CASE_MISTAKES]
)
def test_a_case_that_does_not_exist_gets_one_sentence(
    site: Site, arguments: list[str], sentence: str
) -> None:
    with (site.folder / "pyrometer.toml").open("a") as file:
        file.write(MORE_SUITES)
    said = typed(site, "run", "--cases", "cases.py", *arguments).one_sentence()
    assert said.startswith("pyrometer: ") and sentence in said
    assert not (site.folder / ".pyrometer" / "runs").exists()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[suites.quick\n", "pyrometer.toml"),
        ("[suites.quick]\nreplicats = 3\n", "replicates"),
        ("[suites.quick]\nreplicates = 0\n", "a whole number, 1 or more"),
        ("preset = 'quite'\n", 'did you mean "quiet"?'),
    ],
)
def test_a_settings_file_that_makes_no_sense_gets_one_sentence(site: Site, text: str, sentence: str) -> None:
    (site.folder / "pyrometer.toml").write_text(text)
    assert sentence in typed(site, "run", "--suite", "quick").one_sentence()


@pytest.mark.torch
def test_a_file_of_cases_that_cannot_be_loaded_says_where(site: Site) -> None:
    (site.folder / "broken.py").write_text("import torch\n\nnothing.here\n")
    said = typed(site, "run", "--cases", "broken.py").one_sentence()
    assert "broken.py cannot be loaded: line 3: NameError: name 'nothing' is not defined" in said


@pytest.mark.torch
def test_an_interpreter_without_torch_is_no_environment(site: Site) -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("no Python besides this one and the measured one")
    said = typed(site, "run", "--python", python).one_sentence()
    assert "cannot import torch" in said and "No module named 'torch'" in said


@pytest.mark.torch
@pytest.mark.parametrize(("arguments", "sentence"), NO_OPTIONS)
def test_an_option_that_makes_no_sense_ends_in_one_plain_sentence(
    site: Site, arguments: list[str], sentence: str
) -> None:
    says_usage(typed(site, "run", *arguments), sentence)


def says_usage(done: Done, sentence: str) -> None:
    """How the call goes comes first, and last what is wrong with it."""
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0].startswith("Usage: pyrometer run")
    assert done.err.splitlines()[-1] == f"Error: {sentence}"


@pytest.mark.torch
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--suite", "smok"], 'unknown suite "smok": did you mean "smoke"?'),
        (["--python", "bin/python"], "there is no interpreter at"),
        (["--case", "add", "--replicates", "1000000000"], "1,000,000,000 replicates are too many: one run"),
        (["--resume", "latest"], "there is no run in"),
    ],
)
def test_what_can_be_refused_at_once_does_not_wait_for_another_run(
    site: Site, arguments: list[str], sentence: str
) -> None:
    with (site.temporary / "pyrometer-measuring.lock").open("w") as measuring:
        fcntl.flock(measuring, fcntl.LOCK_EX)
        assert sentence in typed(site, "run", *arguments).one_sentence()


def test_ctrl_c_while_the_program_is_imported_gets_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(300)\n")
    starting = subprocess.Popen(
        [COMMAND, "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert starting.stdout is not None and starting.stdout.readline() == "importing\n"
        starting.send_signal(signal.SIGINT)
        out, err = starting.communicate()
    finally:
        starting.kill()
    assert (starting.returncode, out, err) == (130, "", "interrupted before anything began\n")


def test_the_version_is_printed_either_way() -> None:
    printed = {CliRunner().invoke(app, [word]).stdout for word in ("--version", "version")}
    assert printed == {f"{version('pyrometer')}\n"}


@pytest.mark.torch
def test_the_help_explains_the_exit_codes(site: Site) -> None:
    said = " ".join(typed(site, "run", "--help").out.split())
    assert (
        "0 every case is ok, skipped or unsupported; 1 a case failed; 2 wrong usage, or it cannot start; "
        "130 interrupted" in said
    )


@pytest.mark.torch
def test_what_there_is_can_be_listed_for_machines(site: Site) -> None:
    suites = {s["name"]: s for s in json.loads(typed(site, "suites", "list", "--json").out)}
    assert {"smoke", "cpu", "quick"} <= suites.keys()
    assert suites["quick"]["cases"][0] == ADD and suites["quick"]["replicates"] == 2
    shown = json.loads(typed(site, "cases", "show", "add", "--cases", "cases.py", "--json").out)
    assert shown["offered"] == [ADD] and shown["suites"]["quick"] == [ADD]


@pytest.mark.parametrize("command", ["import", "submit"])
def test_a_file_without_a_name_is_not_this_folder(site: Site, command: str) -> None:
    done = typed(site, command, "")
    assert (
        done.code == 2
        and "Invalid value for 'FILE" in done.err
        and "the name of the file is empty" in done.err
    )


def test_a_defect_of_ours_never_passes_for_a_verdict(site: Site) -> None:
    broken = "import cli.registry; cli.registry.app = lambda: 1 / 0; from cli.app import main; main()"
    done = site.execute(sys.executable, "-c", broken)
    assert done.code == 70
    assert "ZeroDivisionError" in done.err and "defect in Pyrometer" in done.err


@pytest.mark.parametrize(
    ("words", "not_needed"),
    [
        (("--version",), ("sqlalchemy", "numpy", "pydantic", "rich")),
        (
            ("--help",),
            ("sqlalchemy", "numpy", "pydantic", "rich", "pandas", "streamlit", "torch", "cli.commands.run"),
        ),
        (("cases", "list"), ("sqlalchemy", "numpy", "pandas", "streamlit", "torch", "workflows.ingest")),
        (
            ("run", "--help"),
            ("alembic", "scipy.special", "altair", "streamlit", "ray", "cli.commands.doctor"),
        ),
    ],
)
def test_a_command_waits_for_no_import_of_another(
    words: tuple[str, ...], not_needed: tuple[str, ...]
) -> None:
    tell = "import sys, atexit; atexit.register(lambda: print('HERE', *sys.modules))"
    code = f"{tell}; from cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    imported = done.stdout.partition("HERE ")[2].split()
    assert "cli.registry" in imported
    assert [name for name in not_needed if name in imported] == []


@pytest.mark.parametrize(
    "words",
    [
        ("db", "check"),
        ("digest",),
        ("export", "latest", "all.csv"),
        ("import", "none.csv"),
        ("regressions", "mute", "1", "--until", "2999-01-01"),
        ("report",),
        ("schedule", "trigger", "nightly"),
        ("submit", "none.json"),
    ],
)
def test_where_data_goes_instead_is_said_once(tmp_path: Path, words: tuple[str, ...]) -> None:
    # No user, root included, can make files in /proc.
    database = {"PYROMETER_DATABASE_URL": f"sqlite:///{tmp_path}/pyrometer.db"}
    done = called(Path("/proc"), {"HOME": str(tmp_path), "PATH": os.environ["PATH"], **database}, *words)
    notes = [line for line in done.err.splitlines() if "so data goes to" in line]
    assert len(notes) == 1 and notes[0].startswith("note: /proc/.pyrometer cannot be written (")


def test_a_mistyped_word_gets_a_list_of_known_ones() -> None:
    done = CliRunner().invoke(app, ["regresions"])
    assert done.exit_code == 2
    assert 'unknown command "regresions": did you mean "regressions"?' in done.output


def test_the_help_lists_each_command_with_its_own_first_sentence() -> None:
    group: Any = get_command(app)
    context = Context(group)
    for name, place in _PLACES.items():
        assert place.help == group.get_command(context, name).get_short_help_str(200)
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert [line for line in shown.splitlines() if line.startswith("  version ")] and "  fleet " in shown
