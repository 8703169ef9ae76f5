"""The report of a run: speed-ups beside absolute numbers, scaling, claims, whatever the terminal's width."""

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from cli.output.progress import JsonWatcher
from cli.output.run_report import print_report
from records.outcomes import Outcome, PlannedReplicate
from support.builders.journals import a_header
from support.builders.upgrade_journals import Story, write_upgrade
from support.command_line import called
from support.golden import Golden
from workflows.load_run import LoadedRun
from workflows.measure import RunResult

INFER, TRAIN = "resnet50/infer/batch=32,image=224", "resnet50/train/batch=4,image=64"
STOPPED = RunResult("run-1", "interrupted", (), stored=True, seconds=None)
STORED = LoadedRun(STOPPED, datetime(2026, 9, 1, 2, tzinfo=UTC), 4, traced=False)
PLAIN, FUSED = "mlp/infer/-/eager", "mlp/infer/-/compile=default"
EAGER, COMPILED = f"{INFER}/eager", f"{INFER}/compile=default"


def processes(
    case: str, *floors: float, items: int = 32, status: str = "ok", **metrics: float
) -> list[Outcome]:
    """One replicate per min-based latency, in ms; those of one number are alive together."""
    return [
        Outcome(
            case=case,
            environment="e",
            replicate=number,
            status=status,
            started_at=datetime(2026, 9, 1, 2, number, tzinfo=UTC),
            wall_seconds=30.0,
            metrics={"latency": 1.25 * floor, "latency_floor": floor, "throughput": items / floor, **metrics},
            facts={"items": items},
        )
        for number, floor in enumerate(floors)
    ]


def printed(outcomes: Sequence[Outcome], width: int = 160) -> list[str]:
    """The lines of the report."""
    result = RunResult("run-1", "complete", tuple(outcomes), True, 90.0)
    loaded = LoadedRun(result, datetime(2026, 9, 1, 2, tzinfo=UTC), len(outcomes), traced=False)
    return printed_report(loaded, width).splitlines()


def printed_report(loaded: LoadedRun, width: int = 160) -> str:
    file = io.StringIO()
    print_report(Console(file=file, width=width, highlight=False), loaded)
    return file.getvalue()


def printed_so_far(outcomes: Sequence[Outcome]) -> str:
    """The report of a run of four replicates that goes on."""
    planned = tuple(PlannedReplicate(case, "e", n) for case in (EAGER, COMPILED) for n in (0, 1))
    header = a_header("run-1", planned, started_at="2026-09-01T02:00:00+00:00")
    result = RunResult("run-1", "running", tuple(outcomes), stored=False, seconds=None)
    return printed_report(LoadedRun.of(header, result))


def test_the_whole_reports(golden: Golden) -> None:
    several = [
        *processes(EAGER, 20.0, 21.0, 22.0, compile_cold=14.25, rss_peak=612.5),
        *processes(COMPILED, 10.0, 10.0, 11.5, compile_cold=14.25, rss_peak=612.5),
        *processes(f"{INFER}/precision=bf16", 9.0, status="wrong"),
        *processes(f"{INFER}/cpus=all", 25.0, 25.0),
        *processes(f"{INFER}/cpus=all,instances=2", 40.0, 40.0, items=64),
        *processes(f"{TRAIN}/parallel=ddp", 10.0, 10.0, items=4),
        *processes(f"{TRAIN}/parallel=ddp,ranks=2", 12.5, 12.5, items=8),
        *processes(FUSED, 3.0),
    ]
    golden.check_terminal(
        "run_report.md",
        {
            "A run": "\n".join(printed(several)),
            "On a narrow terminal": "\n".join(printed(several, 80)),
            "It goes on": printed_so_far([*processes(EAGER, 20.0), *processes(COMPILED, 10.0)]),
            "Nothing has ended yet": printed_so_far([]),
            "Interrupted here": printed_report(
                LoadedRun.of(a_header("run-1", (), started_at="2026-09-01T02:00:00+00:00"), STOPPED)
            ),
            "Interrupted on another machine": printed_report(STORED),
        },
    )


