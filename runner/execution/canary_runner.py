"""Runs the canary between sessions: a fixed workload that shows the drift of the machine itself.

A run on a GPU has one of the GPU as well: its cases and its failures are its own.
"""

import hashlib
import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from records.fingerprints import fingerprint_of
from records.outcomes import Outcome, OutcomeStatus

from ..machine import last_level_cache_mib
from ..preset import MachinePreset
from .process import TOKEN_VARIABLE, inherited_variables

#: What the canary's environment is called.
ENVIRONMENT = "canary"
#: The cases, and the bytes that one repetition reads and writes. Other work would need other names.
CASES = {"canary_compute/infer/-/eager": 0, "canary_bandwidth/infer/-/eager": 2 * (64 << 20)}

#: The cases of the GPU.
GPU_CASES = ("canary_gpu_compute/infer/-/eager", "canary_gpu_bandwidth/infer/-/eager")

_SCRIPTS = Path(__file__).with_name("canaries")
_SCRIPT, _GPU_SCRIPT = _SCRIPTS / "canary.py", _SCRIPTS / "gpu_canary.py"
#: Each script takes half a second; a timeout on an overloaded machine is an outcome, too.
_TIMEOUT_SECONDS = 30.0
#: What a killed script may take to end: the kernel may hold one that waits for a failed GPU for ever.
_END_SECONDS = 5.0
#: Which of several GPUs is the first: the script's as the workers'.
_CHOOSING = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


@dataclass(frozen=True, slots=True)
class Canary:
    """The canary on the CPUs that a preset measures; none: it is not pinned.

    `device`: where the run measures, `cpu` or a CUDA device. `variables` say which GPU is the first.
    """

    cpus: tuple[int, ...]
    device: str = "cpu"
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def facts(self) -> dict[str, Any]:
        """The hashes of the frozen scripts, their interpreter and its CPUs."""
        return {
            "script": _hash(_SCRIPT),
            "python": platform.python_version(),
            "implementation": platform.python_implementation(),
            "cpus": list(self.cpus),
            **({"gpu_script": _hash(_GPU_SCRIPT)} if self._on_gpu else {}),
        }

    @property
    def _on_gpu(self) -> bool:
        return self.device.startswith("cuda")

    @property
    def fingerprint(self) -> str:
        """A hash of `facts`. PyTorch is not part of it, so no release changes it."""
        return fingerprint_of(self.facts)

    def environment(self) -> dict[str, Any]:
        """Its environment as plain JSON values."""
        facts = {**self.facts, "last_level_cache_mib": last_level_cache_mib()}
        return {
            "name": ENVIRONMENT,
            "python": sys.executable,
            "fingerprint": self.fingerprint,
            "facts": facts,
        }

    def run(self, boundary: int, token: str) -> tuple[Outcome, ...]:
        """Run it once: one outcome per case; the replicate is the number of the session `boundary`."""
        every = ((_SCRIPT, tuple(CASES)), *(((_GPU_SCRIPT, GPU_CASES),) if self._on_gpu else ()))
        return tuple(
            outcome for script, cases in every for outcome in self._of_script(script, cases, boundary, token)
        )

    def _of_script(
        self, script: Path, cases: tuple[str, ...], boundary: int, token: str
    ) -> Iterator[Outcome]:
        started_at, started = datetime.now(UTC), time.monotonic()
        results, reason = self._run_script(script, token)
        seconds = time.monotonic() - started
        for case in cases:
            result: Mapping[str, Any] = results.get(case.partition("/")[0]) or {
                "status": OutcomeStatus.CRASHED,
                "reason": reason,
            }
            about = (case, self.fingerprint, boundary)
            if "samples_ns" not in result:
                failed = OutcomeStatus(result["status"]), result["reason"]
                yield Outcome(*about, *failed, "measure", started_at, seconds)
                continue
            samples: list[int] = result["samples_ns"]
            center = median(samples)
            facts = self._facts_of_host(case, result) if case in CASES else self._facts_of_gpu(case, result)
            yield Outcome(
                *about,
                status=OutcomeStatus.OK,
                started_at=started_at,
                wall_seconds=seconds,
                metrics={"latency": center / 1e6, "latency_min": min(samples) / 1e6},
                facts=facts,
                blocks=(tuple(samples),),
            )

    def _facts_of_host(self, case: str, result: Mapping[str, Any]) -> dict[str, Any]:
        facts = {"device": "cpu", "cpu_share": result["cpu_ns"] / result["wall_ns"], "cpus": list(self.cpus)}
        moved = CASES[case]
        return facts | ({"gb_per_second": moved / median(result["samples_ns"])} if moved else {})

    def _facts_of_gpu(self, case: str, result: Mapping[str, Any]) -> dict[str, Any]:
        rate = result["work"] / median(result["samples_ns"])
        named = {"tflops": rate / 1e3} if case == GPU_CASES[0] else {"gb_per_second": rate}
        return {"device": self.device, **named}

    def _run_script(self, script: Path, token: str) -> tuple[Mapping[str, Any], str]:
        """The script's results by case, and why there are none."""
        command = [sys.executable, "-I", "-S", str(script)]
        command += ["--cpus", ",".join(map(str, self.cpus))] if script == _SCRIPT else []
        variables = {**inherited_variables(), **self.variables, TOKEN_VARIABLE: token}
        try:
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=variables,
                start_new_session=True,
            )
        except OSError as error:
            return {}, f"the canary cannot be started: {error.strerror or error}"
        with started.stdout or nullcontext(), started.stderr or nullcontext():
            return _results(started)


def _results(started: "subprocess.Popen[bytes]") -> tuple[Mapping[str, Any], str]:
    try:
        output, errors = started.communicate(timeout=_TIMEOUT_SECONDS)
        results: Mapping[str, Any] = json.loads(output) if started.returncode == 0 else {}
    except subprocess.TimeoutExpired:
        started.kill()
        with suppress(subprocess.TimeoutExpired):
            started.wait(_END_SECONDS)
        return {}, f"the canary did not end within {_TIMEOUT_SECONDS:g} s"
    except ValueError:
        return {}, "the output of the canary is not valid JSON"
    last = (errors.decode(errors="replace").strip().splitlines() or [""])[-1]
    return results, f"the canary ended with {started.returncode}: {last}"


def _hash(script: Path) -> str:
    return hashlib.sha256(script.read_bytes()).hexdigest()[:16]


def canary_of(preset: MachinePreset, device: str) -> Canary:
    """The canary for what is measured under `preset` on a device."""
    chosen = {name: preset.variables[name] for name in _CHOOSING if name in preset.variables}
    return Canary(preset.cpus, device, chosen if device.startswith("cuda") else {})
