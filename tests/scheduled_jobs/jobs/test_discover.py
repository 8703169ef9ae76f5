"""New releases are found with the real pip, and each is set against the baseline once."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from configuration.settings import load_settings
from db.connection.engine import Database
from db.findings import notices
from db.queue.commands import plan_run
from records.tasks import NewTask, Task
from runner.errors import IndexFailed
from scheduled_jobs.jobs.context import ChildExit, JobContext, JobResult
from scheduled_jobs.jobs.discover import RELEASE, discover, pinned_version
from scheduled_jobs.jobs.upgrade import upgrade
from support.builders.detection_nights import Child, a_task, claimed, finish, job_context, nightly, waiting
from support.builders.run_records import a_night
from support.fakes.torch_wheels import install_only_from, write_wheel

pytestmark = pytest.mark.slow

TOML = """
[environments.stable]
torch = "2.13"

[environments.mine]
python = "/usr/bin/python3"

[schedules.nightly]
cron = "30 2 * * *"
suite = "cpu"
environments = ["2.12.0", "latest"]
baseline = "2.12.0"
machines = ["h200", "a10"]
replicates = 4

[schedules.loose]
cron = "30 4 * * *"
"""


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What pip can have: nothing but this folder."""
    folder = tmp_path / "wheels"
    for version in ("2.11.0", "2.12.0", "2.12.1+cpu", "2.13.0", "2.14.0rc1", "2.16.0.dev20260920+cpu"):
        write_wheel(folder, version)
    install_only_from(folder, monkeypatch)
    return folder


