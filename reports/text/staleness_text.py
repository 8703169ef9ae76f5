"""Sentences about silent machines, late nights and waiting tasks."""

from datetime import datetime, timedelta

from analysis.staleness import MachineDisturbance, Outage, WaitReason
from common.text import some, utc
from records.tasks import Task


def silence(one: Outage) -> str:
    """A silence as a sentence: its subject, duration and cause."""
    if one.cause == "unseen":
        return f"machine {one.name} is silent: no scheduler was seen there for {in_words(one.lasts)}"
    due = f"{one.name} was due {in_words(one.lasts)} ago and"
    if one.cause == "not planned":
        return f"{due} was not planned: no scheduler was running"
    if one.machines:
        return f"{due} has not begun: {', '.join(one.machines)} is online but has not started it"
    return f"{due} has not begun: no scheduler is online{f' for {one.label}' if one.label else ''}"


def describe_disturbance(one: MachineDisturbance) -> str:
    """`77 throttled of 234 outcomes (33 %)`."""
    counts = ((one.throttled, "throttled"), (one.contended, "contended"))
    parts = " and ".join(f"{count} {word}" for count, word in counts if count)
    return f"{parts or 'none disturbed'} of {one.outcomes} outcomes ({100 * one.share:.0f} %)"


def why_it_waits(task: Task, why: WaitReason) -> str:
    """The reason why a task waits, as a sentence."""
    if why.why == "no such label":
        return f'unschedulable: no machine that is online has the label "{task.label}"'
    if why.why == "unscheduled":
        return "unschedulable: no machine that measures is online"
    return in_its_turn(why, task.attempts, task.not_before)


def in_its_turn(because: WaitReason, attempts: int, not_before: datetime | None) -> str:
    """The reason why a task waits that a scheduler will claim, as a sentence: `because` is not yet, busy or
    next.
    """
    one = len(because.machines) == 1
    if because.why == "not yet":
        tried = f"was lost {attempts} times and " if attempts else ""
        when = utc(not_before) if not_before else "–"
        return f"{tried}will not begin before {when}"
    if because.why == "busy":
        return f"{some(because.machines)} {'is' if one else 'are'} busy"
    return f"{some(because.machines)} {'takes' if one else 'take'} it next"


def in_words(length: timedelta) -> str:
    """A duration as text: `45 minutes`, `13 hours`, `3 days`."""
    minutes = int(length.total_seconds() // 60)
    if minutes < 120:
        return f"{minutes} minutes"
    return f"{minutes // 60} hours" if minutes < 48 * 60 else f"{minutes // (24 * 60)} days"
