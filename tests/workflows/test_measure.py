"""A session that the machine fails: it is tried three times in all, and then its replicates are `lost`."""

from pathlib import Path

import pytest

from runner.execution.session import Conditions, SessionEnded
from runner.session_plan import SessionPlan
from support.fakes.scripted_workers import CASE, AtOnce, World, one_world
from workflows import measure

FAILED = "OSError: [Errno 28] No space left on device"


class LostAtFirst(AtOnce):
    """Sessions of which the first `losses` end without an outcome."""

    losses = 0

    def __init__(self, plan: SessionPlan, conditions: Conditions, token: str) -> None:
        super().__init__(plan, conditions, token)
        if len(self.world.pairs) <= self.losses:
            self._events = [SessionEnded("lost", FAILED)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """One environment, whose sessions may be lost."""
    made = one_world(tmp_path, monkeypatch)
    made.there_are({"v0": 1.0})
    monkeypatch.setattr(measure, "RunningSession", LostAtFirst)
    return made


@pytest.mark.parametrize(
    ("losses", "status", "reason"),
    [
        (2, "ok", ""),
        (3, "lost", f"lost 3 times, at last: {FAILED}"),
        (9, "lost", f"lost 3 times, at last: {FAILED}"),
    ],
)
def test_a_session_is_tried_three_times(
    world: World, monkeypatch: pytest.MonkeyPatch, losses: int, status: str, reason: str
) -> None:
    monkeypatch.setattr(LostAtFirst, "losses", losses)
    done = world.call("run", "--environment", "./v0", "--case", CASE, "--replicates", "1", "--json")
    (outcome,) = (event for event in done.events if event["event"] == "outcome")
    assert (outcome["status"], outcome["reason"], len(world.pairs)) == (status, reason, 3)
    lost = [event["text"] for event in done.events if event["event"] == "note"]
    assert [f"attempt {number} of " in text for number, text in enumerate(lost, 1)] == [True] * min(losses, 3)
