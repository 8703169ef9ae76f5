"""Built environments on the disk: what counts as built, what may be removed, what a quota takes first."""

import json
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runner.environments.recipe import Recipe
from runner.environments.store import MARK, RECIPE, Store, StoredEnvironment
from runner.errors import EnvironmentInUse


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "environments")


def made(store: Store, torch: str, used_at: float, mib: int = 1) -> StoredEnvironment:
    """An environment of `mib` MiB, as a build leaves it, last used at a time."""
    recipe = Recipe(torch=torch)
    path = store.write_recipe(recipe)
    (path / "bin").mkdir()
    (path / "bin/python").symlink_to(sys.executable)
    (path / "filling").write_bytes(os.urandom(mib << 20))
    store.mark(recipe, {"torch": torch, "built_at": used_at}, seconds=1.0)
    # Made old by hand, so that the test need not wait.
    body = {**json.loads((path / MARK).read_text()), "built_at": 0.0}
    (path / MARK).write_text(json.dumps(body))
    os.utime(path / "used", (used_at, used_at))
    found = store.find(recipe)
    assert found
    return found


def test_what_has_no_mark_is_not_there_and_is_swept_away(store: Store) -> None:
    whole, half = made(store, "2.10.0", 100.0), made(store, "2.9.1", 200.0)
    (half.folder / MARK).unlink()
    foreign = store.folder / "mine-0123abcd"
    foreign.mkdir()
    (store.folder / "default/bin").mkdir(parents=True)
    assert [built.name for built in store.all()] == [whole.name]
    assert store.find(Recipe(torch="2.9.1")) is None
    assert store.sweep() == [half.name]
    assert not half.folder.exists() and whole.folder.exists()
    assert foreign.exists() and (store.folder / "default/bin").exists()


def test_one_whose_python_was_replaced_in_its_place_is_to_be_built_again(
    store: Store, tmp_path: Path
) -> None:
    base = tmp_path / "python3"
    base.symlink_to(sys.executable)
    recipe = Recipe(torch="2.1.0", base_python=str(base))
    path = store.write_recipe(recipe)
    (path / "bin").mkdir()
    (path / "bin/python").symlink_to(base)
    whole = store.mark(recipe, {"python": platform.python_version()}, seconds=1.0)
    assert store.find(recipe) == whole and not whole.replaced
    base.unlink()
    base.write_text("#!/bin/sh\necho 2.7\n")
    base.chmod(0o755)
    assert store.find(recipe) is None and store.all() == [whole] and whole.replaced
    # One that is not there at this moment may come back.
    base.unlink()
    assert store.find(recipe) == whole


def test_a_half_built_one_is_left_to_who_builds_it(store: Store) -> None:
    recipe = Recipe(torch="2.9.1")
    with store.lock_for_build(recipe, lambda: None, lambda: False) as held:
        assert held
        path = store.write_recipe(recipe)
        assert store.sweep() == [] and path.exists()
    assert store.sweep() == [path.name]


@pytest.mark.parametrize("text", ["", "[]", '{"label": "2.9.1"}', '{"built_at": "never"}'])
def test_a_mark_that_makes_no_sense_is_none(store: Store, text: str) -> None:
    broken = made(store, "2.9.1", 1.0)
    (broken.folder / MARK).write_text(text)
    assert store.all() == []


def test_they_are_found_by_folder_and_by_label(store: Store) -> None:
    one = made(store, "2.10.0", 1.0)
    assert (
        [b.name for b in store.find_by_name("2.10.0")]
        == [b.name for b in store.find_by_name(one.name)]
        == [one.name]
    )
    assert store.find_by_name("2.1") == []
    assert one.size_mib == 1 and one.facts["torch"] == "2.10.0"


