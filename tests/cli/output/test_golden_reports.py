"""Reports of commands that measure or wait for machines, whole, from made-up data: what they say and how."""

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest
from rich.console import Console

from analysis.bisection import BisectionEnd, Question
from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.decision.comparison import Comparison
from analysis.staleness import WaitReason
from cli.commands.doctor import doctor_lines
from cli.commands.fleet import examined_table, nodes_table, waiting_table
from cli.output.bisect_report import TerminalBisection
from cli.output.fleet_upgrade_report import print_fleet_upgrade
from cli.output.import_report import ImportCounts, PlainImportReport, ReadFile
from cli.output.operator_tables import print_traces
from interchange.errors import BadFile, SourcePlace
from interchange.runs import ImportProblem
from records.outcomes import Outcome
from reports.fleet_upgrade import FleetUpgrade, MachineUpgrade
from runner.execution.harness import Harness
from runner.session_plan import Timing
from runner.telemetry.capability import Capability, GpuCapabilities, Probe, UtilisationSource
from support.builders.notifications import MORNING, a_task
from support.builders.run_records import RESNET, RESNET_COMPILED
from support.builders.upgrade_reports import a_mixed_upgrade, a_result, reported
from support.golden import Golden
from workflows.bisection.state import Bisection, Step
from workflows.fleet_status import FleetStatus, NodeStatus
from workflows.transfer.import_runs import Amount, ImportSummary


def printed(show: Callable[[Console], object]) -> str:
    """What a function prints on a wide terminal."""
    file = io.StringIO()
    show(Console(file=file, width=160, highlight=False))
    return file.getvalue()


def test_doctor(golden: Golden) -> None:
    present = Capability("power", True, "milliwatts, averaged over a second")
    absent = Capability("sm_busy", False, "the driver has no GPM")
    gpus = [
        GpuCapabilities(number, f"GPU-{number}", "NVIDIA H200", source, (present, absent))
        for number, source in enumerate(get_args(UtilisationSource))
    ]
    health = {
        "uncorrected_ecc_errors": 1,
        "row_remap_pending": True,
        "pcie_width": 8,
        "pcie_width_possible": 16,
    }
    gpus[0] = replace(gpus[0], health=health)
    gpus.append(GpuCapabilities(9, "MIG-1", "NVIDIA A30", "none", (), mig_of="GPU-9"))
    found = {
        "hardware": "2 x H200, 64 cores",
        "data_dir": ".pyrometer",
        "environments": {"default": "torch 2.13.0, Python 3.12.3, 1 thread, 2 CUDA devices", "old": "broken"},
        "preset": {"name": "quiet", "pinned_cpus": 3},
        "cannot": ["clocks cannot be locked"],
    }
    unpinned = {**found, "preset": {"name": "as-it-comes", "pinned_cpus": 0}}
    host = (
        Capability("core_busy", True, "busy time of each CPU"),
        Capability("steal", False, "no hypervisor"),
    )
    golden.check_terminal(
        "doctor.md",
        {
            "With GPUs": "\n".join(doctor_lines(found, Probe("580.65", "13.0", tuple(gpus)), host)),
            "Without": "\n".join(doctor_lines(unpinned, Probe(absent="no NVML library is installed"), host)),
        },
    )


def test_status_and_doctor_of_a_fleet(golden: Golden) -> None:
    facts = {
        "hardware": "8 x H200",
        "version": "0.1.0",
        "gpus": ["NVIDIA H200"],
        "environments": [{"name": "default", "says": "torch 2.13.0"}],
        "capabilities": [{"of": "GPU 0", "name": "power", "present": True}, {"of": "CPU", "name": "perf"}],
        "cannot": ["clocks cannot be locked"],
    }
    ago = MORNING - timedelta(hours=3)
    nodes = [
        NodeStatus("gpu-1", "measures", ("gpu-1", "H200"), facts, MORNING, (a_task(4),)),
        NodeStatus("gpu-2", "silent", ("gpu-2",), facts, ago),
        NodeStatus("gpu-3", "joined"),
    ]
    waits = [
        (a_task(7, label="B300"), WaitReason("no such label")),
        (a_task(8), WaitReason("unscheduled")),
        (a_task(9), WaitReason("busy", ("gpu-1",))),
        (a_task(10, attempts=2, not_before=MORNING), WaitReason("not yet")),
        (a_task(11, label=""), WaitReason("next", ("gpu-1", "gpu-2"))),
    ]
    found = FleetStatus(MORNING, (), (), {node.name: node for node in nodes}, {}, tuple(waits))
    tables = {
        "Machines": nodes_table(found),
        "Waiting": waiting_table(found),
        "Doctor": examined_table(found),
    }
    golden.check_terminal(
        "fleet.md",
        {
            title: printed(lambda console, table=table: console.print(table))
            for title, table in tables.items()
        },
    )


def a_step(old: int, new: int, said: str, message: str) -> Step:
    """A comparison of two candidates by position; what was skipped has no run."""
    if said == "skip":
        return Step(old, new, "skip", message)
    changes = (
        {"what": "torch", "old": "2.9.1", "new": "2.10.0"},
        {"what": "triton", "old": "", "new": "3.6"},
    )
    return Step(old, new, said, message, f"run-{old}{new}", "pyrometer upgrade 2.9.1 2.10.0", {}, changes)


