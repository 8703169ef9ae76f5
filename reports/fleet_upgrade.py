"""One upgrade on several machines: a verdict for each hardware, and the worst of all."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.decision.reasons import WORST_FIRST, Decision, worst_decision
from common.text import printable

from . import junit, sentences, wording
from .body import upgrade_json
from .markdown import upgrade_markdown
from .page import move, upgrade_content, whole_page
from .report_context import JudgedUpgrade
from .table import Column, DataTable
from .text.markdown import text as _plain
from .text.templates import chip, render

SCHEMA = "pyrometer.fleet-upgrade/1"


@dataclass(frozen=True, slots=True)
class MachineUpgrade:
    """The verdict of one machine and the task that measured it; `reason` is why there is no verdict."""

    machine: str
    task: int
    judged: JudgedUpgrade | None = None
    reason: str = ""

    @property
    def decision(self) -> Decision | None:
        """Its decision; None where it has no verdict."""
        return self.judged.upgrade.decision if self.judged else None

    @property
    def words(self) -> str:
        """The decision in a word, with the number of warnings; `unclear` without a verdict."""
        return wording.decision_text(self.judged.upgrade) if self.judged else wording.DECISIONS["unclear"]

    @property
    def because(self) -> str:
        """The main reason for the decision, or the reason why there is no verdict."""
        return wording.because(self.judged.upgrade) if self.judged else printable(self.reason)


@dataclass(frozen=True, slots=True)
class HardwareUpgrade:
    """All machines of one hardware, worst verdict first; `hardware` is empty if it is unknown."""

    hardware: str
    machines: tuple[MachineUpgrade, ...]

    @property
    def decision(self) -> Decision:
        """The worst of its machines."""
        return worst_decision(one.decision for one in self.machines)


@dataclass(frozen=True, slots=True)
class FleetUpgrade:
    """An upgrade from `old` to `new`, as typed, on all machines with the labels; at least one."""

    old: str
    new: str
    machines: tuple[MachineUpgrade, ...]

    @property
    def decision(self) -> Decision:
        """The worst over all machines; one without a verdict leaves it unclear."""
        return worst_decision(one.decision for one in self.machines)

    @property
    def hardware(self) -> list[HardwareUpgrade]:
        """One for each hardware, worst verdict first; each machine without a verdict is separate."""
        groups: dict[str, list[MachineUpgrade]] = defaultdict(list)
        unknown: list[HardwareUpgrade] = []
        for one in sorted(self.machines, key=_worst_first):
            if one.judged is None:
                unknown.append(HardwareUpgrade("", (one,)))
            else:
                groups[one.judged.subject.hardware].append(one)
        by_hardware = [HardwareUpgrade(name, tuple(group)) for name, group in groups.items()]
        return sorted((*by_hardware, *unknown), key=lambda one: (_rank(one.decision), one.hardware))

    @property
    def headline(self) -> str:
        """The worst decision with the number of machines: `No-go, the worst of 3 machines`."""
        word, many = wording.DECISIONS[self.decision], len(self.machines)
        return f"{word}, the worst of {many} machines" if many > 1 else word

    @property
    def rows(self) -> list[tuple[HardwareUpgrade, MachineUpgrade]]:
        """Every machine with its hardware, the worst hardware first."""
        return [(hardware, machine) for hardware in self.hardware for machine in hardware.machines]


def _rank(decision: Decision | None) -> int:
    return WORST_FIRST.index(decision or "unclear")


def _worst_first(one: MachineUpgrade) -> tuple[int, str]:
    return _rank(one.decision), one.machine


def fleet_json(found: FleetUpgrade) -> dict[str, Any]:
    """The verdicts as JSON values; `report` is the whole report of a machine, null without a verdict."""
    return {
        "schema": SCHEMA,
        "old": found.old,
        "new": found.new,
        "decision": found.decision,
        "headline": found.headline,
        "hardware": [
            {
                "hardware": one.hardware or None,
                "decision": one.decision,
                "machines": [_machine_json(each) for each in one.machines],
            }
            for one in found.hardware
        ],
    }


def _machine_json(one: MachineUpgrade) -> dict[str, Any]:
    judged = one.judged
    return {
        "machine": one.machine,
        "task": one.task,
        "decision": one.decision,
        "because": one.because,
        "report": upgrade_json(judged) if judged else None,
    }


def _table(found: FleetUpgrade) -> DataTable[tuple[HardwareUpgrade, MachineUpgrade]]:
    columns: list[Column[tuple[HardwareUpgrade, MachineUpgrade]]] = [
        Column("hardware", "Hardware", lambda row: row[0].hardware),
        Column("machine", "Machine", lambda row: row[1].machine),
        Column("decision", "Verdict", lambda row: row[1].words, lambda row: _chip(row[1])),
        Column("because", "Because", lambda row: row[1].because),
    ]
    return DataTable("All hardware, the worst verdict first", columns, found.rows)


def _chip(one: MachineUpgrade) -> str:
    decision = one.decision or "unclear"
    return chip(wording.DECISION_TONES[decision], wording.DECISION_SIGNS[decision], one.words)


def _title(hardware: HardwareUpgrade, machine: MachineUpgrade) -> str:
    return f"{hardware.hardware}: machine {machine.machine}"


def _fleet_markdown(found: FleetUpgrade) -> str:
    """The worst verdict and a table of all, then the report of each machine."""
    sign = wording.DECISION_SIGNS[found.decision]
    head = f"# {sign} {_plain(found.headline)}: {_plain(f'{found.old} to {found.new}')}"
    reports = [
        f"**{_plain(_title(hardware, machine))}**\n\n" + upgrade_markdown(one)
        for hardware, machine in found.rows
        if (one := machine.judged)
    ]
    return "\n\n".join([head, _table(found).markdown(), *reports])


def _fleet_page(found: FleetUpgrade) -> str:
    """The same as one self-contained page."""
    judged = [(row, one) for row in found.rows if (one := row[1].judged)]
    content = render(
        "fleet_upgrade.html",
        found=found,
        tone=wording.DECISION_TONES[found.decision],
        sign=wording.DECISION_SIGNS[found.decision],
        table=_table(found),
        parts=[
            (
                _title(hardware, machine),
                sentences.place(one.subject),
                upgrade_content(one, prefix=f"machine-{number}-"),
            )
            for number, ((hardware, machine), one) in enumerate(judged, 1)
        ],
    )
    title = f"{found.headline}: {found.old} to {found.new}"
    return whole_page(title, move(found.old, found.new), "", content)


def _json(found: FleetUpgrade) -> str:
    return json.dumps(fleet_json(found), indent=2) + "\n"


def _junit(found: FleetUpgrade) -> str:
    """A test suite for each machine; without a verdict it has only the test of the decision, skipped."""
    suites = [
        junit.upgrade_suite(one, where=_title(hardware, machine))
        if (one := machine.judged)
        else junit.undecided_suite(f"{found.old} to {found.new} on {machine.machine}", machine.because)
        for hardware, machine in found.rows
    ]
    return junit.document(suites, found.headline)


#: The writers of the report on several machines, by the suffix of the file.
FLEET_FORMATS: Mapping[str, Callable[[FleetUpgrade], str]] = {
    ".html": _fleet_page,
    ".md": _fleet_markdown,
    ".json": _json,
    ".xml": _junit,
}
