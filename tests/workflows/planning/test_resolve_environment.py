"""From what was typed to environments that can be measured, today and again tomorrow."""

import os
import re
import sys
from pathlib import Path

import pytest

from cli.context import context
from runner.environments.recipe import NIGHTLY, Recipe
from runner.environments.store import Store
from runner.errors import BuildFailed
from support.fakes.torch_wheels import install_only_from, write_wheel
from workflows.errors import UsageError
from workflows.planning.resolve_environment import built_of, make_ready, store_of

pytestmark = pytest.mark.slow

DECLARED = """
[environments.ours]
torch = "nightly"
find_links = ["days"]
usual_packages = false
[environments.mine]
python = "{python}"
"""


def test_what_is_typed_to_have_the_same_again_holds_tomorrow_and_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_only_from(tmp_path / "days", monkeypatch)
    for day in ("20261118", "20261119"):
        write_wheel(tmp_path / "days", f"2.16.0.dev{day}")
    wheel = write_wheel(tmp_path / "loose", "2.9.1")
    (tmp_path / "venv").symlink_to(sys.prefix)
    (tmp_path / "pyrometer.toml").write_text(DECLARED.format(python=sys.executable))
    monkeypatch.chdir(tmp_path)
    texts = [
        "nightly",
        "ours",
        "ours 2026-11-18",
        "mine",
        "./venv",
        "venv/bin/python",
        os.path.relpath(wheel),
    ]
    ready = make_ready(context(), texts, Recipe(usual=False))
    assert [one.asked for one in ready] == [
        "nightly 2026-11-19",
        "ours 2026-11-19",
        "ours 2026-11-18",
        "mine",
        str(tmp_path / "venv"),
        str(tmp_path / "venv"),
        str(wheel),
    ]


def test_nothing_is_built_where_one_of_two_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_only_from(tmp_path / "wheels", monkeypatch)
    for version in ("2.9.1", "2.16.0.dev20261118"):
        write_wheel(tmp_path / "wheels", version)
    (tmp_path / "pyrometer.toml").touch()
    monkeypatch.chdir(tmp_path)
    app_context = context()
    version = "environment 2.99.0 cannot be built: the package index offers no torch 2.99.0"
    for other, why in (
        ("2.99.0", version),
        ("nightly 2026-11-01", "the package index offers no nightly of 2026-11-01"),
    ):
        for texts in ((other, "2.9.1"), ("2.9.1", other)):
            with pytest.raises(BuildFailed, match=re.escape(why)) as refused:
                make_ready(app_context, texts, Recipe(usual=False))
            assert "; the nearest are 2.9.1" in str(refused.value) or "nightly" in why
            assert store_of(app_context).all() == []
    assert [one.name for one in make_ready(app_context, ["2.9.1"], Recipe(usual=False))] == ["2.9.1"]


def test_the_newest_nightly_is_none_whose_python_was_replaced(tmp_path: Path) -> None:
    shelf, base = Store(tmp_path / "environments"), tmp_path / "python3"
    base.write_text("#!/bin/sh\necho 3.13\n")
    base.chmod(0o755)
    for day, made_by in (("18", "3.13.1"), ("19", "3.11.2")):
        recipe = Recipe(torch=f"{NIGHTLY} 2026-11-{day}", base_python=str(base))
        path = shelf.write_recipe(recipe)
        (path / "bin").mkdir()
        (path / "bin/python").symlink_to(base)
        shelf.mark(recipe, {"python": made_by}, seconds=1.0)
    found = built_of(shelf, Recipe(torch=NIGHTLY, base_python=str(base)))
    assert found is not None and found.label == f"{NIGHTLY}-2026-11-18"


def test_packages_make_an_environment_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_only_from(tmp_path / "wheels", monkeypatch)
    write_wheel(tmp_path / "wheels", "2.9.1")
    write_wheel(tmp_path / "wheels", "1.0", project="our_helper")
    (tmp_path / "pyrometer.toml").touch()
    monkeypatch.chdir(tmp_path)
    app_context = context()
    (plain,) = make_ready(app_context, ["2.9.1"], Recipe(usual=False))
    (helped,) = make_ready(app_context, ["2.9.1"], Recipe(usual=False), ["our_helper"])
    assert plain.python != helped.python and plain.asked == helped.asked
    built = {one.python: one.facts for one in store_of(app_context).all()}
    assert "our_helper==1.0" in built[helped.python]["packages"]
    assert built[plain.python]["fingerprint"] != built[helped.python]["fingerprint"]
    (tmp_path / "venv").symlink_to(sys.prefix)
    with pytest.raises(UsageError, match="is an interpreter: install the package there"):
        make_ready(app_context, ["2.9.1", "./venv"], packages=["our_helper"])
