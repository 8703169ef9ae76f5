"""Describes the environments to measure; a broken one is refused with one sentence."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import BrokenEnvironment
from .execution.harness import Harness
from .execution.process import Launch, WorkerGone, WorkerProcess, WorkerTimeout
from .preset import MachinePreset
from .worker.messages import Described, Failed, ProtocolError

_DESCRIBE_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class MeasuredEnvironment:
    """One interpreter with its PyTorch, as it described itself."""

    name: str
    python: str
    facts: Mapping[str, Any]
    workloads: tuple[Mapping[str, Any], ...]
    broken_cases: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """Identity over interpreter, torch build and packages."""
        return str(self.facts["fingerprint"])

    @property
    def gpus(self) -> list[Mapping[str, Any]]:
        """The CUDA devices this PyTorch sees."""
        return list(self.facts["devices"])


def check_interpreter(name: str, python: Path) -> None:
    """Raise BrokenEnvironment where there is nothing at `python` that can be started."""
    if not python.exists():
        raise BrokenEnvironment(
            f"environment {name}: there is no interpreter at {python}; `make setup` builds the default one, "
            "--python measures one you have"
        )
    if not os.access(python, os.X_OK) or python.is_dir():
        raise BrokenEnvironment(f"environment {name}: {python} is not an executable interpreter")


def describe(name: str, python: Path, harness: Harness, preset: MachinePreset) -> MeasuredEnvironment:
    """Describe the environment of the interpreter at `python`, under the preset it is measured in.

    Raises BrokenEnvironment when it is missing, cannot import torch, or does not answer in three minutes.
    """
    check_interpreter(name, python)
    with tempfile.TemporaryDirectory(prefix="pyrometer-") as folder:
        launch = Launch(
            python=str(python),
            harness=harness,
            variables=preset.variables,
            cpus=preset.cpus,
            own_cpus=preset.housekeeping,
            log=Path(folder) / "describe.log",
            deadline_seconds=_DESCRIBE_SECONDS,
            token=f"describe-{os.getpid()}",
        )
        with WorkerProcess(launch, "describe") as worker:
            try:
                answer = worker.receive(_DESCRIBE_SECONDS)
            except WorkerTimeout as error:
                raise BrokenEnvironment(
                    f"environment {name} ({python}) does not answer: nothing within {_DESCRIBE_SECONDS:g} s"
                ) from error
            except (WorkerGone, ProtocolError) as error:
                worker.kill()
                report = worker.close()
                last = (worker.log_tail().strip().splitlines() or [""])[-1]
                detail = last or str(report.get("failed") or f"it ended with {report.get('exit_code')}")
                raise BrokenEnvironment(f"environment {name} ({python}) does not answer: {detail}") from error
    if isinstance(answer, Failed):
        raise BrokenEnvironment(f"environment {name} ({python}) cannot import torch: {answer.reason}")
    if not isinstance(answer, Described):
        raise BrokenEnvironment(f"environment {name} ({python}) answered something else")
    return MeasuredEnvironment(name, str(python), answer.environment, answer.workloads, answer.broken)
