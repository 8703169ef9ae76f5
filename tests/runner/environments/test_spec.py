"""What people write for an environment, and the folder that a recipe is built in."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.environments.recipe import USUAL, Recipe
from runner.environments.spec import EnvironmentSpec, parse_spec, which_torch
from runner.errors import BadSpec
from support.fakes.torch_wheels import write_wheel

DECLARED = {
    "nightly": EnvironmentSpec("nightly", recipe=Recipe(torch="nightly", index="https://our/nightlies"))
}


@pytest.mark.parametrize(
    ("text", "torch"),
    [
        ("2.13.0", "2.13.0"),
        ("2.13", "2.13.0"),
        ("v2.13.0", "2.13.0"),
        ("torch==2.13.0", "2.13.0"),
        ("2.13.0+cpu", "2.13.0+cpu"),
        ("2.13+cpu", "2.13.0+cpu"),
        ("2.16.0rc3", "2.16.0rc3"),
        ("2.16.0.dev20261120", "2.16.0.dev20261120"),
        ("Nightly", "nightly"),
        ("nightly 2026-11-20", "nightly 2026-11-20"),
        ("nightly-2026-11-20", "nightly 2026-11-20"),
    ],
)
def test_one_torch_has_one_spelling(text: str, torch: str) -> None:
    wanted = parse_spec(text, {})
    assert wanted.recipe == Recipe(torch=torch) and wanted.name == torch
    assert which_torch(torch) == torch


def test_a_declared_name_comes_before_what_else_it_could_mean() -> None:
    assert parse_spec("nightly", DECLARED) is DECLARED["nightly"]
    # All of its days come from the index that it has.
    of_day = parse_spec("nightly 2026-11-20", DECLARED)
    assert of_day.name == "nightly 2026-11-20"
    assert of_day.recipe == Recipe(torch="nightly 2026-11-20", index="https://our/nightlies")
    ours = {"ours": DECLARED["nightly"], "pinned": EnvironmentSpec("pinned", recipe=Recipe(torch="2.13.0"))}
    assert parse_spec("ours@2026-11-20", ours).recipe == of_day.recipe
    assert parse_spec("nightly 2026-11-20", ours).recipe == Recipe(torch="nightly 2026-11-20")
    for text in ("pinned 2026-11-20", "ours 2026-13-20"):
        with pytest.raises(BadSpec):
            parse_spec(text, ours)


def test_a_wheel_and_an_interpreter_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wheel = write_wheel(tmp_path / "w", "2.13.0+local")
    found = parse_spec(f"w/{wheel.name}", {})
    assert found.recipe and (found.recipe.wheel, found.recipe.label) == (str(wheel), "wheel-2.13.0+local")
    far = parse_spec("https://our/wheels/torch-2.13.0-cp311-cp311-linux_x86_64.whl#sha256=0", {}).recipe
    assert far and far.wheel.startswith("https://our/") and far.folder.startswith("wheel-")
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to("/bin/sh")
    for text in ("venv/bin/python", "./venv", "venv/"):
        assert parse_spec(text, {}) == EnvironmentSpec("venv", python=tmp_path / "venv/bin/python")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("2.13.x", "is no environment"),
        ("", "is no environment"),
        ("latest", "is no environment"),
        ("nightly 2026-13-01", "a nightly is named by its day"),
        ("nightly yesterday", "a nightly is named by its day"),
        ("torch-2.13.0-py3-none-any.whl", "there is no wheel at /"),
        ("/nowhere/bin/python", "there is no interpreter at /nowhere/bin/python"),
        ("/proc/", "/proc is a folder without an interpreter"),
        ("https://team/bin/python", "an address names a wheel"),
    ],
)
def test_what_means_nothing_is_said_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(BadSpec, match=sentence) as caught:
        parse_spec(text, DECLARED)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=20))
def test_whatever_is_typed_is_understood_or_refused(text: str) -> None:
    try:
        wanted = parse_spec(text, {})
    except BadSpec as error:
        assert str(error)
    else:
        assert (wanted.python is None) != (wanted.recipe is None)


def test_equal_recipes_share_a_folder_and_whatever_differs_parts_them(tmp_path: Path) -> None:
    recipe = Recipe(torch="2.13.0")
    assert recipe.folder == Recipe(torch="2.13.0").folder and recipe.folder.startswith("2.13.0-")
    others = [
        *(
            replace(recipe, torch="2.13.1"),
            replace(recipe, index="https://our"),
            replace(recipe, usual=False),
        ),
        *(replace(recipe, packages=("triton",)), replace(recipe, find_links=("/w",))),
        *(replace(recipe, base_python="/usr/bin/python3"), replace(recipe, device="cuda")),
    ]
    assert len({recipe.folder, *(other.folder for other in others)}) == 1 + len(others)


def test_a_wheel_of_the_same_name_with_another_content_is_another_recipe(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "2.13.0")
    of_wheel, with_package = Recipe(wheel=str(wheel)), Recipe(torch="2.13.0", packages=(str(wheel),))
    before = (of_wheel.folder, with_package.folder)
    write_wheel(tmp_path, "2.13.0", extra="changed = True")
    assert of_wheel.folder != before[0] and with_package.folder != before[1]


def test_an_old_pytorch_gets_the_numpy_it_was_built_for() -> None:
    assert Recipe(torch="2.2.2").requirements == ("numpy<2", *USUAL[1:])
    assert Recipe(torch="2.1.2").requirements == ("numpy<2", "setuptools<81", *USUAL[2:])
    assert Recipe(torch="2.3.0").requirements == USUAL
    assert Recipe(torch="2.13.0", packages=("triton",), usual=False).requirements == ("triton",)


def test_no_password_is_written_down() -> None:
    recipe = Recipe(torch="2.13.0", index="https://me:secret@our/simple", find_links=("https://a:secret@b/",))
    assert "secret" not in str(recipe.to_body())
    assert recipe.to_body()["index"] == "https://our/simple"
    private = replace(
        recipe, torch="", wheel="https://me:secret@our/t.whl", packages=("a @ https://secret@b/a",)
    )
    assert "secret" not in str(private.to_body())
    assert private.folder == replace(private, wheel="https://me:new@our/t.whl").folder


def test_a_spec_has_no_password() -> None:
    with pytest.raises(BadSpec, match="without user and password") as refused:
        parse_spec("https://me:secret@our/torch-2.13.0-py3-none-any.whl", {})
    assert "secret" not in str(refused.value)
    token = "https://ghp_secret@our/torch-2.13.0-py3-none-any.whl"
    with pytest.raises(BadSpec, match="without user and password"):
        parse_spec(token, {})