class Discovery:
    """One look after another, six hours apart."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.folder, self.looks, self.toml = database, folder, 0, TOML

    def job_context(self, now: datetime) -> JobContext:
        (self.folder / "settings").mkdir(exist_ok=True)
        (self.folder / "settings" / "pyrometer.toml").write_text(self.toml)
        settings = load_settings(cwd=self.folder / "settings", environ={})
        return replace(job_context(self.folder, now), settings=settings)

    def look(self, *, plant: bool = True) -> JobResult:
        self.looks += 1
        now = a_night(0) + timedelta(hours=6 * self.looks)
        task = a_task(self.database, "discover", {}, now)
        done = discover(task, self.job_context(now))
        if plant:
            finish(self.database, task, done, now)
        return done


def planted(database: Database) -> list[tuple[str, str, str]]:
    found = waiting(database, "upgrade")
    return sorted((task.spec["old"], task.spec["new"], task.label) for task in found)


def test_a_release_is_set_against_the_baseline_once(sqlite: Database, tmp_path: Path, wheels: Path) -> None:
    discovery = Discovery(sqlite, tmp_path)
    first = discovery.look(plant=False)
    assert first.result["new"] == ["2.12.1", "2.13.0"] and first.result["newest"] == "2.13.0"
    # That one died before its upgrade was planted; the next finds the release as if for the first time.
    assert planted(sqlite) == [] and discovery.look().result["upgrades"] == ["2.12.0 -> 2.13.0"]
    # Releases from before the first look are reported, and only the newest is measured automatically.
    once = [("2.12.0", "2.13.0", "a10"), ("2.12.0", "2.13.0", "h200")]
    assert planted(sqlite) == once
    (task, _) = waiting(sqlite, "upgrade")
    assert task.spec["suite"] == "cpu" and "replicates" not in task.spec
    write_wheel(wheels, "2.13.1")
    assert discovery.look().result["upgrades"] == ["2.12.0 -> 2.13.1"]
    assert planted(sqlite) == [*once, ("2.12.0", "2.13.1", "a10"), ("2.12.0", "2.13.1", "h200")]
    last = discovery.look()
    assert (last.follow_ups, last.result["upgrades"], len(planted(sqlite))) == ((), [], 4)
    known = {notice.facts["version"] for notice in notices.notices(sqlite) if notice.kind == RELEASE}
    assert known == {"2.12.1", "2.13.0", "2.13.1"}


def test_the_upgrade_of_a_schedule_over_nodes_is_on_one(
    sqlite: Database, tmp_path: Path, wheels: Path
) -> None:
    discovery = Discovery(sqlite, tmp_path)
    discovery.toml = TOML.replace("replicates = 4", "nodes = 2")
    discovery.look()
    (task, _) = waiting(sqlite, "upgrade")
    assert task.spec["suite"] == "cpu" and "nodes" not in task.spec
    child = Child(tmp_path / "data", (nightly(1), nightly(2)), {"resnet50/infer/-/eager": 0.8})
    assert (
        upgrade(claimed(sqlite, a_night(1), task.label), job_context(tmp_path, a_night(1), child)).state
        == "done"
    )
    # `pyrometer upgrade` knows no such option.
    assert "--nodes" not in child.commands[0]


def test_against_another_baseline_a_known_release_is_set_once_more(
    sqlite: Database, tmp_path: Path, wheels: Path
) -> None:
    discovery = Discovery(sqlite, tmp_path)
    discovery.look()
    discovery.look()
    once = [("2.12.0", "2.13.0", "a10"), ("2.12.0", "2.13.0", "h200")]
    assert planted(sqlite) == once
    discovery.toml = TOML.replace("2.12.0", "2.12.1")
    assert discovery.look().result["upgrades"] == ["2.12.1 -> 2.13.0"]
    both = [*once, ("2.12.1", "2.13.0", "a10"), ("2.12.1", "2.13.0", "h200")]
    assert discovery.look().result["upgrades"] == [] and planted(sqlite) == both
    notes = {one.key: one.body for one in notices.notices(sqlite) if one.kind == RELEASE}
    assert notes["nightly/2.12.1/2.13.0"].endswith("pinned to 2.12.1. The two are compared.")
    # Going back to an older baseline reports nothing anew.
    discovery.toml = TOML
    assert discovery.look().result["new"] == [] and planted(sqlite) == both


def test_what_an_earlier_pyrometer_planted_counts_for_its_baseline(
    sqlite: Database, tmp_path: Path, wheels: Path
) -> None:
    discovery = Discovery(sqlite, tmp_path)
    task = NewTask("h200", "upgrade", {"schedule": "nightly", "old": "2.12.0", "new": "2.13.0"}, "h200")
    assert plan_run(sqlite, "upgrade:nightly:2.13.0", a_night(0), "follow-up", [task], a_night(0))
    look = discovery.look()
    assert (look.result["new"], look.result["upgrades"]) == (["2.12.1", "2.13.0"], [])
    discovery.toml = TOML.replace("2.12.0", "2.12.1")
    assert discovery.look().result["upgrades"] == ["2.12.1 -> 2.13.0"]


def test_where_nightlies_are_followed_the_newest_is_reported(
    sqlite: Database, tmp_path: Path, wheels: Path
) -> None:
    discovery = Discovery(sqlite, tmp_path)
    discovery.toml = TOML.replace('"latest"', '"nightly"')
    assert discovery.look().result["nightly"] == "2.16.0.dev20260920+cpu"


def test_without_an_index_the_look_fails_with_a_sentence(
    sqlite: Database, tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    with pytest.raises(IndexFailed):
        Discovery(sqlite, tmp_path).look()


def test_what_a_baseline_is_pinned_to(sqlite: Database, tmp_path: Path) -> None:
    settings = Discovery(sqlite, tmp_path).job_context(a_night(0)).settings
    found = {
        name: pinned_version(name, settings) for name in ("2.12", "stable", "mine", "nightly", "2.13.0+cpu")
    }
    assert {name: str(version) if version else None for name, version in found.items()} == {
        "2.12": "2.12",
        "stable": "2.13",
        "mine": None,
        "nightly": None,
        "2.13.0+cpu": "2.13.0",
    }


def an_upgrade(database: Database) -> Task:
    spec = {
        "old": "2.12.0",
        "new": "2.13.0",
        "suite": "smoke",
        "cases": ["resnet50/infer/-/eager"],
        "device": "cpu",
    }
    return a_task(database, "upgrade", spec, a_night(1))


def test_an_upgrade_is_decided(sqlite: Database, tmp_path: Path) -> None:
    child = Child(tmp_path / "data", (nightly(1), nightly(2)), {"resnet50/infer/-/eager": 0.8})
    done = upgrade(an_upgrade(sqlite), job_context(tmp_path, a_night(1), child))
    assert (done.state, done.result["decision"]) == ("done", "go")
    assert done.result["summary"].startswith("2.12.0 -> 2.13.0: go, ") and done.result["broken"] == []
    (command,) = child.commands
    assert command[:5] == ["upgrade", "2.12.0", "2.13.0", "--suite", "smoke"]
    report = Path(command[command.index("--report") + 1])
    assert report.parent == tmp_path / "data" / "reports" and report.name.startswith(
        "upgrade-2.12.0-to-2.13.0-"
    )


def test_an_upgrade_to_the_newest_release_is_one_to_what_it_measured(
    sqlite: Database, tmp_path: Path, wheels: Path
) -> None:
    sides = (nightly(1), nightly(2))
    begun = Child(tmp_path / "data", sides, {"resnet50/infer/-/eager": 0.8})

    def goes_on(arguments: Sequence[str], *about: Any) -> ChildExit:
        # As a run that began when 2.12.1 was the newest.
        assert arguments[2] == "2.13.0"
        return begun([*arguments[:2], "2.12.1", *arguments[3:]], *about)

    task = an_upgrade(sqlite)
    task = replace(task, spec={**task.spec, "new": "latest"})
    done = upgrade(task, job_context(tmp_path, a_night(1), goes_on))
    assert (done.result["old"], done.result["new"]) == ("2.12.0", "2.12.1")
    assert done.result["summary"].startswith("2.12.0 -> 2.12.1: go, ")


def test_of_an_upgrade_on_another_machine_no_file_is_required(sqlite: Database, tmp_path: Path) -> None:
    child = Child(tmp_path / "data", (nightly(1), nightly(2)), {"resnet50/infer/-/eager": 0.8})
    done = upgrade(an_upgrade(sqlite), replace(job_context(tmp_path, a_night(1), child), away=True))
    (command,) = child.commands
    assert "--report" not in command
    assert (done.state, done.result["decision"], done.result["report"]) == ("done", "go", "")


def test_an_upgrade_that_cannot_begin_failed(sqlite: Database, tmp_path: Path) -> None:
    child = Child(
        tmp_path / "data", (nightly(1), nightly(2)), refuses="the package index offers no torch 2.13.0"
    )
    done = upgrade(an_upgrade(sqlite), job_context(tmp_path, a_night(1), child))
    assert (done.state, done.error) == ("failed", child.refuses)
