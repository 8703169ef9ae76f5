"""The report for a pull request: everything is in it, and nothing in it is markup but ours."""

import html
import re
from dataclasses import replace

import pytest

from analysis.comparison.policy import Policy
from reports.markdown import upgrade_markdown
from reports.page import upgrade_html
from reports.report_context import JudgedUpgrade
from reports.text import markdown
from reports.text.reason_text import sentence
from support.builders.upgrade_reports import (
    NASTY,
    UPGRADES,
    a_mixed_upgrade,
    a_result,
    every_kind,
    on_a_gpu,
    reported,
    upgrade_of,
)
from support.golden import Golden


@pytest.mark.parametrize(
    ("which", "name"),
    [
        ("mixed", "upgrade_mixed.md"),
        ("dispatched", "upgrade_dispatched.md"),
        ("screened", "upgrade_screened.md"),
        ("unclear", "upgrade_unclear.md"),
        ("broken", "upgrade_broken.md"),
        ("empty", "upgrade_empty.md"),
    ],
)
def test_the_whole_report(golden: Golden, which: str, name: str) -> None:
    golden.check(name, upgrade_markdown(upgrade_of(which)))


def tables(text: str) -> list[list[list[str]]]:
    """Every table as rows of cells, read as GitHub reads them: a bar behind a backslash is none."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


@pytest.mark.parametrize("which", UPGRADES)
def test_every_table_is_a_table_and_what_is_folded_is_closed(which: str) -> None:
    text = upgrade_markdown(upgrade_of(which))
    for table in tables(text):
        assert {len(row) for row in table} == {len(table[0])}
    assert text.count("<details>\n<summary>") == text.count("</summary>\n\n") == text.count("\n\n</details>")
    assert "nan" not in text.lower().replace("tenant", "") and "significant" not in text


@pytest.mark.parametrize("which", UPGRADES)
def test_every_case_exclusion_and_command_is_in_it(which: str) -> None:
    subject, results, upgrade = upgrade_of(which)
    text = upgrade_markdown(upgrade_of(which))
    for result in results:
        assert f"`{result.case}`" in text
        assert f"\n{subject.reproduce(result.case)}\n" in text
    listed = {tuple(row) for table in tables(text) for row in table if len(row) == 2}
    for one in upgrade.exclusions:
        assert any(case == f"`{one.case}`" for case, _ in listed)
    for reason in upgrade.reasons:
        assert " ".join(sentence(reason).split())[:40] in " ".join(html.unescape(text).split())
    # What GitHub takes as the text of a pull request.
    assert len(text) < 65_536


def test_a_row_of_the_table_of_cases_has_everything() -> None:
    text = upgrade_markdown(upgrade_of("mixed"))
    (row,) = [
        line
        for line in text.splitlines()
        if line.startswith("| `resnet50/infer/batch=8,image=224/eager` · must not regress | 48.31")
    ]
    assert row.split(" | ")[1:] == [
        "48.31", "49.98", "+3.4 %", "+3.1 % to +3.8 %", "6", "▲ slower", "±1.1 % |",
    ]  # fmt: skip


def test_what_a_case_says_is_text_and_nothing_else() -> None:
    text = upgrade_markdown(upgrade_of("mixed"))
    ours = re.compile(r"</?(?:details|summary)>")
    assert "<" not in ours.sub("", text)
    for markup in ("@octocat", " #12", "`rm -rf`", "](http", "http://", "\x1b"):
        assert markup not in text
    # And yet people read what it said.
    assert " ".join(NASTY.replace("\x1b", " ").split()) in " ".join(html.unescape(text).split())


def test_an_address_without_a_scheme_is_no_link() -> None:
    text = markdown.text("see www.example.org and (WWW.example.org)")
    assert "www." not in text.lower()
    assert html.unescape(text) == "see www.example.org and (WWW.example.org)"


def test_a_key_may_hold_what_tables_and_code_are_made_of() -> None:
    case = "mine/infer/text=a|b`c```d/eager"
    text = upgrade_markdown(reported([a_result(case)]))
    assert "```` mine/infer/text=a\\|b`c```d/eager ````" in text
    assert re.search(r"^````sh\n.*\n````$", text, re.MULTILINE)
    assert all(len({len(row) for row in table}) == 1 for table in tables(text))


@pytest.mark.parametrize("state", ["complete", "interrupted", "running"])
def test_one_that_is_not_over_says_so_at_its_head(state: str) -> None:
    subject, results, upgrade = a_mixed_upgrade()
    head = upgrade_markdown(JudgedUpgrade(replace(subject, state=state), results, upgrade)).partition(
        "### Reasons"
    )[0]
    assert ("this is its verdict so far" in head) == (state != "complete")
    assert (f"`pyrometer upgrade --resume {subject.run}`" in head) == (state == "interrupted")


def test_what_would_decide_it_is_first_of_all_the_rest_of_its_plan() -> None:
    subject, results, upgrade = reported(
        [a_result(f"case{n}/infer/-/eager", -2.0, noise=40.0) for n in range(16)]
    )
    many = len(upgrade.to_decide)
    assert upgrade.decision == "unclear" and many > 12
    whole = upgrade_markdown(JudgedUpgrade(subject, results, upgrade))
    section = whole.partition("### What would decide it")[2].partition("###")[0]
    command, _, each = section.partition(f"One by one: {many} cases")
    assert command.count("pyrometer upgrade") == 1 and command.count("--case case") == many
    assert each.count("`pyrometer upgrade") == many
    stopped = upgrade_markdown(JudgedUpgrade(replace(subject, state="interrupted"), results, upgrade))
    assert "What would decide it" not in stopped and "upgrade --resume" in stopped


def test_the_rules_are_listed() -> None:
    policy = Policy(
        must_not_regress=("resnet50/*",), may_break=("lstm*",), weights={"bert*": 3.0}, overall=0.0125
    )
    text = html.unescape(upgrade_markdown(reported(every_kind(), policy)))
    for rule in (
        "resnet50/* must not regress.",
        "lstm* may break;",
        "of all others, and of the cases that must not regress, a broken case is a no-go.",
        "bert* counts 3 times.",
        "+10.0 % in Latency (min-based)",
        "no worse than +1.25 %.",
    ):
        assert rule in text


def test_kernels_are_shown_of_cases_that_moved() -> None:
    text = upgrade_markdown(on_a_gpu())
    section = text.partition("### GPU kernels")[2].partition("###")[0]
    assert "slower | 100.0 | 131.5 | +31.5 | 1 | 2" in section and section.count("131.5") == 1
    assert "new | 0.0 | 12.2 | +12.2 | 0 | 1" in section and "gone | 4.0 | 0.0 | -4.0 | 1 | 0" in section
    assert "gemm&#60;float, 8&#62;" in section and "bias" not in section
    assert "GPU kernels" not in upgrade_markdown(reported(every_kind()))
    page = upgrade_html(on_a_gpu())
    assert "GPU kernels" in page and "gemm&lt;float, 8&gt;" in page
