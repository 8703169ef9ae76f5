"""The kind and source of a run from a journal or an export that was written before these fields existed."""

import re
from collections.abc import Mapping
from typing import Any, cast

from .kinds import EnvironmentKind, RunKind, RunSource

#: The id of an imported run; the format is in the middle.
_IMPORTED_RUN = re.compile(r"(?:\d{8}-\d{6}|undated)-(.+)-[0-9a-f]{8,16}")
_SUBMITTED = "submitted"


def kind_of_old_run(command: str, facts: Mapping[str, Any]) -> RunKind:
    """The kind of a run by its command and facts, as programs before schema 0008 wrote it."""
    if command.startswith("pyrometer upgrade"):
        confirms = _member(facts, "comparison", "confirms") is True
        return RunKind.CONFIRMATION if confirms else RunKind.UPGRADE
    if _member(facts, "timing", "trace_steps"):
        return RunKind.TRACE
    return RunKind.BISECTION if command.startswith("pyrometer bisect") else RunKind.RUN


def source_of_old_run(run_id: str) -> tuple[RunSource, str]:
    """The source of a run by its id, and the name of the format that it was imported from, else empty."""
    found = _IMPORTED_RUN.fullmatch(run_id)
    if found is None:
        return RunSource.MEASURED, ""
    if found[1] == _SUBMITTED:
        return RunSource.SUBMITTED, ""
    return RunSource.IMPORTED, found[1]


def kind_of_old_environment(torch_version: str, source: RunSource) -> EnvironmentKind:
    """The kind of an environment of a run. Among measured environments only the canary's had no PyTorch."""
    if source != RunSource.MEASURED:
        return EnvironmentKind.FOREIGN
    return EnvironmentKind.MEASURED if torch_version else EnvironmentKind.CANARY


def _member(facts: Mapping[str, Any], name: str, member: str) -> Any:
    found = facts.get(name)
    return cast("Mapping[str, Any]", found).get(member) if isinstance(found, Mapping) else None
