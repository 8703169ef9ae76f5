"""The selection of an upgrade and its rules, and the same pair of versions on all hardware."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar

from analysis.decision.comparison import DECIDED, Comparison, stored_comparison
from analysis.decision.reasons import WORST_FIRST, Decision
from dashboard.components import links, wording
from dashboard.components.query_params import (
    Query,
    SharedLabel,
    View,
    find_fingerprint,
    last,
    public,
    sharing_label,
    strip_device,
    unknown_value,
)
from dashboard.upgrades.rules import RuleChanges
from records.environments import NamedEnvironment
from records.kinds import RunKind, RunSource
from records.runs import UpgradeRun
from reports.scorecard import Entry

LATEST = "latest"
#: The suite of a run of single cases.
_CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class UpgradeView(View):
    """The upgrade page: a run, and changes of its policy.

    `shown` is the metric of the matrix; empty for the deciding one.
    """

    home: ClassVar = links.UPGRADE

    run: str
    rules: RuleChanges = field(default_factory=RuleChanges)
    shown: str = ""

    def query(self) -> dict[str, list[str]]:
        """The whole selection as a URL's query."""
        metric_query = {"shown": [self.shown]} if self.shown else {}
        return {"run": [self.run], **self.rules.query(), **metric_query}

    def after(self, name: str, value: Any) -> "UpgradeView":
        """Another run has other cases and another policy: changes of rules are dropped."""
        return UpgradeView(str(value)) if name == "run" else replace(self, **{name: value})


@dataclass(frozen=True, slots=True)
class UpgradeSummary:
    """An upgrade in a list.

    `comparison` is None if it is only in the journal of the run. `decision` and `because` are by the policy
    of the run; empty if unknown.
    """

    run: UpgradeRun
    old: NamedEnvironment
    new: NamedEnvironment
    comparison: Comparison | None
    decision: str = ""
    because: str = ""

    @property
    def confirms(self) -> bool:
        """Whether it was measured to confirm findings."""
        return self.run.kind == RunKind.CONFIRMATION

    @property
    def label(self) -> str:
        """Its label in a choice."""
        sides = f"{version(self.old)} → {version(self.new)}"
        where = wording.hardware(self.run.hardware_label)
        return f"{sides} · {where} · {wording.timestamp(self.run.started_at)}"


@dataclass(frozen=True, slots=True)
class UpgradeLists:
    """The newest `upgrades`, and the newest `sessions` about findings, each newest first.

    `older` and `older_sessions`: the database has more of them than these.
    """

    upgrades: tuple[UpgradeSummary, ...]
    sessions: tuple[UpgradeSummary, ...]
    older: bool = False
    older_sessions: bool = False

    @property
    def items(self) -> tuple[UpgradeSummary, ...]:
        """All of them."""
        return *self.upgrades, *self.sessions


def version(environment: NamedEnvironment) -> str:
    """An environment by its PyTorch, and by its name if that differs."""
    torch = environment.torch_version
    plain = environment.name in (torch, public(torch))
    return torch if plain else f"{environment.name} ({torch})"


def upgrade_summaries(runs: Sequence[UpgradeRun]) -> tuple[UpgradeSummary, ...]:
    """The list entries of runs that measured two environments, in their order."""
    result = (_upgrade_summary(run) for run in runs if run.source == RunSource.MEASURED)
    return tuple(one for one in result if one is not None)


def _upgrade_summary(run: UpgradeRun) -> UpgradeSummary | None:
    try:
        comparison = stored_comparison(run.facts)
    except ValueError:
        # The page of the run shows the error.
        comparison = None
    sides = {each.fingerprint: each for each in run.environments}
    old = sides.get(comparison.old) if comparison else next(iter(run.environments), None)
    new = sides.get(comparison.new) if comparison else next(iter(run.environments[1:]), None)
    if old is None or new is None:
        return None
    fact = run.facts.get(DECIDED)
    decision: dict[str, Any] = fact if isinstance(fact, dict) else {}
    return UpgradeSummary(
        run, old, new, comparison, str(decision.get("decision", "")), str(decision.get("because", ""))
    )


@dataclass(frozen=True, slots=True)
class UpgradeAddress:
    """The choice in an address: a run, or none with the reason; `command` would measure the missing upgrade.

    `any_hardware`: the address names no run and no hardware, so that the worst of the pair can be shown.
    """

    run: str | None
    complaints: tuple[str, ...] = ()
    command: str = ""
    any_hardware: bool = False


