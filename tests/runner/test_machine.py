"""The machine: what it is, what it cannot measure, and that one run measures it at a time."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from runner import machine
from runner.errors import MachineBusy
from runner.execution import machine_lock as exclusive_room
from runner.execution.machine_lock import exclusive, holder
from runner.execution.process import TOKEN_VARIABLE, sweep
from runner.telemetry.capability import GpuCapabilities, Probe
from support.site import LOCK_FOLDER, carriers
from support.waiting import until

GPU = {"name": "NVIDIA H200", "memory_mib": 143771}


def test_a_machine_describes_itself_the_same_way_twice() -> None:
    one, other = machine.describe([]), machine.describe([])
    assert one.fingerprint == other.fingerprint
    assert one.hardware_fingerprint == other.hardware_fingerprint
    assert one.hardware["cpus"] == len(os.sched_getaffinity(0))
    assert one.hardware_label.endswith(f", {one.hardware['cpus']} cores")
    assert one.conditions["memory_mib"] > 0
    assert one.conditions["numa_nodes"] >= 1


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/a/b\n", {"a/cpu.max": "400000 100000", "a/b/cpu.max": "max 100000"}, 4.0),
        ("0::/a/b\n", {"a/cpu.max": "400000 100000", "a/b/cpu.max": "200000 100000"}, 2.0),
        (
            "4:cpu,cpuacct:/c\n0::/\n",
            {"cpu/c/cpu.cfs_quota_us": "50000", "cpu/c/cpu.cfs_period_us": "100000"},
            0.5,
        ),
        ("4:cpu:/c\n0::/\n", {"cpu/c/cpu.cfs_quota_us": "-1", "cpu/c/cpu.cfs_period_us": "100000"}, None),
        ("0::/\n", {"cpu.max": "max 100000"}, None),
        ("", {}, None),
    ],
)
def test_a_limit_of_cpu_time_is_read_from_control_groups(
    tmp_path: Path, groups: str, files: dict[str, str], quota: float | None
) -> None:
    write_groups(tmp_path, groups, files)
    assert machine.cpu_quota(tmp_path) == quota


def write_groups(root: Path, groups: str, files: dict[str, str]) -> None:
    """The control groups of a process below `root`."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("groups", "files", "times"),
    [
        (
            "0::/a/b\n",
            {"a/cpu.stat": "nr_throttled 2\nthrottled_usec 9", "a/b/cpu.stat": "nr_throttled 3"},
            5,
        ),
        ("4:cpu:/c\n0::/\n", {"cpu/c/cpu.stat": "nr_periods 24\nnr_throttled 22\nthrottled_time 9"}, 22),
        ("0::/\n", {"cpu.stat": "usage_usec 9"}, 0),
        ("", {}, 0),
    ],
)
def test_control_groups_count_how_often_they_were_stopped(
    tmp_path: Path, groups: str, files: dict[str, str], times: int
) -> None:
    write_groups(tmp_path, groups, files)
    assert machine.times_stopped(tmp_path) == times


def test_gpus_make_the_hardware() -> None:
    eight = machine.describe([GPU] * 8)
    assert eight.hardware_label == "8 x NVIDIA H200"
    mixed = machine.describe([GPU, {"name": "NVIDIA A100", "memory_mib": 81920}])
    assert mixed.hardware_label == "1 x NVIDIA A100 + 1 x NVIDIA H200"
    prints = {m.hardware_fingerprint for m in (eight, mixed, machine.describe([]))}
    assert len(prints) == 3
    assert {m.fingerprint for m in (eight, mixed)} == {machine.describe([]).fingerprint}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("NVIDIA H100 80GB HBM3", (81082, 81089, 81090)),
        ("NVIDIA A100 80GB PCIe", (81049, 81153)),
        ("NVIDIA H200", (143_073, 143_155, 143_421)),
        ("NVIDIA L40S", (45_405, 45_487, 46_059)),
        ("Tesla T4", (14910, 15102)),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", (9984, 9989)),
    ],
)
def test_a_new_driver_makes_no_other_hardware(name: str, sizes: tuple[int, ...]) -> None:
    # CUDA has some MiB more or less of the same GPU with another driver.
    found = [machine.describe([{"name": name, "memory_mib": mib}] * 2) for mib in sizes]
    assert len({each.hardware_fingerprint for each in found}) == 1
    assert len({machine.combine(each, [each]).hardware_fingerprint for each in found}) == 1
    assert [each.conditions["gpu_memory_mib"] for each in found] == [[mib, mib] for mib in sizes]