def test_the_least_recently_used_goes_first_and_says_so(store: Store) -> None:
    oldest, middle, newest = (made(store, f"2.{n}.0", 100.0 * n) for n in (1, 2, 3))
    assert [built.name for built in store.all()] == [newest.name, middle.name, oldest.name]
    assert store.make_room(3 / 1024, ()) == []
    (sentence,) = store.make_room(2 / 1024, ())
    assert oldest.name in sentence and "least recently used" in sentence and "environments_gib" in sentence
    assert [built.name for built in store.all()] == [newest.name, middle.name]


def test_what_is_named_or_in_use_stays_whatever_the_quota(store: Store) -> None:
    named, used, free = (made(store, f"2.{n}.0", 100.0 * n) for n in (1, 2, 3))
    with store.lock_interpreters([used.python, "/usr/bin/python3", store.folder / "default/bin/python"]):
        removed, left = store.make_room(0, {named.name})
    assert free.name in removed and "environments take 0.0 GiB of the 0 they may take" in left
    assert {built.name for built in store.all()} == {named.name, used.name}
    (removed, _) = store.make_room(0, {named.name})
    assert used.name in removed


def test_using_one_makes_it_the_most_recently_used(store: Store) -> None:
    old, new = made(store, "2.1.0", 100.0), made(store, "2.2.0", 200.0)
    with store.lock_interpreters([old.python]):
        pass
    assert [built.name for built in store.all()] == [old.name, new.name]


def test_what_a_run_uses_cannot_be_removed(store: Store) -> None:
    one = made(store, "2.1.0", 1.0)
    with store.lock_interpreters([one.python]), store.lock_interpreters([one.python]):
        with pytest.raises(EnvironmentInUse, match="is in use"):
            store.remove(one)
        assert one.folder.exists()
    store.remove(one)
    assert not one.folder.exists() and store.all() == []


def test_an_environment_in_use_cannot_be_removed(store: Store) -> None:
    one = made(store, "2.1.0", 1.0)
    code = "print('up', flush=True); import sys; sys.stdin.read()"
    with subprocess.Popen(
        [one.python, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdout.readline() == "up\n"
        with pytest.raises(EnvironmentInUse):
            store.remove(one)
    store.remove(one)
    assert not one.folder.exists()


@pytest.mark.parametrize("how", ["relative", "linked", "activated", "mapped"])
def test_it_is_in_use_however_it_was_started(store: Store, tmp_path: Path, how: str) -> None:
    one, other = made(store, "2.1.0", 1.0), made(store, "2.2.0", 1.0)
    (tmp_path / "link").symlink_to(one.folder)
    library = one.folder / "library.so"
    library.write_bytes(bytes(4096))
    variables = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    mapping = (
        f"import mmap; file = open({str(library)!r}); kept = mmap.mmap(file.fileno(), 0, prot=1); {code}"
    )
    program, more, code = {
        "relative": ("bin/python", {}, code),
        "linked": (str(tmp_path / "link/bin/python"), {}, code),
        "activated": (sys.executable, {"VIRTUAL_ENV": str(tmp_path / "link")}, code),
        "mapped": (sys.executable, {}, mapping),
    }[how]
    with subprocess.Popen(
        [program, "-c", code],
        cwd=one.folder if how == "relative" else tmp_path,
        env=variables | more,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout and process.stdout.readline() == "up\n"
        with pytest.raises(EnvironmentInUse, match="a process runs in it"):
            store.remove(one)
        store.remove(other)
    store.remove(one)


def test_who_builds_waits_for_who_uses_and_can_give_up(store: Store) -> None:
    one = made(store, "2.1.0", 1.0)
    gives_up, calls = threading.Event(), list[str]()
    with (
        store.lock_interpreters([one.python]),
        store.lock_for_build(
            Recipe(torch="2.1.0"), lambda: (calls.append("waits"), gives_up.set())[0], gives_up.is_set
        ) as held,
    ):
        assert not held and calls == ["waits"]


def test_the_recipe_lies_in_the_folder_of_its_environment(store: Store) -> None:
    one = made(store, "2.1.0", 1.0)
    assert '"torch": "2.1.0"' in (one.folder / RECIPE).read_text()
    assert dict(one.recipe)["torch"] == "2.1.0"
