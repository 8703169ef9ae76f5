"""The GitHub action: its steps in a shell, and what it publishes to a stand-in of GitHub's API."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.registry import app
from reports.fleet_upgrade import FLEET_FORMATS, FleetUpgrade, MachineUpgrade
from reports.runs.run_report import RUN_FORMATS, JudgedRun
from reports.upgrade_report import FORMATS, JudgedUpgrade
from support.builders.run_reports import CALM, a_mixed_run, a_passed_run, judged_run, replicates
from support.builders.upgrade_reports import Report, a_large_upgrade, a_mixed_upgrade, a_result, reported
from support.servers.loopback import Quiet, answering

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
TOKEN = "a-token-that-is-never-printed"
MARK, RUN_MARK = "<!-- pyrometer upgrade ", "<!-- pyrometer run "
REPOSITORY = "/repos/team/model"


@dataclass
class Api:
    """What GitHub holds: comments of pull request 7, and checks. The first `failing` requests get a 502."""

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    foreign: set[int] = field(default_factory=set)
    failing: int = 0

    def answer(self, method: str, path: str, body: Any, token: str) -> tuple[int, object]:
        if token != f"Bearer {TOKEN}":
            return 401, {"message": "Bad credentials"}
        if self.failing > 0:
            self.failing -= 1
            return 502, {}
        path = path.removeprefix(REPOSITORY)
        if method == "GET" and (asked := re.fullmatch(r"/issues/7/comments\?per_page=100&page=(\d+)", path)):
            first = 100 * (int(asked[1]) - 1)
            return 200, self.comments[first : first + 100]
        if method == "POST" and path == "/issues/7/comments":
            self.comments.append({"id": len(self.comments) + 1, **body})
            return 201, self.comments[-1]
        if method == "PATCH" and (asked := re.fullmatch(r"/issues/comments/(\d+)", path)):
            number = int(asked[1])
            if number in self.foreign:
                return 403, {"message": "Must have admin rights"}
            self.comments[number - 1] |= body
            return 200, self.comments[number - 1]
        if method == "POST" and path == "/check-runs":
            self.checks.append(body)
            return 201, body
        return 404, {}


@pytest.fixture
def api() -> Iterator[Api]:
    """A server that answers as GitHub does."""
    held = Api()

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            status, found = held.answer(self.command, self.path, body, self.headers["authorization"])
            content = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do

    with answering(Handler) as port:
        held.url = f"http://127.0.0.1:{port}"
        yield held


def published(
    api: Api,
    folder: Path,
    report: Report | JudgedRun | FleetUpgrade,
    *,
    pull_request: bool = True,
    token: str = TOKEN,
    padded: str = "",
    verdict: str = "",
) -> subprocess.CompletedProcess[str]:
    """The script, after an upgrade or a run has written its reports.

    The file called `padded` has 32 MiB of spaces besides; `verdict` is what `verdict.json` holds otherwise.
    """
    for suffix in (".json", ".md"):
        if isinstance(report, JudgedRun):
            text = RUN_FORMATS[suffix](report)
        elif isinstance(report, FleetUpgrade):
            text = FLEET_FORMATS[suffix](report)
        else:
            text = FORMATS[suffix](JudgedUpgrade(*report))
        (folder / f"verdict{suffix}").write_text(text)
    event = {"pull_request": {"number": 7, "head": {"sha": "branch"}}} if pull_request else {}
    (folder / "event.json").write_text(json.dumps(event))
    if verdict:
        (folder / "verdict.json").write_text(verdict, errors="surrogateescape")
    if padded:
        with (folder / padded).open("a") as file:
            file.write(" " * (32 << 20))
    variables = {
        "PATH": os.environ["PATH"],
        "GITHUB_API_URL": api.url,
        "GITHUB_REPOSITORY": "team/model",
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_SHA": "merge",
        "GITHUB_TOKEN": token,
        "GITHUB_OUTPUT": str(folder / "output"),
    }
    command = [sys.executable, "-I", "-S", ROOT / "deploy/github/publish.py", folder]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert TOKEN not in done.stdout + done.stderr
    return done


GO = reported([a_result(f"case{n}/infer/-/eager", 0.0) for n in range(10)])
UNCLEAR = reported([a_result(f"case{n}/infer/-/eager", -2.0, noise=40.0) for n in range(6)])


@pytest.mark.parametrize(
    ("report", "decision", "conclusion"),
    [(GO, "go", "success"), (a_mixed_upgrade(), "no-go", "failure"), (UNCLEAR, "unclear", "neutral")],
)
def test_a_verdict_is_a_comment_and_a_check(
    api: Api, tmp_path: Path, report: Report, decision: str, conclusion: str
) -> None:
    done = published(api, tmp_path, report)
    assert done.returncode == 0, done.stderr
    (comment,) = api.comments
    assert comment["body"].startswith(MARK) and report[0].old.name in comment["body"]
    (check,) = api.checks
    assert (check["head_sha"], check["conclusion"], check["status"]) == ("branch", conclusion, "completed")
    assert check["output"]["title"]
    assert (tmp_path / "output").read_text() == f"decision={decision}\n"


@pytest.mark.parametrize(
    ("report", "decision", "conclusion"),
    [
        (a_passed_run(), "passed", "success"),
        (a_mixed_run(), "failed", "failure"),
        (judged_run(replicates(CALM, 2.0), state="interrupted"), "unclear", "neutral"),
    ],
)
def test_a_suite_has_a_comment_and_a_check_of_its_own(
    api: Api, tmp_path: Path, report: JudgedRun, decision: str, conclusion: str
) -> None:
    assert published(api, tmp_path, GO).returncode == 0
    for _ in range(2):
        done = published(api, tmp_path, report)
        assert done.returncode == 0, done.stderr
    upgrade, suite = api.comments
    assert upgrade["body"].startswith(MARK)
    assert suite["body"].startswith(RUN_MARK) and CALM in suite["body"]
    assert [one["conclusion"] for one in api.checks] == ["success", conclusion, conclusion]
    of_upgrade, of_suite, again = (one["name"] for one in api.checks)
    assert of_upgrade != of_suite == again
    assert (tmp_path / "output").read_text().splitlines()[-1] == f"decision={decision}"


def test_each_suite_pair_and_hardware_has_a_comment_and_a_check(api: Api, tmp_path: Path) -> None:
    upgrade, run = GO[0], a_passed_run()
    other = replace(upgrade.new, name="2.16.0", asked="2.16.0 -->")
    machine = run.run.machine
    elsewhere = replace(machine, hardware=replace(machine.hardware, label="8 x H200"))
    reports = [
        GO,
        (replace(upgrade, hardware="8 x H200"), *GO[1:]),
        (replace(upgrade, suite="another"), *GO[1:]),
        (replace(upgrade, new=other), *GO[1:]),
        run,
        replace(run, run=replace(run.run, suite="another")),
        replace(run, run=replace(run.run, environments=(replace(run.environments[0], name="2.16.0"),))),
        replace(run, run=replace(run.run, machine=elsewhere)),
        FleetUpgrade("2.13.0", "2.15.0", (MachineUpgrade("a", 1, JudgedUpgrade(*GO)),)),
        FleetUpgrade("2.13.0", "2.16.0", (MachineUpgrade("a", 1, reason="it is silent"),)),
    ]
    for report in (*reports, *reports):
        assert published(api, tmp_path, report).returncode == 0
    assert len(api.comments) == len(reports)
    names = [check["name"] for check in api.checks]
    assert len({*names}) == len(reports) and names[: len(reports)] == names[len(reports) :]
    assert all("-->" not in one["body"].splitlines()[0][:-3] for one in api.comments)


@pytest.mark.parametrize("name", ["verdict.json", "verdict.md", "event.json"])
def test_a_file_without_end_is_not_read(api: Api, tmp_path: Path, name: str) -> None:
    """Each is right but for its size."""
    done = published(api, tmp_path, GO, padded=name)
    assert (done.returncode, api.comments, api.checks) == (1, [], [])
    assert done.stderr == f"not published: {tmp_path / name} is larger than 32 MiB\n"


@pytest.mark.parametrize("content", ["[" * 100_000, "{", "[]", "\udcff"])
def test_a_damaged_verdict_is_a_sentence(api: Api, tmp_path: Path, content: str) -> None:
    done = published(api, tmp_path, GO, verdict=content)
    assert (done.returncode, api.comments, api.checks) == (1, [], [])
    assert done.stderr.startswith(f"not published: {tmp_path / 'verdict.json'}")
    assert "Traceback" not in done.stderr


def test_the_next_run_updates_its_comment_beyond_a_hundred_others_and_one_that_was_copied(
    api: Api, tmp_path: Path
) -> None:
    assert published(api, tmp_path, GO).returncode == 0
    (mark, *_) = api.comments[0]["body"].splitlines()
    api.comments = [{"id": number, "body": f"{number}"} for number in range(1, 131)]
    api.comments[3]["body"] = f"{mark} copied"
    api.foreign = {4}
    assert published(api, tmp_path, GO).returncode == 0
    assert published(api, tmp_path, a_mixed_upgrade()).returncode == 0
    assert len(api.comments) == 131
    assert "No-go" in api.comments[-1]["body"] and api.comments[3]["body"] == f"{mark} copied"
    assert [check["conclusion"] for check in api.checks] == ["success", "success", "failure"]


def test_a_push_has_a_check_and_no_comment(api: Api, tmp_path: Path) -> None:
    assert published(api, tmp_path, GO, pull_request=False).returncode == 0
    assert api.comments == [] and [check["head_sha"] for check in api.checks] == ["merge"]


def test_a_report_longer_than_a_comment_is_shortened_in_whole_lines(api: Api, tmp_path: Path) -> None:
    report = a_large_upgrade(900)
    assert published(api, tmp_path, report).returncode == 0
    (comment,) = api.comments
    assert len(comment["body"]) < 65_536 and "among the artifacts" in comment["body"]
    whole = FORMATS[".md"](JudgedUpgrade(*report)).splitlines()
    assert set(comment["body"].splitlines()[1:-2]) <= set(whole)


def test_a_request_that_a_server_fails_is_repeated(api: Api, tmp_path: Path) -> None:
    api.failing = 2
    assert published(api, tmp_path, GO).returncode == 0
    assert len(api.comments) == len(api.checks) == 1


def test_a_token_without_rights_is_a_sentence(api: Api, tmp_path: Path) -> None:
    done = published(api, tmp_path, GO, token="another")
    assert done.returncode == 1
    assert done.stderr.count("not published: ") == 2 and "401" in done.stderr
    assert "Traceback" not in done.stderr


HOSTILE = "$(touch hacked) ; `touch hacked`"


@pytest.mark.parametrize(
    ("old", "new", "starts"),
    [
        (HOSTILE, "2.15.0", ["upgrade", HOSTILE, "2.15.0"]),
        ("2.13.0", "", ["upgrade", "2.13.0", ""]),
        ("", "", ["run"]),
    ],
)
@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 0), (3, 0), (2, 2), (130, 130)])
def test_every_verdict_is_published_and_what_is_none_fails_the_step(
    tmp_path: Path, code: int, ends: int, old: str, new: str, starts: list[str]
) -> None:
    done, words = measured(tmp_path, old, new, "cpu", code=code)
    assert done.returncode == ends
    options = ["--suite", "cpu", "--pairs", "8", "--device", "cpu"]
    assert words[: len(starts) + len(options)] == [*starts, *options]
    reports = [Path(word) for word in words if word.startswith(str(tmp_path))]
    assert {report.suffix for report in reports} == set(FORMATS)
    assert not (tmp_path / "hacked").exists()


def test_options_on_several_lines_are_all_given(tmp_path: Path) -> None:
    done, words = measured(tmp_path, "2.13.0", "2.15.0", "cpu", options="--pairs 8\n  --policy strict\n")
    assert done.returncode == 0
    assert words[5:9] == ["--pairs", "8", "--policy", "strict"]


def test_without_environments_and_suite_nothing_is_measured(tmp_path: Path) -> None:
    done, words = measured(tmp_path, "", "", "")
    assert (done.returncode, words) == (2, [])
    assert done.stdout.startswith("::error::give old and new")
    done, words = measured(tmp_path, "2.13.0", "2.15.0", "")
    assert done.returncode == 0 and "--suite" not in words


def test_the_files_of_each_suite_pair_and_runner_are_kept_apart(tmp_path: Path) -> None:
    asked = [("2.13.0", "2.15.0", "cpu"), ("2.13.0", "2.15.0", "gpu"), ("", "", "cpu")]
    for old, new, suite in (*asked, ("2.13.0", "/opt/my torch/bin/python", "cpu")):
        for runner in ("", "h200", "a10/1"):
            assert measured(tmp_path, old, new, suite, runner=runner)[0].returncode == 0
    names = re.findall("^artifact=(.+)$", (tmp_path / "output").read_text(), re.MULTILINE)
    assert len({*names}) == 3 * (len(asked) + 1)
    # What GitHub takes as the name of an artifact.
    assert all(re.fullmatch(r"[\w.+-]+", name) for name in names)
    (upload,) = (step for step in STEPS if "upload-artifact" in step.get("uses", ""))
    assert upload["with"]["name"] == "${{ steps.measure.outputs.artifact }}"


def measured(
    tmp_path: Path,
    old: str,
    new: str,
    suite: str,
    *,
    code: int = 0,
    options: str = "--pairs 8  --device cpu",
    runner: str = "",
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The step that measures, with a command that ends with `code`; answers that command's words too."""
    measure = next(step for step in STEPS if step.get("id") == "measure")
    (tmp_path / "pyrometer").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/words"\nexit {code}\n')
    (tmp_path / "pyrometer").chmod(0o755)
    variables = {
        "PATH": os.environ["PATH"],
        "RUNNER_TEMP": str(tmp_path / "a folder"),
        "RUNNER_NAME": runner,
        "OLD": old,
        "NEW": new,
        "SUITE": suite,
        "OPTIONS": options,
        "COMMAND": str(tmp_path / "pyrometer"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", measure["run"]]
    assert set(measure["env"]) <= variables.keys()
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True)
    words = tmp_path / "words"
    return done, words.read_text().splitlines() if words.exists() else []


def test_the_action_uses_options_and_inputs_that_exist() -> None:
    text = (ROOT / "action.yml").read_text()
    for command in ("upgrade", "run"):
        shown = CliRunner().invoke(app, [command, "--help"]).output
        assert all(option in shown for option in re.findall(r"(--[a-z]+) ", STEPS[0]["run"]))
    assert set(re.findall(r"inputs\.([a-z-]+)", text)) == set(ACTION["inputs"])
    example = yaml.safe_load((ROOT / "examples/pull_request.yml").read_text())
    (step,) = example["jobs"]["upgrade"]["steps"]
    assert step["with"].keys() <= ACTION["inputs"].keys()
    fails = STEPS[-1]["if"]
    assert set(re.findall(r'"([a-z-]+)"', fails)) == {"no-go", "failed"}
    assert "checks" in example["permissions"] and "pull-requests" in example["permissions"]
