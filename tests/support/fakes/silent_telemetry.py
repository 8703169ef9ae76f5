"""Telemetry that reports nothing: tests override what they script."""

from records.telemetry import Recording
from runner.telemetry.telemetry_interface import Reading


class SilentTelemetry:
    """Neither reads nor records anything."""

    def read_counters(self, root: int) -> Reading:
        """A reading without a GPU."""
        return Reading(0)

    def start(self, root: int, hz: float, cpus: tuple[int, ...] = ()) -> None:
        """Record nothing."""

    def stop(self) -> tuple[Recording, ...]:
        """No recordings."""
        return ()

    def close(self) -> None:
        """There is nothing to close."""
