"""Publish an upgrade or a run on GitHub: one comment in the pull request, and a check of three states.

    python deploy/github/publish.py --begin
    python deploy/github/publish.py FOLDER

The first is called before anything is measured. It notes in the comments of other commits that this one has
no verdict: a job that crashes, is cancelled or runs out of time leaves them so. A job that ends late, when
the branch has a newer commit, replaces no comment of a newer one. FOLDER holds `verdict.json`
and `verdict.md`, as `--report` of `pyrometer upgrade` or `run` writes them. Where it goes, and with which
token, is in the variables that GitHub Actions sets: GITHUB_API_URL, GITHUB_REPOSITORY, GITHUB_EVENT_PATH,
GITHUB_SHA, GITHUB_TOKEN. Needs Python only. The comment of an earlier job is updated; each suite that is run,
or compared in two environments, has one on each hardware and device, and a check. Exit code 1: something
could not be published, with the reason; the reports lie in FOLDER.
"""

import hashlib
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

RUN_SCHEMA, FLEET_SCHEMA = "pyrometer.run/1", "pyrometer.fleet-upgrade/1"
#: Reports are smaller, and so are the events of GitHub, of 25 MB at most.
LARGEST = 32 << 20
#: GitHub takes 65,536 characters of a comment or a summary.
LONGEST = 65_000
CONCLUSIONS = {
    "go": "success",
    "passed": "success",
    "no-go": "failure",
    "failed": "failure",
    "unclear": "neutral",
}
_TRIES, _TIMEOUT_SECONDS, _PAGE = 4, 30, 100
#: A comment of ours: its mark, its commit (older ones have none), perhaps a note, and the text.
_OURS = re.compile(
    r"(?P<mark><!-- pyrometer [a-z]+ [0-9a-f]+ -->)\n(<!-- commit (?P<commit>\S+) -->\n)?"
    r"(> \*\*Commit (?P<noted>\S+) .*?\n\n<!-- end of the note -->\n)?(?P<text>.*)",
    re.DOTALL,
)


class NotPublished(Exception):
    """GitHub did not take something; the text is the reason."""


class GitHub:
    """The REST API of GitHub, as far as it is needed."""

    def __init__(self, url: str, repository: str, token: str) -> None:
        self._url = f"{url.rstrip('/')}/repos/{repository}"
        # With the end of a line it would be no header, and the error would show it.
        self._token = "".join(token.split())

    def call(self, method: str, path: str, body: object = None) -> Any:
        """One request; a server that fails is asked again. Raises NotPublished."""
        headers = {
            "accept": "application/vnd.github+json",
            "authorization": f"Bearer {self._token}",
            "content-type": "application/json",
            "x-github-api-version": "2022-11-28",
        }
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(_TRIES):
            request = Request(f"{self._url}{path}", data, headers, method=method)
            try:
                with urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
                    return None if answer.status == HTTPStatus.NO_CONTENT else json.load(answer)
            except HTTPError as error:
                why = f"{error.code} {error.reason}"
                again = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
            except (OSError, HTTPException, ValueError) as error:
                # Also a connection that ends before the answer, or in the midst of it.
                why, again = str(error), True
            if not again:
                break
            time.sleep(2**attempt if attempt < _TRIES - 1 else 0)
        raise NotPublished(f"{method} {path}: {why}")

    def comments(self, pull_request: int) -> Iterator[dict[str, Any]]:
        """All comments of a pull request, page by page."""
        page = 1
        while found := self.call("GET", f"/issues/{pull_request}/comments?per_page={_PAGE}&page={page}"):
            yield from found
            if len(found) < _PAGE:
                return
            page += 1

    def head(self, pull_request: int) -> str:
        """The newest commit of a pull request, which may be newer than that of the event."""
        return str(self.call("GET", f"/pulls/{pull_request}")["head"]["sha"])

    def follows(self, commit: str, earlier: str) -> bool:
        """Whether `commit` is surely newer than `earlier`; of a branch that was rewritten it is not."""
        path = f"/compare/{quote(earlier, safe='')}...{quote(commit, safe='')}"
        with suppress(NotPublished):
            return bool(self.call("GET", path)["status"] == "ahead")
        return False


def comment(github: GitHub, pull_request: int, commit: str, mark: str, text: str) -> None:
    """Update the comment of an earlier job with this mark, or write the first one.

    One of a newer commit stays as it is. Of two first ones, by jobs that ended at once or because the answer
    was lost and the request sent again, the older one stays.
    """
    head = github.head(pull_request)
    body = {"body": _body(mark, commit, f"{text}\n\nOf commit {commit}.\n", head)}

    def is_updated(before: float) -> bool:
        """Whether one of the comments with smaller numbers says it now, or something newer."""
        found = False
        for one in github.comments(pull_request):
            if one["id"] >= before or not str(one["body"]).startswith(mark):
                continue
            if commit != head and not _precedes(github, one, commit):
                found = True
                continue
            # One of another author, who copied it, is refused.
            with suppress(NotPublished):
                github.call("PATCH", f"/issues/comments/{one['id']}", body)
                found = True
        return found

    if not is_updated(before=math.inf):
        own = github.call("POST", f"/issues/{pull_request}/comments", body)["id"]
        if is_updated(before=own):
            # Where that fails, it says the same.
            with suppress(NotPublished):
                github.call("DELETE", f"/issues/comments/{own}")


def note(github: GitHub, pull_request: int) -> None:
    """Note in each comment of another commit that the newest has no verdict; its own replaces both."""
    head = github.head(pull_request)
    for one in github.comments(pull_request):
        found = _ours(one)
        if found is None or found["commit"] == head:
            continue
        body = _body(found["mark"], found["commit"], found["text"], head)
        # One of another author, who copied it, is refused.
        with suppress(NotPublished):
            github.call("PATCH", f"/issues/comments/{one['id']}", {"body": body})


