"""Allocators: which variables make one, and why it cannot be had."""

import subprocess
from pathlib import Path

import pytest

from runner.execution import launch
from runner.execution.launch import CannotLaunch, allocator_variables, malloc_library, no_huge_pages
from runner.preset import QUIET_MALLOC
from support.site import unavailable

#: A preset that says something about malloc in every way there is, and something else beside each.
MIXED = {
    **QUIET_MALLOC,
    "GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.pthread.rseq=0",
    "LD_PRELOAD": "/opt/libjemalloc.so.2:/opt/libother.so",
    "OMP_NUM_THREADS": "2",
}
OTHERS = {
    "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
    "LD_PRELOAD": "/opt/libother.so",
    "OMP_NUM_THREADS": "2",
}


def test_as_it_comes_takes_away_what_is_about_malloc_and_nothing_else() -> None:
    assert allocator_variables("as-it-comes", MIXED) == OTHERS
    assert allocator_variables("as-it-comes", QUIET_MALLOC) == {}


def test_quiet_thresholds_replace_any_other_allocator() -> None:
    wanted = "glibc.pthread.rseq=0:glibc.malloc.hugetlb=1"
    assert allocator_variables("quiet", MIXED) == OTHERS | QUIET_MALLOC | {"GLIBC_TUNABLES": wanted}


def test_huge_pages_are_glibcs_tunable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "no_huge_pages", lambda: "")
    wanted = "glibc.pthread.rseq=0:glibc.malloc.hugetlb=1"
    assert allocator_variables("hugetlb", MIXED) == OTHERS | {"GLIBC_TUNABLES": wanted}
    monkeypatch.setattr(launch, "no_huge_pages", lambda: "they are off")
    with pytest.raises(CannotLaunch, match="they are off"):
        allocator_variables("hugetlb", MIXED)


@pytest.mark.parametrize(
    ("setting", "libc", "problem"),
    [
        ("always [madvise] never\n", "glibc 2.36", ""),
        ("[always] madvise never\n", "glibc 2.35", ""),
        ("always madvise [never]\n", "glibc 2.36", "transparent huge pages are never in "),
        ("always [madvise] never\n", "glibc 2.34", "needs glibc 2.35 or newer, here is glibc 2.34"),
        ("always [madvise] never\n", "musl 1.2", "here is musl 1.2"),
        (None, "glibc 2.36", "transparent huge pages are not offered by this kernel"),
    ],
)
def test_why_huge_pages_cannot_be_had(tmp_path: Path, setting: str | None, libc: str, problem: str) -> None:
    file = tmp_path / "enabled"
    if setting is not None:
        file.write_text(setting)
    reason = no_huge_pages(file, libc)
    assert problem in reason and bool(reason) == bool(problem)


@pytest.mark.parametrize("name", ["tcmalloc", "jemalloc"])
def test_the_library_found_on_this_machine_can_be_preloaded(name: str) -> None:
    try:
        variables = allocator_variables(name, {"LD_PRELOAD": "/opt/libtcmalloc.so.4"})
    except CannotLaunch as error:
        unavailable(str(error))
        return
    assert list(variables) == ["LD_PRELOAD"]
    done = subprocess.run(["cat", "/proc/self/maps"], env=variables, capture_output=True, text=True)
    assert variables["LD_PRELOAD"].rpartition("/")[2] in done.stdout and done.stderr == ""


def test_a_library_that_is_not_there_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_LIBRARIES", {"tcmalloc": (("libnowhere.so.4",), "libnowhere4")})
    malloc_library.cache_clear()
    try:
        with pytest.raises(CannotLaunch, match=r"^libtcmalloc is not installed; Debian: apt-get install lib"):
            malloc_library("tcmalloc")
    finally:
        malloc_library.cache_clear()
