"""Reports as JUnit XML, which CI systems show case by case.

A case of an upgrade fails only where it speaks for a no-go by itself, so that the file is red where the
decision is. The first test of a suite is the decision itself, skipped where it is unclear.
"""

from collections.abc import Iterable
from datetime import datetime
from xml.etree import ElementTree

from analysis.decision.reasons import CaseDetail
from analysis.decision.upgrade import Upgrade
from common.text import printable

from . import wording
from .report_context import JudgedUpgrade
from .rows import rows
from .text.reason_text import sentence

#: What has no verdict is skipped, with the reason.
_SKIPPED = ("waived", "screened", "not measured", "no data", "not comparable", "broken in both", "broken")


def upgrade_suite(judged: JudgedUpgrade, *, where: str = "") -> ElementTree.Element:
    """One `testsuite`: the decision, then every case; `where` names the machine if there are several."""
    subject, upgrade = judged.subject, judged.upgrade
    name = f"{subject.old.name} to {subject.new.name}" + (f" on {where}" if where else "")
    suite = new_suite(name, subject.machine, subject.started_at)
    _decision(suite, wording.headline(upgrade), upgrade.decision)
    against = _against(upgrade)
    for row in rows(judged):
        failure = against.get(row.case, "")
        skipped = row.summary if row.status in _SKIPPED and not failure else ""
        add_test(suite, (row.workload, row.case), failure=failure, skipped=skipped, text=row.summary)
    return count_tests(suite)


def undecided_suite(name: str, reason: str) -> ElementTree.Element:
    """The `testsuite` of a machine without a verdict."""
    suite = ElementTree.Element("testsuite", name=printable(name))
    _decision(suite, reason, "unclear")
    return count_tests(suite)


def document(suites: Iterable[ElementTree.Element], headline: str) -> str:
    """The whole file, under the decision in words."""
    root = ElementTree.Element("testsuites", name=printable(headline))
    root.extend(suites)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def new_suite(name: str, machine: str, started_at: datetime) -> ElementTree.Element:
    """A `testsuite` without tests, of what was measured on a machine."""
    suite = ElementTree.Element("testsuite", name=printable(name), hostname=printable(machine))
    suite.set("timestamp", started_at.isoformat())
    return suite


def add_test(
    suite: ElementTree.Element, name: tuple[str, str], *, failure: str = "", skipped: str = "", text: str = ""
) -> None:
    """Add a test by its class and name, with why it failed or was skipped, else with its text."""
    test = ElementTree.SubElement(suite, "testcase", classname=printable(name[0]), name=printable(name[1]))
    if failure:
        element = ElementTree.SubElement(test, "failure", message=printable(failure))
        element.text = printable(text)
    elif skipped:
        ElementTree.SubElement(test, "skipped", message=printable(skipped))
    elif text:
        ElementTree.SubElement(test, "system-out").text = printable(text)


def count_tests(suite: ElementTree.Element) -> ElementTree.Element:
    """The suite with the number of its tests, failures and skipped ones."""
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    suite.set("errors", "0")
    return suite


def _decision(suite: ElementTree.Element, headline: str, decision: str) -> None:
    """Add the test that fails with a no-go, and is skipped where the decision is unclear."""
    failure, skipped = (headline if decision == one else "" for one in ("no-go", "unclear"))
    add_test(suite, ("upgrade", "decision"), failure=failure, skipped=skipped)


def _against(upgrade: Upgrade) -> dict[str, str]:
    """By case, why it speaks for a no-go by itself."""
    found: dict[str, str] = {}
    for reason in upgrade.reasons:
        if reason.speaks == "no-go" and isinstance(reason.detail, CaseDetail):
            for case in reason.cases:
                found.setdefault(case, printable(sentence(reason)))
    return found
