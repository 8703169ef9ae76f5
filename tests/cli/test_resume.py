"""`--resume` resumes the same run, or refuses with the reason."""

import json
import platform
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.context import context
from runner import journal, machine
from runner.nodes import Node, NodeMachines
from support.builders.journals import a_header
from support.command_line import typed
from support.site import Done, Site
from workflows.errors import CannotResume, NothingToResume, UsageError
from workflows.planning import plan_run
from workflows.planning.plan_run import find_run, machine_of, prepare_again

pytestmark = pytest.mark.torch


@pytest.fixture
def half(tmp_path: Path, site: Site, measured_once: tuple[Site, Done]) -> tuple[Site, str]:
    """A folder with the first outcomes of a finished run: five of eight."""
    _, done = measured_once
    lines = measured_once[0].journal(done.run).read_bytes().splitlines(keepends=True)
    path = site.journal(done.run)
    path.parent.mkdir(parents=True)
    of_cases = [at for at, line in enumerate(lines) if json.loads(line)["kind"] == "outcome"]
    path.write_bytes(b"".join(lines[: of_cases[4] + 1]))
    return site, done.run


def change_header(path: Path, change: Any) -> None:
    """Have the run begin under other circumstances, with nothing measured yet."""
    body: dict[str, Any] = json.loads(path.read_bytes().splitlines()[0])["body"]
    change(body)
    path.unlink()
    with journal.Journal(path.parent) as begun:
        begun.header(body)


def test_an_unknown_run_gets_the_nearest_one(half: tuple[Site, str]) -> None:
    site, run = half
    said = typed(site, "run", "--resume", run[:-1])
    assert said.code == 4
    assert f'pyrometer: unknown run "{run[:-1]}": did you mean "{run}"?' in said.err


def test_a_complete_run_is_not_resumed(measured_once: tuple[Site, Done]) -> None:
    site, done = measured_once
    said = typed(site, "run", "--resume", "latest").one_sentence()
    assert said == f"pyrometer: run {done.run} is complete: there is nothing to resume"


def test_without_its_harness_a_run_is_not_resumed(half: tuple[Site, str]) -> None:
    site, run = half
    gone = site.folder / "gone"
    change_header(site.journal(run), lambda body: body.update(harness_path=str(gone)))
    said = typed(site, "run", "--resume", run)
    assert (said.code, said.out) == (4, "")
    assert f"pyrometer: run {run}: its harness {gone} was removed; start a new run" in said.err


@pytest.mark.parametrize(
    ("change", "code", "sentence"),
    [
        (
            lambda body: body["environments"][0].update(fingerprint="0" * 16),
            4,
            "environment default has changed since run {run} began; start a new run",
        ),
        (
            lambda body: body["machine"].update(fingerprint="0" * 16, name="gpu-b"),
            4,
            "run {run} belongs to machine gpu-b; resume it there",
        ),
        (
            lambda body: body["machine"].update(fingerprint="0" * 16),
            4,
            f"run {{run}} belongs to another machine that is called {socket.gethostname()}; resume it there",
        ),
        (
            lambda body: body["machine"].update(hardware_fingerprint="0" * 16),
            4,
            "run {run} belongs to other hardware; start a new run",
        ),
        (
            lambda body: body["machine"]["conditions"].update(kernel="5.4.0", load=99.0),
            4,
            f"the machine has changed since run {{run}} began (kernel: 5.4.0 to {platform.release()}); "
            "start a new run",
        ),
        (
            lambda body: body["preset"].update(cpus=[4096]),
            4,
            "run {run} was pinned to CPUs that are not available now; start a new run",
        ),
        (
            lambda body: body.pop("harness"),
            2,
            "run {run} has a header that this Pyrometer cannot read",
        ),
    ],
)
def test_under_other_circumstances_a_run_is_not_resumed(
    half: tuple[Site, str], change: Any, code: int, sentence: str
) -> None:
    site, run = half
    change_header(site.journal(run), change)
    said = typed(site, "run", "--resume", run)
    assert (said.code, said.out) == (code, "")
    assert said.err.splitlines()[-1] == f"pyrometer: {sentence.format(run=run)}"
    assert "Traceback" not in said.err


