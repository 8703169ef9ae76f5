"""Publish an upgrade or a run on GitHub: one comment in the pull request, and a check of three states.

    python deploy/github/publish.py FOLDER

FOLDER holds `verdict.json` and `verdict.md`, as `--report` of `pyrometer upgrade` or `run` writes them. Where
it goes, and with which token, is in the variables that GitHub Actions sets: GITHUB_API_URL,
GITHUB_REPOSITORY, GITHUB_EVENT_PATH, GITHUB_SHA, GITHUB_TOKEN. Needs Python only. The comment of an earlier
job is updated; an upgrade and a run have one each. Exit code 1: something could not be published, with the
reason; the reports lie in FOLDER all the same.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

#: By the schema of the report how its comment is found again, which GitHub does not show, and its check.
PLACES = {"pyrometer.run/1": ("<!-- pyrometer run -->", "Pyrometer run")}
UPGRADE_PLACE = "<!-- pyrometer upgrade -->", "Pyrometer"
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


class NotPublished(Exception):
    """GitHub did not take something; the text is the reason."""


class GitHub:
    """The REST API of GitHub, as far as it is needed."""

    def __init__(self, url: str, repository: str, token: str) -> None:
        self._url = f"{url.rstrip('/')}/repos/{repository}"
        self._token = token

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
                    return json.load(answer)
            except HTTPError as error:
                why = f"{error.code} {error.reason}"
                again = error.code >= HTTPStatus.INTERNAL_SERVER_ERROR
            except (URLError, TimeoutError, ValueError) as error:
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


def comment(github: GitHub, pull_request: int, mark: str, text: str) -> None:
    """Update the comment of an earlier job with this mark, or write the first one."""
    body = {"body": f"{mark}\n{text}"}
    for one in github.comments(pull_request):
        if str(one["body"]).startswith(mark):
            try:
                github.call("PATCH", f"/issues/comments/{one['id']}", body)
            except NotPublished:
                # Of another author, who copied it.
                continue
            return
    github.call("POST", f"/issues/{pull_request}/comments", body)


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


def shortened(text: str) -> str:
    """As much as GitHub takes, in whole lines."""
    if len(text) <= LONGEST:
        return text
    kept = text[:LONGEST].rpartition("\n")[0]
    return f"{kept}\n\nThe rest is in the report among the artifacts of this run.\n"


def main(folder: Path) -> int:
    """Publish what lies in `folder`; the exit code."""
    verdict = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    text = shortened((folder / "verdict.md").read_text(encoding="utf-8"))
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    if output := os.environ.get("GITHUB_OUTPUT"):
        with Path(output).open("a", encoding="utf-8") as file:
            file.write(f"decision={verdict['decision']}\n")
    url = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    github = GitHub(url, os.environ["GITHUB_REPOSITORY"], os.environ["GITHUB_TOKEN"])
    pull_request = event.get("pull_request")
    # The commit of the event is GitHub's trial merge; the check belongs to the branch's own.
    commit = pull_request["head"]["sha"] if pull_request else os.environ["GITHUB_SHA"]
    mark, name = PLACES.get(verdict["schema"], UPGRADE_PLACE)
    failed = False
    for publish in (
        lambda: comment(github, pull_request["number"], mark, text) if pull_request else None,
        lambda: check(github, commit, name, verdict, text),
    ):
        try:
            publish()
        except NotPublished as error:
            failed = True
            print(f"not published: {error}", file=sys.stderr)  # noqa: T201
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
