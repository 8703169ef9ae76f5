"""Histories as detection takes them: the first night of each calendar week is the weekly one."""

from scheduled_jobs.detection.series_history import nights
from support.builders.detection_series import a_series


def test_the_first_night_of_a_calendar_week_is_its_weekly_one() -> None:
    series = a_series(30)
    made = nights(series, {}, [point.at.run for point in series.points])
    weeks = [point.at.started_at.isocalendar()[:2] for point in series.points]
    firsts = [number for number, week in enumerate(weeks) if number == 0 or week != weeks[number - 1]]
    assert [number for number, night in enumerate(made) if night.weekly] == firsts and len(firsts) >= 4
    # A window that begins later finds the same nights weekly, apart from its own first one.
    later = nights(
        series.__class__(series.key, series.machine, series.points[3:]), {}, [p.at.run for p in series.points]
    )
    assert [night.weekly for night in later[1:]] == [night.weekly for night in made[4:]]
