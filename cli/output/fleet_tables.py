"""The status of a fleet as tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from analysis.staleness import WaitReason, part_label
from common.text import printable
from fleet.status import FleetReport
from records.tasks import Task
from reports.text.staleness_text import in_its_turn, in_words

from .listings import table

_NOTHING = "-"


def nodes_table(found: FleetReport) -> Table:
    """Each machine: what it does, what it is asked by, what it is."""
    listed = table("machine", "state", "does", "asked by", "hardware", "version")
    for node in found.nodes:
        doing = [f"task {task.id}: {part_label(task.schedule, task.part)}" for task in node.doing]
        state = node.state
        if state == "silent" and node.seen_at is not None:
            state = f"silent for {in_words(found.now - node.seen_at)}"
        labels = ", ".join(label for label in node.labels if label != node.name)
        what = str(node.facts.get("hardware") or _NOTHING), str(node.facts.get("version") or _NOTHING)
        cells = (node.name, state, "\n".join(doing) or _NOTHING, labels or _NOTHING, *what)
        listed.add_row(*(escape(printable(cell)) for cell in cells))
    return listed


def waiting_table(found: FleetReport) -> Table:
    """What waits for a machine, and why."""
    listed = table("task", "waits", "asks for", "why")
    for task, why in found.waiting:
        cells = (str(task.id), part_label(task.schedule, task.part), task.label or "any machine")
        listed.add_row(*(escape(printable(cell)) for cell in (*cells, because(task, why))))
    return listed


def because(task: Task, why: WaitReason) -> str:
    """Why a task waits, in a sentence."""
    if why.why == "no such label":
        return f'nobody can: no machine that is there has the label "{task.label}"'
    if why.why == "unscheduled":
        return "nobody can: no machine that measures is there"
    return in_its_turn(why, task.attempts, task.not_before)


def examined_table(found: FleetReport) -> Table:
    """What each machine's doctor said."""
    listed = table("machine", "hardware", "GPUs", "environments", "can tell", "cannot")
    for node in found.nodes:
        facts = node.facts
        if not facts.get("hardware"):
            listed.add_row(escape(node.name), "its doctor has not said anything yet", *[_NOTHING] * 4)
            continue
        capabilities = _dicts(facts.get("capabilities"))
        can = sorted({str(one.get("name")) for one in capabilities if one.get("present")})
        cells = (
            node.name,
            str(facts["hardware"]),
            "\n".join(_texts(facts.get("gpus"))) or "none",
            "\n".join(f"{one.get('name')}: {one.get('says')}" for one in _dicts(facts.get("environments")))
            or "none",
            ", ".join(can) or "nothing",
            "\n".join(_texts(facts.get("cannot"))) or _NOTHING,
        )
        listed.add_row(*(escape("\n".join(map(printable, cell.split("\n")))) for cell in cells))
    return listed


def _texts(value: object) -> Iterable[str]:
    return map(str, value) if isinstance(value, list) else ()


def _dicts(value: object) -> Sequence[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
