"""Workers really started for the axes that take effect before torch is imported."""

import os
import shutil
from pathlib import Path

import pytest

from records.outcomes import Outcome
from runner import preset
from runner.execution.launch import CannotLaunch, malloc_library
from support.measuring import CASE_FILES, Happened, Scratch, conditions, measure
from support.site import unavailable

pytestmark = pytest.mark.torch

FILE = CASE_FILES / "answers.py"
ALLOWED = sorted(os.sched_getaffinity(0))
TECHNIQUES = (
    "cpus=1",
    "allocator=as-it-comes,cpus=all,threads=1",
    "cpus=physical,omp=spread",
    "allocator=hugetlb,omp=spin",
    "allocator=tcmalloc,cpus=node",
    "allocator=jemalloc",
)


def case(technique: str) -> str:
    """An honest case under a technique."""
    return f"honest/infer/-/{technique}"


@pytest.fixture(scope="module")
def happened(module_scratch: Scratch) -> Happened:
    """All of them in one session, under the quiet preset."""
    for name in ("tcmalloc", "jemalloc"):
        try:
            malloc_library(name)
        except CannotLaunch as error:
            unavailable(str(error))
    shared = conditions(module_scratch.folder, FILE, preset=preset.make("quiet", "quiet"))
    done = measure(shared, [[case(technique) for technique in TECHNIQUES]])
    module_scratch.assert_no_process_left(done.run)
    return done


def outcome(happened: Happened, technique: str) -> Outcome:
    """The outcome of one technique, which must be ok."""
    (found,) = [o for o in happened.outcomes if o.case == case(technique)]
    assert (found.status, found.reason) == ("ok", ""), found
    return found


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_every_worker_kept_to_the_cpus_it_was_given(happened: Happened, technique: str) -> None:
    facts = outcome(happened, technique).facts
    affinity = facts["affinity"]
    assert affinity["seen"] and set(affinity["seen"]) <= set(facts["launch"]["cpus"])
    assert facts["launch"]["held"] is True


def test_pinned_workers_say_who_pinned_them_and_compute_on_that_many_cpus(happened: Happened) -> None:
    by = "numactl" if shutil.which("numactl") else "affinity"
    one = outcome(happened, "cpus=1")
    assert len(one.facts["launch"]["cpus"]) == one.facts["threads"] == one.facts["cpus_in_use"] == 1
    assert one.facts["launch"]["pinned_by"] == by
    assert one.facts["affinity"]["allowed"] == [str(one.facts["launch"]["cpus"][0])]
    everything = outcome(happened, "allocator=as-it-comes,cpus=all,threads=1")
    assert everything.facts["launch"]["cpus"] == ALLOWED
    assert everything.facts["threads"] == everything.facts["cpus_in_use"] == 1
    cores = outcome(happened, "cpus=physical,omp=spread")
    assert cores.facts["cpus_in_use"] == cores.facts["threads"] == len(cores.facts["launch"]["cpus"])
    throughput = cores.metrics["throughput"]
    assert cores.metrics["throughput_per_core"] == pytest.approx(throughput / cores.facts["threads"])
    assert outcome(happened, "allocator=jemalloc").facts["launch"]["pinned_by"] == "preset"


def test_openmp_binds_the_main_thread_to_a_core(happened: Happened) -> None:
    facts = outcome(happened, "cpus=physical,omp=spread").facts
    # Bound when the library is loaded; a case this small begins no other computing thread.
    assert str(facts["launch"]["cpus"][0]) in facts["affinity"]["allowed"]


def test_malloc_is_the_requested_one(happened: Happened) -> None:
    loaded = {t: outcome(happened, t).facts["allocator_loaded"] for t in TECHNIQUES}
    assert [t for t, name in loaded.items() if name == "tcmalloc"] == ["allocator=tcmalloc,cpus=node"]
    assert [t for t, name in loaded.items() if name == "jemalloc"] == ["allocator=jemalloc"]
    assert outcome(happened, "allocator=hugetlb,omp=spin").facts["huge_pages_mib"] > 0
    without = outcome(happened, "allocator=as-it-comes,cpus=all,threads=1").facts["launch"]["without"]
    assert "MALLOC_TRIM_THRESHOLD_" in without


def test_every_cpu_case_counts_its_context_switches(happened: Happened) -> None:
    assert all(o.metrics["switches"] >= 0 for o in happened.outcomes)


def test_what_cannot_be_had_is_unsupported_and_never_measured_as_if(
    scratch: Scratch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(name: str) -> str:
        if name == "jemalloc":
            raise CannotLaunch("libjemalloc is not installed; Debian: apt-get install libjemalloc2")
        # The loader says "cannot be preloaded: ignored" and goes on with glibc's malloc.
        return "/nowhere/libtcmalloc.so.4"

    monkeypatch.setattr("runner.execution.launch.malloc_library", ask)
    shared = conditions(tmp_path, FILE)
    done = measure(shared, [[case("allocator=jemalloc"), case("allocator=tcmalloc")]])
    assert [ended.kind for ended in done.ended] == ["done"]
    absent, ignored = done.outcomes
    assert (absent.status, absent.metrics) == (ignored.status, ignored.metrics) == ("unsupported", {})
    assert absent.reason == "libjemalloc is not installed; Debian: apt-get install libjemalloc2"
    assert ignored.reason == "malloc was to be tcmalloc, but libc serves it: the preload did not work"
    assert {entered.planned.case for entered in done.entered} == {ignored.case}, "no worker for nothing"
    assert not list((shared.folder / "logs").rglob("*jemalloc*"))
    scratch.assert_no_process_left(done.run)
