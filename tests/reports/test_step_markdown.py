"""The report on a step: what a maintainer needs, and no text of the script is markup of the report."""

import html
from dataclasses import replace

import pytest

from analysis.comparison.case_results import CaseSide
from analysis.comparison.policy import Policy
from analysis.dispatch_difference import compare_cases
from records.runs import StepScript
from reports import sentences
from reports.body import upgrade_json
from reports.markdown import step_markdown
from reports.page import upgrade_html
from reports.report_context import ComparedEnvironment, JudgedUpgrade, Subject
from runner.step_file import step_case
from support.builders.run_records import a_case_fingerprint
from support.builders.upgrade_reports import (
    NASTY,
    a_result,
    a_subject,
    a_verdict,
    an_exact_verdict,
    reported,
)
from support.golden import Golden

SCRIPT = StepScript(
    "repro.py",
    "lookup",
    'import torch\n\ntable = torch.randn(100, 8)\n\n\ndef lookup():\n\t"""```"""\n    return table[[1, 2]]\n',
)
CASE = step_case(SCRIPT)
OPTIONS = ("--device", "cpu", "--step", "/home/user/repro.py:lookup", "--package", "einops", "--pairs", "12")


def a_step(step: StepScript = SCRIPT, **changes: object) -> JudgedUpgrade:
    """A step that became slower in 2.13.0, judged by the real rules."""
    old = ComparedEnvironment("2.9.1", "2.9.1+cpu", "3.11.7", "0f3a6c2e9d1b4857", packages=("numpy==2.3.1",))
    new = ComparedEnvironment(
        "2.13.0", "2.13.0+cpu", "3.11.7", "b7d2f05e6a98c314", packages=("numpy==2.4.0",)
    )
    fast, slow = (a_case_fingerprint(CASE, onednn={f"matmul by {name}": 1}) for name in ("jit", "ref:any"))
    more = {
        "first_call": a_verdict(2.0, "first_call", old=0.31),
        "rss_peak_steady": an_exact_verdict("rss_peak_steady", 612.0, 688.0),
    }
    given = {
        "old": old,
        "new": new,
        "suite": "chosen",
        "options": OPTIONS,
        "step": step,
        "dispatch": compare_cases({CASE: fast}, {CASE: slow}),
    }
    return reported([a_result(step_case(step), 31.0, old_ms=1.27, more=more)], **{**given, **changes})


def written(report: JudgedUpgrade) -> str:
    return step_markdown(report)


def test_the_whole_report(golden: Golden) -> None:
    golden.check("step.md", written(a_step()))


def test_an_exact_metric_has_a_range_and_no_confidence() -> None:
    floor, memory = (
        written(a_step(policy=Policy(metric=each))) for each in ("latency_floor", "rss_peak_steady")
    )
    assert "], 99 % interval over " in floor
    assert "], range of the pairs over " in memory and "99 %" not in memory.split("###")[0]
    # Its own row is that of the table of memory, too.
    assert memory.count("\n| Peak RSS, steady |") == 1


@pytest.mark.parametrize(
    ("old", "new", "title"),
    [
        (CaseSide("ok"), CaseSide("crashed", NASTY), "works in 2.9.1 and fails in 2.13.0"),
        (CaseSide("crashed", NASTY), CaseSide("ok"), "fails in 2.9.1 and works in 2.13.0"),
        (CaseSide("oom"), CaseSide("crashed", NASTY), "fails in 2.9.1 and in 2.13.0"),
        (CaseSide("contended", NASTY), CaseSide("ok"), "has no number in 2.9.1 and 2.13.0"),
    ],
)
def test_what_it_raised_is_shown_from_the_script_on(old: CaseSide, new: CaseSide, title: str) -> None:
    raised = f'Traceback:\n  File "worker.py", line 3\n  File "repro.py", line 7, in lookup\n{NASTY}'
    subject, _, _ = a_step()
    broken = reported([a_result(CASE, old=old, new=new, verdicts={})])
    text = written(JudgedUpgrade(replace(subject, tracebacks=("", raised)), *broken[1:]))
    assert text.startswith(f"## repro.py:lookup {title}\n")
    assert "### What it raised in 2.13.0\n\n````text\nTraceback (most recent call last):\n" not in text
    assert 'last):\n  File "repro.py", line 7, in lookup\n' in text and "worker.py" not in text
    before = text.split("### What it raised")[0]
    assert "<" not in before and "@octocat" not in before
    assert "octocat" in html.unescape(before)


def test_a_long_script_is_folded_and_one_alike_says_so() -> None:
    long = StepScript("repro.py", "step", "def step():\n" + "    pass\n" * 80)
    same = a_case_fingerprint(step_case(long))
    text = written(a_step(long, dispatch=compare_cases({same.case: same}, {same.case: same})))
    assert "<details>\n<summary>81 lines</summary>\n\n```python\ndef step():\n" in text
    assert "one step calls the same operators and kernels" in text
    assert "What runs differently" not in written(a_step(dispatch=()))


def commands(subject: Subject) -> tuple[str, str]:
    return subject.reproduce(CASE), subject.bisect()


def test_commands_measure_the_same_step_again() -> None:
    subject, _, _ = a_step()
    rest = "2.9.1 2.13.0 --device cpu --step /home/user/repro.py:lookup --package einops"
    assert commands(subject) == (f"pyrometer upgrade {rest} --pairs 12", f"pyrometer bisect {rest}")
    alone = subject.with_script_alone()
    assert all("--step repro.py:lookup " in command and "/home" not in command for command in commands(alone))
    assert a_subject().bisect() == "" and a_subject().with_script_alone() == a_subject()


@pytest.mark.parametrize(
    ("old", "new", "known"),
    [
        ("2.9.1", "2.13.0", True),
        ("nightly 2026-11-01", "nightly 2026-11-20", True),
        ("2.9.1", "nightly 2026-11-20", False),
        ("/opt/old", "2.13.0", False),
        ("default", "default", False),
    ],
)
def test_a_report_says_what_a_bisection_needs_where_the_index_lists_nothing(
    old: str, new: str, known: bool
) -> None:
    subject, results, upgrade = a_step()
    subject = replace(subject, old=replace(subject.old, asked=old), new=replace(subject.new, asked=new))
    assert "candidates" not in subject.bisect()
    page = written(JudgedUpgrade(subject, results, upgrade))
    assert (sentences.candidates(subject) == "") == known
    assert ("index cannot list them" not in page) == known and "A,B,C" not in page


def test_page_and_json_hold_the_script() -> None:
    judged = a_step()
    body = upgrade_json(judged)
    assert body["step"] == {**SCRIPT.to_body(), "bisect": judged.subject.bisect()}
    page = html.unescape(upgrade_html(judged))
    assert "table = torch.randn(100, 8)" in page and judged.subject.bisect() in page
    assert upgrade_json(reported([a_result("a/infer/-/eager")]))["step"] is None