def test_a_waiver_of_no_case_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyrometer.toml").touch()
    write_upgrade(tmp_path / ".pyrometer", Story())
    words = ("report", "latest", "--because", "known")
    assert called(tmp_path, {"HOME": str(tmp_path)}, *words, "--waive", "resnet50").code == 0
    done = called(tmp_path, {"HOME": str(tmp_path)}, *words, "--waive", "resnet5O")
    assert (done.code, done.out) == (2, "") and 'unknown case "resnet5O": did you mean' in done.err


def the_line(lines: Sequence[str], start: str) -> str:
    """The only line that begins so, with single spaces."""
    (found,) = [" ".join(line.split()) for line in lines if line.startswith(start)]
    return found


def test_a_speed_up_is_listed_with_the_absolute_numbers_and_its_interval() -> None:
    lines = printed([*processes(EAGER, 20.0, 21.0, 22.0), *processes(COMPILED, 10.0, 10.0, 11.5)])
    assert the_line(lines, "case").split()[-2:] == ["spread", "speed-up"]
    assert the_line(lines, EAGER).endswith("% baseline")
    # The pairs are 2, 2.1 and 1.913.
    assert the_line(lines, COMPILED).startswith(f"{COMPILED} 3/3 10.00 12.50 ")
    assert the_line(lines, COMPILED).endswith(" 2.00x [1.78, 2.25]")


def columns(lines: Sequence[str], start: str) -> dict[str, str]:
    """The cells of the line that begins so, by their headings of one or more words."""
    heading = next(line for line in lines if line.startswith("case "))
    names = re.split(r" {2,}", heading.rstrip())
    return dict(
        zip(names, re.split(r" {2,}", next(x for x in lines if x.startswith(start)).rstrip()), strict=True)
    )


@pytest.mark.parametrize("width", [80, 130, 200])
def test_the_ratio_of_a_column_is_the_speed_up(width: int) -> None:
    noisy = [replace(one, metrics={**one.metrics, "latency": 7.0}) for one in processes(PLAIN, 6.6, 6.6)]
    quiet = [replace(one, metrics={**one.metrics, "latency": 12.1}) for one in processes(FUSED, 6.5, 6.5)]
    lines = printed([*noisy, *quiet], width)
    old, new = (columns(lines, case) for case in (PLAIN, FUSED))
    ratio = float(old["min-based ms"]) / float(new["min-based ms"])
    assert float(new["speed-up"].split("x")[0]) == pytest.approx(ratio, abs=0.006)
    assert old["spread"] == "0.0 %"


@pytest.mark.parametrize("width", [80, 130, 200])
def test_a_speed_up_of_throughputs_is_listed_with_throughputs(width: int) -> None:
    several = "mlp/infer/-/cpus=all,instances=2"
    lines = printed([*processes(PLAIN, 20.0, 20.0), *processes(several, 25.0, 25.0, items=64)], width)
    old, new = (columns(lines, case) for case in (PLAIN, several))
    assert float(new["items/s"]) / float(old["items/s"]) == pytest.approx(1.6)
    assert new["speed-up"].startswith("1.60x")


def test_items_are_listed_with_times_where_a_step_has_others() -> None:
    both = [
        *processes(f"{TRAIN}/eager", 10.0, 10.0, items=4),
        *processes(f"{TRAIN}/parallel=ddp,ranks=2", 12.5, 12.5, items=8),
    ]
    old, new = (columns(printed(both), case) for case in (f"{TRAIN}/eager", f"{TRAIN}/parallel"))
    a, b = (float(one["min-based ms"]) / float(one["items"]) for one in (old, new))
    assert new["speed-up"].startswith(f"{a / b:.2f}x")
    assert "items  " not in printed([*processes(EAGER, 20.0), *processes(COMPILED, 10.0)])[0]


def test_a_run_without_pairs_has_no_such_column() -> None:
    lines = printed(processes(EAGER, 20.0, 21.0))
    assert "speed-up" not in "\n".join(lines)