def resolve_address(query: Query, items: Sequence[UpgradeSummary], *, older: bool = False) -> UpgradeAddress:
    """The run that an address names, by id or by its versions and hardware; else the newest one with a
    verdict.

    `older`: the database has older upgrades than those of `items`. Sessions that confirm a finding are shown
    only by their id. Raises SharedLabel for the label of several hardware.
    """
    run = last(query, "run")
    if run and run != LATEST:
        return UpgradeAddress(run)
    upgrades = [one for one in items if not one.confirms]
    old, new, hardware = (last(query, name) or "" for name in ("from", "to", "hardware"))
    if hardware:
        labels = {one.run.hardware: one.run.hardware_label for one in upgrades}
        if several := sharing_label(query, "hardware", labels):
            raise SharedLabel("hardware", hardware, several)
        place = find_fingerprint(hardware, labels)
        if place is None:
            return UpgradeAddress(None, (unknown_value("hardware", hardware, labels.values()),))
        upgrades = [one for one in upgrades if one.run.hardware == place]
        hardware = labels[place]
    matches = [one for one in upgrades if _between(one, old, new)]
    if matches:
        return UpgradeAddress(max(matches, key=answers).run.id, any_hardware=not hardware)
    if not (old or new):
        return UpgradeAddress(None)
    among = sum(not one.confirms for one in items) if older else 0
    return _missing(old, new, f" on {hardware}" if hardware else "", among)


def answers(one: UpgradeSummary) -> tuple[bool, bool, bool, datetime]:
    """The sort key of runs for one pair: judged ones first, complete before partial ones, then the newest."""
    run = one.run
    return one.comparison is not None, run.state == "complete", run.suite != _CHOSEN, run.started_at


def _between(one: UpgradeSummary, old: str, new: str) -> bool:
    specs = one.comparison.asked if one.comparison else ("", "")
    return _is(one.old, specs[0], old) and _is(one.new, specs[1], new)


def _is(environment: NamedEnvironment, spec: str, text: str) -> bool:
    """Whether a text means the environment: its name, its PyTorch with or without the build, or the typed
    spec.
    """
    torch = environment.torch_version
    return text in ("", environment.name, torch, public(torch), spec)


def _missing(old: str, new: str, where: str, among: int) -> UpgradeAddress:
    """The choice without a run between these; with `among`, without one among that number of newest
    upgrades.
    """
    if among:
        where += f", among the newest {among:,} upgrades"
    if not (old and new):
        ends = f"from {old}" if old else f"to {new}"
        return UpgradeAddress(None, (f"No upgrade {ends} was measured{where}; the page shows another one.",))
    never = "not" if among else "never"
    sentence = (
        f"{old} and {new} were {never} measured together{where}, and numbers of two runs do not give a "
        f"verdict."
    )
    return UpgradeAddress(None, (sentence,), shlex.join(["pyrometer", "upgrade", old, new]))


_WORST: tuple[Decision | None, ...] = (*WORST_FIRST, None)


@dataclass(frozen=True, slots=True)
class HardwareVerdict:
    """The result of an upgrade on one hardware; `decision` is None if it cannot be judged with this
    database.
    """

    listed: UpgradeSummary
    decision: Decision | None = None
    because: str = ""
    entries: tuple[Entry, ...] = ()


def on_all_hardware(one: UpgradeSummary, items: Iterable[UpgradeSummary]) -> list[UpgradeSummary]:
    """The best run on each machine that measured the same pair of versions as `one`, which is `one` itself on
    its machine, followed by the newest complete runs of other suites there: the result of one suite or
    machine does not replace that of another.

    Builds for other devices are the same version.
    """
    best = {_place(one): one}
    alike = [each for each in items if not each.confirms and _pair(each) == _pair(one)]
    for each in alike:
        best_run = best.setdefault(_place(each), each)
        if best_run is not one and answers(each) > answers(best_run):
            best[_place(each)] = each
    others: dict[tuple[str, str, str], UpgradeSummary] = {}
    for each in alike:
        place = *_place(each), each.run.suite
        if all(answers(each)[:3]) and each.run.suite != best[_place(each)].run.suite:
            others[place] = max(others.get(place, each), each, key=answers)
    return [*best.values(), *others.values()]


def worst_first(verdicts: Iterable[HardwareVerdict]) -> list[HardwareVerdict]:
    """The sort key: no-go, unclear, go; equal ones by the name of the hardware."""
    return sorted(
        verdicts,
        key=lambda one: (_WORST.index(one.decision), one.listed.run.hardware_label, one.listed.run.id),
    )


def missing(verdicts: Sequence[HardwareVerdict], labels: Mapping[str, str]) -> list[str]:
    """The labels of known hardware (by fingerprint) on which the pair was not measured, by name."""
    there = {one.listed.run.hardware for one in verdicts}
    return sorted({label for fingerprint, label in labels.items() if fingerprint not in there})


def _place(one: UpgradeSummary) -> tuple[str, str]:
    return one.run.hardware, one.run.machine


def _pair(one: UpgradeSummary) -> tuple[str, ...]:
    old, new = strip_device(one.old.torch_version), strip_device(one.new.torch_version)
    # For one version compared with itself the two are distinguished by their names.
    return (old, new, one.old.name, one.new.name) if old == new else (old, new)
