"""The report of an upgrade as JUnit XML, which CI systems show case by case.

A case fails only where it speaks for a no-go by itself, so that the file is red where the decision is. The
first test of a suite is the decision itself, skipped where it is unclear.
"""

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from analysis.comparison.case_results import CaseResult
from analysis.decision.reasons import CaseDetail
from analysis.decision.upgrade import Upgrade
from common.text import printable

from . import wording
from .report_context import Subject
from .rows import Row, rows
from .text.reason_text import sentence

#: What has no verdict is skipped, with the reason.
_SKIPPED = ("waived", "screened", "not measured", "no data", "not comparable", "broken in both")


def upgrade_suite(
    subject: Subject, results: Sequence[CaseResult], upgrade: Upgrade, *, where: str = ""
) -> ElementTree.Element:
    """One `testsuite`: the decision, then every case; `where` names the machine if there are several."""
    name = f"{subject.old.name} to {subject.new.name}" + (f" on {where}" if where else "")
    suite = ElementTree.Element("testsuite", name=printable(name), hostname=printable(subject.machine))
    suite.set("timestamp", subject.started_at.isoformat())
    _decision(suite, wording.headline(upgrade), upgrade.decision)
    against = _against(upgrade)
    for row in rows(subject, results, upgrade):
        _case(suite, row, against.get(row.case, ""))
    return _counted(suite)


def undecided_suite(name: str, reason: str) -> ElementTree.Element:
    """The `testsuite` of a machine without a verdict."""
    suite = ElementTree.Element("testsuite", name=printable(name))
    _decision(suite, printable(reason), "unclear")
    return _counted(suite)


def document(suites: Iterable[ElementTree.Element], headline: str) -> str:
    """The whole file, under the decision in words."""
    root = ElementTree.Element("testsuites", name=printable(headline))
    root.extend(suites)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _decision(suite: ElementTree.Element, headline: str, decision: str) -> None:
    """Add the test that fails with a no-go, and is skipped where the decision is unclear."""
    test = ElementTree.SubElement(suite, "testcase", classname="upgrade", name="decision")
    if decision != "go":
        ElementTree.SubElement(test, "failure" if decision == "no-go" else "skipped", message=headline)


def _counted(suite: ElementTree.Element) -> ElementTree.Element:
    """The suite with the number of its tests, failures and skipped ones."""
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    suite.set("errors", "0")
    return suite


def _against(upgrade: Upgrade) -> dict[str, str]:
    """By case, why it speaks for a no-go by itself."""
    found: dict[str, str] = {}
    for reason in upgrade.reasons:
        if reason.speaks == "no-go" and isinstance(reason.detail, CaseDetail):
            for case in reason.cases:
                found.setdefault(case, printable(sentence(reason)))
    return found


def _case(suite: ElementTree.Element, row: Row, against: str) -> None:
    test = ElementTree.SubElement(
        suite, "testcase", classname=printable(row.workload), name=printable(row.case)
    )
    summary = printable(row.summary)
    if against:
        ElementTree.SubElement(test, "failure", message=against).text = summary
    elif row.status in _SKIPPED:
        ElementTree.SubElement(test, "skipped", message=summary)
    else:
        ElementTree.SubElement(test, "system-out").text = summary
