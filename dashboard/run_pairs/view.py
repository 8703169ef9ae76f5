"""Which two runs are compared, and in which metric: read from the address, written back to it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dashboard.components import links
from dashboard.components.query_params import Query, View, last, sentence
from records.runs import RunSummary


@dataclass(frozen=True, slots=True)
class RunPairView(View):
    """Two runs by their ids, `a` the baseline, and a metric; empty where the page chooses."""

    context: ClassVar = ("metric",)

    a: str
    b: str
    metric: str = ""

    def query(self) -> dict[str, list[str]]:
        """The selection as a URL's query; what is empty is left for the page to choose."""
        values = {"a": self.a, "b": self.b, "metric": self.metric}
        return {name: [value] for name, value in values.items() if value}

    def after(self, name: str, value: Any) -> "RunPairView":
        """Another run may lack the metric: it is chosen anew."""
        changed = replace(self, **{name: value})
        return changed if name == "metric" else replace(changed, metric="")

    @property
    def address(self) -> str:
        """The view's own address."""
        return links.run_pair(self.query())


def run_pair(
    query: Query, newest: Sequence[RunSummary], known: Callable[[str], bool]
) -> tuple[RunPairView | None, list[str]]:
    """The runs that `query` names, and complaints; None where there are no two runs.

    `run`, twice, names those that were ticked in the list of runs, the newer first. What the query leaves
    open is the newest run, and before it the newest one of the same suite and hardware.
    `known` says of an id whether there is such a run; `newest` are offered.
    """
    ids = [run.id for run in newest]
    b, a, *more = [*query.get("run", ()), "", ""]
    wanted = {"a": last(query, "a") or a, "b": last(query, "b") or b}
    complaints = [sentence("run", run_id, ids) for run_id in wanted.values() if run_id and not known(run_id)]
    if any(more):
        complaints.append("Two runs are compared; shown are the newest of those that were ticked.")
    a, b = (run_id if run_id and known(run_id) else "" for run_id in wanted.values())
    b = b or next((run_id for run_id in ids if run_id != a), "")
    a = a or _before(b, newest)
    if not a or not b:
        return None, complaints
    return RunPairView(a, b, last(query, "metric") or ""), complaints


def _before(run_id: str, newest: Sequence[RunSummary]) -> str:
    """The newest other run, of the same suite and hardware where there is one."""
    others = [run for run in newest if run.id != run_id]
    own = next((run for run in newest if run.id == run_id), None)
    alike = [run for run in others if own and (run.suite, run.hardware) == (own.suite, own.hardware)]
    # A night is held against the night before, not against an upgrade that was measured in between.
    of_kind = [run for run in alike if own and run.kind == own.kind]
    found = next(iter([*of_kind, *alike, *others]), None)
    return found.id if found is not None else ""
