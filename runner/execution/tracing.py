"""A traced replicate as the controller has it: where its trace lies, and what its outcome says."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..worker.messages import Trace, Traced

#: The folder of the traces within a run's own.
FOLDER = "traces"
#: The suite that a run of traces belongs to.
SUITE = "profile"
#: Inductor's kernels for the CPU then appear in the table under their names instead of as one region.
VARIABLES = {"TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE": "1"}


@dataclass(frozen=True, slots=True)
class Tracing:
    """How one replicate is traced. `name` is the trace's path within the run's folder."""

    run_folder: Path
    name: str
    steps: int

    @property
    def request(self) -> Trace:
        """The request to the worker."""
        return Trace(self.steps, str(self.run_folder / self.name))

    def facts(self, traced: Traced) -> dict[str, Any]:
        """What the outcome says: the operator table, its totals, and the trace within the run's folder."""
        facts: dict[str, Any] = {
            "operators": [dict(row) for row in traced.operators],
            "traced": dict(traced.totals),
        }
        if traced.trace:
            facts["trace"] = self.name
        if traced.note:
            facts["trace_note"] = traced.note
        return facts


def of_replicate(run_folder: Path, environment: str, file_name: str, steps: int) -> Tracing | None:
    """How a replicate of a run is traced; None when the run measures (`steps` is 0)."""
    return Tracing(run_folder, f"{FOLDER}/{environment}/{file_name}.json.gz", steps) if steps else None
