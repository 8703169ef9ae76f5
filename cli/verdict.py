"""The verdict of an upgrade that was measured: on the terminal, as an event, in files."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis.case_results import CaseResult
from analysis.upgrade import Upgrade
from reports.body import upgrade_json
from reports.markdown import upgrade_markdown
from reports.page import upgrade_html
from reports.subject import Environment, Subject
from scheduled_jobs.header import Header
from scheduled_jobs.measure import RunResult
from scheduled_jobs.upgrade import Comparison

from .context import UsageError, say
from .measuring import Conclude
from .upgrade_report import print_upgrade
from .watchers import JsonWatcher
from .whole_file import write_whole


@dataclass(frozen=True, slots=True)
class Judged:
    """An upgrade with everything a report needs."""

    subject: Subject
    results: Sequence[CaseResult]
    upgrade: Upgrade


def _page(judged: Judged) -> str:
    return upgrade_html(judged.subject, judged.results, judged.upgrade)


def _markdown(judged: Judged) -> str:
    return upgrade_markdown(judged.subject, judged.results, judged.upgrade)


def _json(judged: Judged) -> str:
    return json.dumps(upgrade_json(judged.subject, judged.results, judged.upgrade), indent=2) + "\n"


_FORMATS: Mapping[str, Callable[[Judged], str]] = {".html": _page, ".md": _markdown, ".json": _json}


def check_reports(files: Sequence[Path]) -> None:
    """Refuse files that no report can be written to, before an hour is spent on measuring."""
    for file in files:
        if file.suffix not in _FORMATS:
            raise UsageError(f"{file}: a report is a file that ends in {', '.join(_FORMATS)}")
        there = file.exists()
        try:
            with file.open("a"):
                pass
            if not there:
                file.unlink()
        except OSError as error:
            raise UsageError(f"{file}: no file can be written there ({error.strerror})") from None


def judge(header: Header, result: RunResult) -> Judged:
    """The verdict on what was measured so far."""
    assert header.comparison is not None
    comparison = Comparison.from_body(header.comparison)
    results = comparison.results(result.outcomes)
    return Judged(_subject(header, comparison, result), results, comparison.verdict(results))


def conclude_upgrade(files: Sequence[Path] = (), *, as_json: bool = False) -> Conclude:
    """Prints the verdict at the end of a run, or one event, and writes the reports."""

    def _concluded(console: Console, header: Header, result: RunResult) -> None:
        judged = judge(header, result)
        if as_json:
            JsonWatcher(console).concluded(upgrade_json(judged.subject, judged.results, judged.upgrade))
        else:
            print_upgrade(console, judged.subject, judged.results, judged.upgrade)
        for file in files:
            try:
                write_whole(file, _FORMATS[file.suffix](judged))
            except OSError as error:
                # The verdict stands all the same, and `pyrometer report` tells it again.
                say(f"pyrometer: {file} could not be written: {error.strerror or error}")
            else:
                say(f"report: {file}")

    return _concluded


def _subject(header: Header, comparison: Comparison, result: RunResult) -> Subject:
    bodies = {each["fingerprint"]: each for each in header.environments}
    profile = header.profile
    return Subject(
        old=_environment(bodies[comparison.old], comparison.asked[0]),
        new=_environment(bodies[comparison.new], comparison.asked[1]),
        run=header.run,
        suite=header.suite,
        machine=str(header.machine["name"]),
        hardware=str(header.machine["hardware_label"]),
        device=header.device,
        started_at=datetime.fromisoformat(header.started_at),
        ended_at=datetime.now(UTC) if result.seconds is not None else None,
        state=result.state,
        profile=str(profile["name"]),
        settings=profile["settings"],
        harness=header.harness,
        pyrometer=header.version,
        command=header.command,
        notes=header.notes,
        options=comparison.options,
        plan=comparison.plan,
        policy=comparison.policy,
    )


def _environment(body: Mapping[str, Any], asked: str) -> Environment:
    facts: Mapping[str, Any] = body["facts"]
    return Environment(
        name=str(body["name"]),
        torch=str(facts["torch"]),
        python=str(facts["python"]),
        fingerprint=str(body["fingerprint"]),
        cuda=str(facts.get("cuda") or ""),
        packages=tuple(facts.get("packages", ())),
        asked=asked,
    )
