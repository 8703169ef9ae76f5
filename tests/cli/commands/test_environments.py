"""`pyrometer environments`: lists, builds, news, and builds that are killed or meet each other."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.environments.recipe import Recipe
from runner.environments.store import MARK, Store
from support.command_line import typed as call
from support.fakes.torch_wheels import install_only_from, write_wheel
from support.servers.package_index import GatedIndex
from support.site import COMMAND, PATIENCE_SECONDS, Site

pytestmark = pytest.mark.slow

VERSIONS = ("2.9.1", "2.10.0")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two small wheels of torch."""
    folder = tmp_path_factory.mktemp("wheels")
    for version in VERSIONS:
        write_wheel(folder, version)
    return folder


@pytest.fixture
def place(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder with settings, where pip knows the small wheels and nothing else."""
    install_only_from(wheels, monkeypatch)
    yield Site(tmp_path, Path(sys.executable))


def store(place: Site) -> Store:
    """What was built there."""
    return Store(place.folder / ".pyrometer/environments")


def test_an_environment_from_its_declaration_to_its_removal(place: Site) -> None:
    added = call(place, "environments", "add", "old", "2.9.1", "--bare")
    assert added.code == 0 and "[environments.old]" in added.out
    assert 'torch = "2.9.1"\nusual_packages = false\n' in (place.folder / "pyrometer.toml").read_text()
    assert "is already declared in" in call(place, "environments", "add", "old", "2.9.1").one_sentence()

    listed = json.loads(call(place, "environments", "list", "--json").out)
    assert [(row["name"], row["state"]) for row in listed] == [("default", "broken"), ("old", "not built")]
    refused = call(place, "environments", "build", "old", "default").one_sentence()
    assert "environment default is an existing interpreter" in refused

    done = call(place, "environments", "build", "old")
    assert done.code == 0, done
    (built,) = store(place).all()
    assert done.out == f"old  {built.python}\n"
    assert "old: making the virtual environment\n" in done.err and "built in" in done.err
    row = json.loads(call(place, "environments", "list", "--json").out)[1]
    assert (row["name"], row["state"], row["torch"]) == ("old", "ready", "2.9.1")
    assert row["fingerprint"] == built.facts["fingerprint"]
    shown = json.loads(call(place, "environments", "show", "old", "--json").out)
    assert shown["packages"] == ["torch==2.9.1"] and Path(shown["freeze"]).read_text() == "torch==2.9.1\n"
    used = f"{datetime.fromtimestamp(built.used_at, UTC):%Y-%m-%d %H:%M} UTC"
    assert used in call(place, "environments", "list", TZ="Asia/Tokyo").out

    removed = call(place, "environments", "remove", "old")
    assert removed.code == 0 and removed.out.startswith(f"removed {built.name}")
    assert not built.folder.exists()
    assert call(place, "environments", "remove", "old").one_sentence().endswith("old is not built")
    assert "did not build it" in call(place, "environments", "remove", "default").one_sentence()


def test_a_password_is_refused_on_the_command_line_and_listed_nowhere(place: Site) -> None:
    wheel = "https://me:hunter2@our.example/torch-2.9.1-py3-none-any.whl"
    for words in (
        ("environments", "build", wheel),
        ("environments", "add", "ours", wheel),
        ("environments", "build", "2.9.1", "--index", "https://me:hunter2@our.example/simple"),
        ("environments", "available", "--find-links", "https://hunter2@our.example/wheels"),
        ("upgrade", "2.9.1", wheel),
    ):
        refused = call(place, *words).one_sentence()
        assert "user and password: keep them in ~/.netrc, or write the" in refused
        assert "hunter2" not in refused
    package = call(place, "environments", "build", "2.9.1", "--package", f"torch @ {wheel}")
    assert package.code == 2 and "~/.netrc" in package.err and "hunter2" not in package.err

    (place.folder / "pyrometer.toml").write_text(f'[environments.ours]\nwheel = "{wheel}"\n')
    (_, row) = json.loads(call(place, "environments", "list", "--json").out)
    assert row["from"] == wheel.replace("me:hunter2@", "")
    assert "hunter2" not in f"{call(place, 'environments', 'list')}"


def test_only_what_is_meant_is_removed(place: Site, tmp_path: Path) -> None:
    shelf = store(place)
    for recipe in (Recipe(torch="2.9.1"), Recipe(torch="2.9.1", usual=False)):
        shelf.write_recipe(recipe)
        shelf.mark(recipe, {"torch": "2.9.1"}, seconds=1.0)
    one, other = shelf.all()
    # Declared with another package, and not built: neither of the two.
    assert call(place, "environments", "add", "mine", "2.9.1", "--package", "six").code == 0
    for command in ("remove", "show"):
        refused = call(place, "environments", command, "mine").one_sentence()
        assert refused.endswith("environment mine is not built")
        refused = call(place, "environments", command, "2.9.1").one_sentence()
        assert '"2.9.1" matches several' in refused and one.name in refused and other.name in refused
    refused = call(place, "environments", "remove", one.name, "2.9.1").one_sentence()
    assert "matches several" in refused and len(shelf.all()) == 2
    wheel = write_wheel(tmp_path / "loose", "2.9.1")
    assert call(place, "environments", "remove", str(wheel)).one_sentence().endswith("is not built")
    assert call(place, "environments", "remove", one.name, one.name).code == 0
    # What else was built of a version is meant by the version where it is alone.
    assert call(place, "environments", "remove", "torch==2.9.1").out.startswith(f"removed {other.name}")
    assert shelf.all() == []


def test_one_whose_python_was_replaced_is_listed_as_broken(place: Site, tmp_path: Path) -> None:
    base = tmp_path / "python3"
    recipe = Recipe(torch="2.9.1", base_python=str(base))
    path = store(place).write_recipe(recipe)
    (path / "bin").mkdir()
    (path / "bin/python").symlink_to(base)
    store(place).mark(recipe, {"torch": "2.9.1", "python": "3.11.2"}, seconds=1.0)
    base.write_text("#!/bin/sh\necho 3.13\n")
    base.chmod(0o755)
    row = json.loads(call(place, "environments", "list", "--json").out)[1]
    assert (row["name"], row["state"]) == ("2.9.1", "broken")
    assert row["broken"] == "the Python that created it has another version now: build it again"


def test_new_versions_on_the_index_are_reported_from_the_second_time_on(place: Site, tmp_path: Path) -> None:
    links = tmp_path / "links"
    write_wheel(links, "2.10.0")

    def available(*options: str) -> dict[str, object]:
        return dict(
            json.loads(
                call(place, "environments", "available", *options, "--json", PIP_FIND_LINKS=str(links)).out
            )
        )

    def fresh(body: dict[str, object]) -> list[str]:
        return [row["version"] for row in body["versions"] if row["new"]]  # type: ignore[attr-defined]

    first = available()
    assert first["first_time"] and fresh(first) == []
    none = call(place, "environments", "available", "--pre", PIP_FIND_LINKS=str(links)).out
    assert "this index offers no nightlies" in none
    write_wheel(links, "2.9.1")
    write_wheel(links, "2.16.0.dev20261120")
    second = available()
    assert not second["first_time"] and fresh(second) == ["2.9.1"], "the order is by version, newest first"
    (nightly, *_) = available("--pre")["versions"]  # type: ignore[misc]
    assert (nightly["version"], nightly["kind"]) == ("2.16.0.dev20261120", "nightly")
    text = call(place, "environments", "available", PIP_FIND_LINKS=str(links)).out
    assert text.endswith("new since last time: nothing\n")


def test_a_misspelt_one_names_the_nearest(place: Site) -> None:
    sentence = call(place, "run", "--environment", "defalt").one_sentence()
    assert 'did you mean "default"?' in sentence
    assert "a nightly is named" in call(place, "environments", "build", "nightly someday").one_sentence()


def test_listing_reads_what_is_installed_and_starts_no_torch(place: Site, tmp_path: Path) -> None:
    """A package that cannot be imported still says which version it is."""
    venv = tmp_path / "own"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (packages,) = venv.glob("lib/python3*/site-packages")
    settings = place.folder / "pyrometer.toml"
    settings.write_text(f'[environments.default]\npython = "{venv}/bin/python"\n')
    (without,) = json.loads(call(place, "environments", "list", "--json").out)
    assert without["state"] == "broken" and "has no PyTorch" in without["broken"]
    (packages / "torch").mkdir()
    (packages / "torch/__init__.py").write_text("raise SystemExit('imported')")
    (packages / "torch/version.py").write_text(
        "__version__ = '2.9.1+cu130'\ncuda: str = '13.0'\ngit_version = 'cf3'\n"
    )
    (packages / "torch-2.9.1.dist-info").mkdir()
    (packages / "torch-2.9.1.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.9.1\n"
    )
    (row,) = json.loads(call(place, "environments", "list", "--json").out)
    assert (row["state"], row["torch"], row["cuda"], row["torch_git"]) == (
        "ready",
        "2.9.1+cu130",
        "13.0",
        "cf3",
    )


def test_a_run_builds_the_version_that_it_is_to_measure(place: Site) -> None:
    done = call(place, "run", "--environment", "3.1.4", "--suite", "smoke")
    assert done.code == 2 and "3.1.4: making the virtual environment" in done.err
    assert "the package index offers no torch 3.1.4" in done.err.splitlines()[-1]
    (place.folder / "pyrometer.toml").write_text('[environments.default]\ntorch = "2.9.1"\n')
    sentence = call(place, "cases", "list", "--cases", "cases.py").one_sentence()
    assert sentence == (
        "pyrometer: environment default is not built: `pyrometer environments build 'default'`"
    )
    assert store(place).all() == []


class Building:
    """`pyrometer environments build` in the background, with an index that waits."""

    def __init__(self, place: Site, index: GatedIndex, number: int) -> None:
        self.err = place.folder / f"building-{number}"
        # An empty variable is none to pip.
        places = {"PIP_INDEX_URL": index.address, "PIP_NO_INDEX": "", "PIP_FIND_LINKS": ""}
        with self.err.open("w") as err:
            self.process = subprocess.Popen(
                [COMMAND, "environments", "build", "--bare", "2.10.0"],
                cwd=place.folder,
                env=place.environ(places),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
            )

    def said(self, text: str) -> None:
        """Wait until it has said something."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while text not in self.err.read_text():
            assert self.process.poll() is None and time.monotonic() < give_up, self.err.read_text()
            time.sleep(0.02)

    def ended(self) -> tuple[int, str]:
        """Its exit code and what it wrote to stdout."""
        out, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out


def assert_no_build_left(folder: Path) -> None:
    """Return when no process has the folder in its command line any more."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        left: list[str] = []
        for entry in Path("/proc").iterdir():
            try:
                line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            except OSError:
                continue
            if os.fsencode(folder) in line:
                left.append(entry.name)
        if not left:
            return
        assert time.monotonic() < give_up, left
        time.sleep(0.05)


def test_a_build_that_is_killed_leaves_nothing_that_is_used(place: Site, wheels: Path) -> None:
    with GatedIndex(wheels).serving() as index:
        building = Building(place, index, 0)
        assert index.requested.wait(PATIENCE_SECONDS)
        building.process.send_signal(signal.SIGKILL)
        assert building.ended()[0] == -signal.SIGKILL
        # The supervisor sees its lifeline close, and pip dies with it.
        assert_no_build_left(store(place).folder)
    (half,) = store(place).folder.glob("2.10.0-*")
    assert half.is_dir() and not (half / MARK).exists()
    assert store(place).all() == []
    again = place.call("environments", "build", "--bare", "2.10.0")
    assert again.code == 0, again
    assert f"note: environment {half.name} is the incomplete result of a killed build" in again.err
    assert [built.folder for built in store(place).all()] == [half]


def test_two_builds_of_the_same_meet_and_one_builds(place: Site, wheels: Path) -> None:
    with GatedIndex(wheels).serving() as index:
        first = Building(place, index, 0)
        assert index.requested.wait(PATIENCE_SECONDS)
        second = Building(place, index, 1)
        second.said("waiting")
        index.open.set()
        one, other = first.ended(), second.ended()
    assert one[0] == other[0] == 0 and one[1] == other[1]
    assert "making the virtual environment" not in second.err.read_text()
    assert len(store(place).all()) == 1


def test_ctrl_c_ends_a_build_and_leaves_nothing(place: Site, wheels: Path) -> None:
    with GatedIndex(wheels).serving() as index:
        building = Building(place, index, 0)
        assert index.requested.wait(PATIENCE_SECONDS)
        building.process.send_signal(signal.SIGINT)
        assert building.ended()[0] == 130
        assert_no_build_left(store(place).folder)
    assert "interrupted: unfinished builds were removed" in building.err.read_text()
    assert list(store(place).folder.glob("2.10.0-*")) == []
