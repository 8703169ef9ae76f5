"""`pyrometer mcp`: the tools of an agent, served over stdio by the Model Context Protocol.

Answers are short: they contain the interval, the number of pairs or processes, and the command that measures
the same again. No tool deletes anything; the tool that triages findings exists only in a server that was
started with `triage`.
"""

import json
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import wraps
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any, Literal

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from analysis.metrics import METRICS
from common.text import has_credentials, key_matches, printable
from configuration.suggestions import unknown
from dashboard.api.models import ApiRun
from db.errors import DatabaseError
from db.runs import metric_definitions, queries
from records.evidence import evidence_of
from records.kinds import RunSource
from records.runs import RunsOnly, RunSummary
from runner.errors import JournalError
from scheduled_jobs.scheduler.child_process import OURSELVES
from workflows.app_context import AppContext
from workflows.errors import JobError
from workflows.load_run import LATEST, judge_loaded, load_run
from workflows.measure import new_run_id
from workflows.planning.plan_upgrade import pairs_plan
from workflows.planning.resolve_environment import parse_environment
from workflows.planning.select_cases import suite_named

_INSTRUCTIONS = (
    "Pyrometer measures PyTorch on this team's machines. A ratio is new / old; an interval that contains 1 "
    "proves no change, and `unclear` does not mean `same`. Quote the interval and n with every number."
)
#: Rows of an answer at most.
_MOST = 50
#: The statuses of cases that moved or broke.
_MOVED = ("broken", "slower", "faster", "repaired")
_READ = ToolAnnotations(read_only_hint=True, destructive_hint=False)
_MEASURES = ToolAnnotations(read_only_hint=False, destructive_hint=False)

TriageAction = Literal["acknowledge", "expected", "fixed", "note"]


