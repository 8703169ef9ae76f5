"""What a scheduler advertises in the database: its timetable, for readers on other machines."""

from datetime import datetime, tzinfo
from typing import Any

from configuration.schedules import MEASURE, ScheduleSettings, zone
from configuration.settings import Settings

from . import timetable
from .planner import labels_of, measure_spec

#: Fire times of each schedule that are advertised.
_NEXT = 7


def advertised_facts(settings: Settings, now: datetime, *, measures: bool) -> dict[str, Any]:
    """Time zone, what counts as silent, late and disturbed, and every schedule with its next fire times.

    `measures` says whether this scheduler measures, or only plans and thinks. Nothing of it is a secret.
    """
    local_zone = zone(settings.timezone)
    return {
        "measures": measures,
        "timezone": settings.timezone,
        "silent_minutes": settings.alerts.silent_minutes,
        "overdue_hours": settings.alerts.overdue_hours,
        "disturbed_share": settings.alerts.disturbed_share,
        "schedules": [
            {
                "schedule": name,
                "job": schedule.job,
                "cron": schedule.cron,
                "enabled": schedule.enabled,
                "built_in": name in settings.built_in_schedules,
                "labels": [label for label in labels_of(schedule) if label],
                "next": [moment.isoformat() for moment in _upcoming(schedule, local_zone, now)],
                **_about(schedule),
            }
            for name, schedule in settings.schedules.items()
        ],
    }


def _upcoming(schedule: ScheduleSettings, local_zone: tzinfo, now: datetime) -> list[datetime]:
    return timetable.upcoming(schedule.cron, local_zone, now, _NEXT) if schedule.enabled else []


def _about(schedule: ScheduleSettings) -> dict[str, Any]:
    """What is measured, where anything is."""
    if schedule.job == MEASURE:
        suite = measure_spec(schedule, "").get("suite") or "chosen cases"
        environments = list(schedule.environments)
        return {"suite": suite, "environments": environments, "baseline": schedule.baseline or ""}
    if schedule.job == "upgrade":
        return {"suite": schedule.suite or "", "environments": [schedule.old, schedule.new], "baseline": ""}
    return {"suite": "", "environments": [], "baseline": ""}
