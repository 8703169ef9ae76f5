"""Whether last night can be trusted: disturbance, and the canary against its own noise."""

from dataclasses import replace

import pytest

from dashboard.today import load
from dashboard.today.verdict import NightTrust, canary_sentences, measured_machines, trust
from records.kinds import EnvironmentKind
from records.series import SeriesKey, SeriesPoint
from support.builders.run_records import MLP, a_night
from support.builders.schedule_nights import Mornings


@pytest.mark.parametrize(("not_ok", "word"), [({}, "yes"), ({MLP: "throttled"}, "partly")])
def test_a_disturbed_night_is_trusted_partly(
    url: str, mornings: Mornings, not_ok: dict[str, str], word: str
) -> None:
    mornings.nights([3, 2, 1, 0], not_ok=not_ok)
    answer = trust(load.results(url, load.morning(url).parts), [])
    assert answer.word == word
    assert ("2 throttled of 6 outcomes (33 %)" in " ".join(answer.sentences)) == (word == "partly")


def test_without_a_night_nothing_is_known_and_a_moved_canary_is_a_reason(
    url: str, mornings: Mornings
) -> None:
    assert trust([], []) == NightTrust("not known", "quiet", ("No night was measured.",))
    mornings.nights([1, 0])
    answer = trust(load.results(url, load.morning(url).parts), ["bench-1: canary moved"])
    assert (answer.word, answer.sentences) == ("partly", ("bench-1: canary moved",))


def test_of_a_night_that_measured_nothing_the_night_before_says_nothing(url: str, mornings: Mornings) -> None:
    mornings.nights([2, 1])
    mornings.trigger(mornings.due(0), kind="missed")
    found = load.results(url, load.morning(url).parts)
    assert trust(found, []) == NightTrust("not known", "quiet", ("No night was measured.",))
    assert measured_machines(found) == set()


@pytest.mark.parametrize(("last", "outside"), [(10.02, False), (10.8, True)])
def test_the_canary_is_held_against_its_own_noise(last: float, outside: bool) -> None:
    key = SeriesKey("canary_compute/infer/-/eager", "latency_floor", "h", "Xeon", "p", "quiet")
    values = [10.0, 10.01, 9.99, 10.0, 10.01, last]
    blank = dict.fromkeys(SeriesPoint.__dataclass_fields__, None)
    points = tuple(
        SeriesPoint(
            **{
                **blank,
                **{"run": f"n{night}", "machine": "bench-1", "started_at": a_night(night), "point": value},
                **{"environment_kind": EnvironmentKind.CANARY, "environment": "c"},
            }
        )
        for night, value in enumerate(values)
    )
    moved, still = canary_sentences({key: points}, "n5")
    assert (len(moved), len(still)) == ((1, 0) if outside else (0, 1))
    assert "canary_compute" in (moved or still)[0]
    other = tuple(replace(point, environment_kind=EnvironmentKind.MEASURED) for point in points)
    assert canary_sentences({key: other}, "n5") == ([], [])