class Tools:
    """The tools over one folder's settings, database and runs."""

    def __init__(self, app_context: AppContext) -> None:
        self._app = app_context

    def doctor(self) -> dict[str, Any]:
        """What this machine can measure, and what it cannot measure with the reasons."""
        found: dict[str, Any] = answer("doctor")
        return {name: value for name, value in found.items() if name != "telemetry"}

    def cases(self, matching: str = "") -> dict[str, Any]:
        """The workloads that can be measured; `matching` is a name or a glob such as `conv*`."""
        every: list[dict[str, Any]] = answer("cases", "list")
        found = [one for one in every if fnmatchcase(one["name"], matching or "*")]
        fields = ("name", "family", "summary", "phases", "grid")
        return _first_rows("cases", [{name: one[name] for name in fields} for one in found])

    def runs(self, suite: str = "", machine: str = "", newest: int = 20) -> dict[str, Any]:
        """The newest runs: time, machine, PyTorch, and the statuses of their processes."""
        only = RunsOnly(suite, machine)
        with self._app.open_database() as database:
            found = queries.recent_runs(database, limit=min(max(1, newest), _MOST), only=only)
            total = queries.count_runs(database, only)
        return {"runs": [_run(one) for one in found], "total": total}

    def measurements(self, run: str, case: str = "", metric: str = "latency") -> dict[str, Any]:
        """One metric of the cases of a run: median over n processes with its 95 % interval.

        A run of several environments, such as an upgrade, has a row for each. `latest` is the newest run.
        """
        with self._app.open_database() as database:
            if run == LATEST:
                run = queries.latest_run_id(database) or run
            record = queries.run_record(database, run)
            if record is None:
                raise ToolError(f"no run is named {run}")
            found = queries.measurements_of_run(database, run)
            imported = metric_definitions.metric_definitions(database)
        definition = METRICS.get(metric) or imported.get(metric)
        environments = {one.fingerprint: one for one in record.environments}
        is_measured = record.source == RunSource.MEASURED
        rows = [
            {
                "case": one.case,
                "environment": environments[one.environment].name,
                "torch": environments[one.environment].torch_version,
                "point": one.point,
                "low": one.low,
                "high": one.high,
                "n": one.n,
                # How other programs measured their numbers is not known.
                "reproduce": _reproduce(run, one.case) if is_measured else "",
            }
            for one in found
            if one.metric == metric and (not case or key_matches(one.case, case))
        ]
        if not rows:
            metrics = ", ".join(sorted({one.metric for one in found}))
            raise ToolError(f"run {run} has no {metric} of such a case; its metrics: {metrics or 'none'}")
        unit = definition.unit if definition else ""
        return {"metric": metric, "unit": unit, **_first_rows("measurements", rows)}

    def compare(self, run: str = LATEST) -> dict[str, Any]:
        """The verdict of an upgrade: decision, reasons, and the cases that changed or broke.

        `latest` is the newest upgrade, even if other runs are newer.
        """
        if run == LATEST:
            with self._app.open_database() as database:
                run = next((one.id for one in queries.upgrade_runs(database, newest=1)), run)
        *_, verdict = map(json.loads, say("report", "--json", given=[run]).splitlines())
        if verdict.get("event") != "verdict":
            raise ToolError(f"run {run} is not an upgrade")
        moved = [_case(one) for one in verdict["cases"] if one["status"] in _MOVED]
        return {
            "run": verdict["run"]["id"],
            "decision": verdict["decision"],
            "headline": verdict["headline"],
            "reasons": [one["text"] for one in verdict["reasons"]][:10],
            "all_cases": {
                name: verdict["overall"][name]
                for name in ("ratio", "ratio_low", "ratio_high", "cases", "pairs")
            },
            **_first_rows("moved", moved),
        }

    def findings(self, every: bool = False) -> dict[str, Any]:
        """The open regressions that detection found; with `every` all findings, including improvements."""
        found = answer("regressions", "list", *(["--all"] if every else []))
        return _first_rows("findings", [_finding(one) for one in found])

    def finding(self, number: int) -> dict[str, Any]:
        """All evidence of one finding."""
        found: dict[str, Any] = answer("regressions", "show", given=[str(number)])
        return found

    def fingerprint_difference(self, old: str, new: str, case: str) -> dict[str, Any]:
        """The operators and kernels that differ in `new` for a case; not timed, may take a minute."""
        return {"difference": answer("fingerprint", "diff", given=[old, new, case])}

    def start_upgrade(
        self, old: str, new: str, suite: str = "smoke", cases: list[str] | None = None, pairs: int = 32
    ) -> dict[str, Any]:
        """Start to measure an upgrade, with at most `pairs` of each case; it runs in the background: see
        `progress`.
        """
        # What can be refused at once is not begun.
        _refuse_credentials([suite])
        suite_named(self._app.settings, suite)
        pairs_plan(pairs)
        for environment in (old, new):
            parse_environment(self._app.settings, environment)
        run = new_run_id()
        log = self._log(run)
        chosen = [f"--case={case}" for case in cases or ()]
        options = [f"--suite={suite}", f"--pairs={pairs}", *chosen, f"--run-id={run}"]
        begin(["upgrade", *options, "--", old, new], log)
        return {"run": run, "log": str(log), "follow": f"progress(run={run!r})"}

    def progress(self, run: str) -> dict[str, Any]:
        """The progress of a run, and its decision when there is one."""
        try:
            loaded = load_run(self._app.places.data_dir, run, self._app.open_database)
        except JobError as error:
            log = self._log(run)
            if run != Path(run).name or not log.is_file():
                raise ToolError(str(error)) from error
            lines = log.read_text(errors="replace").strip().splitlines()
            return {"run": run, "state": "not begun", "said": lines[-1] if lines else ""}
        judged = judge_loaded(loaded)
        return {
            "run": loaded.result.run,
            "state": str(loaded.result.state),
            "planned": loaded.planned,
            "ended": len(loaded.result.outcomes),
            "decision_so_far": judged.upgrade.decision if judged else None,
        }

    def _log(self, run: str) -> Path:
        """The messages of an upgrade that an agent started."""
        return self._app.places.data_dir / "agents" / f"{run}.log"

    def reproduce(self, run: str, case: str = "") -> dict[str, Any]:
        """The environment and preset of a run or a case, and the command that repeats it."""
        found: dict[str, Any] = answer("reproduce", given=[f"{run}:{case}" if case else run])
        return found

    def triage(self, number: int, action: TriageAction, text: str) -> dict[str, Any]:
        """Acknowledge a finding, mark it as expected or fixed, or add a note; recorded as the action of an
        agent.
        """
        return {"said": say("regressions", action, "--by", "agent", given=[str(number), text])}


