"""`pyrometer regressions`: findings of detection, their evidence, and their triage."""

import csv
import getpass
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from analysis.ratios import as_ratios
from common.atomic_file import write_whole
from common.text import printable, printable_lines
from configuration.schedules import zone
from configuration.suggestions import unknown
from db.findings import store as stored
from db.findings.store import group_counts
from interchange.exporters.tables import cell
from records.evidence import evidence_body
from records.findings import Finding, FindingGroup
from reports.text.finding_text import MUTED_BEFORE, interval, kind, triage_complaint
from workflows.app_context import AppContext
from workflows.errors import UsageError

from ..context import context, in_one_sentence
from ..options import LARGEST, Json
from ..output.console import CaseName, report_console, table
from ..output.finding_report import finding_lines

app = typer.Typer(
    help="List and triage the changes that detection found: candidates, regressions, improvements.",
    no_args_is_help=True,
)

#: The most findings in a list.
_MOST = 100_000

Number = Annotated[
    int, typer.Argument(metavar="ID", max=LARGEST, help="the number of a finding, as `list` shows it")
]
Text = Annotated[str, typer.Argument(help="a sentence for later readers")]
By = Annotated[str | None, typer.Option("--by", help="name of the person [default: your user name]")]


@app.command("list")
def list_findings(
    every: Annotated[
        bool, typer.Option("--all", help="every finding, not only the open regressions")
    ] = False,
    schedule: Annotated[str | None, typer.Option(help="only findings of this schedule")] = None,
    as_json: Json = False,
    file: Annotated[Path | None, typer.Option("--csv", help="write them to this CSV file instead")] = None,
) -> None:
    """List the open regressions, newest first: confirmed, neither triaged nor muted."""
    now = datetime.now(UTC)
    with in_one_sentence():
        app_context = context(reading=True)
        with app_context.open_database() as database:
            found = stored.findings(
                database,
                group=None if every else (FindingGroup.OPEN, now),
                schedule=schedule,
                newest=_MOST,
            )
            groups = group_counts(database, now, schedule)
        # A schedule that is no longer configured may still have findings.
        if schedule is not None and not found and schedule not in app_context.settings.schedules:
            raise UsageError(unknown("schedule", schedule, app_context.settings.schedules))
        if file is not None:
            _write_csv(file, found)
            typer.echo(f"{file}: {len(found)} findings")
            return
    if as_json:
        typer.echo(json.dumps([finding_body(one) for one in found], indent=2))
        return
    if found:
        _print(found, now, app_context)
    else:
        typer.echo("nothing was found yet" if every else "no open regression")
    if not every and (others := _others(groups)):
        typer.echo(f"not listed: {others}; `pyrometer regressions list --all` lists them")


def _others(groups: Mapping[FindingGroup, int]) -> str:
    """The number of findings in the groups that are not listed by default."""
    words_of = {
        FindingGroup.IMPROVEMENT: ("improvement", "improvements"),
        FindingGroup.WAITING: ("candidate", "candidates"),
        FindingGroup.UNCLEAR: ("unclear", "unclear"),
        FindingGroup.KNOWN: ("triaged or muted", "triaged or muted"),
    }
    counted = [(groups[group], *words) for group, words in words_of.items()]
    return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counted if count)


def _print(found: Sequence[Finding], now: datetime, app_context: AppContext) -> None:
    place = zone(app_context.settings.timezone)
    listed = table("id", "what", "change", "metric", "case", "on", "since", "torch", "triage")
    for one in found:
        listed.add_row(
            str(one.id),
            kind(one.state, one.direction),
            escape(interval(one.change, one.low, one.high)),
            escape(one.key.metric),
            CaseName(one.key.case),
            escape(printable(f"{one.machine}, {one.key.hardware_label}")),
            f"{one.at.astimezone(place):%Y-%m-%d}",
            escape(printable(_versions(one))),
            escape(_triage(one, now)),
        )
    report_console().print(listed)
    typer.echo("`pyrometer regressions show ID` shows the details of one")


def _versions(one: Finding) -> str:
    if one.old_torch_version == one.new_torch_version:
        return one.new_torch_version
    return f"{one.old_torch_version} -> {one.new_torch_version}"


def _triage(one: Finding, now: datetime) -> str:
    words = [f"{one.triage} by {printable(one.owner)}" if one.owner else str(one.triage)]
    words += ["returned"] if one.returns_of is not None else []
    words += ["muted"] if one.muted_until is not None and one.muted_until > now else []
    return ", ".join(words)


@app.command("show")
def show(number: Number, as_json: Json = False) -> None:
    """Show one finding: the change, its confirmation, other changes at that time, its triage."""
    with in_one_sentence():
        app_context = context(reading=True)
        with app_context.open_database() as database:
            one = _require_finding(number, stored.finding(database, number))
            log = stored.triage_log(database, number)
    if as_json:
        body = {**finding_body(one), "log": [_with_iso_times(asdict(entry)) for entry in log]}
        typer.echo(json.dumps(body, indent=2))
        return
    for line in finding_lines(one, log, zone(app_context.settings.timezone), datetime.now(UTC)):
        typer.echo(printable_lines(line))


