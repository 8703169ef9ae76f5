"""Deliveries: a notice on its way to a target."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class DeliveryState(StrEnum):
    """How far a delivery is. TRYING: a sender has taken it and has not reported back."""

    TRYING = "trying"
    FAILED = "failed"
    DELIVERED = "delivered"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notice on its way to one target; `at` (aware) is when it entered its `state`.

    `tries` counts those that began, and is 0 once the target has the notice. `why` is one sentence without
    secrets on the last try that failed.
    """

    state: DeliveryState
    at: datetime
    tries: int = 0
    why: str = ""
