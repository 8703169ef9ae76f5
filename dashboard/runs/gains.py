"""The gains of a run's techniques: tables next to the absolute numbers, and the frame of the CSV file."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from html import escape

import pandas as pd

from analysis.claims_check import ClaimMeasurement, findings
from analysis.speedups import Gain, gains
from dashboard.components import frames, markup, parts, tables, wording
from records.outcomes import Measurement, Outcome
from records.references import Claim
from records.runs import Run
from reports.text.verdict_text import refusal
from runner.suites.references import baselines, claims_for

#: The gains of a run by case and environment.
Gains = Mapping[tuple[str, str], Sequence[Gain]]

#: Each claim, with case, environment and what was found wherever it applies.
Claimed = Mapping[Claim, Sequence[tuple[str, str, ClaimMeasurement]]]

#: Gains that have a table of their own.
_SCALING = ("efficiency", "one process")


def section(run: Run, outcomes: Sequence[Outcome], measured: Sequence[Measurement]) -> None:
    """What each technique of a run brings, how it scales, what the field claims."""
    found = gains(outcomes, baselines)
    if any(gain.ratio is not None for own in found.values() for gain in own):
        _ratios(run, measured, found)
    if claimed := findings(outcomes, found, claims_for):
        name = f"claims-{run.id}.csv"
        parts.heading("Claimed, and measured here", lambda: claims_frame(claimed, run), name)
        parts.html(claims(claimed, lambda case, environment: tables.case(run, case, environment)))


def _ratios(run: Run, measured: Sequence[Measurement], found: Gains) -> None:
    parts.heading("What each technique brings", lambda: frame(run, found), f"gains-{run.id}.csv")
    parts.caption(wording.ABOUT_GAINS)
    parts.html(speed_ups(run, measured, found))
    if scaled := scaling(run, measured, found):
        parts.heading("Scaling", lambda: frame(run, _scaled(found)), f"scaling-{run.id}.csv")
        parts.caption(wording.ABOUT_SCALING)
        parts.html(scaled)


def speed_ups(run: Run, measured: Sequence[Measurement], found: Gains) -> str:
    """Each baseline and below it the cases that are set against it: absolute numbers first, then ratios."""
    points = {(m.case, m.environment, m.metric): m.point for m in measured}
    groups: dict[tuple[str, str], list[Mapping[str, Gain]]] = defaultdict(list)
    for own in found.values():
        kinds = {gain.kind: gain for gain in own}
        if speed_up := kinds.get("speed-up"):
            groups[speed_up.against, speed_up.environment].append(kinds)
    shares = [kind for kind in ("memory", "size") if any(kind in k for ks in groups.values() for k in ks)]
    columns = [
        ("Case", False),
        ("Latency (min-based, ms)", True),
        ("Items/s", True),
        ("Speed-up", True),
        ("95 % interval", True),
        ("n", True),
        *((kind.capitalize(), True) for kind in shares),
    ]
    rows: list[tuple[str, ...]] = []
    for (base, environment), cases in groups.items():
        if (base, environment, "latency") in points:
            empty = ("",) * (2 + len(shares))
            rows.append((*_absolute(run, points, base, environment), "baseline", *empty))
        for kinds in cases:
            gain = kinds["speed-up"]
            ratios = (_ratio(kinds[kind]) if kind in kinds else wording.NONE for kind in shares)
            rows.append((*_absolute(run, points, gain.case, environment), *_paired(gain), *ratios))
    return markup.table("What each technique brings", columns, rows, tall=True)


def scaling(run: Run, measured: Sequence[Measurement], found: Gains) -> str:
    """Several ranks against one, several processes against one with all the CPUs; empty without any."""
    points = {(m.case, m.environment, m.metric): m.point for m in measured}
    scaled = [gain for own in _scaled(found).values() for gain in own]
    columns = [
        ("Case", False),
        ("Latency (min-based, ms)", True),
        ("Items/s", True),
        ("Efficiency, or times", True),
        ("95 % interval", True),
        ("n", True),
        ("Against", False),
        ("Its items/s", True),
    ]
    rows = (
        (
            *_absolute(run, points, gain.case, gain.environment),
            *_paired(gain),
            # The workload is the same: the technique says it all.
            escape(wording.case(gain.against).technique),
            _number(points.get((gain.against, gain.environment, "throughput")), "items/s"),
        )
        for gain in scaled
    )
    return markup.table("Scaling", columns, rows) if scaled else ""


def claims(claimed: Claimed, named: Callable[[str, str], str]) -> str:
    """Published claims next to measurements; `named` is the HTML of a case and environment."""
    rows: list[tuple[str, ...]] = []
    for claim, measured in claimed.items():
        # As in the table of measurements, what rows have in common stands in the first of them.
        about = (_statement(claim), _claimed(claim))
        for case, environment, measurement in measured:
            rows.append((*about, *_measured(claim, measurement), named(case, environment)))
            about = ("", "")
    columns = [
        ("Claim", False),
        ("Claimed", True),
        ("Measured here", True),
        ("95 % interval", True),
        ("n", True),
        ("Case", False),
    ]
    return markup.table("Claimed, and measured here", columns, rows, tall=True)


def claims_frame(claimed: Claimed, run: Run | None = None) -> pd.DataFrame:
    """Every claim with every case that it is about, for CSV; `kind` says how both numbers are to be read.

    `environment` is a fingerprint; with the `run` that all are of, `torch` says which PyTorch it has.
    """
    versions = frames.torch_versions(run) if run else {}
    rows = [
        {
            "claim": claim.statement,
            "metric": claim.metric,
            "kind": claim.kind,
            "claimed_low": claim.low,
            "claimed_high": claim.high,
            "claimed_for": claim.hardware,
            "source": claim.source,
            "case": case,
            **({"torch": versions.get(environment, environment)} if run else {}),
            "environment": environment,
            "measured": measurement.point,
            "low": measurement.low,
            "high": measurement.high,
            "n": measurement.n,
            "reason": refusal(measurement.reason),
        }
        for claim, measured in claimed.items()
        for case, environment, measurement in measured
    ]
    return pd.DataFrame(rows)


def frame(run: Run, found: Gains) -> pd.DataFrame:
    """Every gain of a run, for CSV; `reason` says why there is no ratio, `environment` is a fingerprint."""
    versions, names = frames.torch_versions(run), frames.environment_names(run)
    rows = [
        {
            "run": run.id,
            "case": gain.case,
            "torch": versions.get(gain.environment, gain.environment),
            "environment": gain.environment,
            "environment_name": names.get(gain.environment, ""),
            "kind": gain.kind,
            "metric": gain.metric,
            "ratio": gain.ratio,
            "low": gain.low,
            "high": gain.high,
            "n": gain.n,
            "left_out": gain.left_out,
            "disturbed": gain.disturbed,
            "against": gain.against,
            "reason": refusal(gain.reason),
        }
        for own in found.values()
        for gain in own
    ]
    return pd.DataFrame(rows)


def _scaled(found: Gains) -> Gains:
    return {key: [gain for gain in own if gain.kind in _SCALING] for key, own in found.items()}


def _absolute(
    run: Run, points: Mapping[tuple[str, str, str], float], case: str, environment: str
) -> tuple[str, str, str]:
    latency, rate = (points.get((case, environment, metric)) for metric in ("latency_floor", "throughput"))
    return tables.case(run, case, environment), _number(latency, "ms"), _number(rate, "items/s")


def _number(value: float | None, unit: str) -> str:
    return escape(wording.NONE if value is None else wording.number(value, unit))


def _paired(gain: Gain) -> tuple[str, str, str]:
    """Cells: the ratio, its interval or why there is none, and n with what was left out."""
    n = str(gain.n) + (f"<small>{gain.left_out:,} left out</small>" if gain.left_out else "")
    n += f"<small>{gain.disturbed:,} disturbed</small>" if gain.disturbed else ""
    if gain.ratio is None:
        return wording.NONE, f'<span class="py-reason">{escape(refusal(gain.reason))}</span>', n
    return f"<strong>{_ratio(gain)}</strong>", escape(wording.gain_interval(gain)), n


def _ratio(gain: Gain) -> str:
    return escape(wording.gain(gain))


def _claimed(claim: Claim) -> str:
    ends = dict.fromkeys((claim.low, claim.high))
    return escape(" to ".join(wording.claimed(claim.kind, claim.metric, value) for value in ends))


def _measured(claim: Claim, measurement: ClaimMeasurement) -> tuple[str, str, str]:
    if measurement.point is None:
        return (
            wording.NONE,
            f'<span class="py-reason">{escape(refusal(measurement.reason))}</span>',
            wording.NONE,
        )
    point = f"<strong>{escape(wording.claimed(claim.kind, claim.metric, measurement.point))}</strong>"
    if measurement.low is None or measurement.high is None:
        return point, wording.NONE, str(measurement.n)
    ends = (wording.claimed(claim.kind, claim.metric, value) for value in (measurement.low, measurement.high))
    return point, escape(" to ".join(ends)), str(measurement.n)


def _statement(claim: Claim) -> str:
    source = escape(claim.source)
    if claim.url:
        source = f'<a href="{escape(claim.url)}" target="_blank" rel="noreferrer">{source}</a>'
    origin = f"<small>{escape(claim.hardware)} · {source}</small>"
    return f'<span class="py-reason">{escape(claim.statement)}{origin}</span>'