@pytest.mark.parametrize("width", [60, 80, 119, 120, 159, 160, 200])
@pytest.mark.parametrize("has_items", [False, True])
def test_every_width_shows_the_speed_up_and_cuts_no_number(width: int, has_items: bool) -> None:
    metrics = {"compile_cold": 14.25, "compile_warm": 2.125, "rss_peak": 612.5, "model_tflops": 0.0125}
    several = processes(f"{INFER}/cpus=all,instances=2", 40.0, 40.0, items=64)
    outcomes = [*processes(EAGER, 20.0, 21.0, **metrics), *processes(COMPILED, 10.0, 10.0, **metrics)]
    lines = printed([*outcomes, *(several if has_items else [])], width)
    table = lines[: next(i for i, line in enumerate(lines) if line.startswith("speed-up: "))]
    text = "\n".join(table)
    assert "…" not in text
    assert "10.00" in text and "baseline" in text
    assert ("2.05x [1.50, 2.79]" if width >= 120 else "2.05x") in text
    assert ("0.0125" in text) == (width >= 160)
    assert all(len(line) <= width for line in table)


def test_a_missing_pair_lowers_n_and_says_so() -> None:
    lines = printed([*processes(EAGER, 20.0, 21.0), *processes(COMPILED, 10.0)])
    assert the_line(lines, COMPILED).endswith(" 2.00x n=1")


@pytest.mark.parametrize("status", ["wrong", "not_compiled", "crashed"])
def test_what_did_not_end_well_has_no_speed_up(status: str) -> None:
    other = processes(f"{INFER}/precision=bf16", 10.0)
    lines = printed([*processes(EAGER, 20.0), *processes(COMPILED, 1.0, status=status), *other])
    assert next(line for line in lines if line.startswith(COMPILED)).split()[-1] == "-"
    assert the_line(lines, f"{INFER}/precision").endswith(" 2.00x")


def test_a_case_measured_without_its_baseline_says_so() -> None:
    lines = printed(processes(COMPILED, 10.0, 11.0))
    assert the_line(lines, "no ") == f"no speed-up for {COMPILED}: the baseline was not measured"
    both = printed([*processes(COMPILED, 10.0), *processes(f"{INFER}/precision=bf16", 11.0)])
    assert the_line(both, "no ") == "no speed-up for 2 cases: the baseline was not measured"


def test_scaling_has_a_table_of_its_own() -> None:
    lines = printed(
        [
            *processes(f"{INFER}/cpus=all", 25.0, 25.0),
            *processes(f"{INFER}/cpus=all,instances=2", 40.0, 40.0, items=64),
            *processes(f"{TRAIN}/parallel=ddp", 10.0, 10.0, items=4),
            *processes(f"{TRAIN}/parallel=ddp,ranks=2", 12.5, 12.5, items=8),
        ]
    )
    start = next(i for i, line in enumerate(lines) if line.split()[-1:] == ["scaling"])
    table = [" ".join(line.split()) for line in lines[start + 1 : start + 3]]
    assert table == [
        f"{INFER}/cpus=all,instances=2 1.600 cpus=all 1.280 1.25x [1.25, 1.25]",
        f"{TRAIN}/parallel=ddp,ranks=2 640.0 parallel=ddp 400.0 80.0 % [80.0, 80.0]",
    ]


def test_json_ends_with_the_gains() -> None:
    outcomes = [*processes(EAGER, 20.0, 20.0), *processes(COMPILED, 10.0, 10.0)]
    console = Console(file=io.StringIO())
    JsonWatcher(console).report_end(RunResult("run-1", "complete", tuple(outcomes), True, 90.0))
    assert isinstance(console.file, io.StringIO)
    assert '"gains": [{"kind": "speed-up", "case": "' + COMPILED in console.file.getvalue()
    assert '"ratio": 2.0, "low": 2.0, "high": 2.0, "n": 2, "left_out": 0' in console.file.getvalue()