@app.command("acknowledge")
def acknowledge(number: Number, text: Text = "", by: By = None) -> None:
    """Mark a finding as being worked on: it is no longer open, and is not reported again."""
    _act(number, "acknowledge", text, by)


@app.command("expected")
def expected(number: Number, text: Text = "", by: By = None) -> None:
    """Mark a finding as expected and accepted: it is no longer open."""
    _act(number, "expected", text, by)


@app.command("fixed")
def fixed(number: Number, text: Text = "", by: By = None) -> None:
    """Mark a finding as fixed: it is no longer open, and opens again if the change returns."""
    _act(number, "fixed", text, by)


@app.command("note")
def note(number: Number, text: Text, by: By = None) -> None:
    """Add a note to the history of a finding."""
    _act(number, "note", text, by)


@app.command("link")
def link(
    number: Number, address: Annotated[str, typer.Argument(help="the address of an issue")], by: By = None
) -> None:
    """Add a link to a finding, for example to an issue: http:// or https://."""
    _act(number, "link", address, by)


@app.command("mute")
def mute(
    number: Number,
    until: Annotated[
        str | None,
        typer.Option(help="report it again from this date, or date and time, on: 2026-12-01"),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="report it again from now on")] = False,
    text: Annotated[str, typer.Option("--because", help="a sentence for later readers")] = "",
    by: By = None,
) -> None:
    """Do not report a finding, or others in its series, until a date; the finding itself is kept."""
    with in_one_sentence():
        if (until is None) != off:
            raise UsageError("give --until DATE to mute the finding, or --off to unmute it")
        moment = None if until is None else moment_of(until, context(noting=False).settings.timezone)
        if moment is not None and moment <= datetime.now(UTC):
            raise UsageError(f"{until} is in the past: --until needs a time in the future")
        if moment is not None and moment >= MUTED_BEFORE:
            raise UsageError(f"{until} is too late: --until needs a time before the year 9999")
    _act(number, "mute", text, by, moment)


def _act(number: int, action: str, text: str, by: str | None, until: datetime | None = None) -> None:
    with in_one_sentence():
        who = printable(by or _me()).strip()
        if not who:
            raise UsageError("--by needs a name")
        if problem := triage_complaint(action, text, who):
            raise UsageError(f"{problem[0].lower()}{problem[1:].rstrip('.')}")
        app_context = context()
        with app_context.open_database() as database:
            found = stored.triage(database, number, action, who, text, until, datetime.now(UTC))
        one = _require_finding(number, found)
    sentence = f"finding {one.id}: {one.triage}"
    if one.muted_until is not None:
        end = one.muted_until.astimezone(zone(app_context.settings.timezone))
        sentence += f", muted until {end:%Y-%m-%d %H:%M %Z}"
    typer.echo(f"{sentence}; the {action} is kept" if action in ("note", "link") else sentence)


def _me() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A user without a name, as in a container.
        return "unknown"


def _require_finding(number: int, one: Finding | None) -> Finding:
    if one is None:
        raise UsageError(
            f"there is no finding {number}: `pyrometer regressions list --all` lists all findings"
        )
    return one


def moment_of(text: str, timezone: str) -> datetime:
    """The moment of a date (its beginning), or of a date and time, in a time zone; raises UsageError."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone(timezone))).astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f'"{text}" is not a date such as 2026-12-01, with or without a time') from None


def finding_body(one: Finding) -> dict[str, Any]:
    """A finding as JSON values, its evidence too; ratios are new / old."""
    body: dict[str, Any] = as_ratios(asdict(one) | {"evidence": evidence_body(one.evidence)})
    key: Mapping[str, Any] = body.pop("key")
    return _with_iso_times({"id": body.pop("id"), "kind": kind(one.state, one.direction), **key, **body})


def _with_iso_times(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in body.items()}


def _write_csv(file: Path, found: Sequence[Finding]) -> None:
    rows = [{name: value for name, value in finding_body(one).items() if name != "evidence"} for one in found]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    writer.writerows([cell(row[name]) for name in _COLUMNS] for row in rows)
    write_whole(file, text.getvalue())


#: The columns of a table of findings, with the names of the JSON.
_COLUMNS = (
    *("id", "kind", "state", "direction", "shape", "case", "metric", "ratio", "ratio_low", "ratio_high"),
    *("machine", "hardware_label", "hardware", "preset_name", "schedule", "track", "label"),
    *("at", "at_run", "before", "before_run", "old_torch_version", "new_torch_version"),
    *("old_environment", "new_environment", "found_at", "decided_at", "triage", "owner", "muted_until"),
    *("link", "returns_of"),
)
