"""Findings: seen once, decided once, and what people did with them counts from then on."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from db.connection.engine import Database
from db.findings import store as findings
from db.runs import series_queries
from records.evidence import ComparedRuns, Confirmation, evidence_of
from records.findings import Finding, NewFinding, TriageEntry
from records.series import SeriesKey
from support.builders.run_records import (
    MLP,
    RESNET,
    a_night,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.stored_run import store_run

OLD, NEW = an_environment("2.13.0+cpu"), an_environment("2.14.0.dev20260901+cpu")
NIGHTS = 4


@pytest.fixture
def nights(database: Database) -> Iterator[Database]:
    """A database with four nights of two cases, the last two of another PyTorch."""
    for night in range(NIGHTS):
        environment = OLD if night < 2 else NEW
        outcomes = [an_outcome(case, environment=environment) for case in (MLP, RESNET)]
        run = a_run(f"night-{night}", environments=[environment], started_at=a_night(night))
        store_run(database, run, outcomes)
    yield database


def series(database: Database, case: str = MLP, metric: str = "latency") -> SeriesKey:
    """A series that is stored."""
    (key,) = (key for key in series_queries.series_keys(database) if (key.case, key.metric) == (case, metric))
    return key


def a_finding(database: Database, **changes: Any) -> NewFinding:
    """A candidate of the third night."""
    new = NewFinding(
        key=series(database),
        schedule="nightly",
        track="nightly",
        label="h200",
        direction="worse",
        shape="step",
        at_run="night-2",
        before_run="night-1",
        old_environment=OLD.fingerprint,
        new_environment=NEW.fingerprint,
        change=0.1,
        evidence=evidence_of({"strength": 4.5}),
        group_key="2.14",
    )
    return replace(new, **changes)


def saved(database: Database, *, night: int = 5, **changes: Any) -> Finding:
    """A stored finding, found on a night."""
    (finding,) = findings.save_findings(database, [a_finding(database, **changes)], a_night(night))
    return finding


def confirmed(database: Database, *, night: int = 6, **changes: Any) -> Finding:
    """A stored finding that was confirmed."""
    found = saved(database, night=night, **changes)
    decided = findings.decide(
        database, found.id, "confirmed", 0.09, 0.08, 0.1, Confirmation(), a_night(night)
    )
    assert decided is not None
    return decided


def test_a_finding_is_loaded_with_all_its_references(nights: Database) -> None:
    new = a_finding(nights, low=0.05, high=0.2)
    (found,) = findings.save_findings(nights, [new], a_night(5))
    assert found == Finding(
        id=found.id,
        key=new.key,
        schedule="nightly",
        track="nightly",
        label="h200",
        direction="worse",
        shape="step",
        at_run="night-2",
        at=a_night(2),
        before_run="night-1",
        before=a_night(1),
        machine="bench-1",
        old_environment=OLD.fingerprint,
        old_torch_version="2.13.0+cpu",
        new_environment=NEW.fingerprint,
        new_torch_version="2.14.0.dev20260901+cpu",
        change=0.1,
        low=0.05,
        high=0.2,
        state="candidate",
        found_at=a_night(5),
        decided_at=None,
        evidence=evidence_of({"strength": 4.5}),
        group_key="2.14",
    )
    assert findings.finding(nights, found.id) == found and findings.findings(nights) == [found]
    assert findings.finding(nights, 999) is None and findings.save_findings(nights, [], a_night(5)) == []


def test_what_is_seen_again_is_one_finding(nights: Database) -> None:
    first = saved(nights)
    again = saved(
        nights, night=6, change=0.2, shape="drift", evidence=evidence_of({"strength": 9.0}), group_key="other"
    )
    newer = {
        "change": 0.2,
        "shape": "drift",
        "evidence": evidence_of({"strength": 9.0}),
        "group_key": "other",
    }
    assert again == replace(first, **newer), "and was found when it was found first"
    others = [
        saved(nights, direction="better"),
        saved(nights, at_run="night-3"),
        saved(nights, label="a10"),
        saved(nights, track="latest"),
        saved(nights, schedule="weekly"),
        saved(nights, key=series(nights, RESNET)),
        saved(nights, key=series(nights, metric="throughput")),
    ]
    assert len({first.id, *(each.id for each in others)}) == 8


def test_many_come_back_in_their_order(nights: Database) -> None:
    new = [
        a_finding(nights, key=series(nights, case), at_run=run, change=change)
        for change, (case, run) in enumerate(
            [(RESNET, "night-3"), (MLP, "night-2"), (RESNET, "night-1"), (MLP, "night-3")]
        )
    ]
    found = findings.save_findings(nights, new, a_night(5))
    assert [each.change for each in found] == [0, 1, 2, 3]
    assert findings.save_findings(nights, new[::-1], a_night(6)) == found[::-1]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"at_run": "nobody's"}, "nobody's"),
        ({"before_run": "nobody's"}, "nobody's"),
        ({"old_environment": "none"}, "none"),
    ],
)
def test_a_finding_is_about_what_is_stored(nights: Database, changes: dict[str, str], what: str) -> None:
    with pytest.raises(ValueError, match=f"refers to .{what}., which is not stored"):
        saved(nights, **changes)
    other = replace(series(nights), preset="preset-other")
    with pytest.raises(ValueError, match="which is not stored"):
        saved(nights, key=other)
    assert findings.findings(nights) == []


def test_what_was_measured_again_stays_as_it_was_decided(nights: Database) -> None:
    found = saved(nights)
    decided = findings.decide(
        nights, found.id, "refuted", 0.0, -0.01, 0.01, Confirmation(run="night-4"), a_night(6)
    )
    both = replace(found.evidence, confirmation=Confirmation(run="night-4"))
    numbers = {"change": 0.0, "low": -0.01, "high": 0.01, "evidence": both}
    assert decided == replace(found, state="refuted", decided_at=a_night(6), **numbers)
    assert saved(nights, night=7, change=0.3) == decided
    findings.set_state(nights, [found.id], "no longer")
    assert findings.finding(nights, found.id) == decided
    decided_again = findings.decide(
        nights, found.id, "refuted", 0.0, -0.01, 0.01, Confirmation(run="night-4"), a_night(8)
    )
    assert decided_again == decided, "the first moment that it was said at stays"
    assert findings.decide(nights, 999, "refuted", 0, 0, 0, Confirmation(), a_night(8)) is None


def test_states_without_numbers(nights: Database) -> None:
    one, other = saved(nights), saved(nights, label="a10")
    findings.set_state(nights, {one.id, other.id}, "confirming")
    assert {each.state for each in findings.findings(nights)} == {"confirming"}
    assert saved(nights, change=0.7).change == 0.1, "it is being measured as it was found"
    findings.set_state(nights, [other.id], "no longer")
    assert findings.findings(nights, states=["confirming"]) == [replace(one, state="confirming")]
    assert saved(nights, label="a10", change=0.5).state == "candidate", "it came again"
    findings.set_state(nights, [], "machine")
    assert not findings.findings(nights, states=["machine"])


def test_what_was_the_machines_may_become_a_candidate_and_is_still_what_people_made_of_it(
    nights: Database,
) -> None:
    found = saved(nights, state="machine")
    assert saved(nights, night=6, change=0.7, state="machine") == found
    findings.triage(nights, found.id, "acknowledge", "ann", "", None, a_night(6))
    findings.triage(nights, found.id, "link", "ann", "https://example.org/7", None, a_night(6))
    again = saved(nights, night=7, change=0.05)
    mine = {"triage": "acknowledged", "link": "https://example.org/7", "owner": "ann"}
    assert again == replace(found, state="candidate", change=0.05, **mine)


def test_what_was_fixed_and_returns_is_open_again(nights: Database) -> None:
    first = confirmed(nights)
    findings.triage(nights, first.id, "fixed", "ann", "in 4711", None, a_night(7))
    elsewhere = [
        confirmed(nights, night=8, at_run="night-3", direction="better"),
        confirmed(nights, night=8, at_run="night-3", label="a10"),
        confirmed(nights, night=8, at_run="night-3", key=series(nights, RESNET)),
    ]
    assert [each.returns_of for each in elsewhere] == [None] * 3
    again = saved(nights, night=8, at_run="night-3")
    assert again.returns_of is None, "a candidate is no return"
    returned = findings.decide(nights, again.id, "confirmed", 0.1, 0.05, 0.2, Confirmation(), a_night(9))
    assert returned is not None and (returned.returns_of, returned.triage) == (first.id, "open")


def test_what_is_expected_is_not_what_comes_later(nights: Database) -> None:
    first = confirmed(nights)
    findings.triage(nights, first.id, "expected", "ann", "", None, a_night(7))
    again = confirmed(nights, night=8, at_run="night-3")
    assert (again.returns_of, again.triage) == (None, "open")


def test_who_did_what_when_is_kept(nights: Database) -> None:
    found = saved(nights)
    until = a_night(20) + timedelta(minutes=30)
    for night, (action, text, end) in enumerate(
        [
            ("note", "noisy?", None),
            ("acknowledge", "", None),
            ("link", "https://example.org/7", None),
            ("mute", "until the fix is in", until),
            ("expected", "a new default", None),
        ]
    ):
        assert findings.triage(nights, found.id, action, "ann", text, end, a_night(night)) is not None
    after = findings.finding(nights, found.id)
    link = "https://example.org/7"
    assert after == replace(found, triage="expected", link=link, muted_until=until)
    assert findings.triage_log(nights, found.id) == [
        TriageEntry(found.id, a_night(0), "ann", "note", "noisy?"),
        TriageEntry(found.id, a_night(1), "ann", "acknowledge", ""),
        TriageEntry(found.id, a_night(2), "ann", "link", link),
        TriageEntry(found.id, a_night(3), "ann", "mute", "until 2026-09-21 02:30 UTC; until the fix is in"),
        TriageEntry(found.id, a_night(4), "ann", "expected", "a new default"),
    ]
    findings.triage(nights, found.id, "mute", "bob", "", None, a_night(9))
    assert findings.finding(nights, found.id) == replace(after, muted_until=None)
    assert findings.triage_log(nights, found.id)[-1].text == "no longer"
    assert findings.triage(nights, 999, "note", "ann", "", None, a_night(9)) is None
    with pytest.raises(
        ValueError, match="'ignore' is not an action on a finding; expected one of acknowledge, "
    ):
        findings.triage(nights, found.id, "ignore", "ann", "", None, a_night(9))
    assert len(findings.triage_log(nights, found.id)) == 6 and findings.triage_log(nights, 999) == []


def test_a_muted_series_stays_muted(nights: Database) -> None:
    found = saved(nights)
    findings.triage(nights, found.id, "mute", "ann", "", a_night(20), a_night(5))
    assert saved(nights, night=6, at_run="night-3").muted_until == a_night(20)
    for elsewhere in ({"label": "a10"}, {"direction": "better"}, {"key": series(nights, RESNET)}):
        assert saved(nights, night=6, at_run="night-3", **elsewhere).muted_until is None
    assert saved(nights, night=20, at_run="night-1").muted_until is None, "its time is over"


def test_findings_are_listed_by_the_filters(nights: Database) -> None:
    first, second = saved(nights, night=5), saved(nights, night=6, at_run="night-3")
    third = saved(nights, night=7, schedule="weekly")
    first = findings.decide(nights, first.id, "confirmed", 0.1, 0.05, 0.2, Confirmation(), a_night(8))
    findings.triage(nights, third.id, "acknowledge", "ann", "", None, a_night(9))

    def ids(**how: Any) -> list[int]:
        return [each.id for each in findings.findings(nights, **how)]

    assert first is not None
    assert ids() == [third.id, second.id, first.id] and ids(newest=1) == [third.id]
    assert ids(states={"confirmed"}) == [first.id] and ids(states=()) == []
    assert ids(triage=["open"]) == [second.id, first.id] and ids(schedule="weekly") == [third.id]
    assert ids(since=a_night(7)) == [third.id, first.id], "found or decided since"
    assert ids(after=(second.found_at, second.id)) == [first.id]
    assert ids(after=(second.found_at, second.id + 1)) == [second.id, first.id]


def test_the_findings_of_a_series_come_as_they_happened(nights: Database) -> None:
    later, first = saved(nights, at_run="night-3", before_run="night-2"), saved(nights)
    saved(nights, key=series(nights, RESNET))
    saved(nights, key=series(nights, metric="rss_peak"))
    found = findings.findings_of_series(nights, [series(nights)])
    assert found == [first, later]
    both = findings.findings_of_series(nights, [series(nights), series(nights, RESNET)])
    assert len(both) == 3
    assert findings.findings_of_series(nights, [replace(series(nights), preset="other")]) == []
    assert findings.findings_of_series(nights, []) == []


def test_only_what_was_refuted_is_opened_once_more(nights: Database) -> None:
    found, other = saved(nights), saved(nights, key=series(nights, RESNET))
    findings.decide(nights, found.id, "refuted", 0.0, -0.01, 0.01, Confirmation(run="night-4"), a_night(6))
    findings.decide(nights, other.id, "confirmed", 0.1, 0.09, 0.11, Confirmation(), a_night(6))
    confirmed = findings.finding(nights, other.id)
    sides = ComparedRuns("night-1", OLD.fingerprint, "night-3", NEW.fingerprint)
    again = findings.RepeatRequest(0.04, sides, "once more")
    findings.reopen(nights, {found.id: again, other.id: again, 999: again}, a_night(7))
    opened = findings.finding(nights, found.id)
    evidence = replace(
        found.evidence,
        sides=sides,
        repeated=a_night(7).isoformat(),
        waits="once more",
        confirmation=Confirmation(run="night-4"),
    )
    assert opened == replace(found, state="candidate", change=0.04, evidence=evidence)
    assert findings.finding(nights, other.id) == confirmed
