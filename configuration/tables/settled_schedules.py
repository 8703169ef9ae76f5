"""The schedules as they were written, each whole in itself, and those that nobody has to write."""

from collections.abc import Mapping

from ..error_messages import Origin
from ..errors import WrongValue
from .schedules import BUILT_IN, MEASURE, ScheduleSettings, keys_of


def settled_schedules(
    written: Mapping[str, ScheduleSettings], origin: Origin
) -> tuple[dict[str, ScheduleSettings], frozenset[str]]:
    """All schedules by name, and the names of those that are built in.

    Raises WrongValue for a schedule with keys of another job, or without one that its job needs.
    """
    for name, schedule in written.items():
        _check(name, schedule, origin)
    jobs = {schedule.job for schedule in written.values()}
    built_in = {name: one for name, one in BUILT_IN.items() if one.job not in jobs}
    for name in built_in.keys() & written.keys():
        job, given = BUILT_IN[name].job, written[name].job
        raise WrongValue(
            f"{origin.table(('schedules', name, 'job'))}: its job is {given}, and the built-in schedule for "
            f"{job} has that name: give this one another"
        )
    return {**written, **built_in}, frozenset(built_in)


def _check(name: str, schedule: ScheduleSettings, origin: Origin) -> None:
    allowed = keys_of(schedule.job)
    if strange := sorted(schedule.model_fields_set - allowed):
        where = origin.of(("schedules", name, strange[0]))
        raise WrongValue(
            f"{where} is nothing that job {schedule.job} takes (it takes {', '.join(sorted(allowed))})"
        )
    if schedule.job == "upgrade" and not (schedule.old and schedule.new):
        missing = "new" if schedule.old else "old"
        raise WrongValue(
            f'{origin.table(("schedules", name, missing))}: "{missing}" is missing: job upgrade judges a new '
            "environment against an old one"
        )
    if schedule.job != MEASURE:
        return
    if schedule.baseline is not None and schedule.baseline not in schedule.environments:
        where = origin.of(("schedules", name, "baseline"))
        raise WrongValue(
            f'{where} is "{schedule.baseline}", expected one of its environments '
            f"({', '.join(schedule.environments)})"
        )
    for key in ("environments", "machines"):
        values = getattr(schedule, key) or ()
        if twice := [value for value in values if list(values).count(value) > 1]:
            raise WrongValue(f'{origin.of(("schedules", name, key))} has "{twice[0]}" twice')
