"""Group candidates into sessions: one for each pair of environments on a machine."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis.metrics import COLD
from records.findings import Finding
from records.series import Track
from records.tasks import NewTask, Task
from runner.execution.compile_cache import compiles
from runner.worker.case_key import CaseKey, CaseKeyError
from scheduled_jobs.jobs.context import FollowUp
from scheduled_jobs.scheduler.planner import DETECT, detect_task

from .findings import compared_runs

#: The most cases of one session: each takes some minutes, and the machine has to be free for the next night.
MOST_CASES = 12
#: The most cases of a cold session, which compiles each of them up to two dozen times.
MOST_COLD = 4
#: The number of characters of a fingerprint that distinguish environments.
_FINGERPRINT = 12
#: The number of failed sessions after which a finding is no longer measured; one on other hardware counts as
#: all of them.
MOST_TRIES = 3

#: The key of a session: the environments, the machine, the preset, whether its pairs start with an empty
#: cache, and the case if it is measured alone.
_Pair = tuple[str, str, str, str, bool, str]

CONFIRM = "confirm"
#: In the spec of a session's task: its findings are confirmed, and only their related cases are measured.
RELATED_ONLY = "related_only"


@dataclass(frozen=True, slots=True)
class NightSession:
    """One comparison to measure: it judges `findings` (ids); those in `left` wait for another session.

    `old` and `new` are fingerprints; `cases` are those of the findings, `related` those that are measured
    once a finding is confirmed. In a `cold` session every pair starts with an empty compile cache; metrics of
    a filled cache need another session, and related cases are left out. A session `again` is of one case that
    an earlier session could not measure.
    """

    old: str
    new: str
    machine: str
    preset: str
    findings: tuple[int, ...]
    cases: tuple[str, ...]
    related: tuple[str, ...] = ()
    left: tuple[int, ...] = ()
    cold: bool = False
    again: bool = False

    def task(self, track: Track) -> NewTask:
        """The task for the machine with the change: only that machine can confirm it."""
        spec: dict[str, Any] = {
            **asdict(track),
            "old": self.old,
            "new": self.new,
            "findings": list(self.findings),
            "cases": list(self.cases),
            "left": len(self.left),
            "related": list(self.related),
        }
        pair = f"{self.old[:_FINGERPRINT]}-{self.new[:_FINGERPRINT]}-{self.preset}"
        pair += "-cold" if self.cold else ""
        pair += f"-again-{self.findings[0]}" if self.again else ""
        return NewTask(f"{track.track}-{pair}@{self.machine}", CONFIRM, spec, label=self.machine)


def detect_again(spec: Mapping[str, Any]) -> FollowUp:
    """The detection task that follows a session, for the track of the session's task."""
    track = [str(spec[name]) for name in ("schedule", "track", "label")]
    return FollowUp(f"{DETECT}:{track[0]}", (detect_task(*track),))


def related_after(task: Task, confirmed: Sequence[Finding]) -> tuple[FollowUp, ...]:
    """The session that measures the cases related to the findings that a task confirmed; None without any."""
    cases = [one.key.case for one in confirmed]
    near = related_cases(cases, [str(case) for case in task.spec.get("related", ())])[:MOST_CASES]
    if not near:
        return ()
    spec = {**task.spec, "findings": [one.id for one in confirmed], "cases": near, "left": 0}
    again = NewTask(f"related to {task.part}", CONFIRM, {**spec, RELATED_ONLY: True}, label=task.label)
    return (FollowUp(f"{CONFIRM}:{task.spec['schedule']}", (again,)),)


def plan_sessions(candidates: Iterable[Finding], measured: Mapping[str, Sequence[str]]) -> list[NightSession]:
    """The sessions that judge the candidates, the one with the largest change first.

    `measured` are the cases in the nights of a machine, among which related cases are searched. A case that a
    session could not measure is tried again alone, so that its problem, for example a file of cases that
    lacks it now, does not use up the attempts of the others.
    """
    pairs: dict[_Pair, list[Finding]] = defaultdict(list)
    for one in candidates:
        sides, alone = compared_runs(one), one.key.case if one.evidence.tries else ""
        pair = sides.old, sides.new, one.machine, one.key.preset_name, needs_cold(one), alone
        pairs[pair].append(one)
    sessions = [
        _session(pair, sorted(own, key=lambda one: -abs(one.change)), measured.get(pair[2], ()))
        for pair, own in pairs.items()
    ]
    largest = {one.id: abs(one.change) for own in pairs.values() for one in own}
    return sorted(sessions, key=lambda session: -largest[session.findings[0]])


def needs_cold(one: Finding) -> bool:
    """Whether only pairs with an empty compile cache measure the metric of a finding."""
    return one.key.metric == "compile_cold" or (one.key.metric in COLD and _compiles(one.key.case))


def _compiles(case: str) -> bool:
    try:
        return compiles(CaseKey.parse(case))
    except CaseKeyError:
        return False


def _session(pair: _Pair, found: Sequence[Finding], measured: Sequence[str]) -> NightSession:
    *sides, cold, alone = pair
    cases = list(dict.fromkeys(one.key.case for one in found))[: MOST_COLD if cold else MOST_CASES]
    judged = tuple(one.id for one in found if one.key.case in cases)
    left = tuple(one.id for one in found if one.key.case not in cases)
    near = () if cold else tuple(related_cases(cases, measured))
    return NightSession(
        *sides,
        findings=judged,
        cases=tuple(cases),
        related=near,
        left=left,
        cold=cold,
        again=bool(alone),
    )


def related_cases(cases: Sequence[str], measured: Sequence[str]) -> list[str]:
    """The other techniques of the cases' workloads that are measured too, eager ones first."""
    near = [one for case in cases for one in measured if one not in cases and _alike(one, case)]
    return sorted(dict.fromkeys(near), key=lambda one: not is_eager(one))


def _alike(one: str, other: str) -> bool:
    return one.rpartition("/")[0] == other.rpartition("/")[0]


def is_eager(case: str) -> bool:
    """Whether a case is the eager one of its workload."""
    try:
        key = CaseKey.parse(case)
    except CaseKeyError:
        return False
    return key == key.eager
