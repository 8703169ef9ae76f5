"""The techniques in one run: each case with its baseline, its gains and its cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

from analysis.claims_check import findings
from analysis.comparison.case_results import BROKEN, side
from analysis.speedups import ALONE, Gain, gain_refusal, gains
from dashboard.techniques.claims import Claimed
from records.kinds import RunState
from records.outcomes import Measurement, Outcome, OutcomeStatus
from records.references import Baseline
from records.runs import Run
from reports.text.verdict_text import side_reason
from runner.suites.references import baselines, claims_for
from runner.worker.case_key import CaseKey, CaseKeyError

#: Metrics of one case by name.
Metrics = Mapping[str, Measurement]

#: No technique, fp32: the usual baseline.
EAGER = "eager"


@dataclass(frozen=True, slots=True)
class TechniqueResult:
    """The result of a case under a technique in one run.

    `gains` are by kind. `own` are its metrics, `base` those of the baseline of its speed-up. `facts` are
    those of its first `ok` replicate; without one, or with one that was wrong or not compiled, `failed` are
    the statuses. `lost` is the number of replicates that are not ok, `refused` whether its gains were refused
    regardless of its numbers: see `analysis.speedups.gain_refusal`.
    """

    case: str
    key: CaseKey
    run: str
    environment: str
    gains: Mapping[str, Gain]
    own: Metrics
    base: Metrics
    facts: Mapping[str, Any]
    failed: tuple[str, str] | None = None
    lost: int = 0
    refused: bool = False

    @property
    def speed_up(self) -> Gain | None:
        """Its speed-up, if there is a ratio."""
        return self.ratio("speed-up")

    @property
    def technique(self) -> str:
        """Its technique as text."""
        return technique_words(self.case.rpartition("/")[2])

    @property
    def several_ranks(self) -> bool:
        """Whether it has several ranks: more hardware, with an efficiency instead of a speed-up."""
        return self.key.axis("parallel") != "none" and self.key.count("ranks") > 1

    @property
    def times(self) -> float:
        """Its speed-up over its baseline; 0 without a ratio."""
        gain = self.speed_up
        return gain.ratio if gain is not None and gain.ratio is not None else 0.0

    def ratio(self, kind: str) -> Gain | None:
        """Its gain of a kind, if there is a ratio."""
        gain = self.gains.get(kind)
        return gain if gain is not None and gain.ratio is not None else None

    @property
    def has_ratio(self) -> bool:
        """Whether it has a ratio of any kind, which requires a measured baseline."""
        return any(gain.ratio is not None for gain in self.gains.values())

    @property
    def alone(self) -> bool:
        """Whether it is ok but was not measured in a session with its baseline."""
        return self.failed is None and any(
            gain.reason is not None and gain.reason.cause in ALONE for gain in self.gains.values()
        )

    @property
    def is_conclusive(self) -> bool:
        """Whether it shows the gain of the technique: a ratio, or that it is broken or refused.

        An ok case without a partner does not, nor does a skipped, lost or contended one.
        """
        return self.has_ratio or self.refused or (self.failed is not None and self.failed[0] in BROKEN)


@dataclass(frozen=True, slots=True)
class TechniqueRun:
    """The results of techniques in one environment of a run, relative to `baseline`, a technique.

    `metrics` are those of every case, with or without a technique; `on_cpu` is whether it measured a CPU,
    judged by ok cases. `spoilt` are the cases that cannot be compared, because a replicate was wrong or ran
    something else (see `analysis.speedups.gain_refusal`). `unreached` is the number of planned replicates
    without an outcome.
    """

    run: str
    suite: str
    started_at: datetime
    torch_version: str
    brought: tuple[TechniqueResult, ...]
    metrics: Mapping[str, Metrics]
    claimed: Claimed
    on_cpu: bool
    spoilt: frozenset[str]
    state: RunState = RunState.COMPLETE
    unreached: int = 0
    baseline: str = EAGER

    @property
    def has_ratio(self) -> bool:
        """Whether it has a ratio of any case."""
        return any(one.has_ratio for one in self.brought)


def technique_words(technique: str) -> str:
    """A technique in an address as text: `compile=default precision=bf16`, `eager fp32`."""
    return "eager fp32" if technique == EAGER else technique.replace(",", " ")


def environment_of(run: Run, version: str) -> str | None:
    """The fingerprint of a run's environment with a PyTorch version; the last one, which is the candidate."""
    matches = [each.fingerprint for each in run.environments if each.torch_version == version]
    return matches[-1] if matches else None


