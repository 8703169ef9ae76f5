"""`pyrometer upgrade OLD NEW --step`: any script, over two real environments that differ in a file."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from db.connection.engine import open_database
from db.runs import queries
from runner import journal
from support.command_line import typed
from support.interpreters import make_interpreter, measured_packages
from support.site import Site, measured_python, one_site
from workflows.run_header import Header

#: What a step does depends on the environment it runs in, as on a release.
SCRIPT = '''"""Prints, reads, returns tensors, and knows which environment it runs in."""

import sys
from dataclasses import dataclass
from pathlib import Path

import torch

NEW = (Path(sys.prefix) / "new").exists()
print("set up", sys.argv, sys.stdin.read())


@dataclass
class Tables:
    weight: torch.Tensor


tables = Tables(torch.randn(64, 16))


def step():
    print("{\\"type\\": \\"finished\\"}")
    print("on stderr", file=sys.stderr)
    return {"all": [tables.weight + 1, (tables.weight * 2).clone() if NEW else tables.weight * 2]}


def breaks():
    if NEW:
        raise RuntimeError("the API is gone")
    return tables.weight + 1


def repaired():
    if not NEW:
        raise RuntimeError("not there yet")
    return tables.weight + 1
'''
SIDES = ("./old", "./new")
#: The budget has room for the first pair; `test_upgrade` has one that is screened and judged.
PAIRS, SCREEN = (("--pairs", "4", "--budget", "1", how) for how in ("--no-fingerprint", "--screen"))

#: Exit code, JSON report and Markdown report of an upgrade.
Reported = tuple[int, dict[str, Any], str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with the script and two environments, which the tests of this file share."""
    for site in one_site(tmp_path_factory.mktemp("step")):
        site.measure_shortly()
        (site.folder / "repro.py").write_text(SCRIPT)
        for name in ("old", "new"):
            make_interpreter(site.folder / name, measured_packages())
        (site.folder / "new" / "new").touch()
        yield site


def reports(place: Site, *arguments: str) -> Reported:
    """Run an upgrade, to its end."""
    done = place.call("upgrade", *arguments, "--report", "issue.md", "--report", "issue.json")
    assert "Traceback" not in done.err, done.err
    body = json.loads((place.folder / "issue.json").read_text())
    return done.code, body, (place.folder / "issue.md").read_text()


@pytest.mark.torch
def test_a_screened_script_is_kept_and_a_killed_upgrade_goes_on_without_it(place: Site) -> None:
    script = place.folder / "kept.py"
    script.write_text(SCRIPT)
    # Before an outcome: on a busy machine half a pair spends the budget, and its other half is left out.
    run = place.kill_after(0, "upgrade", *SIDES, "--step", "kept.py", *SCREEN)
    script.unlink()
    code, body, issue = reports(place, "--resume", run)
    assert code == 3, issue
    (case,) = body["cases"]
    assert case["case"].startswith("kept.py:step/infer/script=sha256:")
    assert (case["old"]["status"], case["new"]["status"]) == ("ok", "ok")
    assert (body["step"]["text"], body["step"]["function"]) == (SCRIPT, "step")
    (differs,) = body["dispatch"]
    assert "aten::clone(fp32)" in {change["after"] for change in differs["changes"]}
    (screened,) = body["screen"]["cases"]
    assert (screened["full_pairs_because"], screened["short_pairs"]) == ("dispatch", [])
    assert SCRIPT.rstrip("\n") in issue and "aten::clone(fp32), new, 1x" in issue
    assert f"--step {place.folder}" not in issue
    logs = [path.read_text() for path in place.journal(run).parent.glob("logs/**/*.log")]
    assert logs and all("set up ['kept.py']" in log and "on stderr" in log for log in logs)
    contents = journal.read_contents(place.journal(run))
    header = Header.from_body(contents.header)
    assert header.step is not None and header.step["text"] == SCRIPT
    assert not contents.missing_replicates(header.replicates)
    # Of a stored run everything is known without its journal too.
    place.journal(run).unlink()
    again = typed(place, "report", run, "--report", "again.md")
    assert again.code == 0, again
    with open_database(place.url, create=False) as database:
        stored = queries.run_record(database, run)
    assert stored is not None and stored.facts["step"]["text"] == SCRIPT
    assert SCRIPT.rstrip("\n") in (place.folder / "again.md").read_text()


@pytest.mark.torch
def test_a_step_that_raises_ends_with_a_sentence(place: Site) -> None:
    code, body, issue = reports(place, *SIDES, "--step", "repro.py:repaired", *PAIRS)
    (case,) = body["cases"]
    assert (case["old"]["status"], case["new"]["status"]) == ("crashed", "ok")
    assert code == 3, issue
    assert issue.splitlines()[0].startswith("## repro.py:repaired fails in old and works in new")
    assert "not there yet" in issue.split("### The script")[0]
    assert "not there yet" in case["old"]["reason"]


@pytest.mark.torch
def test_a_step_is_bisected(place: Site) -> None:
    options = ("--candidates", ",".join(SIDES), "--step", "repro.py:breaks", "--json")
    done = place.call("bisect", *SIDES, *options)
    assert done.code == 0, done
    (state,) = (place.folder / ".pyrometer/bisects").glob("*.json")
    body = json.loads(state.read_text())
    assert body["case"].startswith("repro.py:breaks/infer/script=sha256:")
    assert body["harness"]["step"]["text"] == SCRIPT
    assert all("--case" not in step["command"] and "--step" in step["command"] for step in body["steps"])
    again = typed(place, "bisect", "--resume", "latest", "--json")
    assert again.code == 0, again


@pytest.mark.torch
@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        ("upgrade", ("--step", "missing.py"), "missing.py: No such file or directory"),
        ("upgrade", ("--step", "notes.txt"), "notes.txt is not Python 3."),
        (
            "upgrade",
            ("--step", "repro.py:stop"),
            "repro.py has no function stop: it defines step, breaks, repaired",
        ),
        ("upgrade", ("--step", "repro.py:Tables"), "Tables is a class"),
        ("upgrade", ("--step", "repro.py", "--suite", "smoke"), "leave out --suite, --case and --cases"),
        ("upgrade", ("--step", "repro.py", "--case", "mlp"), "leave out --suite, --case and --cases"),
        ("upgrade", ("--step", "repro.py", "--cases", "cases.py"), "leave out --suite, --case and --cases"),
        (
            "upgrade",
            ("--step", "repro.py", "--package", "einops"),
            "is an interpreter: install the package there with ",
        ),
        ("bisect", ("--step", "missing.py"), "missing.py: No such file or directory"),
        ("bisect", ("--step", "repro.py", "--case", "mlp"), "leave out --suite, --case and --cases"),
        (
            "bisect",
            ("--step", "repro.py", "--package", "einops"),
            "is an interpreter: install the package there with ",
        ),
    ],
)
def test_what_cannot_be_a_step_is_refused_in_a_sentence(
    site: Site, command: str, arguments: tuple[str, ...], said: str
) -> None:
    (site.folder / "repro.py").write_text(SCRIPT)
    (site.folder / "notes.txt").write_text("nothing that a parser knows\n")
    ends = ("default", str(measured_python()))
    between = ("--candidates", ",".join(ends)) if command == "bisect" else ()
    assert said in typed(site, command, *ends, *between, *arguments).one_sentence()
