"""The report of an upgrade on a terminal: the decision first, whatever the width."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from cli.output.upgrade_report import print_upgrade
from reports.report_context import JudgedUpgrade
from reports.rows import rows
from support.builders.upgrade_reports import (
    a_large_upgrade,
    a_mixed_upgrade,
    a_result,
    dispatched,
    on_a_gpu,
    reported,
    screened,
)
from support.golden import Golden


def printed(upgrade: JudgedUpgrade, width: int = 160, *, local: bool = True) -> list[str]:
    """The lines of the report."""
    file = io.StringIO()
    print_upgrade(Console(file=file, width=width, highlight=False), upgrade, local=local)
    return file.getvalue().splitlines()


def squeezed(lines: list[str]) -> str:
    return "".join("".join(lines).split())


def test_reports_of_a_wide_terminal(golden: Golden) -> None:
    judged = reported([a_result("resnet50/infer/-/eager", 2.0)])
    running, interrupted = (
        judged._replace(subject=replace(judged.subject, state=state)) for state in ("running", "interrupted")
    )
    unclear = reported([a_result(f"case{n}/infer/-/eager", -2.0, noise=40.0) for n in range(6)])
    reports = {
        "A no-go": a_mixed_upgrade(),
        "Interrupted": interrupted,
        "Still being measured": running,
        "What runs differently": dispatched(),
        "What would settle it": unclear,
        "Screened": screened(),
        "Nothing": reported([]),
    }
    sections = {title: "\n".join(printed(one)) for title, one in reports.items()}
    elsewhere = printed(interrupted, local=False)
    golden.check_terminal("upgrade_report.md", {**sections, "Interrupted on another machine": elsewhere[-1]})


def test_cases_that_share_their_reason_are_counted() -> None:
    unknown = [a_result(f"case{n}/infer/-/eager", -2.0, n=1) for n in range(13)]
    lines = printed(reported([*unknown, *(a_result(f"other{n}/infer/-/eager", 0.0) for n in range(3))]))
    left_out = lines[lines.index("in no geomean:") + 1 :]
    (line,) = [line for line in left_out if "/infer/-/eager: " in line]
    assert "13 cases" in line and "case0/" in line


@pytest.mark.parametrize("width", [60, 80, 100, 119, 120, 160, 240])
def test_no_width_cuts_a_case_or_a_number(width: int) -> None:
    upgrade = a_mixed_upgrade()
    lines = printed(upgrade, width)
    begin = next(i for i, line in enumerate(lines) if line.startswith("case "))
    end = next(i for i, line in enumerate(lines) if line.startswith("13 cases:"))
    table = lines[begin:end]
    assert all(len(line) <= width for line in table)
    text = "\n".join(table)
    assert "…" not in text
    case_width = max(len(part) for line in table[1:] if (part := line.split("  ")[0]))
    column = [line[:case_width].strip() for line in table[1:]]
    assert "".join(column) == "".join(row.case for row in rows(upgrade))
    for number in ("+310.5 %", "+303.4 % to +317.7 %", "-12.5 %", "+0.50 %"):
        assert number in text
    for words in ("notmeasured", "brokeninboth", "nodata"):
        assert words in squeezed(table) or width < 80


def test_wide_terminals_show_absolute_numbers_and_the_smallest_visible_change() -> None:
    (line,) = [
        line
        for line in printed(a_mixed_upgrade())
        if line.startswith("resnet50/infer/batch=8,image=224/eager ")
    ]
    assert " ".join(line.split()).endswith("/eager 48.31 49.98 +3.4 % +3.1 % to +3.8 % 6 ▲ slower ±1.1 %")


def test_every_exclusion_and_every_table_has_a_line() -> None:
    upgrade = a_mixed_upgrade()
    lines = printed(upgrade, 80)
    for one in upgrade[2].exclusions:
        assert sum(line.startswith(f"    {one.case}: ") for line in lines) == 1
    for title in ("Compile time: Compile, cold cache: 1 slower", "Graph breaks: 1 worse"):
        assert sum(line.startswith(title) for line in lines) == 1
    assert all(line.isprintable() for line in lines)


def test_kernels_of_a_case_that_moved_say_which_are_new_gone_or_slower() -> None:
    lines = printed(on_a_gpu(), 80)
    (begin,) = [place for place, line in enumerate(lines) if line.startswith("GPU kernels of ")]
    assert lines[begin : begin + 4] == [
        "GPU kernels of resnet50/infer/batch=8,image=224/eager (slower):",
        "    [slower] 100.0 → 131.5 µs a step (+31.5): gemm<float, 8>",
        "    [new] 0.0 → 12.2 µs a step (+12.2): split_k_reduce",
        "    [gone] 4.0 → 0.0 µs a step (-4.0): copy",
    ]


@pytest.mark.parametrize("upgrade", [reported([]), a_large_upgrade()], ids=["empty", "large"])
def test_any_number_of_cases_can_be_printed(upgrade: JudgedUpgrade) -> None:
    text = "\n".join(printed(upgrade, 80))
    assert f"{len(upgrade[1])} cases: " in text
    assert "significant" not in text
