"""The report of an upgrade on a terminal: the decision first, whatever the width."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from cli.output.upgrade_report import print_upgrade
from reports.rows import rows
from support.builders.upgrade_reports import (
    Report,
    a_large_upgrade,
    a_mixed_upgrade,
    a_result,
    dispatched,
    reported,
)


def printed(upgrade: Report, width: int = 160) -> list[str]:
    """The lines of the report."""
    file = io.StringIO()
    print_upgrade(Console(file=file, width=width, highlight=False), *upgrade)
    return file.getvalue().splitlines()


def squeezed(lines: list[str]) -> str:
    return "".join("".join(lines).split())


def test_the_decision_comes_first_then_reasons_then_cases() -> None:
    lines = printed(a_mixed_upgrade())
    assert lines[0].startswith("2.13.0 to 2.15.0 on Intel Xeon Gold 6430, 2 cores, suite cpu")
    assert lines[1].startswith("✗ No-go: 3 blockers; without them: unclear. gpt2_small/train/")
    starts = (" 1. no-go", "10. go", "case ", "geomean", "in no geomean", "measure a case again")
    places = [next(i for i, line in enumerate(lines) if line.startswith(start)) for start in starts]
    assert places == sorted(places)


@pytest.mark.parametrize("state", ["complete", "interrupted", "running"])
def test_an_unfinished_upgrade_is_not_reported_as_finished(state: str) -> None:
    subject, results, upgrade = a_mixed_upgrade()
    lines = printed((replace(subject, state=state), results, upgrade))
    so_far = {
        "complete": [],
        "interrupted": ["It was interrupted: this is the verdict so far."],
        "running": ["It is still being measured: this is the verdict so far."],
    }
    found = [at for at, line in enumerate(lines) if "so far" in line]
    assert [lines[at] for at in found] == so_far[state]
    assert found < [next(at for at, line in enumerate(lines) if line.startswith(" 1. no-go"))]
    resume = f"resume with: pyrometer upgrade --resume {subject.run}"
    assert (lines[-1] == resume) == (state == "interrupted") == any("--resume" in line for line in lines)


def test_one_that_only_the_database_knows_goes_on_where_it_was_measured() -> None:
    subject, results, upgrade = a_mixed_upgrade()
    console = Console(file=io.StringIO(), width=120, highlight=False)
    print_upgrade(console, replace(subject, state="interrupted"), results, upgrade, local=False)
    assert isinstance(console.file, io.StringIO)
    resume = f"pyrometer upgrade --resume {subject.run}"
    assert console.file.getvalue().endswith(f"\nOn the machine that measured it, resume with: {resume}\n")


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
    assert "".join(column) == "".join(row.case for row in rows(*upgrade))
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


def test_what_would_decide_it_stands_between_reasons_and_cases() -> None:
    lines = printed(reported([a_result(f"case{n}/infer/-/eager", -2.0, noise=40.0) for n in range(6)]))
    to_decide = next(i for i, line in enumerate(lines) if line.startswith("what would decide it: "))
    assert to_decide < next(i for i, line in enumerate(lines) if line.startswith("case "))
    assert "new pairs, about" in lines[to_decide + 1]


@pytest.mark.parametrize("upgrade", [reported([]), a_large_upgrade()], ids=["empty", "large"])
def test_any_number_of_cases_can_be_printed(upgrade: Report) -> None:
    text = "\n".join(printed(upgrade, 80))
    assert f"{len(upgrade[1])} cases: " in text
    assert "significant" not in text


def test_cases_that_moved_show_what_runs_differently() -> None:
    lines = printed(dispatched())
    at = next(i for i, line in enumerate(lines) if line.startswith("what runs differently: 1 of 2 cases"))
    assert lines[at + 1].strip() == "resnet50/infer/batch=8,image=224/eager (slower)"
    assert lines[at + 2].strip().startswith("[reference kernel] oneDNN: convolution src:f32:aBcd16b by ref:")
    assert "NEW has no fingerprint (crashed: killed by SIGILL)" in "\n".join(lines)
    assert not [line for line in printed(a_mixed_upgrade()) if "runs differently" in line]
