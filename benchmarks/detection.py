"""Detection night by night: false candidates, what is found and when, beside the field's rules.

    python benchmarks/detection.py [--series 2000] [--nights 365] [--seed 1] [--real FOLDER] [--part PART]

Without `--real` series are generated (detection_series.py); with it they are drawn again from the real ones
in the CSV files of the folder. The tables of docs/decisions/0016-detection.md are made so. Takes minutes.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from detection_rules import HISTORY, TONIGHT, Rule
from detection_series import Array, Source, between_nights, drawn_again, generated, kind, truth
from detection_tracks import tracks
from numpy.typing import NDArray
from verdict_simulation import words

from analysis.comparison.plan import Plan
from analysis.detection.change_points import NightValue, Rules, change_points, judge
from analysis.detection.night_scan import scan
from analysis.detection.segments import segments

#: No verdict is given on the first nights. The field's rules see at most so many nights back.
WARM, BACK = 40, 120
#: Who answers for a step later than this has not found it; a drift is over by then twice.
LATE, LATE_DRIFT = 30, 120
#: Positions so near to each other, or to the truth, are one.
NEAR = 5
KINDS = ("low", "mid", "high")
PLANTED = (("step", 0.05), ("step", 0.10), ("step", 0.20), ("drift", 0.10))
#: The field's rules take their time, and judge one series of so many.
FEWER = 25


@dataclass(frozen=True, slots=True)
class Alarm:
    """Raised on a night: a change from `index` on; a comparison with the night `against` would confirm it."""

    raised: int
    index: int
    sign: int
    against: int


@dataclass(frozen=True, slots=True)
class Null:
    """A series of which nothing changes, as logarithms."""

    values: Array
    kind: str
    spread: float


Watcher = Callable[[Array], list[Alarm]]


def ours(values: Array) -> list[Alarm]:
    """Candidates of analysis.detection.change_points, in one pass; `same_each_night` shows that it may."""
    judged = judge(_nights(values), "lower", Rules(recent=len(values)))
    return [
        Alarm(one.raised, one.index, 1 if one.direction == "worse" else -1, one.against)
        for one in sorted(judged.candidates + judged.returned, key=lambda one: one.raised)
        if one.raised >= WARM
    ]


def tonight(rule: Rule) -> Watcher:
    """A rule of the newest night, asked every night; nights in a row with the same answer are one alarm."""

    def watch(values: Array) -> list[Alarm]:
        alarms: list[Alarm] = []
        before = 0
        for night in range(WARM, len(values)):
            seen = rule(values[max(0, night + 1 - BACK) : night + 1])
            sign = seen[0][1] if seen else 0
            if sign and sign != before:
                alarms.append(Alarm(night, night, sign, 0))
            before = sign
        return alarms

    return watch


def history(rule: Rule) -> Watcher:
    """A rule of the history, asked each night of the last 120; what is new in its answer is an alarm."""

    def watch(values: Array) -> list[Alarm]:
        alarms: list[Alarm] = []
        known: list[tuple[int, int]] = []
        for night in range(WARM - 1, len(values)):
            first = max(0, night + 1 - BACK)
            for at, sign in rule(values[first : night + 1]):
                index = first + at
                if not any(
                    abs(index - known_index) <= NEAR and sign == other for known_index, other in known
                ):
                    known.append((index, sign))
                    if night >= WARM:
                        alarms.append(Alarm(night, index, sign, 0))
        return alarms

    return watch


def confirmed(rng: np.random.Generator, effects: Array, spreads: Array, signs: Array) -> NDArray[np.bool_]:
    """Which comparisons find what they were started for: pairs under the plan of analysis.comparison.plan,
    as judged.

    Pairs are those of docs/decisions/0011-verdicts.md called `wild`: normal with this spread, and one in 8 is
    off by 11 to 24 %. What is unclear is not confirmed.
    """
    plan = Plan()
    shape = (len(effects), plan.largest)
    off = rng.uniform(0.11, 0.24, shape) * rng.choice([-1, 1], shape) * (rng.random(shape) < 1 / 8)
    pairs = effects[:, None] + spreads[:, None] * rng.normal(size=shape) + off
    return words(pairs, plan)[0] == signs


def false_alarms(watch: Watcher, nulls: Sequence[Null], rng: np.random.Generator) -> tuple[str, str, float]:
    """Per series-night by kind, confirmed ones per series-year, and per series-night of all kinds."""
    counted: list[tuple[str, int]] = []
    spreads: list[float] = []
    signs: list[int] = []
    nights = len(nulls[0].values) - WARM
    for null in nulls:
        alarms = watch(null.values)
        counted.append((null.kind, len(alarms)))
        spreads += [null.spread] * len(alarms)
        signs += [alarm.sign for alarm in alarms]
    true = np.zeros(len(signs))
    left = int(confirmed(rng, true, np.array(spreads), np.array(signs)).sum()) if signs else 0
    by_kind = [_mean([many for name, many in counted if name == one]) / nights for one in KINDS]
    rate = _mean([many for _, many in counted]) / nights
    after = 365 * left / nights / len(nulls)
    return " / ".join(f"{one:.4f}" for one in by_kind), f"{after:.4f}", rate


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def found(
    watch: Watcher,
    nulls: Sequence[Null],
    shape: str,
    size: float,
    rng: np.random.Generator,
    pairs: float | None,
) -> tuple[float, float, float, dict[str, float]]:
    """Shares found, and found and confirmed; nights until then in the middle; shares found by kind.

    `pairs` is the spread of a comparison's pairs; None: as large as the series' own between nights.
    """
    rows: list[tuple[str, bool, float]] = []
    effects: list[float] = []
    owners: list[int] = []
    spreads: list[float] = []
    late = LATE if shape == "step" else LATE_DRIFT
    for number, null in enumerate(nulls):
        at = int(rng.integers(60, 100))
        planted = truth(shape, size, at, at + late)
        hits = [
            alarm
            for alarm in watch(null.values[: at + late] + planted)
            if alarm.sign > 0 and alarm.raised >= at and (shape == "drift" or alarm.index >= at - 2 * NEAR)
        ]
        rows.append((null.kind, bool(hits), hits[0].raised - at if hits else math.inf))
        for alarm in hits:
            owners.append(number)
            effects.append(float(planted[alarm.raised] - planted[alarm.against]))
            spreads.append(null.spread if pairs is None else pairs)
    sure = confirmed(rng, np.array(effects), np.array(spreads), np.ones(len(effects))) if effects else []
    raised = {owner for owner, yes in zip(owners, sure, strict=True) if yes}
    by_kind = {one: _mean([hit for name, hit, _ in rows if name == one]) for one in KINDS}
    delay = float(np.median([night for _, _, night in rows]))
    return _mean([hit for _, hit, _ in rows]), len(raised) / len(nulls), delay, by_kind


def nightly(nulls: Sequence[Null], seed: int) -> None:
    """The table of rules in nightly mode."""
    few = nulls[: max(20, len(nulls) // FEWER)]
    print("\nplanted: share found, share confirmed, nights until found in the middle")
    print(f"ours on {len(nulls)} series, the field's rules on the first {len(few)} of them")
    planted = [f"{size:.0%} {shape}" for shape, size in PLANTED]
    print(
        "| rule | false a series-night, low / mid / high | all | confirmed a series-year | "
        + " | ".join(planted)
        + " |"
    )
    print("|---|---|---|---|" + "---|" * len(planted))
    watchers: list[tuple[str, Watcher, Sequence[Null]]] = [
        ("**ours**", ours, nulls),
        ("ours, the same few", ours, few),
    ]
    watchers += [(name, tonight(rule), few) for name, rule in TONIGHT.items()]
    watchers += [(name, history(rule), few) for name, rule in HISTORY.items()]
    for name, watch, series in watchers:
        rng = np.random.default_rng(seed)
        kinds, after, rate = false_alarms(watch, series, rng)
        cells: list[str] = []
        for shape, size in PLANTED:
            share, sure, delay, _ = found(watch, series, shape, size, rng, None)
            cells.append(f"{share:.2f}, {sure:.2f}, {delay:.0f}")
        print(f"| {name} | {kinds} | {rate:.4f} | {after} | " + " | ".join(cells) + " |", flush=True)


def by_noise(nulls: Sequence[Null], seed: int) -> None:
    """What ours finds by noise, with pairs as noisy as nights and with quieter ones."""
    print("\n| planted | found, low / mid / high | confirmed, pairs as noisy as nights | pairs of 1.5 % |")
    print("|---|---|---|---|")
    for shape, size in (("step", 0.02), ("step", 0.03), *PLANTED, ("drift", 0.05)):
        _, sure, _, kinds = found(ours, nulls, shape, size, np.random.default_rng(seed), None)
        quiet = found(ours, nulls, shape, size, np.random.default_rng(seed), 0.015)[1]
        shares = " / ".join(f"{kinds[one]:.2f}" for one in KINDS)
        print(f"| {size:.0%} {shape} | {shares} | {sure:.2f} | {quiet:.2f} |")


def same_each_night(nulls: Sequence[Null]) -> None:
    """Judge some series anew every night, and check that it is what one pass says."""
    many = 0
    for null in nulls[:10]:
        nights = _nights(null.values)
        seen: set[tuple[int, int, int]] = set()
        for night in range(WARM, len(nights)):
            for one in judge(nights[: night + 1], "lower").candidates:
                if one.raised >= WARM:
                    seen.add((one.raised, one.index, 1 if one.direction == "worse" else -1))
        once = {(alarm.raised, alarm.index, alarm.sign) for alarm in ours(null.values)}
        if seen != once:
            sys.exit(f"judged every night {sorted(seen)}, in one pass {sorted(once)}")
        many += len(once)
    print(
        f"\n10 series judged anew every night: {many} candidates, the same nights and places as in one pass"
    )


def retrospective(source: Source, cases: int, seed: int) -> None:
    """Histories of 90 nights judged once: one step of 2, 5, 10 or 20 % up or down, or none."""
    rng = np.random.default_rng(seed)
    made: list[tuple[Array, int, float]] = []
    for number in range(cases):
        values, at, size = source(rng, 90), 0, 0.0
        if number >= 0.385 * cases:
            at, size = int(rng.integers(15, 76)), (0.02, 0.05, 0.10, 0.20)[number % 4]
            values = values + rng.choice([-1, 1]) * truth("step", size, at, 90)
        made.append((values, at, size))
    whole: dict[str, Callable[[Array], list[int]]] = {
        "**ours**": lambda values: _edges(values, Rules(floor=0.005)),
        "**ours**, 2 % and more": lambda values: _edges(values, Rules()),
    }
    for name, rule in HISTORY.items():
        whole[name] = lambda values, rule=rule: [at for at, _ in rule(values)]
    print(f"\n{cases} histories of 90 nights, judged once")
    print("| rule | P | R | F1 | false a series-year | 2 / 5 / 10 / 20 % |")
    print("|---|---|---|---|---|---|")
    for name, rule in whole.items():
        print(f"| {name} | " + _scores(rule, made) + " |")


def _edges(values: Array, rules: Rules) -> list[int]:
    return [low for low, _ in segments(values.tolist(), (), rules)[1:]]


def _scores(rule: Callable[[Array], list[int]], made: Sequence[tuple[Array, int, float]]) -> str:
    right = wrong = missed = false = 0
    hits: dict[float, list[bool]] = {}
    for values, at, size in made:
        seen = rule(values)
        hit = bool(at) and any(abs(one - at) <= NEAR for one in seen)
        right += hit
        wrong += len(seen) - hit
        if at:
            missed += not hit
            hits.setdefault(size, []).append(hit)
        else:
            false += len(seen)
    nulls = sum(not at for _, at, _ in made)
    precision, recall = right / max(1, right + wrong), right / (right + missed)
    f1 = 2 * precision * recall / max(1e-9, precision + recall)
    sizes = " / ".join(f"{_mean(hits[size]):.2f}" for size in sorted(hits))
    return f"{precision:.3f} | {recall:.3f} | {f1:.3f} | {false / nulls * 365 / 90:.2f} | {sizes}"


def with_control(source: Source, series: int, seed: int) -> None:
    """Changes attributed to PyTorch and to the machine, with a control of the same noise and without."""
    step, drift, none = truth("step", 0.08, 80, 140), truth("drift", 0.10, 60, 140), np.zeros(140)
    scenes = {
        "nothing": (none, none, False),
        "+8 % by PyTorch": (step, none, False),
        "+8 % by the machine": (step, step, False),
        "+10 % over 60 nights by the machine": (drift, drift, False),
        "+8 % by PyTorch on the night a new driver gives -8 %": (none, -step, True),
        "+8 % by PyTorch and +8 % by the machine": (2 * step, step, False),
    }
    print("\n| what happens on night 80 of 140 | candidates without | with a control | the machine's |")
    print("|---|---|---|---|")
    for name, (own, other, border) in scenes.items():
        rng = np.random.default_rng(seed)
        counts = np.zeros(3)
        for _ in range(series):
            values = source(rng, 140)
            # The control is another process of the same case, so it has the same spread and another night.
            control = _nights(rng.permutation(values) + other, 80 if border else 0)
            nights = _nights(values + own, 80 if border else 0)
            begin = 60 if "over" in name else 78
            alone, with_baseline = (_worse(nights, given, begin) for given in (None, control))
            counts += [any(not m for m in alone), any(not m for m in with_baseline), any(with_baseline)]
        print(f"| {name} | " + " | ".join(f"{share:.2f}" for share in counts / series) + " |")


def _nights(values: Array, border: int = 0) -> list[NightValue]:
    return [
        NightValue(value, "driver" if border and number == border else "", weekly=number % 7 == 0)
        for number, value in enumerate(np.exp(values).tolist())
    ]


def _worse(nights: Sequence[NightValue], control: Sequence[NightValue] | None, begin: int) -> list[bool]:
    """Of each candidate for the worse from night `begin` on: was it the machine's?"""
    judged = judge(nights, "lower", Rules(recent=len(nights)), control)
    return [one.machine for one in judged.candidates if one.direction == "worse" and one.raised >= begin]