def create_server(app_context: AppContext, *, triage: bool = False) -> MCPServer:
    """The server with its tools; with `triage` also the tool that triages findings."""
    tools = Tools(app_context)
    reading = (
        tools.doctor,
        tools.cases,
        tools.runs,
        tools.measurements,
        tools.compare,
        tools.findings,
        tools.finding,
        tools.fingerprint_difference,
        tools.progress,
        tools.reproduce,
    )
    writing = (tools.start_upgrade, *([tools.triage] if triage else []))
    server = MCPServer(
        "pyrometer",
        version=version("pyrometer"),
        instructions=_INSTRUCTIONS,
        log_level="WARNING",
        middleware=[
            _argument_check({each.__name__: [*signature(each).parameters] for each in (*reading, *writing)})
        ],
    )
    for each in reading:
        server.tool(annotations=_READ)(_with_sentences(each))
    for each in writing:
        server.tool(annotations=_MEASURES)(_with_sentences(each))
    return server


def _argument_check(arguments: Mapping[str, Sequence[str]]) -> ServerMiddleware[Any]:
    """A check that refuses arguments that a tool does not have; if they were ignored, the answer would be
    about something else.
    """

    async def check(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        called = dict(ctx.params or {}) if ctx.method == "tools/call" else {}
        if (valid := arguments.get(str(called.get("name")))) is not None:
            for argument in called.get("arguments") or {}:
                if argument not in valid:
                    text = unknown("argument", str(argument), valid)
                    return CallToolResult(is_error=True, content=[TextContent(type="text", text=text)])
        return await call_next(ctx)

    return check


def _with_sentences(tool: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """The tool; its known errors are returned to the agent as sentences."""

    @wraps(tool)
    def answering(*arguments: Any, **named: Any) -> dict[str, Any]:
        try:
            return tool(*arguments, **named)
        except (DatabaseError, JobError, JournalError) as error:
            raise ToolError(str(error)) from error

    return answering


def _reproduce(run: str, case: str) -> str:
    """The shell command that measures a case again; quoted, because the key may come from a file."""
    return shlex.join(["pyrometer", "reproduce", f"{run}:{case}", "--run"])


def _first_rows(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """The first rows, and the number of all rows."""
    return {name: found[:_MOST], "total": len(found)}


def _run(one: RunSummary) -> dict[str, Any]:
    """A run as in the API, with its id under the name of the tools' argument."""
    row = ApiRun.row(one)
    return {"run": row.pop("id"), **row}


def _finding(one: dict[str, Any]) -> dict[str, Any]:
    """A finding in a list: with the number of pairs that decided it, and the command that repeats them."""
    session = evidence_of(one["evidence"]).confirmation
    fields = {name: value for name, value in one.items() if name != "evidence"}
    return {**fields, "n": session.verdict.pairs if session.verdict else None, "reproduce": session.reproduce}


def _case(one: dict[str, Any]) -> dict[str, Any]:
    verdict = one.get("verdict") or {}
    return {
        "case": one["case"],
        "status": one["status"],
        "why": one["new"]["reason"] or one["old"]["reason"],
        **{name: verdict.get(name) for name in ("metric", "unit", "ratio", "ratio_low", "ratio_high", "n")},
        "reproduce": one["reproduce"],
    }


#: Exit codes that come with an answer: go, no-go, unclear.
_ANSWERED = (0, 1, 3)


def answer(*words: str, given: Sequence[str] = ()) -> Any:
    """The value that a command prints with `--json`; raises ToolError with the sentence of its error.

    `given` are arguments from the agent, none of which is taken as an option.
    """
    return json.loads(say(*words, "--json", given=given))


def say(*words: str, given: Sequence[str] = ()) -> str:
    """The output of a command; raises ToolError with the sentence of its error. `given`: see `answer`."""
    command = [*words, *(["--", *given] if given else [])]
    _refuse_credentials(command)
    done = subprocess.run([*OURSELVES, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode not in _ANSWERED or (done.returncode and not done.stdout.strip()):
        lines = done.stderr.strip().splitlines()
        sentence = (
            printable(lines[-1]).removeprefix("pyrometer: ") if lines else f"exit code {done.returncode}"
        )
        raise ToolError(sentence)
    return done.stdout.strip()


def begin(words: Sequence[str], log: Path) -> None:
    """Start a command that continues after this program ends; its messages go to the file `log`.

    Raises ToolError before anything is started or written.
    """
    _refuse_credentials(words)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        subprocess.Popen(
            [*OURSELVES, *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def _refuse_credentials(words: Sequence[str]) -> None:
    """Raise ToolError for an address with a password: every user of a machine sees its command lines."""
    if any(map(has_credentials, words)):
        raise ToolError("an address is given without user and password: keep them in ~/.netrc")
