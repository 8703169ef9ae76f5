"""What lies between two ends, as the index has it or as it is listed."""

from pathlib import Path

import pytest
from packaging.version import Version

from configuration.settings import load_settings
from support.fakes.torch_wheels import install_only_from, write_wheel
from workflows.bisection.bisector import between, choose_candidates
from workflows.errors import UsageError

pytestmark = pytest.mark.slow


def test_between_two_versions_lie_the_releases_or_the_days() -> None:
    offered = ["2.9.1", "2.10.0", "2.10.0+cpu", "2.11.0rc1", "2.11.0", "2.12.0", "2.16.0.dev20261119+cpu"]
    assert between(Version("2.9.1"), Version("2.12.0"), offered) == ["2.10.0", "2.11.0"]
    assert between(Version("2.12.0+cpu"), Version("2.9.0"), offered) == ["2.11.0", "2.10.0", "2.9.1"]
    nightlies = ["2.15.0.dev20261118", "2.16.0.dev20261117", "2.16.0.dev20261119", "2.16.0.dev20261119+cpu"]
    ends = (Version("0.dev20261116"), Version("0.dev20261119"))
    assert between(*ends, [*nightlies, "2.15.0"]) == ["nightly 2026-11-17", "nightly 2026-11-18"]


def test_the_index_says_what_lies_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days = [f"2.16.0.dev2026111{day}" for day in (7, 8, 9)]
    for version in ("2.9.1", "2.10.0", "2.11.0", "2.12.1", *days):
        write_wheel(tmp_path, version)
    install_only_from(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    found = choose_candidates(settings, "2.9.1", "torch==2.12.1", None)
    assert found == ("2.9.1", "2.10.0", "2.11.0", "2.12.1")
    assert choose_candidates(settings, "2.9.1", "2.12.1", "2.9.1, 2.11 ,2.12.1") == (
        "2.9.1",
        "2.11.0",
        "2.12.1",
    )
    found = choose_candidates(settings, "nightly 2026-11-17", days[-1], None)
    assert found == ("nightly 2026-11-17", "nightly 2026-11-18", days[-1])
    assert choose_candidates(settings, "2.12.1", "nightly", "")[1] == "nightly 2026-11-19"
    # Those of a declared nightly are in the index that it has; no others lie between.
    monkeypatch.delenv("PIP_FIND_LINKS")
    declared = "[environments.{name}]\ntorch = 'nightly'\nfind_links = ['.']\n"
    (tmp_path / "pyrometer.toml").write_text(declared.format(name="nightly"))
    assert choose_candidates(load_settings(), "nightly 2026-11-17", days[-1], None) == found
    (tmp_path / "pyrometer.toml").write_text(declared.format(name="ours"))
    with pytest.raises(UsageError, match="not a version that the package index can list neighbours of") as no:
        choose_candidates(load_settings(), "ours 2026-11-17", "ours 2026-11-19", None)
    assert "from ours 2026-11-17 to ours 2026-11-19 with --candidates" in str(no.value)
    assert "names of pyrometer.toml (default, ours)" in str(no.value)
    with pytest.raises(UsageError, match="is a nightly and the other is not: list the environments"):
        choose_candidates(settings, "2.9.1", "nightly 2026-11-17", None)
    listed = choose_candidates(load_settings(), "ours 2026-11-17", "ours 2026-11-19", "ours 2026-11-18")
    assert listed == ("ours 2026-11-17", "ours 2026-11-18", "ours 2026-11-19")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(UsageError, match=r"both ends of the bisection are 2\.9\.1"):
        choose_candidates(settings, "2.9.1", "torch==2.9.1", None)
