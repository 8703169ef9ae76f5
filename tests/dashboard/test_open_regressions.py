"""How many regressions are open: one count on every page and in every report."""

import json
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.registry import app
from configuration.settings import load_settings
from dashboard.server.metrics import exposition
from dashboard.today import load, verdict
from db.connection.engine import Database
from db.findings import store as findings
from records.evidence import Confirmation
from records.findings import Finding, FindingGroup
from scheduled_jobs.notifications.collect import collect_digest_data
from support.builders.run_records import BERT, MLP, RESNET
from support.builders.schedule_nights import Mornings, a_finding, confirm
from support.pages import REGRESSIONS, TODAY, Open, html

HOUR = timedelta(hours=1)
STATES = ("candidate", "confirming", "confirmed", "refuted", "unclear", "no longer", "machine")


def of_every_kind(database: Database, mornings: Mornings) -> list[Finding]:
    """Three open regressions, old and new, and one each of what is not open."""
    runs = mornings.nights([5, 4, 3, 2, 1, 0])
    made: list[Finding] = []
    for end, case in product((6, 5), (MLP, RESNET, BERT)):
        made.append(a_finding(database, mornings, runs[:end], case))
    made += [a_finding(database, mornings, runs, case, "better") for case in (MLP, RESNET)]
    for one, hours in zip(made[:5], (2, 2, 2, 99, 99), strict=True):
        confirm(database, mornings, one, hours * HOUR)
    confirm(database, mornings, made[6])
    findings.triage(database, made[1].id, "mute", "ann", "", mornings.now + 50 * HOUR, mornings.now)
    findings.triage(database, made[3].id, "acknowledge", "ann", "", None, mornings.now)
    findings.decide(database, made[7].id, "unclear", -0.1, None, None, Confirmation(), mornings.now)
    return made


def test_every_place_counts_the_same_open_regressions(
    open_page: Open,
    url: str,
    database: Database,
    mornings: Mornings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_every_kind(database, mornings)
    now = mornings.now
    assert findings.open_regressions(database, now) == 3
    new = verdict.new_findings(*load.recent_findings(url, 1), now - 24 * HOUR, now)
    assert (len(new.regressions), new.older) == (2, 1)
    assert "2 confirmed regressions" in html(open_page(url, TODAY))
    page = open_page(url, REGRESSIONS)
    assert page.header[0].value.split()[0] == "3" and html(page).count("Open\u00a0→") == 3
    assert "pyrometer_open_regressions{} 3\n" in exposition(database, now)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYROMETER_DATABASE_URL", url)
    listed = CliRunner().invoke(app, ["regressions", "list", "--json"])
    assert len(json.loads(listed.stdout)) == 3
    settings = load_settings(cwd=tmp_path, environ={"PYROMETER_DATABASE_URL": url})
    assert collect_digest_data(database, settings, now.date(), None, now).open == 3


def test_a_mute_that_ends_opens_it_again(database: Database, mornings: Mornings) -> None:
    of_every_kind(database, mornings)
    later = mornings.now + 51 * HOUR
    assert findings.open_regressions(database, later) == 4


@pytest.mark.slow
def test_the_database_groups_findings_as_a_finding_itself_does(
    database: Database, mornings: Mornings
) -> None:
    """Every state and triage, muted or not, and every state of what became better."""
    runs = mornings.nights([1, 0])
    now = mornings.now
    every = [*product(STATES, ("", "acknowledge", "expected", "fixed"), (False, True))]
    for direction, those in (("worse", every), ("better", [one for one in every if not any(one[1:])])):
        one = a_finding(database, mornings, runs, direction=direction)
        for state, action, muted in those:
            with database.writing() as connection:
                connection.exec_driver_sql(
                    f"UPDATE finding SET state = '{state}', triage = 'open' WHERE id = {one.id}"
                )
            findings.triage(database, one.id, "mute", "ann", "", now + HOUR if muted else None, now)
            if action:
                findings.triage(database, one.id, action, "ann", "", None, now)
            stored = findings.finding(database, one.id)
            assert stored is not None
            group = stored.group(now)
            assert one.id in [each.id for each in findings.findings(database, group=(group, now))]
            counted = findings.group_counts(database, now)
            for each in FindingGroup:
                assert len(findings.findings(database, group=(each, now))) == counted[each]
            assert (group is FindingGroup.OPEN) == (
                (state, direction, action, muted) == ("confirmed", "worse", "", False)
            )
