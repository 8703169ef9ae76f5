"""From drawn nights to the digest by the product's own functions: found, compared, measured in pairs.

Nights of a series differ by 2 %, the middle class of docs/decisions/0016-detection.md. A session compares the
two environments that the finding names; its pairs are those that docs/decisions/0011-verdicts.md calls wild:
they differ by 0.6 %, so that equal builds are proved equal, and one in eight is off by 11 to 24 %.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import pytest

from analysis.comparison.case_results import CaseResult, CaseSide
from analysis.comparison.pairs import Pair
from analysis.comparison.plan import Plan
from analysis.comparison.thresholds import threshold_of
from analysis.comparison.verdict import Verdict, judge
from analysis.detection.change_points import judge as judge_nights
from analysis.detection.confirmation import FindingVerdict, judge_finding
from analysis.detection.nights import Decision, JudgedSeries, NightValue, Rules
from records.evidence import ComparedRuns
from records.findings import Finding, NewFinding
from records.series import HistoryPoint, HistoryRun, SeriesKey, Track
from scheduled_jobs.detection.findings import MachineSeries, compared_runs, decisions_of, series_findings
from scheduled_jobs.notifications.digest import digest
from support.builders.notifications import MORNING
from support.builders.notifications import a_night as a_night_to_report
from support.builders.run_records import MLP, a_night

METRIC = "latency_floor"
KEY = SeriesKey(MLP, METRIC, "hardware", "Xeon", "profile", "quiet")
TRACK = Track("nightly", "nightly", "")
NOISE, PAIRS = 0.02, 0.006
SERIES = 100
#: What a build makes of the case, as a log ratio to the first one.
Truth = Callable[[int], float]


def step(size: float, at: int) -> Truth:
    return lambda build: math.log1p(size) if build >= at else 0.0


def drift(size: float, at: int, over: int) -> Truth:
    return lambda build: math.log1p(size) * min(1.0, max(0, build - at) / over)


@dataclass(frozen=True)
class Drawn:
    """A history: `truth` by build, a new build every `every` nights; the change begins with night `at`."""

    truth: Truth
    at: int
    nights: int
    every: int = 1

    def values(self, seed: int) -> list[float]:
        chance = random.Random(f"nights {seed}")
        return [
            10.0 * math.exp(self.truth(night // self.every) + chance.gauss(0.0, NOISE))
            for night in range(self.nights)
        ]

    def series(self, values: list[float]) -> MachineSeries:
        points = [
            HistoryPoint(HistoryRun(f"run-{n}", a_night(n), str(n // self.every), "m"), value)
            for n, value in enumerate(values)
        ]
        return MachineSeries(KEY, "m", tuple(points))

    def found(self, seed: int) -> Finding | None:
        """The first finding for the worse since the change, as the look on its first morning stores it."""
        values = self.values(seed)
        night = next((one for one in first_seen(values) if one >= self.at), None)
        if night is None:
            return None
        judged, series = looked_at(values[: night + 1]), self.series(values[: night + 1])
        (new, *_) = [
            one for one in series_findings(TRACK, series, judged, ()).findings if one.direction == "worse"
        ]
        assert new.state == "candidate"
        return kept(new, series, 1 + seed)

    def lived(self, seed: int) -> list[Finding]:
        """All findings of a series that is looked at once a week, each with what its session said of it."""
        known: list[Finding] = []
        values = self.values(seed)
        for night in range(30, self.nights, 7):
            series = self.series(values[: night + 1])
            judged = looked_at(values[: night + 1], 7, decisions_of(series, known))
            for new in series_findings(TRACK, series, judged, known).findings:
                if any((each.at_run, each.direction) == (new.at_run, new.direction) for each in known):
                    # What was decided stays so, as where findings are stored.
                    continue
                one = kept(new, series, 1 + len(known))
                said = judge_finding(
                    one, self.measured(compared_runs(one), 1000 * seed + night), rebuilt=False
                )
                change = said.verdict.change if said.verdict else None
                known.append(replace(one, state=said.state, change=one.change if change is None else change))
        return known

    def measured(self, sides: ComparedRuns, seed: int) -> CaseResult:
        """What a session of these two builds says: pairs as the plan takes them."""
        chance, pairs = random.Random(f"pairs {seed}"), list[Pair]()
        effect = self.truth(int(sides.new)) - self.truth(int(sides.old))
        verdict = Verdict(METRIC, "unclear")
        for look in Plan().looks:
            while len(pairs) < look:
                off = chance.uniform(0.11, 0.24) * chance.choice((-1, 1)) if chance.random() < 1 / 8 else 0.0
                log = effect + chance.gauss(0.0, PAIRS) + off
                pairs.append(Pair(10.0, 10.0 * math.exp(log), new_first=len(pairs) % 2 == 0))
            verdict = judge(METRIC, pairs, threshold_of(METRIC), Plan())
            if verdict.word != "unclear":
                break
        return CaseResult(MLP, "eager", CaseSide("ok"), CaseSide("ok"), {METRIC: verdict})


def kept(new: NewFinding, series: MachineSeries, number: int) -> Finding:
    """A new finding as it is stored."""
    places = series.places
    return Finding(
        id=number,
        at=a_night(places[new.at_run]),
        before=a_night(places[new.before_run]),
        machine="m",
        old_torch_version=f"2.{new.old_environment}",
        new_torch_version=f"2.{new.new_environment}",
        found_at=series.points[-1].at.started_at,
        decided_at=None,
        **{name: getattr(new, name) for name in new.__slots__},
    )


def looked_at(values: list[float], recent: int = 1, decisions: Sequence[Decision] = ()) -> JudgedSeries:
    nights = [NightValue(value, weekly=number % 7 == 2) for number, value in enumerate(values)]
    return judge_nights(nights, "lower", Rules(recent=recent), None, decisions)


def first_seen(values: list[float]) -> list[int]:
    """The nights on which a change for the worse could first be seen."""
    judged = looked_at(values, len(values))
    return sorted(one.raised for one in (*judged.candidates, *judged.returned) if one.direction == "worse")


def rulings(drawn: Drawn, series: int = SERIES) -> list[FindingVerdict]:
    """What became of what was found in so many series."""
    found = [one for seed in range(series) if (one := drawn.found(seed)) is not None]
    return [judge_finding(one, drawn.measured(compared_runs(one), one.id), rebuilt=False) for one in found]


CHAINS = {
    "3 %": Drawn(step(0.03, 60), 60, 90),
    "5 %": Drawn(step(0.05, 60), 60, 90),
    "10 %": Drawn(step(0.10, 60), 60, 90),
    "a build a week, 5 %": Drawn(step(0.05, 9), 63, 93, every=7),
    "a drift of 10 %": Drawn(drift(0.10, 40, 120), 70, 160),
    "a track of five nights, 10 %": Drawn(step(0.10, 5), 5, 30),
}


@pytest.mark.parametrize("name", CHAINS)
def test_what_was_found_is_not_compared_with_itself(name: str) -> None:
    decided = rulings(CHAINS[name])
    states = Counter(one.state for one in decided)
    assert len(decided) >= 0.5 * SERIES
    assert states["refuted"] <= 0.05 * len(decided)
    assert states["confirmed"] > states["unclear"]


def test_a_slow_drift_is_one_regression_with_its_whole_size() -> None:
    slow = Drawn(drift(0.10, 40, 300), 40, 365)
    shares: list[float] = []
    for seed in range(3):
        confirmed = [one for one in slow.lived(seed) if one.state == "confirmed"]
        assert confirmed and all(one.direction == "worse" for one in confirmed)
        # A digest that has all of them names the last one, which is measured whole.
        (group,) = digest(a_night_to_report(findings=confirmed)).regressions
        assert (group.largest.shape, group.largest.began_as) == ("drift", confirmed[0].id)
        shares.append(group.largest.change / math.log1p(0.10))
    # The last weeks of it are too little to be seen, and some pairs of a session are far off.
    assert 0.7 <= median(shares) <= 1.1


def test_what_was_confirmed_is_in_the_digest_with_the_night_on_which_it_began() -> None:
    confirmed = [
        replace(
            one.finding,
            key=replace(KEY, case=f"mlp/infer/batch={one.finding.id}/eager"),
            state="confirmed",
            change=one.verdict.change or 0.0,
            decided_at=MORNING,
        )
        for one in rulings(CHAINS["10 %"], 12)
        if one.state == "confirmed" and one.verdict is not None
    ]
    groups = digest(a_night_to_report(findings=confirmed)).regressions
    assert len(confirmed) >= 10
    assert sum(group.count for group in groups) == len(confirmed)
    assert all(abs((group.night - a_night(60)).days) <= 6 for group in groups)
    sizes = [one.change for group in groups for one in group.top]
    assert median(sizes) == pytest.approx(math.log1p(0.10), abs=0.01)
