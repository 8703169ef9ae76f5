"""A run of pairs judged, with everything a report needs, and the forms in which it is written down."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from analysis.comparison.case_results import CaseResult, Ended
from analysis.comparison.comparison import Comparison
from analysis.comparison.upgrade import Upgrade

from .body import upgrade_json
from .markdown import upgrade_markdown
from .page import upgrade_html
from .report_context import Environment, Subject, build_of


class _Hardware(Protocol):
    @property
    def label(self) -> str: ...


class _Machine(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def hardware(self) -> _Hardware: ...


class _Environment(Protocol):
    @property
    def fingerprint(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def torch_version(self) -> str: ...
    @property
    def python_version(self) -> str: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...


class _Profile(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...


class Measured(Protocol):
    """A run as the database knows it."""

    @property
    def id(self) -> str: ...
    @property
    def suite(self) -> str: ...
    @property
    def started_at(self) -> datetime: ...
    @property
    def ended_at(self) -> datetime | None: ...
    @property
    def state(self) -> str: ...
    @property
    def machine(self) -> _Machine: ...
    @property
    def environments(self) -> Sequence[_Environment]: ...
    @property
    def profile(self) -> _Profile: ...
    @property
    def harness(self) -> str: ...
    @property
    def command(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def facts(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Judged:
    """An upgrade with everything a report needs."""

    subject: Subject
    results: Sequence[CaseResult]
    upgrade: Upgrade


def judged(run: Measured, comparison: Comparison, outcomes: Iterable[Ended]) -> Judged:
    """The verdict on the outcomes of a run, those of the canary among them or not.

    Raises ValueError for a comparison of environments that the run does not have.
    """
    results = comparison.results(outcomes)
    return Judged(subject_of(run, comparison), results, comparison.verdict(results))


def subject_of(run: Measured, comparison: Comparison) -> Subject:
    """What a report on the run is about; raises ValueError where it lacks an environment of `comparison`."""
    known = {one.fingerprint: one for one in run.environments}
    old, new = (
        _environment(known, fingerprint, asked)
        for fingerprint, asked in zip((comparison.old, comparison.new), comparison.asked, strict=True)
    )
    return Subject(
        old=old,
        new=new,
        run=run.id,
        suite=run.suite,
        machine=run.machine.name,
        hardware=run.machine.hardware.label,
        device=str(run.facts.get("device", "")),
        started_at=run.started_at,
        ended_at=run.ended_at,
        state=run.state,
        profile=run.profile.name,
        settings=run.profile.settings,
        harness=run.harness,
        pyrometer=str(run.facts.get("pyrometer", "")),
        command=run.command,
        notes=run.notes,
        options=comparison.options,
        plan=comparison.plan,
        policy=comparison.policy,
    )


def _environment(known: Mapping[str, _Environment], fingerprint: str, asked: str) -> Environment:
    if fingerprint not in known:
        raise ValueError(f"a comparison with environment {fingerprint}, which the run does not have")
    one = known[fingerprint]
    packages: Sequence[Any] = one.facts.get("packages") or ()
    return Environment(
        name=one.name,
        torch=one.torch_version,
        python=one.python_version,
        fingerprint=one.fingerprint,
        cuda=str(one.facts.get("cuda") or ""),
        packages=tuple(map(str, packages)),
        asked=asked,
        build=build_of(one.facts),
    )


def _page(one: Judged) -> str:
    return upgrade_html(one.subject, one.results, one.upgrade)


def _markdown(one: Judged) -> str:
    return upgrade_markdown(one.subject, one.results, one.upgrade)


def _json(one: Judged) -> str:
    return json.dumps(upgrade_json(one.subject, one.results, one.upgrade), indent=2) + "\n"


#: What writes a report, by the ending of the file's name.
FORMATS: Mapping[str, Callable[[Judged], str]] = {".html": _page, ".md": _markdown, ".json": _json}
