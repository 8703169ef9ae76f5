"""What stands for an environment of some night today: a build, an interpreter, a version, or nothing."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from configuration.environments import EnvironmentSettings
from runner.environments.recipe import Recipe
from runner.environments.spec import EnvironmentSpec, parse_spec
from runner.environments.store import Store
from scheduled_jobs.detection.confirmation_plan import (
    EnvironmentChoice,
    EnvironmentGone,
    find_environment,
    remote_environment,
    version_spec,
)
from support.builders.detection_nights import build, nightly
from support.builders.run_records import an_environment

STABLE = an_environment("2.13.0+cpu", name="stable")


def side(
    tmp_path: Path, environment: Any, newest: str = "", **declared: EnvironmentSettings
) -> EnvironmentChoice:
    return find_environment(environment, newest, declared, Store(tmp_path / "environments"))


def test_what_was_built_is_known_by_its_fingerprint(tmp_path: Path) -> None:
    other = replace(nightly(1), fingerprint="other")
    build(tmp_path, other, "00000001")
    folder = build(tmp_path, nightly(1), "00000002")
    found = side(tmp_path, nightly(1))
    assert (found.text, found.rebuilt) == (str(folder), False)


def test_a_nightly_that_is_gone_is_requested_by_its_day(tmp_path: Path) -> None:
    found = side(tmp_path, nightly(1), nightly=EnvironmentSettings(torch="nightly"))
    assert (found.text, found.rebuilt) == ("nightly 2026-09-02", True)


def test_a_nightly_that_is_gone_is_built_from_the_index_that_it_had(tmp_path: Path) -> None:
    declared = EnvironmentSettings(torch="nightly", index="https://mirror.example.org/nightly/cu130")
    text = side(tmp_path, nightly(1), nightly=declared).text
    known = EnvironmentSpec("nightly", recipe=Recipe(torch="nightly", index=str(declared.index)))
    recipe = parse_spec(text, {"nightly": known}).recipe
    assert recipe is not None
    assert (recipe.torch, recipe.index) == ("nightly 2026-09-02", declared.index)
    # So has one of another name, which is called so whatever its day is.
    ours = replace(nightly(1), name="ours")
    assert side(tmp_path, ours, ours=declared).text == "ours 2026-09-02"
    # Meanwhile the name stands for a release: the origin of that nightly is unknown.
    released = EnvironmentSettings(torch="2.13.0", index=declared.index)
    assert side(tmp_path, ours, ours=released).text == "nightly 2026-09-02"


def test_a_declared_one_is_built_again_under_its_name(tmp_path: Path) -> None:
    declared = EnvironmentSettings(torch="2.13", packages=("torchao",))
    assert side(tmp_path, STABLE, stable=declared).text == "stable"
    # Meanwhile the name stands for another version.
    assert side(tmp_path, STABLE, stable=EnvironmentSettings(torch="2.14.0")).text == "2.13.0"


def test_an_interpreter_is_what_it_was_last_and_nothing_older(tmp_path: Path) -> None:
    declared = EnvironmentSettings(python=Path(sys.executable))
    mine = replace(STABLE, name="mine")
    found = side(tmp_path, mine, mine.fingerprint, mine=declared)
    assert (found.text, found.rebuilt) == (sys.executable, False)
    assert side(tmp_path, mine, "newer", mine=declared).text == "2.13.0"
    # An undeclared one has its own path.
    stored = replace(mine, facts={"executable": sys.executable})
    assert side(tmp_path, stored, stored.fingerprint).text == sys.executable
    assert side(tmp_path, replace(stored, facts={"executable": "/gone"}), stored.fingerprint).rebuilt


def test_what_no_index_has_is_gone(tmp_path: Path) -> None:
    own = replace(STABLE, torch_version="2.14.0a0+git1234567")
    with pytest.raises(EnvironmentGone, match="its version is not one that a package index offers"):
        side(tmp_path, own)
    with pytest.raises(EnvironmentGone):
        side(tmp_path, STABLE, stable=EnvironmentSettings(wheel="/tmp/torch-2.13.0-py3-none-any.whl"))


def test_a_version_is_requested_without_its_local_part() -> None:
    assert version_spec("2.13.0+cu130") == "2.13.0" and version_spec("2.14.0rc1+cpu") == "2.14.0rc1"
    assert version_spec("2.16.0.dev20260920+cpu") == "nightly 2026-09-20"
    assert [version_spec(text) for text in ("", "mine", "2.14.0a0+git12", "2.14.0.dev3")] == [None] * 4


def test_on_another_machine_nothing_of_ours_stands_for_it() -> None:
    ours = replace(STABLE, torch_version="2.14.0a0+git1234")
    assert remote_environment(STABLE, STABLE.fingerprint) == EnvironmentChoice("stable", STABLE)
    assert remote_environment(STABLE, "other") == EnvironmentChoice("2.13.0", STABLE, rebuilt=True)
    # Its name is another day's by now, even where it was the newest.
    assert remote_environment(nightly(1), nightly(1).fingerprint).text == "nightly 2026-09-02"
    assert remote_environment(ours, ours.fingerprint).text == "stable"
    with pytest.raises(EnvironmentGone, match="has changed, and its version"):
        remote_environment(ours, "other")
