"""The canary in a real run: between the sessions, in journal and database, and in no count."""

import signal
from collections import defaultdict

import pytest
from measuring_site import Site, of_the_plan

from db import queries
from db.engine import open_database
from runner import journal
from runner.drift import CASES

pytestmark = pytest.mark.torch


def test_it_sings_between_sessions_and_a_resumed_run_counts_on(site: Site) -> None:
    running = site.start_suite("quick")
    running.until("outcome")
    running.process.send_signal(signal.SIGINT)
    run = str(running.end().run)
    before = journal.read(site.journal(run)).canaries
    assert [outcome.replicate for outcome in before[:2]] == [0, 0], "before the first session"

    done = site.call("run", "--resume", run)
    assert done.code == 0 and "is complete: 4 ok of 4 planned" in done.out
    assert "canary" not in done.out, "it is no case of the suite"
    contents = journal.read(site.journal(run))
    assert contents.canaries[: len(before)] == before and contents.set_aside == ()
    numbers: dict[str, list[int]] = defaultdict(list)
    for outcome in contents.canaries:
        assert outcome.status == "ok", outcome
        numbers[outcome.case].append(outcome.replicate)
    assert list(numbers) == list(CASES)
    boundaries = len(before) // 2 + 2
    assert all(len(found) >= boundaries and found == [*range(len(found))] for found in numbers.values())
    assert max(o.started_at for o in contents.canaries) > max(o.started_at for o in contents.outcomes)

    with open_database(site.url, create=False) as database:
        summary, record = queries.run_summary(database, run), queries.run_record(database, run)
        assert summary is not None and record is not None
        assert (summary.counts, summary.planned) == ({"ok": 4}, 4)
        assert len(summary.torch_versions) == 1, "the canary is no PyTorch"
        assert [e.name for e in record.environments] == ["default", "canary"]
        stored = queries.outcomes_of_run(database, run)
        assert len(stored) == 4 + len(contents.canaries) and len(of_the_plan(stored)) == 4
        latency = {m.case: m for m in queries.measurements_of_run(database, run) if m.metric == "latency"}
        for case, found in numbers.items():
            assert latency[case].n == len(found)
            samples = queries.samples(database, run, case, record.environments[1].fingerprint, 0)
            assert samples == next(o.blocks for o in contents.canaries if o.case == case)
