"""The nodes of a Slurm cluster as places."""

from collections.abc import Sequence
from dataclasses import replace

from scheduled_jobs.scheduler.hosts import HostStatus

from ..hosts import FleetHosts
from .engine import SlurmEngine


class SlurmHosts(FleetHosts):
    """Places that take what asks for them by name alone while others have them and one like them is free.

    A job is for one node, so that a run can be gone on with where it began: it would wait for that node all
    night while its neighbour stands idle.
    """

    def look(self) -> Sequence[HostStatus]:
        """The places that are there now, by name; none while Slurm is away."""
        engine = self._engine
        if not isinstance(engine, SlurmEngine):
            return super().look()
        return [
            replace(seen, only_labels=engine.names(seen.place.machine))
            if seen.place.machine in engine.left_to_others
            else seen
            for seen in super().look()
        ]
