"""What a task asks of the command that measures it."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from configuration.errors import ConfigurationError
from runner.environment import MeasuredEnvironment
from runner.suites.suite import workloads
from scheduled_jobs.jobs.measure import run_options
from scheduled_jobs.scheduler.planner import tasks_of
from support.builders.detection_nights import job_context
from support.servers.schedulers import settings_of
from workflows.planning.select_cases import choose_cases, choose_suite

TOML = """
[schedules.nightly]
cron = "30 2 * * *"
{lines}
"""
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def options_of(folder: Path, lines: str, *, away: bool = False) -> list[str]:
    """What stands on the command line of the one task of such a schedule."""
    (task,) = tasks_of(settings_of(TOML.format(lines=lines), folder), "nightly")
    return run_options(task.spec, replace(job_context(folder, NOW, toml=TOML.format(lines=lines)), away=away))


def test_what_is_written_stands_on_the_command_line(tmp_path: Path) -> None:
    assert options_of(tmp_path, "") == ["--suite", "smoke"]
    lines = 'cases = ["a/infer", "b*"]\nbudget_seconds = 90.5\ndevice = "cpu"'
    named = ["--case", "a/infer", "--case", "b*"]
    assert options_of(tmp_path, lines) == ["--budget", "90.5", "--device", "cpu", *named]


def test_clocks_are_held_where_a_schedule_says_so(tmp_path: Path) -> None:
    assert options_of(tmp_path, 'suite = "gpu"\nlock_clocks = 1500') == [
        *("--suite", "gpu", "--lock-clocks", "1500")
    ]


@pytest.mark.parametrize("lines", ['device = "cpu"', 'suite = "scaling"\nnodes = 2'])
def test_no_clocks_are_held_where_there_are_no_gpus_of_this_machine(tmp_path: Path, lines: str) -> None:
    with pytest.raises(ConfigurationError, match=r"schedules\.nightly\.lock_clocks cannot be combined with"):
        options_of(tmp_path, f"lock_clocks = 1500\n{lines}")


def test_the_name_of_a_workload_means_all_of_its_cases_in_a_schedule(tmp_path: Path) -> None:
    _, pattern = options_of(tmp_path, 'cases = ["resnet50"]')
    environment = MeasuredEnvironment("default", "python", {}, workloads(), {})
    settings = settings_of("", tmp_path)
    suite = choose_suite(settings, None, [pattern], own_cases=False)
    by_night = choose_cases(suite, [pattern], environment, settings)
    assert len(by_night) > 50 and {case.split("/")[0] for case in by_night} == {"resnet50"}
    assert len(choose_cases(suite, ["resnet50"], environment, settings)) == 1


def test_own_case_files_lie_in_the_folder_of_the_settings(tmp_path: Path) -> None:
    lines = 'case_files = ["cases/mine.py", "/elsewhere/yours.py"]'
    files = ["--cases", str(tmp_path / "cases/mine.py"), "--cases", "/elsewhere/yours.py"]
    # Own cases without a suite mean exactly those.
    assert options_of(tmp_path, lines) == files
    assert options_of(tmp_path, f'suite = "cpu"\n{lines}') == ["--suite", "cpu", *files]
    # Another machine has a folder of its own.
    assert options_of(tmp_path, lines, away=True)[:2] == ["--cases", "cases/mine.py"]


def test_nodes_are_for_the_engine_and_no_option(tmp_path: Path) -> None:
    assert options_of(tmp_path, 'suite = "scaling"\nnodes = 2') == ["--suite", "scaling"]
    for wrong in ("1", "true", '"two"'):
        with pytest.raises(ConfigurationError, match="2 or more"):
            options_of(tmp_path, f"nodes = {wrong}")
    upgrade = 'job = "upgrade"\nold = "2.13.0"\nnew = "latest"\nnodes = 2'
    with pytest.raises(ConfigurationError, match="nodes is not a key of job upgrade"):
        options_of(tmp_path, upgrade)


def test_own_cases_are_for_what_measures(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="case_files is not a key of job prune"):
        options_of(tmp_path, 'job = "prune"\ncase_files = ["mine.py"]')
    with pytest.raises(ConfigurationError, match="a list of files with cases of your own"):
        options_of(tmp_path, "case_files = []")
