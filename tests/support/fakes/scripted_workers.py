"""Workers that have answered before they are asked: journals, database and verdicts around them are real."""

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from records.outcomes import Outcome, PlannedReplicate
from runner import environment as environments
from runner.environment import MeasuredEnvironment
from runner.errors import BrokenEnvironment
from runner.execution import canary_runner
from runner.execution.session import Conditions, Event, OutcomeMeasured, SessionEnded
from runner.session_plan import SessionPlan
from support.command_line import typed
from support.site import Done, Site
from workflows import measure
from workflows.bisection.state import Shelf

CASE = "planted/infer/-/eager"
WORKLOAD = {"name": "planted", "phases": ["infer"], "grid": {}, "source": "user_cases.planted"}
STARTED = datetime(2026, 11, 21, tzinfo=UTC)


def _schema(name: str) -> Any:
    return json.loads(resources.files("reports").joinpath(name).read_text(encoding="utf-8"))


_UPGRADE: Resource[Any] = Resource.from_contents(_schema("upgrade.schema.json"))
#: The schema of a bisection's JSON.
BISECTION = Draft202012Validator(
    _schema("bisection.schema.json"), registry=Registry().with_resource("urn:pyrometer:upgrade:1", _UPGRADE)
)


@dataclass
class World:
    """What each environment is like, by name: a latency in ms, or how its case ends; and what was done.

    `more` are further metrics of some of them, and `gpus` the devices that those see that see any.
    """

    place: Site
    truth: dict[str, float | str] = field(default_factory=dict[str, float | str])
    broken: set[str] = field(default_factory=set[str])
    noise: dict[str, float] = field(default_factory=dict[str, float])
    more: dict[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    gpus: dict[str, Sequence[Mapping[str, Any]]] = field(
        default_factory=dict[str, Sequence[Mapping[str, Any]]]
    )
    renewed: set[str] = field(default_factory=set[str])
    pairs: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    before_pair: Callable[[int], object] = lambda number: None

    def call(self, *arguments: str) -> Done:
        """The command in this process."""
        return typed(self.place, *arguments)

    def there_are(self, truth: Mapping[str, float | str]) -> None:
        """Make interpreters that can be found."""
        self.truth = dict(truth)
        for name in self.truth:
            python = self.place.folder / name / "bin/python"
            python.parent.mkdir(parents=True)
            python.symlink_to(sys.executable)

    def bisect(self, *options: str) -> Done:
        """From the first to the last of what there is, the others between."""
        first, *inner, last = (f"./{name}" for name in self.truth)
        listed = ["--candidates", ",".join(inner)] if inner else []
        return self.call("bisect", first, last, *listed, "--case", CASE, "--json", *options)

    def compared(self) -> list[tuple[str, str]]:
        """Which environments were measured against each other, in order."""
        return list(dict.fromkeys((min(pair), max(pair)) for pair in self.pairs))

    def shelf(self) -> Shelf:
        return Shelf(self.place.folder / ".pyrometer/bisects")

    def describe(self, name: str, python: Path, *_: object) -> MeasuredEnvironment:
        """An environment that names itself."""
        if name in self.broken:
            raise BrokenEnvironment(f"environment {name} cannot import torch: it is gone")
        renewed = "-renewed" if name in self.renewed else ""
        facts = {
            "fingerprint": f"print-{name}{renewed}",
            "torch": "2.13.0",
            "python": "3.11.7",
            "packages": [f"planted=={name}"],
            "devices": self.gpus.get(name, []),
        }
        return MeasuredEnvironment(name, str(python), facts, (WORKLOAD,), {})

    def outcome(self, planned: PlannedReplicate, name: str, second: bool) -> Outcome:
        """What a worker there would answer."""
        truth = self.truth[name]
        begun = STARTED + timedelta(minutes=planned.replicate, seconds=second)
        about = Outcome(
            planned.case,
            planned.environment,
            planned.replicate,
            "ok",
            started_at=begun,
            wall_seconds=5.0,
        )
        if isinstance(truth, str):
            return replace(about, status=truth, reason="planted")
        # Half of the pairs above, half below, either order of the two among both.
        usual = 0.0001 * (1 + int(name[1:]))
        wave = (1 if planned.replicate // 2 % 2 else -1) * self.noise.get(name, usual)
        latency = truth * math.exp(wave)
        metrics = {"latency": latency, "latency_floor": latency, **self.more.get(name, {})}
        return replace(about, metrics=metrics)


class AtOnce:
    """A session whose workers have answered before they were asked."""

    world: World

    def __init__(self, plan: SessionPlan, conditions: Conditions, token: str) -> None:
        known = {print: target.name for print, target in conditions.targets.items()}
        contenders = plan.contenders
        names = [known[one.environment] for one in contenders]
        self._events: list[Event] = []
        self.world.before_pair(len(self.world.pairs))
        self.world.pairs.append(tuple(names))
        for second, (planned, name) in enumerate(zip(contenders, names, strict=True)):
            outcome = self.world.outcome(planned, name, bool(second))
            self._events.append(OutcomeMeasured(outcome))
        self._events.append(SessionEnded("done"))

    def __enter__(self) -> "AtOnce":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing runs."""

    def cancel(self) -> None:
        """What is over cannot be cancelled."""

    def events(self, timeout: float) -> Iterator[Event]:
        """All of them."""
        pending, self._events = self._events, []
        yield from pending


def one_world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """For fixtures: a folder with settings, whose workers answer what the world is like."""
    made = World(Site(folder, Path(sys.executable)))
    monkeypatch.setattr(AtOnce, "world", made, raising=False)
    monkeypatch.setattr(measure, "RunningSession", AtOnce)
    monkeypatch.setattr(environments, "describe", made.describe)

    def silent(*_: object) -> list[Outcome]:
        return []

    monkeypatch.setattr(canary_runner.Canary, "run", silent)
    return made


def a_row(count: int, first_bad: int, bad: float | str = 1.1) -> dict[str, float | str]:
    """Environments `v0`, `v1`... of which those from `first_bad` on are bad."""
    return {f"v{at}": bad if at >= first_bad else 1.0 for at in range(count)}


def end_of(done: Done) -> Mapping[str, Any]:
    """The last event, which reports the end, as the schema has it."""
    last = done.events[-1]
    assert last["event"] == "bisected", done
    BISECTION.validate({name: value for name, value in last.items() if name != "event"})
    return last
