"""Presets: what a worker starts under, and what makes two of them the same."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import preset
from runner.execution.harness import Harness
from runner.execution.launch import no_huge_pages
from runner.execution.process import Launch, inherited_variables, worker_environment
from runner.preset import MachinePreset
from support.site import unavailable
from workflows.run_header import preset_body


@pytest.fixture(autouse=True, scope="module")
def bare_shell() -> Iterator[None]:
    """What the shell sets is part of every preset: here nothing is set, whatever this machine sets."""
    with pytest.MonkeyPatch.context() as patch:
        for name in preset.relevant_variables(os.environ):
            patch.delenv(name)
        yield


@given(st.sets(st.integers(0, 300), min_size=1))
def test_any_list_of_cpus_is_read(cpus: set[int]) -> None:
    assert preset.parse_cpus(",".join(map(str, cpus))) == tuple(sorted(cpus))


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", (0,)), ("0-3,8", (0, 1, 2, 3, 8)), (" 2 , 1 ", (1, 2)), ("1-2,2-3", (1, 2, 3))]
)
def test_ranges_of_cpus_are_read(text: str, cpus: tuple[int, ...]) -> None:
    assert preset.parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "1-b", "1 2", "3-1", "²"])
def test_what_is_no_list_of_cpus_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a CPU number or a range like 0-3"):
        preset.parse_cpus(text)


def test_the_quiet_preset_leaves_a_core_free_where_there_is_one() -> None:
    allowed = os.sched_getaffinity(0)
    quiet = preset.make("quiet", "quiet")
    assert not set(quiet.cpus) & set(quiet.housekeeping)
    if quiet.notes:
        assert quiet.cpus == quiet.housekeeping == ()
        assert "only one core is available" in quiet.notes[0]
    else:
        assert set(quiet.cpus) | set(quiet.housekeeping) == allowed
        assert min(allowed) in quiet.housekeeping
    assert (quiet.variables["GOMP_SPINCOUNT"], "OMP_WAIT_POLICY" in quiet.variables) == ("10000", False)


def test_a_users_choice_goes_over_the_base() -> None:
    own = preset.make("mine", "quiet", variables={"OMP_WAIT_POLICY": "active", "A": "1"}, threads=3)
    assert own.variables["OMP_WAIT_POLICY"] == "active"
    assert own.variables["A"] == "1"
    assert own.variables["OMP_NUM_THREADS"] == "3"
    assert "MALLOC_TRIM_THRESHOLD_" in own.variables
    given = preset.make("mine", "as-it-comes", variables={"OMP_NUM_THREADS": "5"}, threads=3)
    assert given.variables == {"OMP_NUM_THREADS": "5"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, "glibc.malloc.hugetlb=1"),
        ("glibc.pthread.rseq=0", "glibc.pthread.rseq=0:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
    ],
)
def test_quiet_asks_for_huge_pages_unless_the_user_says_otherwise(given: str | None, wanted: str) -> None:
    own = {} if given is None else {"GLIBC_TUNABLES": given}
    assert preset.make("mine", "quiet", variables=own).variables["GLIBC_TUNABLES"] == wanted


def test_memory_under_quiet_is_of_huge_pages() -> None:
    if problem := no_huge_pages():
        unavailable(problem)
    script = "kept = bytearray(96 << 20); print(open('/proc/self/smaps_rollup').read())"
    command = [sys.executable, "-c", script]
    variables = preset.make("quiet", "quiet").variables
    shown = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
    kib = next(int(line.split()[1]) for line in shown.splitlines() if line.startswith("AnonHugePages:"))
    assert kib >= 64 << 10


def test_as_it_comes_changes_nothing() -> None:
    plain = preset.make("plain", "as-it-comes")
    assert (plain.variables, plain.cpus, plain.housekeeping) == ({}, (), ())


@pytest.mark.parametrize("base", ["quiet", "as-it-comes"])
def test_chosen_cpus_are_the_workers_and_the_rest_is_ours(base: str) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    chosen = preset.make("mine", base, cpus=(allowed[-1],))
    assert chosen.cpus == (allowed[-1],)
    assert chosen.housekeeping == tuple(allowed[:-1])


def test_equal_settings_are_comparable_whatever_they_are_called() -> None:
    one = MachinePreset("one", {"A": "1", "B": "2"}, cpus=(0, 1), housekeeping=(2,))
    assert (
        one.fingerprint
        == MachinePreset("other", {"B": "2", "A": "1"}, cpus=(4, 5), housekeeping=(6,)).fingerprint
    )
    for different in (
        MachinePreset("one", {"A": "1"}, cpus=(0, 1), housekeeping=(2,)),
        MachinePreset("one", {"A": "1", "B": "2"}, cpus=(0,), housekeeping=(2,)),
        MachinePreset("one", {"A": "1", "B": "2"}, cpus=(0, 1)),
        MachinePreset("one", {"A": "1", "B": "2"}, cpus=(0, 1), housekeeping=(2,), threads=2),
    ):
        assert different.fingerprint != one.fingerprint


@pytest.mark.parametrize("base", ["quiet", "as-it-comes"])
def test_what_the_shell_sets_is_part_of_the_preset(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = preset.make("p", base)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("TORCH_HOME", "/a/place/and/no/behaviour")
    monkeypatch.setenv("DATABASE_PASSWORD", "secret")
    after = preset.make("p", base)
    assert after.variables == {**before.variables, "OMP_NUM_THREADS": "2"}
    assert after.fingerprint != before.fingerprint
    assert preset.make("p", base, variables={"OMP_NUM_THREADS": "1"}).variables["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize("name", ["OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "BLIS_NUM_THREADS"])
def test_every_library_that_multiplies_matrices_is_part_of_the_preset(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(name, raising=False)
    before = preset.make("p", "quiet")
    monkeypatch.setenv(name, "1")
    after = preset.make("p", "quiet")
    assert after.variables == {**before.variables, name: "1"} and after.fingerprint != before.fingerprint
    # It comes from the preset alone.
    assert name not in inherited_variables()


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("CUDA_VISIBLE_DEVICES", "3", "5"),
        ("CUDA_VERSION", "12.8.1", "12.9.0"),
        ("CUDNN_VERSION", "9.7.1.26", "9.8.0.87"),
        ("NCCL_VERSION", "2.25.1", "2.26.2"),
    ],
)
@pytest.mark.parametrize("base", ["quiet", "as-it-comes"])
def test_which_gpu_is_used_and_what_an_image_is_called_make_no_other_preset(
    base: str, name: str, one: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(name, raising=False)
    plain = preset.make("p", base)
    for value in (one, other):
        monkeypatch.setenv(name, value)
        made = preset.make("p", base)
        assert (made.fingerprint, made.settings) == (plain.fingerprint, plain.settings)
        # The worker gets it, and that of a run that is resumed from another shell too.
        assert made.variables[name] == preset_body(made)["variables"][name] == value
        named = preset.make("p", base, variables={name: value})
        assert (named.fingerprint, named.variables[name]) == (plain.fingerprint, value)


def test_a_worker_gets_what_changes_a_measurement_from_its_preset_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A run that is resumed from another shell must not change its conditions.
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("PYROMETER_DATABASE_URL", "postgresql://me:secret@host/name")
    monkeypatch.setenv("HARMLESS", "yes")
    launch = Launch(
        python="python",
        harness=Harness(Path("h"), "1", "", ()),
        variables={"MKL_NUM_THREADS": "1"},
        cpus=(),
        own_cpus=(),
        log=Path("log"),
        deadline_seconds=1.0,
        token="t",
    )
    variables = worker_environment(launch)
    assert "OMP_NUM_THREADS" not in variables and "PYROMETER_DATABASE_URL" not in variables
    assert (variables["MKL_NUM_THREADS"], variables["HARMLESS"]) == ("1", "yes")