def read_techniques(
    run: Run,
    version: str,
    outcomes: Sequence[Outcome],
    measurements: Sequence[Measurement],
    baseline: str = EAGER,
    environment: str | None = None,
) -> TechniqueRun:
    """The results of techniques in a run under one of its PyTorch versions, relative to `baseline`, a
    technique.

    An environment of that version may be given by its fingerprint; by default the last one is used. Gains are
    computed from pairs that were alive together, so only within the run; see `analysis.speedups`.
    """
    environment = environment or environment_of(run, version)
    own = [outcome for outcome in outcomes if outcome.environment == environment]
    result = gains(own, _baselines_under(baseline))
    devices = [outcome.facts.get("device") for outcome in own if outcome.status == OutcomeStatus.OK]
    metrics: dict[str, dict[str, Measurement]] = {}
    for each in measurements:
        if each.environment == environment:
            metrics.setdefault(each.case, {})[each.metric] = each
    replicates: dict[str, list[Outcome]] = {}
    for outcome in own:
        replicates.setdefault(outcome.case, []).append(outcome)
    results = [
        _brought(run.id, key, case, replicates, result.get((case, each[0].environment), ()), metrics)
        for case, each in replicates.items()
        if (key := key_of(case)) is not None and case != f"{key.workload}/{baseline}"
    ]
    return TechniqueRun(
        run.id,
        run.suite,
        run.started_at,
        version,
        tuple(results),
        metrics,
        # Claims are about eager fp32.
        findings(own, result, claims_for) if baseline == EAGER else {},
        bool(devices) and all(device == "cpu" for device in devices),
        frozenset(case for case, each in replicates.items() if gain_refusal(each, ())),
        baseline=baseline,
    )


def _baselines_under(technique: str) -> Callable[[str], Sequence[Baseline]]:
    """The baseline of a case: the same workload under a technique."""
    return baselines if technique == EAGER else partial(_baselines, technique)


def _baselines(technique: str, case: str) -> tuple[Baseline, ...]:
    key = key_of(case)
    if key is None or case == (base := f"{key.workload}/{technique}"):
        return ()
    sides = [one for one in (key, key_of(base)) if one is not None]
    # Several concurrent processes have a throughput but no common step.
    several = any(one.count("instances") > 1 for one in sides)
    estimator = "throughput" if several else "latency_floor"
    return Baseline("speed-up", (base,), estimator=estimator), Baseline("memory", (base,))


def best_of(readings: Sequence[TechniqueRun]) -> list[TechniqueResult]:
    """Each case from the newest reading, or from an older one that has a ratio; newest come first.

    An older one is used only if the newer one is not conclusive: a case that was wrong or crashed since has
    no speed-up any more. They are in the order of measuring, so that cases of one workload stay together.
    """
    result: dict[str, TechniqueResult] = {}
    for reading in readings:
        for one in reading.brought:
            earlier = result.get(one.case)
            # A case that is ok since then is no longer broken.
            if earlier is None or (
                not earlier.is_conclusive and (one.has_ratio or (earlier.failed and one.is_conclusive))
            ):
                result[one.case] = one
    return list(result.values())


def claims_of(readings: Sequence[TechniqueRun], results: Sequence[TechniqueResult]) -> Claimed:
    """The claims, each with the reading that represents its case elsewhere on the page."""
    speaks = {one.case: one.run for one in results}
    result: dict[Any, list[tuple[str, str, Any]]] = {}
    for reading in readings:
        for claim, claim_results in reading.claimed.items():
            # A claim may also be about a case without a technique, for which the newest reading is used.
            own = [each for each in claim_results if speaks.setdefault(each[0], reading.run) == reading.run]
            if own:
                result.setdefault(claim, []).extend(own)
    return result


@lru_cache(maxsize=4096)
def key_of(case: str) -> CaseKey | None:
    """A case key in parts; None for another text."""
    try:
        return CaseKey.parse(case)
    except CaseKeyError:
        return None


def _brought(
    run: str,
    key: CaseKey,
    case: str,
    replicates: Mapping[str, Sequence[Outcome]],
    own: Sequence[Gain],
    metrics: Mapping[str, Metrics],
) -> TechniqueResult:
    mine = replicates[case]
    kinds = {gain.kind: gain for gain in own}
    well = [outcome for outcome in mine if outcome.status == OutcomeStatus.OK]
    base = metrics.get(kinds["speed-up"].against, {}) if "speed-up" in kinds else {}
    return TechniqueResult(
        case=case,
        key=key,
        run=run,
        environment=mine[0].environment,
        gains=kinds,
        own=metrics.get(case, {}),
        base=base,
        facts=well[0].facts if well else {},
        failed=_failure(mine),
        lost=len(mine) - len(well),
        refused=any(gain_refusal(mine, replicates.get(gain.against, ())) is not None for gain in own),
    )


def _failure(replicates: Sequence[Outcome]) -> tuple[str, str] | None:
    """The status of a failed case, with the reason, and the number of replicates if not all failed."""
    side_result = side([(each.status, each.reason) for each in replicates])
    if side_result.status == OutcomeStatus.OK:
        return None
    alike = [each.reason for each in replicates if each.status == side_result.status]
    return side_result.status, side_reason(side_result) if len(alike) < len(replicates) else alike[0]