def _ours(one: dict[str, Any]) -> re.Match[str] | None:
    """The parts of a comment of ours."""
    return _OURS.fullmatch(str(one["body"]).replace("\r\n", "\n"))


def _precedes(github: GitHub, one: dict[str, Any], commit: str) -> bool:
    """Whether a comment is of `commit` or an older one; one that still waits for `commit` is."""
    found = _ours(one)
    if found is None or found["commit"] in (None, commit) or found["noted"] == commit:
        return True
    return github.follows(commit, found["commit"])


def _body(mark: str, commit: str | None, text: str, head: str) -> str:
    """The text of a comment of `commit`, with a note where that is not the newest."""
    own = f"<!-- commit {commit} -->\n" if commit else ""
    if commit == head:
        return f"{mark}\n{own}{text}"
    about = f"commit {commit}" if commit else "an earlier commit"
    return (
        f"{mark}\n{own}> **Commit {head} has no verdict here**: its job has not ended yet, or ended "
        f"without one. What follows is of {about}.\n\n<!-- end of the note -->\n{text}"
    )


def check(github: GitHub, commit: str, name: str, verdict: dict[str, Any], text: str) -> None:
    """Set the check: success for a go or a pass, failure for the opposite, neutral for unclear."""
    output = {"title": verdict["headline"][:250], "summary": text}
    body = {
        "name": name,
        "head_sha": commit,
        "status": "completed",
        "conclusion": CONCLUSIONS[verdict["decision"]],
        "output": output,
    }
    github.call("POST", "/check-runs", body)


def place_of(verdict: dict[str, Any]) -> tuple[str, str]:
    """How the comment of a report is found again, which GitHub does not show, and the name of its check."""
    if verdict["schema"] == RUN_SCHEMA:
        run = verdict["run"]
        environments = ", ".join(one["name"] for one in verdict["environments"])
        kind, name = "run", f"Pyrometer run: {run['suite']} in {environments}, on {_measured_on(run)}"
    elif verdict["schema"] == FLEET_SCHEMA:
        machines = [machine for one in verdict["hardware"] for machine in one["machines"]]
        # One without a verdict has no report.
        suites = [one["report"]["run"]["suite"] for one in machines if one["report"]] or ["no verdict"]
        kind, name = "fleet", f"Pyrometer on a fleet: {suites[0]}, {verdict['old']} to {verdict['new']}"
    else:
        old, new = (verdict["environments"][side]["asked"] for side in ("old", "new"))
        run = verdict["run"]
        kind, name = "upgrade", f"Pyrometer: {run['suite']}, {old} to {new}, on {_measured_on(run)}"
    # A digest, as a name of an environment may hold what ends a comment.
    return f"<!-- pyrometer {kind} {hashlib.sha256(name.encode()).hexdigest()[:16]} -->", name


def _measured_on(run: dict[str, Any]) -> str:
    """The hardware and the device, which an older report of a run does not have: a machine may have two."""
    return ", ".join(filter(None, (run["hardware"], run.get("device"))))


def read_file(path: Path) -> str:
    """The text of a file; raises NotPublished where it cannot be read, or is too large."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise NotPublished(f"{path} is larger than {LARGEST >> 20} MiB")
        return content.decode()
    except (OSError, ValueError) as error:
        raise NotPublished(f"{path}: {error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; raises NotPublished where there is none."""
    try:
        found = json.loads(read_file(path))
    except (RecursionError, ValueError) as error:
        raise NotPublished(f"{path}: {error}") from error
    if not isinstance(found, dict):
        raise NotPublished(f"{path} holds no object")
    return found


def shorten_text(text: str) -> str:
    """As much as GitHub takes, in whole lines."""
    if len(text) <= LONGEST:
        return text
    kept = text[:LONGEST].rpartition("\n")[0]
    return f"{kept}\n\nThe rest is in the report among the artifacts of this run.\n"


def begin() -> None:
    """What is to be seen while the job has no verdict; raises NotPublished."""
    pull_request = read_json(Path(os.environ["GITHUB_EVENT_PATH"])).get("pull_request")
    if pull_request:
        note(_github(), pull_request["number"])


def publish(folder: Path) -> None:
    """Publish what lies in `folder`; raises NotPublished."""
    verdict = read_json(folder / "verdict.json")
    text = shorten_text(read_file(folder / "verdict.md"))
    event = read_json(Path(os.environ["GITHUB_EVENT_PATH"]))
    if output := os.environ.get("GITHUB_OUTPUT"):
        with Path(output).open("a", encoding="utf-8") as file:
            file.write(f"decision={verdict['decision']}\n")
    github = _github()
    pull_request = event.get("pull_request")
    # The commit of the event is GitHub's trial merge; the check belongs to the branch's own.
    commit = pull_request["head"]["sha"] if pull_request else os.environ["GITHUB_SHA"]
    mark, name = place_of(verdict)
    failures: list[str] = []
    for each in (
        lambda: comment(github, pull_request["number"], commit, mark, text) if pull_request else None,
        lambda: check(github, commit, name, verdict, text),
    ):
        try:
            each()
        except NotPublished as error:
            failures.append(str(error))
    if failures:
        raise NotPublished("\nnot published: ".join(failures))


def _github() -> GitHub:
    url = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    return GitHub(url, os.environ["GITHUB_REPOSITORY"], os.environ["GITHUB_TOKEN"])


def main(word: str) -> int:
    """Note, or publish what lies in the folder `word`; the exit code."""
    try:
        if word == "--begin":
            begin()
        else:
            publish(Path(word))
    except NotPublished as error:
        print(f"not published: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
