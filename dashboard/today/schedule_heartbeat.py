"""The timetables of the schedulers, read from the facts that they store."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from analysis.staleness import alive
from records.tasks import SchedulerSeen


@dataclass(frozen=True, slots=True)
class Served:
    """A schedule as one scheduler or several serve it: `by` are their machines, in order.

    `alive`: one of them was seen lately. `next` are its next fire times as announced last;
    of a scheduler that died some lie in the past. `labels` is empty for any machine.
    """

    schedule: str
    job: str
    cron: str
    timezone: str
    enabled: bool
    built_in: bool
    suite: str
    environments: tuple[str, ...]
    baseline: str
    labels: tuple[str, ...]
    next: tuple[datetime, ...] = ()
    by: tuple[str, ...] = ()
    alive: bool = False


def served(seen: Sequence[SchedulerSeen], now: datetime, silent_minutes: int) -> list[Served]:
    """Every schedule that any scheduler serves, by name; alike ones of several schedulers once."""
    living = {one.owner for one in alive(seen, now, silent_minutes)}
    by_schedules: dict[Served, list[tuple[SchedulerSeen, tuple[datetime, ...]]]] = defaultdict(list)
    for one in seen:
        zone = str(one.facts.get("timezone") or "UTC")
        for body in _bodies(one.facts.get("schedules")):
            by_schedules[_about(body, zone)].append((one, _moments(body.get("next"))))
    found: list[Served] = []
    for about, own in by_schedules.items():
        _, announced = max(own, key=lambda each: each[0].seen_at)
        by = tuple(sorted({one.machine for one, _ in own}))
        found.append(replace(about, next=announced, by=by, alive=any(one.owner in living for one, _ in own)))
    return sorted(found, key=lambda each: (each.schedule, not each.alive, each.cron))


def _about(body: Mapping[str, Any], zone: str) -> Served:
    """A timetable, without its scheduler."""
    return Served(
        schedule=str(body.get("schedule") or ""),
        job=str(body.get("job") or ""),
        cron=str(body.get("cron") or ""),
        timezone=zone,
        enabled=body.get("enabled") is True,
        built_in=body.get("built_in") is True,
        suite=str(body.get("suite") or ""),
        environments=_texts(body.get("environments")),
        baseline=str(body.get("baseline") or ""),
        labels=_texts(body.get("labels")),
    )


# Another version may have written it: what cannot be read is not shown.


def _bodies(value: object) -> list[Mapping[str, Any]]:
    listed = cast(list[object], value) if isinstance(value, list) else []
    return [cast(Mapping[str, Any], each) for each in listed if isinstance(each, Mapping)]


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, cast(list[object], value))) if isinstance(value, list) else ()


def _moments(value: object) -> tuple[datetime, ...]:
    found: list[datetime] = []
    for text in _texts(value):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            continue
        if moment.tzinfo is not None:
            found.append(moment)
    return tuple(sorted(found))
