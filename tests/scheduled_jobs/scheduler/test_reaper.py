"""What is dead: attempts of dead processes at once, of silent ones after a lease, and no others."""

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from records.tasks import Task
from scheduled_jobs.scheduler.process_identity import (
    Owner,
    dead_process,
    machine_name,
    start_time,
    this_process,
)
from scheduled_jobs.scheduler.reaper import LEASE_SECONDS, Reaper

ME = this_process("here")
ELSEWHERE = "there/boot.1/77/5"


def running(owner: str, beats: int = 1, token: str = "token") -> Task:
    """A task that runs."""
    return Task(
        id=1,
        schedule="nightly",
        due_at=datetime(2026, 6, 1, tzinfo=UTC),
        part="",
        job="measure",
        spec={},
        label="",
        state="running",
        attempts=1,
        owner=owner,
        beats=beats,
        token=token,
    )


def test_an_owner_is_known_by_its_text() -> None:
    assert Owner.parse(str(ME)) == ME
    assert ME.pid == os.getpid()
    assert "/" not in machine_name()
    for text in ("", "machine", "a/b/c/d", "a/b/1/2/3"):
        assert Owner.parse(text) is None


def test_of_the_processes_of_this_boot_the_dead_are_known() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    began = start_time(child.pid)
    assert began is not None
    owner = Owner(ME.machine, ME.boot, child.pid, began)
    assert dead_process(str(owner), ME) is None
    child.kill()
    # Not waited for: what is left of it is no life.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert dead_process(str(owner), ME) == child.pid
    child.communicate()
    assert dead_process(str(owner), ME) == child.pid


def test_a_process_id_that_came_again_is_another_process() -> None:
    assert dead_process(str(ME), ME) is None
    assert dead_process(str(Owner(ME.machine, ME.boot, ME.pid, ME.started + 1)), ME) == ME.pid


@pytest.mark.parametrize(
    "owner",
    [
        "",
        "nonsense",
        str(Owner("another", this_process("another").boot, 1, 0)),
        str(Owner(ME.machine, "another-boot.4026531836", 1, 0)),
        str(Owner(ME.machine, ME.boot + "1", 1, 0)),
    ],
)
def test_an_owner_that_this_machine_cannot_see_may_be_alive(owner: str) -> None:
    assert dead_process(owner, ME) is None


@pytest.mark.parametrize("machine", [ME.machine, "a-node"])
def test_an_attempt_of_a_dead_process_is_dead_at_once_wherever_it_was_made(machine: str) -> None:
    dead = str(Owner(machine, ME.boot, ME.pid, ME.started + 1))
    (found,) = Reaper(ME).look([running(dead)], set(), 0.0)
    assert found.token == "token"
    assert str(ME.pid) in found.detail


def test_an_attempt_without_a_beat_is_dead_after_the_lease_and_not_before() -> None:
    reaper = Reaper(ME)
    for second in range(0, int(LEASE_SECONDS), 5):
        assert reaper.look([running(ELSEWHERE)], set(), float(second)) == []
    (found,) = reaper.look([running(ELSEWHERE)], set(), LEASE_SECONDS)
    assert "60 s" in found.detail


def test_a_beat_begins_the_lease_anew() -> None:
    reaper = Reaper(ME)
    for second in range(0, 300, 5):
        beats = second // 50
        assert reaper.look([running(ELSEWHERE, beats)], set(), float(second)) == []


def test_who_could_not_look_has_seen_no_silence() -> None:
    # The database was away for an hour, or this machine slept: the others could not show that they live.
    reaper = Reaper(ME)
    reaper.look([running(ELSEWHERE)], set(), 0.0)
    assert reaper.look([running(ELSEWHERE)], set(), 3600.0) == []
    assert reaper.look([running(ELSEWHERE)], set(), 3605.0) == []


def test_the_first_look_counts_nothing_whatever_the_clock_says() -> None:
    assert Reaper(ME).look([running(ELSEWHERE)], set(), 1e9) == []


def test_a_new_attempt_at_the_same_task_has_a_lease_of_its_own() -> None:
    reaper = Reaper(ME)
    for second in range(0, 55, 5):
        reaper.look([running(ELSEWHERE)], set(), float(second))
    for second in range(55, 100, 5):
        assert reaper.look([running(ELSEWHERE, token="another")], set(), float(second)) == []


@pytest.mark.parametrize("machine", [ME.machine, "a-node"])
def test_what_this_process_works_on_is_never_dead_and_what_it_forgot_is(machine: str) -> None:
    reaper = Reaper(ME)
    mine = running(str(replace(ME, machine=machine)))
    for second in range(0, 200, 5):
        assert reaper.look([mine], {"token"}, float(second)) == []
    (found,) = reaper.look([mine], set(), 200.0)
    assert found.detail == "claimed, and never begun"
