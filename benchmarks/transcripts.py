"""Print what a program and an agent see of the made-up history of `pyrometer demo`.

python benchmarks/transcripts.py api >examples/api.md   every route of /api/v1 by curl, by token
python benchmarks/transcripts.py mcp >examples/mcp.md   the tools of `pyrometer mcp`, by the SDK's client
"""

import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from workflows import demonstration

PYROMETER = str(Path(sys.executable).with_name("pyrometer"))
MOMENT = datetime(2026, 11, 26, 12, tzinfo=UTC)
TOKENS = ("api", "triage", "submit", "trigger")
#: Without a login everybody may read: people would come by a proxy.
SETTINGS = "\n".join(
    [
        "[dashboard]",
        'login = "proxy"',
        'user_header = "X-User"',
        'trusted_proxies = ["10.0.0.5"]',
        *(f'{token}_token = "{token}-secret"' for token in TOKENS),
        *(
            f'[schedules.{name}]\ncron = "0 3 * * 1"\nenvironments = ["2.13.0"]'
            for name in ("weekly", "monthly")
        ),
        "",
    ]
)
RESULT = {
    "suite": "training",
    "case": "my_model/train/batch=8",
    "started_at": "2026-11-21T20:15:00+00:00",
    "metrics": {"tokens_per_second": {"value": 51300, "unit": "tokens/s", "better": "higher"}},
}
#: Characters of an answer that are printed.
SHOWN = 700
#: The head of an answer is printed without what every server sends.
HEAD = ("http/", "content-type", "etag", "link")


@contextmanager
def project() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with the history and the settings, and the variables under which commands find them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = demonstration.write(folder, MOMENT)
        (folder / "pyrometer.toml").write_text(SETTINGS)
        places = {"PYROMETER_DATABASE_URL": url, "PYROMETER_DATA_DIR": name}
        yield folder, {"PATH": os.environ["PATH"], "HOME": name, **places}


def shortened(text: str) -> str:
    """The beginning of an answer, and how much there is of it."""
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ... ({len(text):,} characters)"


def answered(text: str, *, headed: bool) -> str:
    """An answer as it is printed: CSV line by line, JSON shortened; `headed`: after its head."""
    head, _, content = text.partition("\n\n") if headed else ("", "", text)
    lines = [line for line in head.splitlines() if line.casefold().startswith(HEAD)]
    shown = shortened(content) if content.startswith(("[", "{")) else content.rstrip("\n")
    return "\n".join((*lines, "", shown) if lines else (shown,))