def speed(nulls: Sequence[Null]) -> None:
    """Seconds for 10,000 series of so many nights, one core."""
    logs = [null.values.tolist() for null in nulls]
    nights = [_nights(null.values) for null in nulls]
    for name, work in (
        ("the newest night judged", lambda: [scan(one, (), Rules()) for one in logs]),
        ("as the job judges it", lambda: [judge(one, "lower") for one in nights]),
        ("the change points of the whole history", lambda: [change_points(one, "lower") for one in nights]),
        ("as the job judges it, with a control", lambda: [judge(one, "lower", None, one) for one in nights]),
    ):
        begin = time.process_time()
        work()
        seconds = (time.process_time() - begin) * 10_000 / len(nulls)
        print(
            f"10,000 series of {len(logs[0])} nights, {name}: {seconds:.1f} s (measured on {len(nulls)})",
            flush=True,
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", type=Path)
    parser.add_argument(
        "--part", choices=("tracks", "nightly", "noise", "same", "retrospective", "control", "speed")
    )
    given = parser.parse_args()
    if given.series < 20 or given.nights < 220:
        sys.exit("20 series and 220 nights are the least that says something")
    source = drawn_again(given.real) if given.real else generated
    # The penalty of the full pass was chosen on the other half.
    unseen = drawn_again(given.real, slice(1, None, 2)) if given.real else generated
    rng = np.random.default_rng(given.seed)
    values = [source(rng, given.nights) for _ in range(given.series)]
    nulls = [Null(one, kind(one), between_nights(one)) for one in values]
    parts: dict[str, Callable[[], None]] = {
        "tracks": lambda: tracks(max(20, given.series // 10), given.seed),
        "same": lambda: same_each_night(nulls),
        "noise": lambda: by_noise(nulls, given.seed),
        "nightly": lambda: nightly(nulls, given.seed),
        "retrospective": lambda: retrospective(unseen, given.series, given.seed),
        "control": lambda: with_control(source, max(20, given.series // 10), given.seed),
        "speed": lambda: speed(nulls),
    }
    for name, part in parts.items():
        if given.part in (None, name):
            part()


if __name__ == "__main__":
    main()