def test_gpus_of_one_name_and_another_size_are_other_hardware() -> None:
    sizes = (40_326, 81_049, 4864, 20_096)
    found = {machine.describe([{"name": "A100", "memory_mib": mib}]).hardware_fingerprint for mib in sizes}
    assert len(found) == len(sizes)
    assert "gpu_memory_mib" not in machine.describe([]).conditions


def test_how_many_gpus_and_which_kind_is_first_make_the_hardware() -> None:
    # Which of equal ones are visible does not matter; of two kinds the first is what is measured on.
    a100 = {"name": "NVIDIA A100", "memory_mib": 81_153}
    choices = ([GPU], [GPU, GPU], [GPU, a100], [a100, GPU])
    assert len({machine.describe([*chosen]).hardware_fingerprint for chosen in choices}) == len(choices)
    assert machine.describe([GPU, a100]).hardware["gpus"] == ["NVIDIA H200", "NVIDIA A100"]


def arm64(*cores: tuple[str, str, str, str]) -> str:
    """What /proc/cpuinfo says there: implementer, part, variant and revision of each CPU."""
    return "".join(
        f"processor\t: {number}\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd evtstrm aes\n"
        f"CPU implementer\t: {implementer}\nCPU architecture: 8\nCPU variant\t: {variant}\n"
        f"CPU part\t: {part}\nCPU revision\t: {revision}\n\n"
        for number, (implementer, part, variant, revision) in enumerate(cores)
    )


def described(cpuinfo: str, monkeypatch: pytest.MonkeyPatch) -> machine.MachineFacts:
    """A machine of two CPUs whose kernel writes this into /proc/cpuinfo."""
    # What Python knows of an arm64 processor is one word for all of them.
    monkeypatch.setattr(machine.platform, "processor", lambda: "aarch64")
    read = {Path("/proc/cpuinfo"): cpuinfo.strip()}
    monkeypatch.setattr(machine, "_read_text", read.get)
    return machine.describe([], 2)


@pytest.mark.parametrize(
    ("cores", "cpu", "label"),
    [
        (
            [("0x41", "0xd0c", "0x3", "1")] * 2,
            "ARM 0x41 part 0xd0c variant 0x3 revision 1",
            "Neoverse N1 r3p1, 2 cores",
        ),
        (
            [("0x41", "0xd4f", "0x0", "1")] * 2,
            "ARM 0x41 part 0xd4f variant 0x0 revision 1",
            "Neoverse V2 r0p1, 2 cores",
        ),
        (
            [("0x41", "0xd4f", "0x0", "0")] * 2,
            "ARM 0x41 part 0xd4f variant 0x0 revision 0",
            "Neoverse V2 r0p0, 2 cores",
        ),
        (
            [("0x41", "0xfff", "0x1", "0"), ("0xc0", "0xac3", "0x0", "2"), ("0x41", "0xfff", "0x1", "0")],
            "ARM 0x41 part 0xfff variant 0x1 revision 0 + ARM 0xc0 part 0xac3 variant 0x0 revision 2",
            "ARM 0x41 part 0xfff r1p0 + Ampere-1 r0p2, 2 cores",
        ),
    ],
)
def test_arm_cpus_are_known_by_their_numbers(
    cores: list[tuple[str, str, str, str]], cpu: str, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = described(arm64(*cores), monkeypatch)
    assert (found.hardware["cpu"], found.hardware_label) == (cpu, label)
    assert found.conditions["flags"] == described(arm64(cores[0]), monkeypatch).conditions["flags"]


def test_two_arm_cpus_are_two_kinds_of_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [("0x41", "0xd0c", "0x3", "1"), ("0x41", "0xd4f", "0x0", "1"), ("0x41", "0xd4f", "0x0", "0")]
    found = [described(arm64(kind, kind), monkeypatch) for kind in (*kinds, kinds[0])]
    assert len({each.hardware_fingerprint for each in found}) == 3
    assert found[0].hardware_fingerprint == found[-1].hardware_fingerprint


def test_a_model_that_is_named_stays_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Gold 6442Y CPU\nmicrocode\t: 0x1\nflags\t\t: fpu\n\n"
    )
    found = described(text, monkeypatch)
    assert found.hardware["cpu"] == "Intel(R) Xeon(R) Gold 6442Y CPU"
    assert found.hardware_label == "Intel Xeon Gold 6442Y, 2 cores"


