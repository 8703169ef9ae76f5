"""Dispatch fingerprints: what PyTorch chose in one step of a case, without any time."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from .environments import Environment
from .json_values import BodyPlace, JsonValue, moment_of, name_of, text_of
from .machines import Machine
from .outcomes import OutcomeStatus
from .runs import Run, RunPreset

#: The version of the description. It is increased when the same step would be described differently;
#: fingerprints of two versions cannot be compared.
FORMAT = 2


class DispatchPart(StrEnum):
    """The parts of a fingerprint, the most informative first."""

    ONEDNN = "onednn"
    MKL = "mkl"
    KERNELS = "kernels"
    OPERATORS = "operators"
    FUSED = "fused"
    COMPILER = "compiler"
    AUTOTUNE = "autotune"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class DispatchFingerprint:
    """The choices of PyTorch in one step: `parts` maps each part to names and their counts.

    A part that could not be recorded is in `missing` with the reason and not in `parts`; an empty part was
    recorded and had no entries. `layouts`: whether operators include the memory format of their inputs.
    """

    parts: Mapping[str, Mapping[str, int]]
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    layouts: bool = True
    format: int = FORMAT

    def to_body(self) -> dict[str, Any]:
        """Plain JSON values, sorted, so that equal choices give equal text."""
        return {
            "format": self.format,
            "layouts": self.layouts,
            "missing": dict(sorted(self.missing.items())),
            "parts": {part: dict(sorted(self.parts[part].items())) for part in sorted(self.parts)},
        }

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> "DispatchFingerprint":
        """The fingerprint of `to_body`; raises KeyError or TypeError for anything else."""
        return cls(body["parts"], body["missing"], body["layouts"], body["format"])

    @property
    def content_hash(self) -> str:
        """SHA-256 over the whole content, 64 hexadecimal digits."""
        text = json.dumps(self.to_body(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode(errors="replace")).hexdigest()


@dataclass(frozen=True, slots=True)
class FingerprintConditions:
    """The conditions, besides the case, that the fingerprints of one environment depend on.

    `harness` is its version, followed by that of the user's cases where there are any. `driver` is that of
    the GPU, empty on the CPU.
    """

    environment: Environment
    machine: Machine
    preset: RunPreset
    harness: str
    device: str
    driver: str = ""

    @property
    def stored_device(self) -> str:
        """The device with its driver, because the driver takes part in the choice of kernels."""
        return f"{self.device}, {self.driver}" if self.driver else self.device


@dataclass(frozen=True, slots=True)
class CaseFingerprint:
    """The result of taking the fingerprint of a case: `status` as in an outcome, with a reason unless it is
    `ok`.

    An `ok` fingerprint with a reason was imported with the journal of the run that the reason names.
    """

    case: str
    taken_at: datetime
    status: OutcomeStatus
    reason: str = ""
    fingerprint: DispatchFingerprint | None = None

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "case": self.case,
            "taken_at": self.taken_at.isoformat(),
            "status": self.status.value,
            "reason": self.reason,
            "fingerprint": self.fingerprint.to_body() if self.fingerprint else None,
        }

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> "CaseFingerprint":
        """The inverse of `to_body`; raises KeyError, TypeError or ValueError for anything else."""
        at, content = JsonValue(body, BodyPlace()), body["fingerprint"]
        return cls(
            name_of(at, "case"),
            moment_of(at.need("taken_at")),
            OutcomeStatus(body["status"]),
            text_of(at, "reason"),
            None if content is None else DispatchFingerprint.from_body(content),
        )

    @property
    def is_final(self) -> bool:
        """Whether taking it again would give the same result: it was taken here, or the case cannot have
        one.
        """
        current = self.fingerprint is not None and self.fingerprint.format == FORMAT
        return (current and not self.reason) or self.status == OutcomeStatus.UNSUPPORTED


def journal_body(conditions: FingerprintConditions, fingerprint: CaseFingerprint) -> dict[str, Any]:
    """A fingerprint of a run's case for its journal, whose header has machine, preset and environments."""
    return {
        **fingerprint.to_body(),
        "environment": conditions.environment.fingerprint,
        "harness": conditions.harness,
        "device": conditions.device,
        "driver": conditions.driver,
    }


def from_journal_body(run: Run, body: Mapping[str, Any]) -> tuple[FingerprintConditions, CaseFingerprint]:
    """The inverse of `journal_body`, with the run of the journal.

    Raises KeyError, TypeError or ValueError for any other body, and for the environment of another run.
    """
    environments = {each.fingerprint: each for each in run.environments}
    at = JsonValue(body, BodyPlace())
    harness, device, driver = (text_of(at, name) for name in ("harness", "device", "driver"))
    conditions = FingerprintConditions(
        environments[body["environment"]], run.machine, run.preset, harness, device, driver
    )
    return conditions, CaseFingerprint.from_body(body)
