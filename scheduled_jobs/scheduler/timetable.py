"""Computes due, missed and next moments of cron expressions, and provides the triggers.

The library follows Debian's cron where clocks change: a time of day that does not exist fires right after the
gap, one that exists twice fires at the first of them. An expression with a star for its minute or hour
follows elapsed time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from apscheduler.triggers.base import BaseTrigger
from cronsim import CronSim

TIMETABLE, CAUGHT_UP, MISSED = "timetable", "caught up", "missed"

#: A scheduled run that starts later than this after its fire time counts as caught up.
_PROMPT = timedelta(seconds=90)
#: The most missed moments of one schedule that are stored; the job `check` alone has 144 a day.
MOST_MISSED = 100
#: The first period that is searched; with too few moments it is multiplied by four, repeatedly.
_FIRST_LOOK = timedelta(days=2)


class CronTrigger(BaseTrigger):
    """Fires at the moments of a cron expression; the planner handles past ones."""

    def __init__(self, cron: str, zone: tzinfo) -> None:
        self._cron, self._zone = cron, zone

    def get_next_fire_time(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime | None:
        """The next moment after `now` and after the previous one, in UTC."""
        after = now if previous_fire_time is None else max(previous_fire_time, now)
        return next(iter(next_fire_times(self._cron, self._zone, after)), None)


class EveryTrigger(BaseTrigger):
    """Fires at once, and then the given seconds after each time.

    APScheduler's IntervalTrigger lists every missed interval, which after setting a clock from 1970 do not
    fit into memory.
    """

    def __init__(self, seconds: float) -> None:
        # With an interval of 0 APScheduler would list fire times endlessly.
        self._interval = timedelta(seconds=max(seconds, 0.001))

    def get_next_fire_time(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime:
        """Now, or an interval from now if it has fired before."""
        return now if previous_fire_time is None else now + self._interval


@dataclass(frozen=True, slots=True)
class Due:
    """A past fire time, and the kind of its scheduled run: in time, caught up, or missed."""

    moment: datetime
    kind: str


def due(cron: str, zone: tzinfo, since: datetime, now: datetime) -> list[Due]:
    """The moments in (since, now], oldest first; all aware, the returned ones in UTC.

    Only the newest is run; the others are `missed`.
    """
    moments = _newest(cron, zone, since, now, MOST_MISSED + 1)
    if not moments:
        return []
    *missed, newest = moments
    kind = TIMETABLE if now - newest <= _PROMPT else CAUGHT_UP
    return [*(Due(moment, MISSED) for moment in missed), Due(newest, kind)]


def next_fire_times(cron: str, zone: tzinfo, after: datetime, count: int = 1) -> list[datetime]:
    """The next moments later than `after`, in UTC; fewer if there are no more within fifty years."""
    found: list[datetime] = []
    moments = _moments(cron, zone, after)
    while len(found) < count and (moment := next(moments, None)) is not None:
        found.append(moment)
    return found


def _newest(cron: str, zone: tzinfo, since: datetime, now: datetime, most: int) -> Sequence[datetime]:
    """The newest moments in (since, now], at most the given number, oldest first."""
    look = _FIRST_LOOK
    while True:
        # Compared before subtracting, because of the beginning of the calendar.
        start = since if now - since <= look else now - look
        found: list[datetime] = []
        for moment in _moments(cron, zone, start):
            if moment > now:
                break
            found.append(moment)
        if len(found) >= most or start == since:
            return found[-most:]
        look *= 4


def _moments(cron: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """Every moment later than `after`, in order, each once."""
    last = after.astimezone(UTC)
    for local in CronSim(cron, after.astimezone(zone)):
        moment = local.astimezone(UTC)
        # In the repeated hour the library follows the wall clock and may return past moments.
        if moment > last:
            last = moment
            yield moment
