"""The GitHub action: its steps in a shell, and what it publishes to a stand-in of GitHub's API."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.registry import app
from reports.fleet_upgrade import FLEET_FORMATS, FleetUpgrade, MachineUpgrade
from reports.run_report import RUN_FORMATS, JudgedRun
from reports.upgrade_report import FORMATS, JudgedUpgrade
from support.builders.run_reports import CALM, a_mixed_run, a_passed_run, judged_run, replicates
from support.builders.upgrade_reports import UPGRADES, a_large_upgrade, a_mixed_upgrade, a_result, reported
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
    """What GitHub holds: comments of pull request 7, and checks.

    `commits` are those of its branch, the newest last: the first job of a commit pushes it. One that is
    missing was pushed over.

    Of the first requests `failing` get a 502, `hanging_up` nothing, and `breaking_off` half of an answer.
    `at_once` is what another job has posted by the time that a first comment arrives.
    """

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    commits: list[str] = field(default_factory=list[str])
    foreign: set[int] = field(default_factory=set)
    at_once: str = ""
    failing: int = 0
    hanging_up: int = 0
    breaking_off: int = 0

    def answer(self, method: str, path: str, body: Any, token: str) -> tuple[int, object]:
        if token != f"Bearer {TOKEN}":
            return 401, {"message": "Bad credentials"}
        if self.failing > 0:
            self.failing -= 1
            return 502, {}
        path = path.removeprefix(REPOSITORY)
        if method == "GET" and path == "/pulls/7":
            return 200, {"number": 7, "head": {"sha": self.commits[-1]}}
        if method == "GET" and (asked := re.fullmatch(r"/compare/(\w+)\.\.\.(\w+)", path)):
            return 200, {"status": self.compared(asked[1], asked[2])}
        if method == "GET" and (asked := re.fullmatch(r"/issues/7/comments\?per_page=100&page=(\d+)", path)):
            first = 100 * (int(asked[1]) - 1)
            return 200, self.comments[first : first + 100]
        if method == "POST" and path == "/issues/7/comments":
            texts = [*([self.at_once] if self.at_once else []), body["body"]]
            self.comments += [{"id": len(self.comments) + n, "body": text} for n, text in enumerate(texts, 1)]
            self.at_once = ""
            return 201, self.comments[-1]
        if asked := re.fullmatch(r"/issues/comments/(\d+)", path):
            number = int(asked[1])
            if number in self.foreign:
                return 403, {"message": "Must have admin rights"}
            (one,) = (one for one in self.comments if one["id"] == number)
            if method == "DELETE":
                self.comments.remove(one)
                return 204, None
            one |= body
            return 200, one
        if method == "POST" and path == "/check-runs":
            self.checks.append(body)
            return 201, body
        return 404, {}

    def compared(self, base: str, head: str) -> str:
        """GitHub's word for how `head` lies to `base`."""
        if not {base, head} <= {*self.commits}:
            return "diverged"
        apart = self.commits.index(head) - self.commits.index(base)
        return "identical" if not apart else "ahead" if apart > 0 else "behind"


@pytest.fixture
def api() -> Iterator[Api]:
    """A server that answers as GitHub does."""
    held = Api()

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            if held.hanging_up > 0:
                held.hanging_up -= 1
                return
            status, found = held.answer(self.command, self.path, body, self.headers["authorization"])
            content = b"" if status == HTTPStatus.NO_CONTENT else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            if held.breaking_off > 0:
                held.breaking_off -= 1
                return
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = do

    with answering(Handler) as port:
        held.url = f"http://127.0.0.1:{port}"
        yield held