def test_a_traced_run_that_is_to_be_reported_is_not_resumed(half: tuple[Site, str]) -> None:
    site, run = half
    change_header(site.journal(run), lambda body: body.update(kind="trace"))
    said = typed(site, "run", "--resume", run, "--report", str(site.folder / "run.md")).one_sentence()
    assert said == f"pyrometer: run {run} was traced: --report needs a run of cases or an upgrade"
    assert journal.read_contents(site.journal(run)).outcomes == () and not (site.folder / "run.md").exists()


def began_elsewhere(runs: Path, run: str) -> None:
    """A run as a node of a fleet began it, beside those of this machine."""
    with journal.Journal(runs / run) as begun:
        begun.header(a_header(run, ()).to_body())


def test_the_latest_is_the_newest_of_this_machine(
    half: tuple[Site, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, run = half
    runs = site.journal(run).parent.parent
    began_elsewhere(runs, "20990101-000000-ffffffff")
    monkeypatch.chdir(site.folder)
    for name, value in site.environ({}).items():
        monkeypatch.setenv(name, value)
    assert find_run(context(), "latest") == runs / run
    shutil.rmtree(runs / run)
    with pytest.raises(NothingToResume, match=f"belongs to this machine, {socket.gethostname()}"):
        find_run(context(), "latest")
    # An unreadable file is reported.
    (runs / "20990102-000000-ffffffff").mkdir()
    (runs / "20990102-000000-ffffffff" / journal.FILE).write_bytes(b"{}\n")
    assert find_run(context(), "latest").name == "20990102-000000-ffffffff"


def test_with_another_node_of_the_same_kind_a_run_is_not_resumed(
    half: tuple[Site, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, run = half
    monkeypatch.chdir(site.folder)
    machine_facts = machine.describe([])
    nodes = (Node("first", "10.0.0.1"), Node("second", "10.0.0.2", ("ssh", "second")))
    now, before = (
        NodeMachines(nodes, (replace(machine_facts, name=name, fingerprint=name * 8),))
        for name in ("gb", "ga")
    )
    change_header(site.journal(run), lambda body: body.update(machine=machine_of(machine_facts, before)))
    folder = site.journal(run).parent
    with pytest.raises(UsageError, match="measures together with second: resume it with the same --nodes"):
        prepare_again(context(), folder)
    monkeypatch.setattr(plan_run, "reach", lambda *_: before)
    assert prepare_again(context(), folder, nodes).header.run == run
    monkeypatch.setattr(plan_run, "reach", lambda *_: now)
    with pytest.raises(
        CannotResume, match=f"node second is another machine than second, which run {run} had"
    ):
        prepare_again(context(), folder, nodes)


def test_what_an_earlier_part_measured_is_spent_of_the_budget(half: tuple[Site, str]) -> None:
    site, run = half
    path = site.journal(run)
    before = journal.read_contents(path)
    spent = sum(sum(one.phases.values()) for one in before.outcomes)
    path.unlink()
    with journal.Journal(path.parent) as begun:
        begun.header({**before.header, "budget_seconds": spent})
        for one in before.outcomes:
            begun.outcome(one)
    site.call("run", "--resume", run)
    left = journal.read_contents(path).outcomes[len(before.outcomes) :]
    # A part of a run measures one session whatever is left.
    assert [one.status == "skipped" for one in left] == [False, True, True]
    assert left[1].reason.startswith("budget of ")


def test_what_is_left_is_measured_and_what_is_there_is_kept(half: tuple[Site, str]) -> None:
    site, run = half
    with site.journal(run).open("ab") as file:
        file.write(b'{"v": 1, "kind": "outcome", "bo')
    (site.folder / ".pyrometer" / "runs" / "99999999-000000-ffff").mkdir()
    (site.folder / ".pyrometer" / "runs" / "99999999-000000-ffff" / journal.FILE).touch()
    before = journal.read_contents(site.journal(run)).outcomes
    done = site.call("run", "--resume", "latest", "--json")
    assert done.code == 1, done
    assert f"note: stored 5 outcomes of run {run} from its journal" in done.err
    assert "torn or not a journal line; set aside, its case is measured again" in done.err
    assert len(done.events[0]["planned"]) == 3
    after = journal.read_contents(site.journal(run))
    assert after.outcomes[:5] == before and len(after.outcomes) == 8
    assert after.ended is not None and after.ended["state"] == "complete"
