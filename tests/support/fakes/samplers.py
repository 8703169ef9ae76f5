"""Samplers and process trees to be read, for the tests of telemetry."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner.telemetry import sampler_client
from runner.telemetry.sampler_client import Sampler
from support.waiting import until

GPU = "GPU-11111111-2222-3333-4444-555555555555"

#: A supervisor's part: starts a child that uses CPU time in portions, one for each line it is sent, and
#: collects it when its input ends.
_ROOT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=sys.stdout)
for line in sys.stdin:
    child.stdin.write(line.encode())
    child.stdin.flush()
child.stdin.close()
child.wait()
print("collected", flush=True)
import time
time.sleep(600)
"""
_CHILD = """
import os, sys, time
print(os.getpid(), flush=True)
for line in sys.stdin:
    until = time.process_time() + float(line)
    while time.process_time() < until:
        pass
    print("used", flush=True)
"""


@dataclass
class Tree:
    """A root process with one child that works on request."""

    process: "subprocess.Popen[str]"
    child: int

    @property
    def root(self) -> int:
        """What stands above the measured tree."""
        return self.process.pid

    def use(self, seconds: float) -> None:
        """Have the child use so much CPU time."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "used\n"

    def end_child(self) -> None:
        """Have the child end, and the root collect it."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        assert self.process.stdout.readline() == "collected\n"


@dataclass
class Samplers:
    """Starts samplers, and waits for what they write."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    started: list[Sampler] = field(default_factory=list[Sampler])
    tokens: list[str] = field(default_factory=list[str])

    def start(self, *uuids: str, variables: Mapping[str, str] | None = None) -> Sampler:
        """One sampler, with variables and a token of its own."""
        token = f"test-{uuid.uuid4().hex}"
        with self.monkeypatch.context() as patch:
            patch.setattr(sampler_client, "inherited_variables", lambda: {**os.environ, **(variables or {})})
            sampler = Sampler(self.folder / str(len(self.started)), uuids, (), (), token)
        self.started.append(sampler)
        self.tokens.append(token)
        return sampler

    def rows(self, sampler: Sampler, number: int, device: str = GPU) -> None:
        """Wait until so many rows of a device were written."""
        until(lambda: self._written(sampler, device) >= number, f"{number} rows of {device} are written")

    def more_rows(self, sampler: Sampler, number: int, device: str = GPU) -> None:
        """Wait until so many rows of a device were written from now on."""
        self.rows(sampler, self._written(sampler, device) + number, device)

    def _written(self, sampler: Sampler, device: str) -> int:
        files = (self.folder / str(self.started.index(sampler))).glob("*.jsonl")
        return sum(file.read_text().count(f'"row":"{device}"') for file in files)

    def pid(self, sampler: Sampler) -> int:
        """The process of a sampler that lives."""
        process = sampler._process  # pyright: ignore[reportPrivateUsage]
        assert process is not None
        return process.pid


@contextmanager
def one_tree() -> Iterator[Tree]:
    """A tree that does nothing yet."""
    with subprocess.Popen(
        [sys.executable, "-c", _ROOT, _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            yield Tree(process, int(process.stdout.readline()))
        finally:
            process.kill()
