"""Records of where something was measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """A hardware and a profile under which a metric was measured, and the newest run that did.

    `hardware` and `profile` are fingerprints; `settings` are those of the profile. `gpus` is how many GPUs
    the hardware has, `machines` how many machines measured as one.
    """

    hardware: str
    hardware_label: str
    profile: str
    profile_name: str
    settings: Mapping[str, Any]
    run: str
    started_at: datetime
    gpus: int = 0
    machines: int = 1
