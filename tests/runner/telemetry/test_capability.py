"""The CPU side's capabilities, here and where a kernel keeps its counts to itself."""

from pathlib import Path

from runner.telemetry.capability import host_capabilities


def test_this_kernel_tells_at_least_the_time_of_its_cpus() -> None:
    found = {each.name: each for each in host_capabilities()}
    assert found["core_busy"].present and found["steal"].present
    assert (
        found["frequency"].present == Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq").exists()
    )


def test_what_is_not_there_is_absent_with_the_file_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu 1 2 3 4\n")
    found = {each.name: each for each in host_capabilities(tmp_path)}
    assert found["core_busy"].present
    assert (found["steal"].present, found["steal"].detail) == (False, "this kernel does not count it")
    assert found["run_queue"].detail == "this kernel has no /proc/loadavg"
    assert not found["frequency"].present