def published(
    api: Api,
    folder: Path,
    report: JudgedUpgrade | JudgedRun | FleetUpgrade,
    *,
    pull_request: bool = True,
    token: str = TOKEN,
    padded: str = "",
    verdict: str = "",
    commit: str = "branch",
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
            text = FORMATS[suffix](report)
        (folder / f"verdict{suffix}").write_text(text)
    event = of_pull_request(api, commit) if pull_request else {}
    (folder / "event.json").write_text(json.dumps(event))
    if verdict:
        (folder / "verdict.json").write_text(verdict, errors="surrogateescape")
    if padded:
        with (folder / padded).open("a") as file:
            file.write(" " * (32 << 20))
    return republished(api, folder, token)


def republished(api: Api, folder: Path, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    """The script, on the files that lie there."""
    command = [sys.executable, "-I", "-S", ROOT / "deploy/github/publish.py", folder]
    done = subprocess.run(command, env=of_github(api, folder, token), capture_output=True, text=True)
    assert TOKEN not in done.stdout + done.stderr
    return done


def of_pull_request(api: Api, commit: str) -> dict[str, Any]:
    """The event of a job at this commit, which is pushed if it has not been."""
    if commit not in api.commits:
        api.commits.append(commit)
    return {"pull_request": {"number": 7, "head": {"sha": commit}}}


def of_github(api: Api, folder: Path, token: str = TOKEN) -> dict[str, str]:
    """What GitHub sets for a step."""
    return {
        "PATH": os.environ["PATH"],
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_API_URL": api.url,
        "GITHUB_REPOSITORY": "team/model",
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_SHA": "merge",
        "GITHUB_TOKEN": token,
        "GITHUB_OUTPUT": str(folder / "output"),
    }


def begun(api: Api, folder: Path, commit: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    """The step of the action before it measures, in a pull request at a commit."""
    (folder / "event.json").write_text(json.dumps(of_pull_request(api, commit)))
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[0]["run"]]
    done = subprocess.run(command, env=of_github(api, folder, token), capture_output=True, text=True)
    assert TOKEN not in done.stdout + done.stderr
    return done


@cache
def go() -> JudgedUpgrade:
    return reported([a_result(f"case{n}/infer/-/eager", 0.0) for n in range(10)])


@pytest.mark.parametrize(
    ("made", "decision", "conclusion"),
    [
        (go, "go", "success"),
        (a_mixed_upgrade, "no-go", "failure"),
        (UPGRADES["unclear"], "unclear", "neutral"),
    ],
)
def test_a_verdict_is_a_comment_and_a_check(
    api: Api, tmp_path: Path, made: Callable[[], JudgedUpgrade], decision: str, conclusion: str
) -> None:
    report = made()
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
    assert published(api, tmp_path, go()).returncode == 0
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


def test_each_suite_pair_hardware_and_device_has_a_comment_and_a_check(api: Api, tmp_path: Path) -> None:
    upgrade, run = go()[0], a_passed_run()
    other = replace(upgrade.new, name="2.16.0", asked="2.16.0 -->")
    machine = run.run.machine
    elsewhere = replace(machine, hardware=replace(machine.hardware, label="8 x H200"))
    reports = [
        go(),
        go()._replace(subject=replace(upgrade, hardware="8 x H200")),
        go()._replace(subject=replace(upgrade, device="cuda")),
        go()._replace(subject=replace(upgrade, suite="another")),
        go()._replace(subject=replace(upgrade, new=other)),
        run,
        replace(run, run=replace(run.run, suite="another")),
        replace(run, run=replace(run.run, environments=(replace(run.environments[0], name="2.16.0"),))),
        replace(run, run=replace(run.run, machine=elsewhere)),
        replace(run, run=replace(run.run, facts={**run.run.facts, "device": "cuda"})),
        FleetUpgrade("2.13.0", "2.15.0", (MachineUpgrade("a", 1, go()),)),
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
    done = published(api, tmp_path, go(), padded=name)
    assert (done.returncode, api.comments, api.checks) == (1, [], [])
    assert done.stderr == f"not published: {tmp_path / name} is larger than 32 MiB\n"


@pytest.mark.parametrize("content", ["[" * 100_000, "{", "[]", "\udcff"])
def test_a_damaged_verdict_is_a_sentence(api: Api, tmp_path: Path, content: str) -> None:
    done = published(api, tmp_path, go(), verdict=content)
    assert (done.returncode, api.comments, api.checks) == (1, [], [])
    assert done.stderr.startswith(f"not published: {tmp_path / 'verdict.json'}")
    assert "Traceback" not in done.stderr


def test_the_next_run_updates_its_comment_beyond_a_hundred_others_and_one_that_was_copied(
    api: Api, tmp_path: Path
) -> None:
    assert published(api, tmp_path, go()).returncode == 0
    (mark, *_) = api.comments[0]["body"].splitlines()
    api.comments = [{"id": number, "body": f"{number}"} for number in range(1, 131)]
    api.comments[3]["body"] = f"{mark} copied"
    api.foreign = {4}
    assert published(api, tmp_path, go()).returncode == 0
    assert published(api, tmp_path, a_mixed_upgrade()).returncode == 0
    assert len(api.comments) == 131
    assert "No-go" in api.comments[-1]["body"] and api.comments[3]["body"] == f"{mark} copied"
    assert [check["conclusion"] for check in api.checks] == ["success", "success", "failure"]


def test_a_job_that_ends_without_a_verdict_leaves_no_comment_as_if_it_had_one(
    api: Api, tmp_path: Path
) -> None:
    report = go()
    assert published(api, tmp_path, report, commit="first").returncode == 0
    assert published(api, tmp_path, a_passed_run(), commit="first").returncode == 0
    api.comments.append({"id": 3, "body": "first looks good"})
    of_first = [one["body"] for one in api.comments]
    assert begun(api, tmp_path, "first").returncode == 0
    assert [one["body"] for one in api.comments] == of_first
    # Two commits whose jobs were cancelled.
    for commit in ("second", "third"):
        assert begun(api, tmp_path, commit).returncode == 0
    for comment, before in zip(api.comments[:2], of_first[:2], strict=True):
        mark, own, noted, _, _, text = comment["body"].split("\n", 5)
        assert "third" in noted and "first" in noted and "second" not in comment["body"]
        assert "\n".join((mark, own, text)) == before
    assert api.comments[2]["body"] == "first looks good"
    assert published(api, tmp_path, report, commit="third").returncode == 0
    assert api.comments[0]["body"] == of_first[0].replace("commit first", "commit third")
    assert len(api.comments) == 3


def test_a_late_job_of_an_older_commit_leaves_the_comment_of_a_newer_one(api: Api, tmp_path: Path) -> None:
    for commit in ("first", "second"):
        assert begun(api, tmp_path, commit).returncode == 0
    assert published(api, tmp_path, go(), commit="second").returncode == 0
    (newer,) = [dict(one) for one in api.comments]
    assert published(api, tmp_path, a_mixed_upgrade(), commit="first").returncode == 0
    assert api.comments == [newer]
    # The check is of the commit: it takes nothing from another.
    assert [check["head_sha"] for check in api.checks] == ["second", "first"]
    # Nor while a third one is measured.
    assert begun(api, tmp_path, "third").returncode == 0
    noted = dict(api.comments[0])
    assert published(api, tmp_path, a_mixed_upgrade(), commit="first").returncode == 0
    assert api.comments == [noted] and "Of commit second." in noted["body"]


def test_a_late_job_replaces_an_older_comment_and_notes_the_newer_commit(api: Api, tmp_path: Path) -> None:
    assert published(api, tmp_path, a_mixed_upgrade(), commit="first").returncode == 0
    for commit in ("second", "third"):
        assert begun(api, tmp_path, commit).returncode == 0
    for _ in range(2):
        assert published(api, tmp_path, go(), commit="second").returncode == 0
        (comment,) = api.comments
        assert comment["body"].endswith("Of commit second.\n") and "Commit third has no" in comment["body"]
    assert published(api, tmp_path, go(), commit="third").returncode == 0
    (comment,) = api.comments
    assert comment["body"].endswith("Of commit third.\n") and "has no verdict" not in comment["body"]


def test_a_late_first_verdict_is_a_comment_that_notes_the_newer_commit(api: Api, tmp_path: Path) -> None:
    for commit in ("first", "second"):
        assert begun(api, tmp_path, commit).returncode == 0
    assert published(api, tmp_path, go(), commit="first").returncode == 0
    (comment,) = api.comments
    assert "Commit second has no verdict" in comment["body"] and "Of commit first." in comment["body"]


def test_a_job_of_a_commit_that_was_pushed_over_leaves_what_it_cannot_place(api: Api, tmp_path: Path) -> None:
    """Its own notice it replaces all the same: that waits for it."""
    assert published(api, tmp_path, a_mixed_upgrade(), commit="first").returncode == 0
    assert begun(api, tmp_path, "second").returncode == 0
    rewritten = {"number": 7, "head": {"sha": "second"}}
    (tmp_path / "event.json").write_text(json.dumps({"pull_request": rewritten}))
    api.commits = ["other"]
    assert republished(api, tmp_path).returncode == 0
    (comment,) = api.comments
    assert "Of commit second." in comment["body"] and "Commit other has no verdict" in comment["body"]
    assert published(api, tmp_path, go(), commit="other").returncode == 0
    assert begun(api, tmp_path, "another").returncode == 0
    (comment,) = [dict(one) for one in api.comments]
    (tmp_path / "event.json").write_text(json.dumps({"pull_request": rewritten}))
    assert republished(api, tmp_path).returncode == 0
    assert api.comments == [comment]


def test_a_failed_upload_leaves_the_verdict_and_a_failed_publication_the_files() -> None:
    measure, publish, upload = (
        next(number for number, step in enumerate(STEPS) if word in (step.get("id"), step.get("uses")))
        for word in ("measure", "publish", "actions/upload-artifact@v4")
    )
    everything = {measure, publish, upload}
    assert begun_steps(failing=upload) >= everything
    assert begun_steps(failing=publish) >= everything
    assert not begun_steps(failing=measure) & {publish, upload}


def begun_steps(failing: int) -> set[int]:
    """Which steps GitHub begins where one fails: all before it, and those whose condition allows it."""
    outcomes: dict[str, str] = {}
    failed, begun = False, set[int]()
    for number, step in enumerate(STEPS):
        terms = [term.strip() for term in step.get("if", "").split("&&")]
        if failed and "!cancelled()" not in terms:
            continue
        asked = [re.fullmatch(r"steps\.(\w+)\.outcome == '(\w+)'", term) for term in terms]
        if any(outcomes.get(term[1], "skipped") != term[2] for term in asked if term):
            continue
        begun.add(number)
        failed |= number == failing
        outcomes[step.get("id", "")] = "failure" if number == failing else "success"
    return begun


def test_a_comment_of_a_version_that_stated_no_commit_is_noted_as_well(api: Api, tmp_path: Path) -> None:
    api.comments.append({"id": 1, "body": f"{MARK}0123456789abcdef -->\r\n## Go\r\n"})
    for _ in range(2):
        assert begun(api, tmp_path, "second").returncode == 0
    (comment,) = api.comments
    assert comment["body"].count("second") == 1 and comment["body"].endswith("## Go\n")


def test_what_cannot_be_noted_stops_no_job(api: Api, tmp_path: Path) -> None:
    done = begun(api, tmp_path, "second", token="another")
    assert done.returncode == 0 and "401" in done.stderr


def test_a_comment_that_was_written_twice_is_updated_twice(api: Api, tmp_path: Path) -> None:
    assert published(api, tmp_path, go()).returncode == 0
    api.comments.append({**api.comments[0], "id": 2})
    assert published(api, tmp_path, a_mixed_upgrade()).returncode == 0
    assert len(api.comments) == 2 and all("No-go" in one["body"] for one in api.comments)


def test_of_two_jobs_that_end_at_once_one_comment_stays(api: Api, tmp_path: Path) -> None:
    for commit in ("first", "second"):
        assert begun(api, tmp_path, commit).returncode == 0
    assert published(api, tmp_path, go(), commit="second").returncode == 0
    of_second = api.comments.pop()["body"]
    # Of the same commit (or where an answer was lost, so that it was posted twice): what comes last counts.
    api.at_once = of_second
    assert published(api, tmp_path, a_mixed_upgrade(), commit="second").returncode == 0
    (one,) = api.comments
    assert one["id"] == 1 and "No-go" in one["body"]
    # An older one replaces nothing.
    api.comments, api.at_once = [], of_second
    assert published(api, tmp_path, a_mixed_upgrade(), commit="first").returncode == 0
    assert [one["body"] for one in api.comments] == [of_second]
    # Nor is another author's copy ours.
    api.comments, api.at_once, api.foreign = [], of_second, {1}
    assert published(api, tmp_path, a_mixed_upgrade(), commit="second").returncode == 0
    assert [one["id"] for one in api.comments] == [1, 2] and "No-go" in api.comments[1]["body"]


def test_a_push_has_a_check_and_no_comment(api: Api, tmp_path: Path) -> None:
    assert published(api, tmp_path, go(), pull_request=False).returncode == 0
    assert api.comments == [] and [check["head_sha"] for check in api.checks] == ["merge"]


def test_a_report_longer_than_a_comment_is_shortened_in_whole_lines(api: Api, tmp_path: Path) -> None:
    report = a_large_upgrade(900)
    assert published(api, tmp_path, report).returncode == 0
    (comment,) = api.comments
    assert len(comment["body"]) < 65_536 and "among the artifacts" in comment["body"]
    whole = FORMATS[".md"](report).splitlines()
    assert set(comment["body"].splitlines()[2:-4]) <= set(whole)


@pytest.mark.parametrize(("how", "times"), [("failing", 2), ("hanging_up", 1), ("breaking_off", 1)])
def test_a_request_that_a_server_fails_is_repeated(api: Api, tmp_path: Path, how: str, times: int) -> None:
    setattr(api, how, times)
    done = published(api, tmp_path, go())
    assert done.returncode == 0, done.stderr
    assert len(api.comments) == len(api.checks) == 1


def test_a_token_without_rights_is_a_sentence(api: Api, tmp_path: Path) -> None:
    done = published(api, tmp_path, go(), token="another")
    assert done.returncode == 1
    assert done.stderr.count("not published: ") == 2 and "401" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_token_with_the_end_of_a_line_is_taken_and_never_printed(api: Api, tmp_path: Path) -> None:
    done = published(api, tmp_path, go(), token=f"{TOKEN}\n")
    assert done.returncode == 0, done.stderr
    assert len(api.comments) == 1


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


def test_options_on_several_lines_and_a_command_of_several_words_are_whole(tmp_path: Path) -> None:
    options = "--pairs 8\n  --policy strict\n"
    done, words = measured(tmp_path, "2.13.0", "2.15.0", "cpu", options=options, before="env -- ")
    assert done.returncode == 0, done.stderr
    assert words[5:9] == ["--pairs", "8", "--policy", "strict"]


def test_without_environments_and_suite_nothing_is_measured(tmp_path: Path) -> None:
    done, words = measured(tmp_path, "", "", "")
    assert (done.returncode, words) == (2, [])
    assert done.stdout.startswith("::error::give old and new")
    done, words = measured(tmp_path, "2.13.0", "2.15.0", "")
    assert done.returncode == 0 and "--suite" not in words


def test_the_files_of_each_suite_pair_options_and_runner_are_kept_apart(tmp_path: Path) -> None:
    wheels = [f"/builds/{'torch-' * 20}{version}.whl" for version in ("2.13.0", "2.15.0")]
    asked = [
        ("2.13.0", "2.15.0", "cpu", ""),
        ("2.13.0", "2.15.0", "gpu", ""),
        ("2.13.0", "2.15.0", "gpu", "--device cpu"),
        ("", "", "cpu", ""),
        ("2.13.0", "/opt/my torch/bin/python", "cpu", ""),
        ("2.13.0", "/opt/my-torch/bin/python", "cpu", ""),
        # Longer than a name may be.
        (*wheels, "cpu", ""),
        (*wheels, "gpu", ""),
    ]
    for old, new, suite, options in asked:
        for runner in ("", "h200", "a10/1"):
            done, _ = measured(tmp_path, old, new, suite, options=options, runner=runner)
            assert done.returncode == 0
    names = re.findall("^artifact=(.+)$", (tmp_path / "output").read_text(), re.MULTILINE)
    assert len({*names}) == 3 * len(asked)
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
    before: str = "",
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
        "COMMAND": f"{before}{tmp_path / 'pyrometer'}",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", measure["run"]]
    assert set(measure["env"]) <= variables.keys()
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True)
    words = tmp_path / "words"
    return done, words.read_text().splitlines() if words.exists() else []


def test_the_action_uses_options_and_inputs_that_exist() -> None:
    text = (ROOT / "action.yml").read_text()
    measure = next(step for step in STEPS if step.get("id") == "measure")
    for command in ("upgrade", "run"):
        shown = CliRunner().invoke(app, [command, "--help"]).output
        assert all(option in shown for option in re.findall(r"(--[a-z]+) ", measure["run"]))
    assert set(re.findall(r"inputs\.([a-z-]+)", text)) == set(ACTION["inputs"])
    example = yaml.safe_load((ROOT / "examples/pull_request.yml").read_text())
    (step,) = example["jobs"]["upgrade"]["steps"]
    assert step["with"].keys() <= ACTION["inputs"].keys()
    fails = STEPS[-1]["if"]
    assert set(re.findall(r'"([a-z-]+)"', fails)) == {"no-go", "failed"}
    assert "checks" in example["permissions"] and "pull-requests" in example["permissions"]