def test_a_bisection(golden: Golden) -> None:
    names = ("2.8.0", "2.9.0", "2.9.1", "2.10.0", "2.11.0")
    began = Bisection(
        *("20261122-080000-1", "", "", names, RESNET, "cpu", "quiet", "", "cpu", Timing()),
        Comparison("", "", Plan(), Policy()),
        Harness(Path("harness"), "", "", ()),
    )
    slower = "slower, +10.0 % [+9.0 %, +11.0 %]"
    first = a_step(0, 4, "bad", slower)
    steps = [first, a_step(0, 2, "good", "same within ±1 %"), a_step(0, 3, "skip", "2.10.0 cannot be built")]

    def after(*steps: Step) -> Bisection:
        return replace(began, steps=steps)

    def a_walk(console: Console) -> None:
        shown = TerminalBisection(console)
        shown.report_start(began)
        shown.report_question(began, Question(0, 4))
        shown.report_answer(after(first), first)
        shown.report_question(after(first), Question(0, 2))
        shown.report_question(after(*steps), Question(2, 4, again=True))
        shown.report_start(after(*steps))

    def an_end(kind: str, *found: Step, between: tuple[int, ...] = ()) -> str:
        last = found[-1]
        end = BisectionEnd(kind, last.old, last.new, between)
        return printed(lambda console: TerminalBisection(console).report_end(after(*found), end))

    golden.check_terminal(
        "bisection.md",
        {
            "On its way": printed(a_walk),
            "A pair": an_end("pair", *steps[:2], a_step(2, 3, "bad", slower)),
            "A range": an_end("range", *steps, a_step(2, 4, "bad", slower), between=(3,)),
            "In small steps": an_end("gradual", first, a_step(2, 3, "unclear", "unclear, +0.6 %")),
            "Ends that do not differ": an_end("alike", a_step(0, 4, "good", "same within ±1 %")),
            "Ends without an answer": an_end("alike", a_step(0, 4, "unclear", "no pair has compile_warm")),
        },
    )


def test_an_upgrade_on_several_machines(golden: Golden) -> None:
    machines = (
        MachineUpgrade("perf-01", 4, a_mixed_upgrade()),
        MachineUpgrade("perf-02", 5, reported([a_result(RESNET, -3.0)])),
        MachineUpgrade("perf-03", 6, reason="task 6 ended failed: no torch"),
    )
    found = FleetUpgrade("2.13.0", "2.15.0", machines)
    golden.check_terminal(
        "fleet_upgrade.md", {"Verdicts": printed(lambda console: print_fleet_upgrade(console, found))}
    )


def test_an_import(golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    reports = {}
    problems = tuple(ImportProblem(SourcePlace("b.json", line), "is no number") for line in range(1, 13))
    held, none = Amount(2, 12, 40), Amount()
    for title, verbose, dry_run in (("An import", False, False), ("Verbose, and a dry run", True, True)):
        report = PlainImportReport(verbose=verbose, dry_run=dry_run)
        known = ReadFile(runs=2, undated=1, repeats=list(problems[:2]))
        report.report_file(Path("a.json"), ImportSummary("torchbench", held, none), ReadFile())
        report.report_file(Path("b.json"), ImportSummary("asv", held, Amount(1, 1, 1), problems), known)
        report.report_refusal(Path("files/c.json"), BadFile(SourcePlace("c.json", 1), "is no JSON"))
        unknown = [Path(f"notes-{number}.txt") for number in range(12)]
        report.report_totals(ImportCounts(2, 1, 12, Amount(1, 1, 1), unknown))
        report.report_totals(ImportCounts(read=1))
        reports[title] = capsys.readouterr().out
    golden.check_terminal("import.md", reports)


def test_operator_tables(golden: Golden) -> None:
    def traced(case: str, left_out: float = 0.0, **longer: float) -> Outcome:
        rows = [
            {"name": "aten::mm", "kind": "operator", "calls": 2.0, "self_cpu_us": 5.0},
            {"name": "aten::add", "kind": "operator", "calls": 1.0, "self_cpu_us": 1.5},
            {"name": "gemm", "kind": "kernel", "calls": 2.0, "self_device_us": 3.25},
        ]
        rows = [{**row, **longer} if row["name"] == "aten::mm" else row for row in rows]
        totals = {"steps": 1.0, "outside_us": 12.5, "rows_left_out": left_out}
        facts = {"operators": rows, "traced": totals, "trace_note": "too large"}
        return Outcome(case, "e", 0, "ok", facts=facts)

    one, two, cut = traced(RESNET_COMPILED), traced(RESNET, self_cpu_us=9.0), traced(RESNET, 1234.0)
    golden.check_terminal(
        "operator_tables.md",
        {
            "Two cases": printed(lambda console: print_traces(console, [two, one], Path())),
            "One of two is cut": printed(lambda console: print_traces(console, [cut, one], Path())),
        },
    )