def test_missing_tools_are_named_with_what_they_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    without = machine.limits([])
    assert any(limit.startswith("numactl is not installed: ") for limit in without)
    assert any(limit.startswith("no C++ compiler is installed: ") for limit in without)
    assert any(limit.startswith("no CUDA device is visible") for limit in without)
    for tool in ("numactl", "clang++"):
        shutil.copy("/bin/true", tmp_path / tool)
    with_tools = machine.limits([GPU])
    assert len(with_tools) == len(without) - 3


def program(text: str, lock_folder: Path, **variables: str) -> subprocess.Popen[str]:
    """A real process of this interpreter that is spoken to over its pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, LOCK_FOLDER: str(lock_folder), **variables},
    )


HOLDER = """
    import sys
    from runner.execution.machine_lock import exclusive
    with exclusive(lambda: print("waiting", flush=True)):
        print("mine", flush=True)
        sys.stdin.readline()
"""


def line(process: subprocess.Popen[str]) -> str:
    """The next line it prints."""
    assert process.stdout is not None
    return process.stdout.readline()


def test_one_run_at_a_time_and_the_next_when_the_first_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with program(HOLDER, tmp_path) as first, program(HOLDER, tmp_path) as second:
        assert {line(first), line(second)} == {"mine\n", "waiting\n"}
        monkeypatch.setenv(LOCK_FOLDER, str(tmp_path))
        calls: list[str] = []
        with pytest.raises(MachineBusy), exclusive(lambda: calls.append("waiting"), wait_seconds=0.5):
            pytest.fail("two at a time")
        assert calls == ["waiting"]
        # The holder is killed without warning; the other gets the lock.
        for process in (first, second):
            process.kill()
    with exclusive(lambda: calls.append("again"), wait_seconds=60):
        pass


def test_another_folder_for_temporary_files_is_no_other_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [{"TMPDIR": str(tmp_path / name)} for name in ("mine", "yours")]
    for each in others:
        Path(each["TMPDIR"]).mkdir()
    with program(HOLDER, tmp_path, **others[0]) as first, program(HOLDER, tmp_path, **others[1]) as second:
        assert {line(first), line(second)} == {"mine\n", "waiting\n"}
        for process in (first, second):
            process.kill()
    # Of the real one only where it lies: a run that measures this machine just now is not held up.
    monkeypatch.delenv(LOCK_FOLDER, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert exclusive_room.lock_path() == Path("/tmp/pyrometer-measuring.lock")


def test_a_waiting_run_can_see_the_owner_of_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCK_FOLDER, str(tmp_path))
    assert holder() == ""
    measuring = HOLDER.replace("sys.stdin", "journal = open('journal.jsonl', 'a'); sys.stdin")
    with program(HOLDER, tmp_path) as first:
        assert line(first) == "mine\n"
        assert holder() == f"process {first.pid}, which has no run yet"
        first.communicate("done\n")
    assert holder() == ""
    (tmp_path / "run-1").mkdir()
    inside = measuring.replace("import sys", f"import os, sys; os.chdir({str(tmp_path / 'run-1')!r})")
    with program(inside, tmp_path) as first:
        assert line(first) == "mine\n"
        until(lambda: holder() == f"process {first.pid}, run run-1", "its run is seen")
        first.communicate("done\n")


def test_the_one_that_waits_is_next(tmp_path: Path) -> None:
    with program(HOLDER, tmp_path) as first:
        assert line(first) == "mine\n"
        with program(HOLDER, tmp_path) as second:
            assert line(second) == "waiting\n"
            first.kill()
            assert line(second) == "mine\n"
            second.communicate("done\n")


def test_other_users_can_wait_for_the_lock_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCK_FOLDER, str(tmp_path))
    before = os.umask(0o077)
    try:
        with exclusive(lambda: None, wait_seconds=0):
            (lock,) = tmp_path.iterdir()
            assert stat.S_IMODE(lock.stat().st_mode) == 0o644
    finally:
        os.umask(before)


def test_a_sweep_finds_processes_that_carry_the_token_and_no_others() -> None:
    forking = "(while :; do sleep 600 & sleep 0.01; done) & echo here; wait"
    run, other = f"test-{os.getpid()}", f"test-{os.getpid()}-other"
    marked = {**os.environ, TOKEN_VARIABLE: f"{run}:1"}
    ours = subprocess.Popen(["sh", "-c", forking], env=marked, stdout=subprocess.PIPE, text=True)
    theirs = subprocess.Popen(["sleep", "600"], env={**os.environ, TOKEN_VARIABLE: f"{other}:1"})
    try:
        assert line(ours) == "here\n"
        until(lambda: len(carriers(run)) > 5, "it forks")
        killed = sweep(f"{run}:")
        assert ours.pid in killed
        assert len(killed) > 5
        assert carriers(run) == []
        assert theirs.poll() is None
    finally:
        for process in (ours, theirs):
            process.kill()
            process.wait()
        assert ours.stdout is not None
        ours.stdout.close()


def test_the_state_of_a_card_is_a_condition_and_no_hardware() -> None:
    seen = {**GPU, "uuid": "1111-2222"}
    cards = (
        GpuCapabilities(1, "GPU-9999-0000", "NVIDIA H200", "gpm", (), state={"power_limit_w": 300.0}),
        GpuCapabilities(0, "GPU-1111-2222", "NVIDIA H200", "gpm", (), state={"power_limit_w": 700.0}),
    )
    states = machine.card_states([seen], Probe(gpus=cards))
    assert states == {"0": {"uuid": "GPU-1111-2222", "power_limit_w": 700.0}}
    one, other = machine.describe([seen], cards=states), machine.describe([seen])
    assert one.conditions["gpus"] == states and "gpus" not in other.conditions
    assert one.hardware_fingerprint == other.hardware_fingerprint
    assert machine.card_states([{**GPU, "uuid": ""}], Probe(gpus=cards)) == {}


def test_warnings_are_those_of_measured_cards() -> None:
    narrow = {"pcie_width": 4, "pcie_width_possible": 16}
    cards = (
        GpuCapabilities(0, "GPU-1111-2222", "NVIDIA H200", "gpm", (), health=narrow),
        GpuCapabilities(1, "GPU-9999-0000", "NVIDIA H200", "gpm", (), health=narrow),
    )
    warnings = machine.card_warnings([{**GPU, "uuid": "9999-0000"}], Probe(gpus=cards))
    assert warnings == ("GPU 1 (NVIDIA H200): its PCIe link has 4 of 16 lanes",)
