"""`pyrometer upgrade OLD NEW --step`: any script, over two real environments that differ in a file."""

import json
import subprocess

import pytest

from db.connection.engine import open_database
from db.runs import queries
from runner import journal
from support.command_line import typed
from support.site import Site, measured_python
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


def same():
    return tables.weight + 1


def breaks():
    if NEW:
        raise RuntimeError("the API is gone")
    return tables.weight + 1


def repaired():
    if not NEW:
        raise RuntimeError("not there yet")
    return tables.weight + 1


def never():
    raise RuntimeError("never worked")


def imports():
    import torch.no_such_module


def exits():
    sys.exit("enough")


made = [1, 2, 3]


def lacks():
    pass
'''
LACKS = "import einops_of_our_own\n\ndef step():\n    pass\n"
PAIRS = ("--pairs", "4", "--no-fingerprint")


@pytest.fixture
def place(site: Site) -> Site:
    """A site with the script and two environments that share the measured one's packages."""
    (site.folder / "repro.py").write_text(SCRIPT)
    (site.folder / "lacks.py").write_text(LACKS)
    base = measured_python()
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([base, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    for name in ("old", "new"):
        folder = site.folder / name
        subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
        (own,) = folder.glob("lib/python*/site-packages")
        (own / "shared.pth").write_text(packages + "\n")
    (site.folder / "new" / "new").touch()
    return site


def compared(place: Site, step: str, *options: str) -> tuple[int, dict[str, object], str]:
    """Exit code, JSON report and Markdown report of a step."""
    files = ("--report", "issue.md", "--report", "issue.json")
    done = place.call("upgrade", "./old", "./new", "--step", step, *PAIRS, *options, *files)
    assert "Traceback" not in done.err, done.err
    return (
        done.code,
        json.loads((place.folder / "issue.json").read_text()),
        (place.folder / "issue.md").read_text(),
    )


@pytest.mark.torch
def test_a_script_that_prints_and_returns_tensors_is_measured_and_kept(place: Site) -> None:
    files = ("--report", "issue.md", "--report", "issue.json")
    done = place.call("upgrade", "./old", "./new", "--step", "repro.py", "--pairs", "4", *files)
    assert done.code in (0, 1, 3), done
    body = json.loads((place.folder / "issue.json").read_text())
    (case,) = body["cases"]
    assert case["case"].startswith("repro.py:step/infer/script=sha256:")
    assert case["verdict"]["metric"] == "latency_floor" and case["verdict"]["n"] >= 1
    assert body["step"]["text"] == SCRIPT
    (differs,) = body["dispatch"]
    assert "aten::clone(fp32)" in {change["after"] for change in differs["changes"]}
    issue = (place.folder / "issue.md").read_text()
    assert SCRIPT.rstrip("\n") in issue and "aten::clone(fp32), new, 1x" in issue
    assert f"--step {place.folder}" not in issue
    (run,) = (place.folder / ".pyrometer/runs").iterdir()
    logs = [path.read_text() for path in run.glob("logs/**/*.log")]
    assert logs and all("set up ['repro.py']" in log and "on stderr" in log for log in logs)
    # Of a stored run everything is known without its journal and the script.
    (place.folder / "repro.py").unlink()
    place.journal(run.name).unlink()
    again = place.call("report", run.name, "--report", "again.md")
    assert again.code == 0, again
    with open_database(place.url, create=False) as database:
        stored = queries.run_record(database, run.name)
    assert stored is not None and stored.facts["step"]["text"] == SCRIPT
    assert SCRIPT.rstrip("\n") in (place.folder / "again.md").read_text()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("function", "code", "ends", "title", "raised"),
    [
        ("breaks", 1, ("ok", "crashed"), "works in old and fails in new", "the API is gone"),
        ("repaired", 3, ("crashed", "ok"), "fails in old and works in new", "not there yet"),
        ("never", 3, ("crashed", "crashed"), "fails in old and in new", "never worked"),
        ("imports", 3, ("crashed", "crashed"), "fails in old and in new", "torch.no_such_module"),
        ("exits", 3, ("crashed", "crashed"), "fails in old and in new", "the case called sys.exit"),
        ("made", 3, ("unsupported", "unsupported"), "fails in old and in new", "defines no function made"),
    ],
)
def test_a_step_that_raises_ends_with_a_sentence(
    place: Site, function: str, code: int, ends: tuple[str, str], title: str, raised: str
) -> None:
    found, body, issue = compared(place, f"repro.py:{function}")
    cases = body["cases"]
    assert isinstance(cases, list)
    (case,) = cases
    assert (case["old"]["status"], case["new"]["status"]) == ends
    assert found == code, issue
    first = issue.splitlines()[0]
    assert first.startswith(f"## repro.py:{function} {title}")
    assert raised in issue.split("### The script")[0]
    assert raised in json.dumps([case["old"]["reason"], case["new"]["reason"]])


@pytest.mark.torch
def test_a_package_that_is_missing_is_named(place: Site) -> None:
    _, body, issue = compared(place, "lacks.py")
    said = "lacks.py needs einops_of_our_own, which this environment lacks: --package NAME installs a package"
    assert said in json.dumps(body["cases"]) and said in issue


@pytest.mark.torch
def test_a_set_up_that_does_not_end_is_a_timeout(place: Site) -> None:
    (place.folder / "slow.py").write_text("import time\ntime.sleep(600)\n\ndef step():\n    pass\n")
    _, body, _ = compared(place, "slow.py", "--deadline", "20")
    assert "no end within 20 s, last seen in build" in json.dumps(body["cases"])


@pytest.mark.torch
def test_killed_in_the_middle_it_goes_on_without_the_script(place: Site) -> None:
    running = place.start_command("upgrade", "./old", "./new", "--step", "repro.py", *PAIRS)
    run = str(running.until("began")["run"])
    running.until("outcome")
    running.process.kill()
    running.process.wait()
    (place.folder / "repro.py").unlink()
    done = place.call("upgrade", "--resume", run, "--report", "issue.md")
    assert done.code in (0, 1, 3), done
    contents = journal.read(place.journal(run))
    header = Header.from_body(contents.header)
    assert header.step is not None and header.step["text"] == SCRIPT
    assert not contents.missing(header.replicates)
    assert SCRIPT.rstrip("\n") in (place.folder / "issue.md").read_text()


@pytest.mark.torch
def test_a_step_is_bisected(place: Site) -> None:
    options = ("--candidates", "./old,./new", "--step", "repro.py:breaks", "--json")
    done = place.call("bisect", "./old", "./new", *options)
    assert done.code == 0, done
    (state,) = (place.folder / ".pyrometer/bisects").glob("*.json")
    body = json.loads(state.read_text())
    assert body["case"].startswith("repro.py:breaks/infer/script=sha256:")
    assert body["harness"]["step"]["text"] == SCRIPT
    assert all("--case" not in step["command"] and "--step" in step["command"] for step in body["steps"])
    again = place.call("bisect", "--resume", "latest", "--json")
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
            "repro.py has no function stop: it defines step, same, breaks",
        ),
        ("upgrade", ("--step", "repro.py:Tables"), "Tables is a class"),
        ("upgrade", ("--step", "repro.py", "--suite", "smoke"), "leave out --suite, --case and --cases"),
        ("upgrade", ("--step", "repro.py", "--case", "mlp"), "leave out --suite, --case and --cases"),
        ("upgrade", ("--step", "repro.py", "--cases", "cases.py"), "leave out --suite, --case and --cases"),
        (
            "upgrade",
            ("--step", "repro.py", "--package", "einops"),
            "is an interpreter: install it there, with ",
        ),
        ("bisect", ("--step", "missing.py"), "missing.py: No such file or directory"),
        ("bisect", ("--step", "repro.py", "--case", "mlp"), "leave out --suite, --case and --cases"),
        (
            "bisect",
            ("--step", "repro.py", "--package", "einops"),
            "is an interpreter: install it there, with ",
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


@pytest.mark.torch
@pytest.mark.timeout(900)
def test_a_screened_step_is_killed_and_goes_on(place: Site) -> None:
    arguments = ("upgrade", "./old", "./new", "--step", "repro.py:same", "--pairs", "4", "--screen")
    running = place.start_command(*arguments)
    run = str(running.until("began")["run"])
    running.until("outcome")
    running.process.kill()
    running.process.wait()
    done = place.call("upgrade", "--resume", run, "--report", "issue.json")
    assert done.code in (0, 1, 3), done
    body = json.loads((place.folder / "issue.json").read_text())
    (screened,) = body["screen"]["cases"]
    assert len(screened["short_pairs"]) >= 1 and body["step"]["function"] == "same"
    contents = journal.read(place.journal(run))
    assert not contents.missing(Header.from_body(contents.header).replicates)
    short = [one for one in contents.outcomes if one.replicate < 4 and one.status == "ok"]
    assert short and all("screening" in one.facts and not one.metrics for one in short)


@pytest.mark.torch
@pytest.mark.timeout(900)
def test_a_screened_step_that_runs_differently_is_measured_in_full(place: Site) -> None:
    files = ("--report", "issue.md", "--report", "issue.json")
    done = place.call("upgrade", "./old", "./new", "--step", "repro.py", "--pairs", "4", "--screen", *files)
    assert done.code in (0, 1, 3), done
    body = json.loads((place.folder / "issue.json").read_text())
    (screened,) = body["screen"]["cases"]
    assert (screened["full_pairs_because"], screened["short_pairs"]) == ("dispatch", [])
    assert body["cases"][0]["verdict"]["n"] == 4
