"""The time that is left of a run, against what a simulated machine then really takes."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from records.outcomes import Outcome, PlannedReplicate
from runner.session_plan import SessionPlan, Timing
from runner.suites import plan
from workflows.remaining import Durations, UnderWay

TIMING = Timing(measure_seconds=1.5, min_blocks=5, observe_seconds=2.0)
EAGER, COMPILED, OTHER = "mlp/infer/-/eager", "mlp/infer/-/compile=default", "mlp/infer/-/precision=bf16"
LSTM = "lstm/infer/-/eager"


@dataclass
class Machine:
    """Measures sessions as the real one does, by a clock of its own: prepared one by one, blocks in turns."""

    starting: float = 4.0
    compiling: tuple[float, float] = (60.0, 15.0)
    block: float = 0.3
    blocks: int = 6
    now: float = 0.0

    def session(self, session: SessionPlan) -> Iterator[tuple[PlannedReplicate, str] | Outcome]:
        begun, phases = self.now, {planned: dict[str, float]() for planned in session.contenders}

        def spend(
            planned: PlannedReplicate, phase: str, seconds: float
        ) -> Iterator[tuple[PlannedReplicate, str]]:
            yield planned, phase
            phases[planned][phase] = phases[planned].get(phase, 0.0) + seconds
            self.now += seconds

        for one in session.contenders:
            yield from spend(one, "import", self.starting)
            if "compile=" in one.case:
                yield from spend(one, "first_call", self.compiling[one.replicate > 0])
            yield from spend(one, "warm_up", 1.0)
        for _ in range(self.blocks):
            for one in session.contenders:
                yield from spend(one, "measure", self.block)
        for one in session.contenders:
            if one.replicate == 0:
                yield from spend(one, "observe", TIMING.observe_seconds)
            yield from spend(one, "finish", 0.5)
            yield from spend(one, "check", 1.5)
            yield Outcome(
                one.case,
                "e",
                one.replicate,
                "ok",
                wall_seconds=self.now - begun,
                facts={"phases": phases[one]},
            )


def estimates(cases: list[str], replicates: int, machine: Machine) -> list[tuple[float, float, int]]:
    """At each event: the seconds that are said to be left, those that really are, and the replicates done."""
    sessions = plan.sessions(plan.replicates(cases, replicates, "e"))
    durations = Durations(TIMING)
    under_way = UnderWay(durations, lambda: machine.now)
    said: list[tuple[float, float, int]] = []
    done = 0
    for number, session in enumerate(sessions):
        under_way.begin(session)
        for event in machine.session(session):
            if isinstance(event, Outcome):
                under_way.end_replicate(event.planned_replicate)
                durations.learn(event)
                done += 1
            else:
                under_way.enter_phase(*event)
            later = sum(map(durations.session, sessions[number + 1 :]))
            said.append((under_way.seconds_left() + later, machine.now, done))
        under_way.end()
    return [(left, machine.now - at, done) for left, at, done in said]


@pytest.mark.parametrize("cases", [[EAGER], [EAGER, COMPILED, OTHER], [EAGER, COMPILED, LSTM]])
@pytest.mark.parametrize("replicates", [1, 3])
def test_nothing_is_left_only_at_the_end(cases: list[str], replicates: int) -> None:
    said = estimates(cases, replicates, Machine())
    assert all(left > 0 for left, _, done in said if done < len(cases) * replicates)
    assert said[-1][:2] == (0, 0)


def test_what_was_measured_tells_what_is_left() -> None:
    """On a machine that compiles more than twice as long as the plan says."""
    said = estimates([EAGER, COMPILED, OTHER], 4, Machine())
    whole = said[0][1]
    for left, real, done in said:
        if done >= 3:
            assert left == pytest.approx(real, rel=0.35, abs=4), (done, left, real)
        if done >= 6:
            assert left == pytest.approx(real, rel=0.1, abs=2.5), (done, left, real)
    assert said[0][0] < whole, "so the plan knew too little"


def test_the_rounds_of_the_last_session_count_down() -> None:
    machine = Machine(block=3.0, blocks=5)
    (*_, last) = estimates([EAGER, OTHER], 1, machine)
    assert last[0] == 0
    in_turns = [
        (left, real)
        for left, real, done in estimates([EAGER, OTHER], 1, Machine(block=3.0, blocks=5))
        if not done
    ]
    blocks = in_turns[4 + 2 : 4 + 10]
    assert all(left == pytest.approx(real, abs=4.5) for left, real in blocks), blocks
    assert sorted(blocks, reverse=True) == blocks


def test_cases_that_were_not_measured_yet_are_taken_for_as_slow_as_their_kind() -> None:
    durations = Durations(TIMING)
    for case, seconds in ((EAGER, 20.0), (COMPILED, 100.0)):
        durations.learn(
            Outcome(case, "e", 0, "ok", wall_seconds=120.0, facts={"phases": {"measure": seconds}})
        )
    unseen = [PlannedReplicate(case, "e", 0) for case in (LSTM, LSTM.replace("eager", "compile=default"))]
    assert [durations.replicate(one) for one in unseen] == pytest.approx([20.0, 100.0])
    durations.learn(Outcome(LSTM, "e", 0, "crashed", wall_seconds=3.0, facts={"phases": {"import": 3.0}}))
    assert durations.replicate(unseen[0]) == pytest.approx(3.0), "what crashed at once will again"
    assert durations.replicate(PlannedReplicate(EAGER, "e", 0)) == pytest.approx(20.0)


def test_what_was_never_started_teaches_nothing() -> None:
    durations = Durations(TIMING)
    before = durations.replicate(PlannedReplicate(EAGER, "e", 1))
    durations.learn(Outcome(EAGER, "e", 0, "skipped", "budget of 5 s"))
    assert durations.replicate(PlannedReplicate(EAGER, "e", 1)) == before


def test_one_case_of_minutes_does_not_set_the_pace_of_the_others() -> None:
    durations = Durations(TIMING)
    for number, seconds in enumerate((20.0, 21.0, 900.0)):
        case = f"mlp/infer/batch={number + 1}/eager"
        durations.learn(
            Outcome(case, "e", 0, "ok", wall_seconds=seconds, facts={"phases": {"measure": seconds}})
        )
    assert durations.replicate(PlannedReplicate(LSTM, "e", 0)) == pytest.approx(21.0)
