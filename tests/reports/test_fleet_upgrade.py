"""An upgrade that several machines judged: one verdict for each hardware, the worst over all, the report."""

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from analysis.decision.reasons import Decision, worst_decision
from reports.fleet_upgrade import FLEET_FORMATS, FleetUpgrade, MachineUpgrade
from reports.upgrade_report import JudgedUpgrade
from support.builders.upgrade_reports import a_result, reported
from support.golden import Golden

CASE = "resnet50/infer/batch=8,image=224/eager"
#: Upgrades by what they come to.
REPORTS: dict[Decision, Callable[[], JudgedUpgrade]] = {
    "go": lambda: reported([a_result(CASE, -3.0)]),
    "no-go": lambda: reported([a_result(CASE, 40.0)]),
    "unclear": lambda: reported([a_result(CASE, 0.0, noise=60.0)]),
}


@cache
def report_of(which: Decision) -> JudgedUpgrade:
    return REPORTS[which]()


def a_machine_upgrade(machine: str, decision: Decision | None, hardware: str = "H200") -> MachineUpgrade:
    """One that comes to that decision; None is one that failed."""
    if decision is None:
        return MachineUpgrade(machine, 7, reason="task 7 ended failed: <b>no torch</b>")
    subject, results, upgrade = report_of(decision)
    assert upgrade.decision == decision
    return MachineUpgrade(machine, 7, JudgedUpgrade(replace(subject, hardware=hardware), results, upgrade))


def a_fleet(*machines: MachineUpgrade) -> FleetUpgrade:
    return FleetUpgrade("2.13.0", "2.15.0", machines)


WORST: list[tuple[tuple[Decision | None, ...], Decision]] = [
    (("go",), "go"),
    (("go", "go"), "go"),
    (("go", "unclear"), "unclear"),
    (("go", None), "unclear"),
    ((None,), "unclear"),
    (("go", "unclear", "no-go"), "no-go"),
    ((None, "no-go"), "no-go"),
]


@pytest.mark.parametrize(("decisions", "worst"), WORST)
def test_the_worst_decision_stands_for_all_in_any_order(
    decisions: tuple[Decision | None, ...], worst: Decision
) -> None:
    for order in itertools.permutations(decisions):
        assert worst_decision(order) == worst
        machines = [a_machine_upgrade(str(number), one) for number, one in enumerate(order)]
        assert a_fleet(*machines).decision == worst


def test_of_no_machine_there_is_no_decision() -> None:
    with pytest.raises(ValueError, match="empty"):
        worst_decision([])


def test_each_hardware_has_one_verdict_and_the_worst_comes_first() -> None:
    found = a_fleet(
        a_machine_upgrade("a", "go", "A10"),
        a_machine_upgrade("b", "go", "H200"),
        a_machine_upgrade("c", "no-go", "H200"),
        a_machine_upgrade("d", None),
    )
    assert [(one.hardware, one.decision) for one in found.hardware] == [
        ("H200", "no-go"),
        ("", "unclear"),
        ("A10", "go"),
    ]
    assert [machine.machine for _, machine in found.rows] == ["c", "b", "d", "a"]


def test_the_whole_report(golden: Golden) -> None:
    machines = [a_machine_upgrade(name, one, name.upper()) for name, one in (("x", "go"), ("y", "no-go"))]
    golden.check("fleet_upgrade.md", FLEET_FORMATS[".md"](a_fleet(*machines, a_machine_upgrade("z", None))))


@pytest.mark.parametrize("ending", FLEET_FORMATS)
def test_a_report_has_every_machine_the_worst_first_and_escapes_what_failed(ending: str) -> None:
    machines = [a_machine_upgrade(name, one, name.upper()) for name, one in (("x", "go"), ("y", "no-go"))]
    text = FLEET_FORMATS[ending](a_fleet(*machines, a_machine_upgrade("z", None)))
    if ending == ".json":
        body = json.loads(text)
        named = [one["machine"] for hardware in body["hardware"] for one in hardware["machines"]]
        assert (body["decision"], named) == ("no-go", ["y", "z", "x"])
        return
    assert (
        text.index("No-go, the worst of 3 machines") < text.index("Y: machine y") < text.index("X: machine x")
    )
    assert "no torch" in text and "<b>no torch" not in text


def test_the_anchors_of_a_page_are_unique() -> None:
    page = FLEET_FORMATS[".html"](a_fleet(a_machine_upgrade("x", "go"), a_machine_upgrade("y", "no-go")))
    anchors = re.findall(r'<section id="([^"]+)"', page)
    assert len(anchors) == len(set(anchors)) > 10
