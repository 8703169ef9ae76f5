"""Which upgrade the page shows, and by which rules: read from its address, written back to it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from analysis.decision.comparison import DECIDED, Comparison, compared
from dashboard.components import links, wording
from dashboard.components.query_params import Query, View, last, named, sentence, sharing_label
from dashboard.upgrades.rules import RuleChanges
from records.environments import NamedEnvironment
from records.kinds import RunKind, RunSource
from records.runs import UpgradeRun

LATEST = "latest"
#: The suite of a run whose cases were named one by one: it answers for those alone.
_CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class UpgradeView(View):
    """The upgrade page: a run, and what of its policy is other than it was measured under.

    `shown` is the metric of the matrix; empty for the one that decides.
    """

    run: str
    rules: RuleChanges = field(default_factory=RuleChanges)
    shown: str = ""

    def query(self) -> dict[str, list[str]]:
        """The whole selection as a URL's query."""
        shown = {"shown": [self.shown]} if self.shown else {}
        return {"run": [self.run], **self.rules.query(), **shown}

    def after(self, name: str, value: Any) -> "UpgradeView":
        """Another run has cases and a policy of its own: changes of rules were about this one."""
        return UpgradeView(str(value)) if name == "run" else replace(self, **{name: value})

    @property
    def address(self) -> str:
        """The view's own address."""
        return links.upgrade(self.query())

    def opened(self, case: str) -> str:
        """The address of the view with the panel of a case."""
        return links.upgrade({**self.query(), links.DETAIL: [case]})


@dataclass(frozen=True, slots=True)
class Listed:
    """An upgrade in a list. `comparison` is None where only the run's journal knows what was compared.

    `decision` and `because` are what it came to by its own policy; empty where that is not known.
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
        """What identifies it in a choice."""
        sides = f"{version(self.old)} → {version(self.new)}"
        return f"{sides} · {self.run.hardware_label} · {wording.timestamp(self.run.started_at)}"


@dataclass(frozen=True, slots=True)
class Known:
    """The newest `upgrades`, and the newest `sessions` about findings, each newest first.

    `older` and `older_sessions`: the database has more of them than these.
    """

    upgrades: tuple[Listed, ...]
    sessions: tuple[Listed, ...]
    older: bool = False
    older_sessions: bool = False

    @property
    def items(self) -> tuple[Listed, ...]:
        """All of them."""
        return *self.upgrades, *self.sessions


def version(environment: NamedEnvironment) -> str:
    """An environment by its PyTorch, and by its name where that says something else."""
    torch = environment.torch_version
    plain = environment.name in (torch, torch.partition("+")[0])
    return torch if plain else f"{environment.name} ({torch})"


def listed(runs: Sequence[UpgradeRun]) -> tuple[Listed, ...]:
    """What is known of each run that measured two environments, in their order."""
    found = (_listed(run) for run in runs if run.source == RunSource.MEASURED)
    return tuple(one for one in found if one is not None)


def _listed(run: UpgradeRun) -> Listed | None:
    try:
        comparison = compared(run.facts)
    except ValueError:
        # Its own page says what is wrong with it.
        comparison = None
    sides = {each.fingerprint: each for each in run.environments}
    old = sides.get(comparison.old) if comparison else next(iter(run.environments), None)
    new = sides.get(comparison.new) if comparison else next(iter(run.environments[1:]), None)
    if old is None or new is None:
        return None
    stored = run.facts.get(DECIDED)
    decided: dict[str, Any] = stored if isinstance(stored, dict) else {}
    return Listed(
        run, old, new, comparison, str(decided.get("decision", "")), str(decided.get("because", ""))
    )


@dataclass(frozen=True, slots=True)
class UpgradeAddress:
    """What an address asks for: a run, or none with the reason; `command` would measure what is missing.

    `any_hardware`: the address names no run and no hardware, so that the worst of its pair may be shown.
    `which_hardware` are the fingerprints that it may mean by a label that several have.
    """

    run: str | None
    complaints: tuple[str, ...] = ()
    command: str = ""
    any_hardware: bool = False
    which_hardware: tuple[str, ...] = ()


def wanted(query: Query, items: Sequence[Listed], *, older: bool = False) -> UpgradeAddress:
    """The run that an address names, by id or by its versions and hardware; else the newest that can answer.

    `older`: there are upgrades that are older than those of `items`. Those that confirm a finding are
    no upgrades, and are shown only by their id.
    """
    run = last(query, "run")
    if run and run != LATEST:
        return UpgradeAddress(run)
    upgrades = [one for one in items if not one.confirms]
    old, new, hardware = (last(query, name) or "" for name in ("from", "to", "hardware"))
    if hardware:
        labels = {one.run.hardware: one.run.hardware_label for one in upgrades}
        if several := sharing_label(query, "hardware", labels):
            return UpgradeAddress(None, which_hardware=tuple(several))
        place = named(hardware, labels)
        if place is None:
            return UpgradeAddress(None, (sentence("hardware", hardware, labels.values()),))
        upgrades = [one for one in upgrades if one.run.hardware == place]
        hardware = labels[place]
    found = [one for one in upgrades if _between(one, old, new)]
    if found:
        return UpgradeAddress(max(found, key=answers).run.id, any_hardware=not hardware)
    if not (old or new):
        return UpgradeAddress(None)
    among = sum(not one.confirms for one in items) if older else 0
    return _missing(old, new, f" on {hardware}" if hardware else "", among)


def answers(one: Listed) -> tuple[bool, bool, bool, datetime]:
    """How well a run answers: judged before not, whole before a part, then the newest."""
    run = one.run
    return one.comparison is not None, run.state == "complete", run.suite != _CHOSEN, run.started_at


def _between(one: Listed, old: str, new: str) -> bool:
    specs = one.comparison.asked if one.comparison else ("", "")
    return _is(one.old, specs[0], old) and _is(one.new, specs[1], new)


def _is(environment: NamedEnvironment, spec: str, text: str) -> bool:
    """Whether a text means the environment: its name, its PyTorch with or without the build, as typed."""
    torch = environment.torch_version
    return text in ("", environment.name, torch, torch.partition("+")[0], spec)


def _missing(old: str, new: str, where: str, among: int) -> UpgradeAddress:
    """Nothing that was measured between these; with `among`, nothing of so many that are the newest."""
    if among:
        where += f", among the newest {among:,} upgrades"
    if not (old and new):
        ends = f"from {old}" if old else f"to {new}"
        return UpgradeAddress(None, (f"No upgrade {ends} was measured{where}; shown is what there is.",))
    never = "not" if among else "never"
    sentence = (
        f"{old} and {new} were {never} measured together{where}, and numbers of two runs make no verdict."
    )
    return UpgradeAddress(None, (sentence,), shlex.join(["pyrometer", "upgrade", old, new]))
