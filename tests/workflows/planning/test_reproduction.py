"""What made a number: command, preset, harness and locks, from journals as runs leave them."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from configuration.data_dirs import resolve_places
from configuration.settings import load_settings
from records.fingerprints import AGAIN
from records.json_values import LONGEST_TEXT, WHERE_WHOLE, bounded_text
from records.outcomes import Outcome, PlannedReplicate
from runner.journal import Journal
from support.builders.journals import a_header, a_plan
from support.builders.run_records import MLP
from support.builders.upgrade_journals import NEW, OLD, RESNET, Story, write_upgrade
from support.sqlite_files import sqlite_with_tables
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.planning.reproduction import check_repeated, reproduction


@pytest.fixture
def app(tmp_path: Path) -> AppContext:
    """A project folder without runs."""
    (tmp_path / "pyrometer.toml").touch()
    sqlite_with_tables(tmp_path / "pyrometer.db")
    settings = load_settings(cwd=tmp_path, environ={})
    return AppContext(settings, resolve_places(settings), reporter=None, command="")  # type: ignore[arg-type]


def build(app: AppContext, fingerprint: str, freeze: str) -> Path:
    """An environment as a build leaves it; its interpreter cannot be started."""
    folder = app.settings.environments_dir / f"2.13.0-{abs(hash(fingerprint)) % 16**8:08x}"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    (folder / "recipe.json").write_text("{}")
    (folder / "freeze.txt").write_text(freeze)
    body = {"label": "2.13.0", "recipe": {}, "facts": {"fingerprint": fingerprint}}
    numbers = {"size_mib": 1, "seconds": 1.0, "built_at": 1.0}
    (folder / "built.json").write_text(json.dumps(body | numbers))
    return folder / "bin" / "python"


def test_a_case_of_an_upgrade_names_the_environments_that_still_exist(app: AppContext) -> None:
    write_upgrade(app.places.data_dir, Story())
    pinned = "torch @ file:///wheels/torch.whl#sha256=00ff\n"
    python = build(app, OLD.fingerprint, pinned)
    found = reproduction(app, f"latest:{RESNET}")
    assert found.commands == (
        (
            *("pyrometer", "upgrade", str(python), "2.15.0", "--case", RESNET),
            *("--suite", "cpu", "--pairs", "12"),
        ),
    )
    old, new = found.environments
    assert (old.packages, old.python) == ((pinned.strip(),), python)
    assert (new.packages, new.python) == (("numpy==2.4.0", "triton==3.8.0"), None)
    assert (old.name, new.fingerprint) == ("2.13.0", NEW.fingerprint)


def test_a_whole_run_has_the_command_that_was_typed(app: AppContext) -> None:
    write_upgrade(app.places.data_dir, Story())
    found = reproduction(app, Story().run)
    assert found.commands == (("pyrometer", "upgrade", "2.13.0", "2.15.0", "--suite", "cpu"),)
    assert found.case == "" and found.preset == "quiet"
    assert found.harness == "harness-1f3a" != found.own_harness


def test_an_environment_that_was_compared_with_itself_has_one_lock(app: AppContext) -> None:
    again = replace(OLD, fingerprint=OLD.fingerprint + AGAIN, name=OLD.name + AGAIN)
    write_upgrade(app.places.data_dir, Story(sides=(OLD, again)))
    python = build(app, OLD.fingerprint, "numpy==2.3.1\n")
    found = reproduction(app, f"latest:{RESNET}")
    assert [lock.python for lock in found.environments] == [python, python]
    assert [lock.name for lock in found.environments] == [OLD.name, OLD.name]


def test_a_plain_run_has_a_command_for_each_environment(app: AppContext) -> None:
    plan = a_plan(replicates=1)
    header = a_header("run-1", plan)
    with Journal(app.places.data_dir / "runs" / "run-1") as journal:
        journal.header(header.to_body())
        for one in plan:
            outcome = Outcome(one.case, one.environment, one.replicate, "ok", metrics={"latency": 1.0})
            journal.outcome(outcome)
    found = reproduction(app, f"run-1:{MLP}")
    names = [lock.name for lock in found.environments]
    assert len(names) == 2
    assert [command[command.index("--environment") + 1] for command in found.commands] == names
    assert all(command[:4] == ("pyrometer", "run", "--case", MLP) for command in found.commands)


def night(app: AppContext, command: str, name: str = "nightly-2026-11-20") -> str:
    """The journal of a night under the nightly of a day; its case."""
    python = "3.12.3"
    body = {"name": name, "python": "/python", "fingerprint": "of-that-day"}
    facts = {"torch": "2.16.0.dev20261120+cpu", "python": python}
    planned = PlannedReplicate(MLP, "of-that-day", 0)
    header = a_header("run-1", (planned,), command=command, environments=({**body, "facts": facts},))
    with Journal(app.places.data_dir / "runs" / "run-1") as journal:
        journal.header(header.to_body())
        journal.outcome(Outcome(*planned_values(planned), "ok", metrics={"latency": 1.0}))
    return MLP


def planned_values(one: PlannedReplicate) -> tuple[str, str, int]:
    return one.case, one.environment, one.replicate


def test_a_night_is_reproduced_with_the_nightly_of_its_day(app: AppContext) -> None:
    night(app, "pyrometer run --environment nightly --suite cpu --json")
    (command,) = reproduction(app, "run-1").commands
    assert command == ("pyrometer", "run", "--suite", "cpu", "--json", "--environment", "nightly 2026-11-20")
    python = build(app, "of-that-day", "")
    (command,) = reproduction(app, "run-1").commands
    assert command == ("pyrometer", "run", "--suite", "cpu", "--json", "--python", str(python))


@pytest.mark.parametrize("typed", ["--replicates 9", "--replicates=9"])
def test_a_case_is_measured_in_as_many_processes_as_it_was(app: AppContext, typed: str) -> None:
    case = night(app, f"pyrometer run --suite cpu {typed}")
    (command,) = reproduction(app, f"run-1:{case}").commands
    assert command[command.index("--replicates") + 1] == "9"


def test_a_nightly_that_is_declared_keeps_its_index(tmp_path: Path) -> None:
    (tmp_path / "pyrometer.toml").write_text('[environments.mine]\ntorch = "nightly"\nindex = "https://a"\n')
    sqlite_with_tables(tmp_path / "pyrometer.db")
    settings = load_settings(cwd=tmp_path, environ={})
    app = AppContext(settings, resolve_places(settings), reporter=None, command="")  # type: ignore[arg-type]
    case = night(app, "pyrometer run -e mine", "mine")
    for text in ("run-1", f"run-1:{case}"):
        (command,) = reproduction(app, text).commands
        assert command[command.index("--environment") + 1] == "mine 2026-11-20"
        assert "-e" not in command


def test_held_clocks_are_held_again_and_an_operator_comes_with_its_census(app: AppContext) -> None:
    case = night(app, "pyrometer run --census my.toml --lock-clocks 1200 --environment nightly")
    (command,) = reproduction(app, f"run-1:{case}").commands
    assert command[2:] == (
        *("--environment", "nightly 2026-11-20", "--preset", "quiet"),
        *("--census", "my.toml", "--lock-clocks", "1200"),
    )


def test_packages_are_not_installed_into_an_interpreter(app: AppContext) -> None:
    folder = write_upgrade(app.places.data_dir, Story(command="pyrometer upgrade 2.13.0 2.15.0 --package x"))
    build(app, OLD.fingerprint, "")
    header = json.loads(folder.read_bytes().splitlines()[0])["body"]
    header["comparison"]["options"] = ["--package", "x"]
    with Journal(folder.parent) as journal:
        journal.header(header)
    for text in ("latest", f"latest:{RESNET}"):
        (command,) = reproduction(app, text).commands
        assert command[:4] == ("pyrometer", "upgrade", "2.13.0", "2.15.0")


def test_a_whole_upgrade_names_the_environments_that_still_exist(app: AppContext) -> None:
    write_upgrade(app.places.data_dir, Story(command="pyrometer upgrade --policy 2.13.0 2.13.0 2.15.0"))
    python = build(app, OLD.fingerprint, "")
    (command,) = reproduction(app, "latest").commands
    assert command == ("pyrometer", "upgrade", "--policy", "2.13.0", str(python), "2.15.0")


def test_a_command_that_is_cut_is_printed_as_one_word(app: AppContext) -> None:
    """As a file may hold it, and as a long one is stored."""
    command = bounded_text(f"pyrometer run {'--case a ' * 4000}", LONGEST_TEXT, WHERE_WHOLE)
    with pytest.raises(ValueError, match="No closing quotation"):
        shlex.split(command)
    case = night(app, command)
    found = reproduction(app, "run-1")
    assert found.commands == ((command,),) and found.environments[0].fingerprint == "of-that-day"
    with pytest.raises(UsageError, match="cannot be run again"):
        check_repeated(found)
    (of_case,) = reproduction(app, f"run-1:{case}").commands
    assert of_case[:4] == ("pyrometer", "run", "--case", MLP)


@pytest.mark.parametrize("packages", [7, "torch", {"torch": "2.13.0"}])
def test_packages_that_are_no_list_are_not_recorded(app: AppContext, packages: object) -> None:
    folder = write_upgrade(app.places.data_dir, Story())
    header = json.loads(folder.read_bytes().splitlines()[0])["body"]
    header["environments"][0]["facts"]["packages"] = packages
    with Journal(folder.parent) as journal:
        journal.header(header)
    old, new = reproduction(app, "latest").environments
    assert old.packages == () and new.packages


def test_what_is_unknown_is_named(app: AppContext) -> None:
    write_upgrade(app.places.data_dir, Story())
    with pytest.raises(UsageError, match=r'unknown case "resnet".*did you mean|unknown case "resnet"'):
        reproduction(app, "latest:resnet")
