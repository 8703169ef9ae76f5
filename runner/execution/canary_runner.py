"""Runs the canary between sessions: a fixed workload that shows the drift of the machine itself."""

import hashlib
import json
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
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

_SCRIPT = Path(__file__).with_name("canary.py")
#: The canary takes half a second; a timeout on an overloaded machine is an outcome, too.
_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Canary:
    """The canary on the CPUs that a preset measures; none: it is not pinned."""

    cpus: tuple[int, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The hash of the frozen script, its interpreter and its CPUs."""
        return {
            "script": hashlib.sha256(_SCRIPT.read_bytes()).hexdigest()[:16],
            "python": platform.python_version(),
            "implementation": platform.python_implementation(),
            "cpus": list(self.cpus),
        }

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
        started_at, started = datetime.now(UTC), time.monotonic()
        results, reason = self._run_script(token)
        seconds = time.monotonic() - started
        outcomes: list[Outcome] = []
        for case, moved in CASES.items():
            result = results.get(case.partition("/")[0])
            about = (case, self.fingerprint, boundary)
            if result is None:
                outcomes.append(
                    Outcome(*about, OutcomeStatus.CRASHED, reason, "measure", started_at, seconds)
                )
                continue
            samples: list[int] = result["samples_ns"]
            center = median(samples)
            facts = {
                "device": "cpu",
                "cpu_share": result["cpu_ns"] / result["wall_ns"],
                "cpus": list(self.cpus),
            }
            facts |= {"gb_per_second": moved / center} if moved else {}
            outcomes.append(
                Outcome(
                    *about,
                    status=OutcomeStatus.OK,
                    started_at=started_at,
                    wall_seconds=seconds,
                    metrics={"latency": center / 1e6, "latency_min": min(samples) / 1e6},
                    facts=facts,
                    blocks=(tuple(samples),),
                )
            )
        return tuple(outcomes)

    def _run_script(self, token: str) -> tuple[Mapping[str, Any], str]:
        """The script's results by case, and why there are none."""
        command = [sys.executable, "-I", "-S", str(_SCRIPT), "--cpus", ",".join(map(str, self.cpus))]
        variables = {**inherited_variables(), TOKEN_VARIABLE: token}
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=variables,
                timeout=_TIMEOUT_SECONDS,
                start_new_session=True,
                check=False,
            )
            results: Mapping[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        except subprocess.TimeoutExpired:
            return {}, f"the canary did not end within {_TIMEOUT_SECONDS:g} s"
        except OSError as error:
            return {}, f"the canary cannot be started: {error.strerror or error}"
        except ValueError:
            return {}, "the output of the canary is not valid JSON"
        last = (done.stderr.decode(errors="replace").strip().splitlines() or [""])[-1]
        return results, f"the canary ended with {done.returncode}: {last}"


def canary_of(preset: MachinePreset) -> Canary:
    """The canary for what is measured under `preset`."""
    return Canary(preset.cpus)