def print_api() -> None:
    """The status of every route for every token, and some answers."""
    with project() as (folder, variables):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        command = [PYROMETER, "dashboard", "--port", port]
        with subprocess.Popen(
            command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                assert server.stdout is not None
                url = next(line.split()[-1] for line in server.stdout if line.startswith("Dashboard: "))
                print_routes(f"{url}/api/v1")
            finally:
                server.terminate()


def curl(*arguments: str) -> str:
    """What curl prints."""
    return subprocess.run(["curl", "--silent", *arguments], capture_output=True, text=True, check=True).stdout


def bearer(token: str) -> list[str]:
    """The options by which curl brings a token."""
    return ["--header", f"Authorization: Bearer {token}-secret"] if token else []


def print_routes(url: str) -> None:
    """A table of all routes, and calls as one types them."""

    def answer(path: str) -> Any:
        return json.loads(curl(*bearer("api"), url + path))

    paths: dict[str, Any] = answer("/openapi.json")["paths"]
    series, upgrade = answer("/series?limit=1")[0], answer("/verdicts")[0]["id"]
    key = "&".join(f"{name}={series[name]}" for name in ("case", "metric", "hardware", "preset"))
    # The calls below are the first of their kind.
    values = {"{run}": upgrade, "{number}": "1", "{schedule}": "monthly"}
    queries = {"/series/points": f"?{key}", "/submit": "?machine=gpu-07&hardware=8%20x%20H200"}
    bodies = {
        "/submit": json.dumps({**RESULT, "suite": "another"}),
        "/findings/{number}/triage": json.dumps({"action": "note", "by": "bot", "text": "seen"}),
    }
    print(
        "# `/api/v1` by curl\n\n"
        "`python benchmarks/transcripts.py api` wrote this page, on the history of `pyrometer demo` with\n"
        "a login (`[dashboard] login` in `pyrometer.toml`). `$URL` is the address of `pyrometer dashboard`\n"
        "with `/api/v1`. Each token is a setting of `[dashboard]`: with `api_token` a program reads; with\n"
        "another one it reads, and does what the name says. `$URL/openapi.json` describes every field.\n\n"
        "The status of each route, by token:\n"
    )
    print("| route | no token |", " | ".join(f"`{token}_token`" for token in TOKENS), "|")
    print("|---" * (2 + len(TOKENS)) + "|")
    for path, methods in paths.items():
        for method in methods:
            address = path
            for name, value in values.items():
                address = address.replace(name, value)
            body = ["--data", bodies.get(path, ""), "--header", "Content-Type: application/json"]
            sent = ["--request", method.upper(), *(body if method == "post" else [])]
            status = ["--output", os.devnull, "--write-out", "%{http_code}"]
            found = [
                curl(*status, *bearer(token), *sent, url + address + queries.get(path, ""))
                for token in ("", *TOKENS)
            ]
            print(f"| {method.upper()} `{path}` |", " | ".join(found), "|")
    submit = f"/submit{queries['/submit']}"
    print_calls(url, key, submit)


def print_calls(url: str, key: str, submit: str) -> None:
    """Calls and their answers: pages, CSV, what is written, and what is refused."""
    newer = json.dumps({**RESULT, "cluster": "b"})
    pages = "/runs?limit=1"
    first = curl(*bearer("api"), "--include", url + pages)
    following = first.partition("link: </api/v1")[2].partition(">")[0]
    csv = ("--header", "Accept: text/csv")
    for what, token, path, *options in (
        ("A list, the newest run first. `link` names the next page:", "api", pages, "--include"),
        (
            "The next page: `after` is the last run of the page before, so that runs which begin meanwhile\n"
            "shift nothing. The last page has no `link`:",
            "api",
            following,
            "--include",
        ),
        (
            "The newest points of a series, as CSV. The first run measured two environments; of one\n"
            "process (`n`) there is no interval:",
            "api",
            f"/series/points?{key}&newest=2",
            *csv,
        ),
        ("A finding:", "api", "/findings/1"),
        (
            "A result is stored, and stored again, which changes nothing:",
            "submit",
            submit,
            "--data",
            json.dumps(RESULT),
        ),
        ("", "submit", submit, "--data", json.dumps(RESULT)),
        (
            "A schedule is triggered, and again while its task waits:",
            "trigger",
            "/schedules/weekly/trigger",
            "--request",
            "POST",
        ),
        ("", "trigger", "/schedules/weekly/trigger", "--request", "POST"),
        ("A token of another role (403):", "api", submit, "--data", json.dumps(RESULT)),
        ("A field that does not exist (422):", "submit", submit, "--data", newer),
        ("Names that do not exist (404):", "trigger", "/schedules/nigthly/trigger", "--request", "POST"),
        ("", "api", "/runs/20200101"),
    ):
        headed = "--include" in options
        answer = curl(*bearer(token), *options, url + path)
        header = f'--header "Authorization: Bearer ${token.upper()}_TOKEN"'
        typed = " ".join([header, *map(shlex.quote, options), f'"$URL{path}"'])
        print(f"\n{what}\n" if what else "")
        print(f"```\n$ curl {typed}\n{answered(answer, headed=headed)}\n```")


def print_mcp() -> None:
    """The tools, and some calls with their answers."""
    with project() as (folder, variables):
        asyncio.run(session(folder, variables))


async def session(folder: Path, variables: dict[str, str]) -> None:
    """One session of a client."""
    print("# `pyrometer mcp` by the SDK's client\n")
    print(
        "`python benchmarks/transcripts.py mcp` wrote this page, on the history of `pyrometer demo`. A long\n"
        "answer is cut. `triage` is a tool of `pyrometer mcp --triage` only.\n"
    )
    server = StdioServerParameters(command=PYROMETER, args=["mcp"], cwd=str(folder), env=variables)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        for tool in (await client.list_tools()).tools:
            print(f"- `{tool.name}`: {(tool.description or '').partition(chr(10))[0]}")
        listed = await client.call_tool("runs", {})
        assert listed.structured_content is not None
        runs = {one["kind"]: one["run"] for one in reversed(listed.structured_content["runs"])}
        run = runs["run"]
        wheel = "https://ada:secret@example.com/torch-2.15.0-cp311-cp311-linux_x86_64.whl"
        for name, arguments in (
            ("runs", {"newest": 1}),
            ("measurements", {"run": run, "case": "resnet50", "metric": "latency_floor"}),
            ("compare", {"run": runs["upgrade"]}),
            ("findings", {}),
            ("finding", {"number": 1}),
            ("reproduce", {"run": run, "case": "resnet50/infer/batch=8,image=224/eager"}),
            ("compare", {"run": "20200101"}),
            ("start_upgrade", {"old": "2.13.0", "new": wheel}),
            ("triage", {"number": 1, "action": "fixed", "text": "2.15.1"}),
        ):
            result = await client.call_tool(name, arguments)
            said = result.content[0].text if result.content else ""
            refused = "refused: " if result.is_error else ""
            print(f"\n```\n> {name} {json.dumps(arguments)}\n{refused}{shortened(said)}\n```")


if __name__ == "__main__":
    {"api": print_api, "mcp": print_mcp}[sys.argv[1]]()
