"""What the tests of building share: a folder of wheels that pip uses, and a context."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runner import environment
from runner.environment import MeasuredEnvironment
from runner.environments.building import BuildContext
from runner.environments.store import Store
from runner.execution import harness
from runner.preset import MachinePreset
from support.fakes.torch_wheels import install_only_from, write_wheel

VERSIONS = ("2.9.1", "2.10.0", "2.13.0+cpu", "2.14.0rc1", "2.16.0.dev20261118+cpu", "2.16.0.dev20261120+cpu")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small wheels of several versions of torch, and some that go wrong."""
    folder = tmp_path_factory.mktemp("wheels")
    for version in VERSIONS:
        write_wheel(folder, version)
    write_wheel(folder, "3.0.0", tag="cp39-cp39-linux_x86_64")
    write_wheel(folder, "3.0.0", tag="cp39-cp39-linux_aarch64")
    write_wheel(folder, "4.0.0", extra="raise ImportError('libcudart.so.13: no such file')")
    write_wheel(folder, "4.1.0", extra="__version__ = '4.0.9'")
    write_wheel(folder, "1.0.0", project="besides", extra="")
    return folder


@pytest.fixture
def local_wheels(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip knows these wheels and nothing else."""
    install_only_from(wheels, monkeypatch)
    return wheels


@pytest.fixture(scope="session")
def describe(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Path], MeasuredEnvironment]:
    """Asks an interpreter who it is, with the real harness."""
    built = harness.build(tmp_path_factory.mktemp("harness"))
    return lambda name, python: environment.describe(name, python, built, MachinePreset("plain"))


@pytest.fixture
def context(tmp_path: Path, describe: Callable[[str, Path], MeasuredEnvironment]) -> BuildContext:
    """A context with a store of its own."""
    return BuildContext(Store(tmp_path / "environments"), describe, threading.Event())
