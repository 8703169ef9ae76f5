"""What speaks for a finding: neighbours in time, where to bisect, what the words of a session mean."""

from dataclasses import replace
from datetime import timedelta

import pytest

from analysis.comparison.case_results import CaseResult, CaseSide
from analysis.comparison.verdict import Doubt, Verdict, Word
from analysis.detection.confirmation import judge_finding
from db.connection.engine import Database
from db.runs import store
from records.environments import Environment
from records.machines import Machine
from reports.text.finding_text import confirmation_reason
from scheduled_jobs.detection.evidence import bisect_offer, moved_with, operator_difference
from support.builders.detection_series import known
from support.builders.run_records import MLP, a_machine, a_night, a_run, an_environment, an_outcome

MATMUL = "matmul/infer/k=768,m=512,n=3072/eager"


@pytest.mark.parametrize(
    ("old", "new", "offered"),
    [
        ("2.16.0.dev20260901+cpu", "2.16.0.dev20260905+cpu", "'nightly 2026-09-01' 'nightly 2026-09-05'"),
        # By PEP 440 the second would be the older one.
        ("2.16.0.dev20260901+cpu", "2.15.0.dev20260905+cpu", "'nightly 2026-09-01' 'nightly 2026-09-05'"),
        ("2.16.0.dev20260901+cpu", "2.16.0.dev20260902+cpu", ""),
        ("2.12.0+cpu", "2.13.0+cpu", "2.12.0 2.13.0"),
        ("2.13.0", "2.13.2", "2.13.0 2.13.2"),
        ("2.13.0", "2.13.1", ""),
        ("2.13.0+cpu", "2.13.0+cu130", ""),
        ("2.13.0", "2.16.0.dev20260901", ""),
        ("2.13.0", "2.14.0a0+git1234", ""),
    ],
)
def test_a_bisection_is_offered_where_versions_lie_between(old: str, new: str, offered: str) -> None:
    command = bisect_offer(old, new, MLP, ("--preset", "quiet"))
    assert command == (f"pyrometer bisect {offered} --case {MLP} --preset quiet" if offered else "")


def test_operators_that_moved_on_that_machine_in_those_nights() -> None:
    one = known()
    key = replace(one.key, case=MATMUL)
    other = replace(one, id=8, key=key, change=0.2)
    assert [each.finding for each in moved_with(one, [one, other, replace(one, id=9)])] == [8]
    for unlike in (
        replace(other, machine="another"),
        replace(other, state="refuted"),
        replace(other, state="machine"),
        replace(other, at=one.at + timedelta(days=3)),
    ):
        assert moved_with(one, [unlike]) == ()


def a_result(word: Word = "slower", *, old: str = "ok", new: str = "ok") -> CaseResult:
    verdict = Verdict("latency_floor", word, Doubt.MAY_NOT_MATTER, change=0.1)
    return CaseResult(MLP, "eager", CaseSide(old), CaseSide(new, "signal 11"), {"latency_floor": verdict})


@pytest.mark.parametrize(
    ("word", "direction", "state"),
    [
        ("slower", "worse", "confirmed"),
        ("slower", "better", "refuted"),
        ("faster", "better", "confirmed"),
        ("faster", "worse", "refuted"),
        ("same", "worse", "refuted"),
        ("unclear", "worse", "unclear"),
        ("no data", "worse", "unclear"),
        ("not comparable", "worse", "unclear"),
    ],
)
def test_a_verdict_decides(word: Word, direction: str, state: str) -> None:
    one = known(direction=direction)
    assert judge_finding(one, a_result(word), rebuilt=False).state == state
    expected = "unclear" if state == "refuted" else state
    assert judge_finding(one, a_result(word), rebuilt=True).state == expected


def test_a_drift_is_confirmed_by_more_than_its_known_pieces() -> None:
    # The session compares from before the first piece and shows 0.1.
    one = known(shape="drift")
    for before, state in ((0.07, "confirmed"), (0.098, "refuted"), (0.12, "refuted")):
        drift = replace(one, evidence=replace(one.evidence, began_as=5, confirmed_before=before))
        assert judge_finding(drift, a_result(), rebuilt=False).state == state


def test_what_has_no_number_is_unclear_and_says_why() -> None:
    one = known()
    broke = judge_finding(one, a_result(new="crashed"), rebuilt=False)
    assert (broke.state, confirmation_reason(broke)) == (
        "unclear",
        "in the new environment the case ended crashed (signal 11)",
    )
    assert "did not measure" in confirmation_reason(judge_finding(one, None, rebuilt=False))
    memory = replace(one, key=replace(one.key, metric="rss_peak"))
    without = confirmation_reason(judge_finding(memory, a_result(), rebuilt=False))
    assert without == "no pair of the session has rss_peak"
    anew = confirmation_reason(judge_finding(one, a_result("same"), rebuilt=True))
    assert anew == "the session shows no difference that matters, but one side had to be rebuilt"
    undecided = judge_finding(one, a_result("unclear"), rebuilt=True)
    assert confirmation_reason(undecided) == "real, but not proved to exceed the threshold"


def test_newer_tables_from_elsewhere_hide_none_of_both_sides(sqlite: Database) -> None:
    one = known()
    old, new = an_environment("2.12.0+cpu"), an_environment("2.13.0+cpu")
    key = replace(one.key, hardware=a_machine().hardware.fingerprint, preset=a_run().preset.fingerprint)

    def traced(id: str, night: int, environment: Environment, many: int, machine: Machine) -> None:
        row = {"name": "aten::mm", "kind": "operator", "calls": 1, "self_cpu_us": 100.0 + night}
        about = {"metrics": {}, "facts": {"operators": [row], "device": "cpu"}, "blocks": ()}
        run = a_run(
            id, suite="profile", environments=[environment], started_at=a_night(night), machine=machine
        )
        store.save_run(sqlite, run)
        outcomes = [an_outcome(key.case, environment=environment, replicate=n, **about) for n in range(many)]
        store.save_outcomes(sqlite, id, outcomes)

    traced("old", 0, old, 1, a_machine())
    traced("new", 1, new, 1, a_machine())
    traced("elsewhere", 2, new, 100, a_machine("bench-2", "EPYC"))
    difference = operator_difference(sqlite, key, old.torch_version, new.torch_version)
    assert difference is not None
    assert (difference.old_run, difference.new_run, difference.total_us) == ("old", "new", {"operator": 1.0})
