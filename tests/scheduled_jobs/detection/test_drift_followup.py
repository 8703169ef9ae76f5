"""Confirmed changes that go on: noted once, and again when they have; a later finding speaks for itself."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from analysis.detection.nights import NightValue, Rules
from db.connection.engine import Database
from db.findings import store as findings
from records.evidence import Confirmation, Continuation, evidence_of
from records.findings import Finding
from scheduled_jobs.detection.drift_followup import continuations
from scheduled_jobs.detection.findings import series_findings
from scheduled_jobs.jobs.detect import detect
from support.builders.detection_nights import Nights, a_task, finish, job_context
from support.builders.detection_series import CHANGE, TRACK, a_series, judged, known
from support.builders.run_records import MLP, a_night

NOW = a_night(40)
CONFIRMED = known(state="confirmed", evidence=evidence_of({"new_run": "run-7"}))


def noted(values: Sequence[float], *others: Finding, one: Finding = CONFIRMED) -> Continuation | None:
    """What is noted of the finding of `CHANGE` in a series of these nights."""
    nights = [NightValue(10.0 * value) for value in values]
    found = continuations(a_series(len(nights)), [one, *others], nights, None, Rules(), NOW)
    assert found.keys() <= {one.id}
    return found.get(one.id)


STAYS = [1.0] * 6 + [1.1] * 20
GOES_ON = [1.0] * 6 + [1.1] * 10 + [1.2] * 6


def test_what_goes_on_is_noted_with_how_far_it_has_come() -> None:
    change_noted = noted(GOES_ON)
    assert change_noted.change == pytest.approx(0.1 + 0.087, abs=0.001)
    assert (change_noted.run, change_noted.night) == ("run-21", a_night(21).isoformat())
    assert change_noted.noted_at == NOW.isoformat() and change_noted.finding is None
    assert noted(STAYS) is None
    # The other way it is no going on, and what is called fixed is looked for anew.
    assert noted(GOES_ON, one=replace(CONFIRMED, direction="better", change=-0.1)) is None
    assert noted(GOES_ON, one=replace(CONFIRMED, triage="fixed")) is None
    assert noted(GOES_ON, one=replace(CONFIRMED, state="refuted")) is None


def test_it_is_noted_again_only_when_it_has_gone_on_as_far_again() -> None:
    before = replace(CONFIRMED, evidence=replace(CONFIRMED.evidence, goes_on=noted(GOES_ON)))
    assert noted([*GOES_ON, 1.2], one=before) is None
    assert noted([*GOES_ON, *[1.21] * 5], one=before) is None
    assert noted([*GOES_ON, *[1.3] * 5], one=before).change == pytest.approx(0.267, abs=0.001)


def test_a_later_change_speaks_for_itself() -> None:
    evidence = evidence_of({"new_run": "run-17"})
    later = known(id=9, at=a_night(16), at_run="run-16", state="confirmed", evidence=evidence)
    assert noted(GOES_ON, later) is None and noted(GOES_ON, replace(later, state="machine")) is None
    # One that is not measured yet, or that is none, does not.
    assert noted(GOES_ON, replace(later, state="candidate")) and noted(
        GOES_ON, replace(later, state="refuted")
    )
    assert noted(GOES_ON, replace(later, direction="better"))


def test_a_drift_names_the_finding_that_reported_it_before() -> None:
    drift = replace(CHANGE, index=16, shape="drift", since=0)
    (found,) = series_findings(TRACK, a_series(22), judged(drift), [CONFIRMED]).findings
    assert found.evidence.began_as == CONFIRMED.id
    for other in (replace(CONFIRMED, state="refuted"), replace(CONFIRMED, direction="better")):
        assert (
            series_findings(TRACK, a_series(22), judged(drift), [other]).findings[0].evidence.began_as is None
        )
    step = replace(drift, shape="step")
    assert (
        series_findings(TRACK, a_series(22), judged(step), [CONFIRMED]).findings[0].evidence.began_as is None
    )
    # Then the first one says that it is measured again, and where.
    evidence = evidence_of({"began_as": CONFIRMED.id, "new_run": "run-21"})
    later = known(id=9, at=a_night(16), at_run="run-16", state="confirmed", change=0.19, evidence=evidence)
    change_noted = noted(GOES_ON, later)
    assert (change_noted.finding, change_noted.change, change_noted.run) == (9, 0.19, "run-21")
    again = replace(CONFIRMED, evidence=replace(CONFIRMED.evidence, goes_on=change_noted))
    assert noted(GOES_ON, later, one=again) is None


def look(database: Database, folder: Path, now: datetime) -> None:
    """One look at the track, as after its night."""
    spec = {"schedule": "alone", "track": "nightly", "label": ""}
    task = a_task(database, "detect", spec, now)
    finish(database, task, detect(task, job_context(folder, now)), now)


def test_every_look_notes_what_goes_on(sqlite: Database, tmp_path: Path) -> None:
    nights = Nights(sqlite, cases=(MLP,))
    nights.add(range(14))
    nights.add(range(14, 20), {MLP: 1.06})
    look(sqlite, tmp_path, a_night(20))
    (found,) = findings.findings(sqlite)
    findings.decide(sqlite, found.id, "confirmed", 0.058, 0.05, 0.066, Confirmation(), a_night(20))
    for night in range(20, 32):
        nights.add(range(night, night + 1), {MLP: 1.06 + 0.004 * (night - 19)})
    look(sqlite, tmp_path, a_night(32).replace(hour=9))
    again = findings.finding(sqlite, found.id)
    assert again is not None
    assert 0.08 < again.evidence.goes_on.change < 0.11
    # What the session said stays as it was said, and so does what was seen.
    assert (again.change, again.low, again.state) == (0.058, 0.05, "confirmed")
    assert again.evidence.detected == found.evidence.detected
