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

#: No technique at all, fp32: what techniques are usually set against.
EAGER = "eager"


@dataclass(frozen=True, slots=True)
class TechniqueResult:
    """What a case under a technique brought in one run.

    `gains` are by kind. `own` are its metrics, `base` those of the baseline of its speed-up. `facts` are
    those of its first replicate that ended well; without any, or with one that was wrong or not compiled,
    `failed` says how they ended. `lost` is how many replicates did not end well, `refused` whether its gains
    were refused whatever its numbers are: see `analysis.speedups.gain_refusal`.
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
        """Its technique in words."""
        return technique_words(self.case.rpartition("/")[2])

    @property
    def several_ranks(self) -> bool:
        """Whether it has several ranks: more hardware, with an efficiency instead of a speed-up."""
        return self.key.axis("parallel") != "none" and self.key.count("ranks") > 1

    @property
    def times(self) -> float:
        """How many times as fast as its baseline it is; 0 without a ratio."""
        gain = self.speed_up
        return gain.ratio if gain is not None and gain.ratio is not None else 0.0

    def ratio(self, kind: str) -> Gain | None:
        """Its gain of a kind, if there is a ratio."""
        gain = self.gains.get(kind)
        return gain if gain is not None and gain.ratio is not None else None

    @property
    def has_ratio(self) -> bool:
        """Whether it has a ratio of any kind: what was measured without its baseline has none."""
        return any(gain.ratio is not None for gain in self.gains.values())

    @property
    def alone(self) -> bool:
        """Whether it and its baseline ended well without the other: in sessions of their own, or it alone."""
        return self.failed is None and any(
            gain.reason is not None and gain.reason.cause in ALONE for gain in self.gains.values()
        )

    @property
    def is_conclusive(self) -> bool:
        """Whether it says what the technique brings: a ratio, or that it is broken or refused.

        What ended well without a partner says nothing of that, nor what was skipped, lost or contended.
        """
        return self.has_ratio or self.refused or (self.failed is not None and self.failed[0] in BROKEN)


@dataclass(frozen=True, slots=True)
class TechniqueRun:
    """What a run says of techniques in one of its environments, each set against `baseline`, a technique.

    `metrics` are those of every case, under a technique or not; `on_cpu` says that it measured a CPU, which
    only cases that ended well count. `spoilt` are the cases that nothing may be compared with, for a
    replicate was wrong or ran something else (see `analysis.speedups.gain_refusal`). `unreached` are the
    replicates that a run planned and has not come to, which one that is complete never will.
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
    """A technique as an address spells it, in words: `compile=default precision=bf16`, `eager fp32`."""
    return "eager fp32" if technique == EAGER else technique.replace(",", " ")


def environment_of(run: Run, version: str) -> str | None:
    """The fingerprint of a run's environment with a PyTorch version; the one given last is the candidate."""
    found = [each.fingerprint for each in run.environments if each.torch_version == version]
    return found[-1] if found else None


def read_techniques(
    run: Run,
    version: str,
    outcomes: Sequence[Outcome],
    measurements: Sequence[Measurement],
    baseline: str = EAGER,
    environment: str | None = None,
) -> TechniqueRun:
    """What a run says of techniques under a PyTorch version that it has, set against `baseline`, a technique.

    Of several environments of that version one may be named, by its fingerprint; else the last speaks. Gains
    are made of pairs that were alive together, so only ever within the run; see `analysis.speedups`.
    """
    environment = environment or environment_of(run, version)
    own = [outcome for outcome in outcomes if outcome.environment == environment]
    found = gains(own, _baselines_under(baseline))
    devices = [outcome.facts.get("device") for outcome in own if outcome.status == OutcomeStatus.OK]
    metrics: dict[str, dict[str, Measurement]] = {}
    for each in measurements:
        if each.environment == environment:
            metrics.setdefault(each.case, {})[each.metric] = each
    replicates: dict[str, list[Outcome]] = {}
    for outcome in own:
        replicates.setdefault(outcome.case, []).append(outcome)
    brought = [
        _brought(run.id, key, case, replicates, found.get((case, each[0].environment), ()), metrics)
        for case, each in replicates.items()
        if (key := key_of(case)) is not None and case != f"{key.workload}/{baseline}"
    ]
    return TechniqueRun(
        run.id,
        run.suite,
        run.started_at,
        version,
        tuple(brought),
        metrics,
        # Claims are about eager fp32.
        findings(own, found, claims_for) if baseline == EAGER else {},
        bool(devices) and all(device == "cpu" for device in devices),
        frozenset(case for case, each in replicates.items() if gain_refusal(each, ())),
        baseline=baseline,
    )


def _baselines_under(technique: str) -> Callable[[str], Sequence[Baseline]]:
    """What a case is set against: the same workload under a technique."""
    return baselines if technique == EAGER else partial(_baselines, technique)


def _baselines(technique: str, case: str) -> tuple[Baseline, ...]:
    key = key_of(case)
    if key is None or case == (base := f"{key.workload}/{technique}"):
        return ()
    sides = [one for one in (key, key_of(base)) if one is not None]
    # Several processes at once have a throughput and no step in common.
    several = any(one.count("instances") > 1 for one in sides)
    estimator = "throughput" if several else "latency_floor"
    return Baseline("speed-up", (base,), estimator=estimator), Baseline("memory", (base,))


def best_of(readings: Sequence[TechniqueRun]) -> list[TechniqueResult]:
    """Each case from the newest reading, or from an older one that has a ratio; newest come first.

    An older one speaks only where the newer one is not conclusive: what was wrong or crashed since has no
    speed-up any more. In the order in which their runs measured them, so that cases of one workload stay
    together.
    """
    found: dict[str, TechniqueResult] = {}
    for reading in readings:
        for one in reading.brought:
            earlier = found.get(one.case)
            # What ended well since is not broken any more.
            if earlier is None or (
                not earlier.is_conclusive and (one.has_ratio or (earlier.failed and one.is_conclusive))
            ):
                found[one.case] = one
    return list(found.values())


def claims_of(readings: Sequence[TechniqueRun], results: Sequence[TechniqueResult]) -> Claimed:
    """The claims, each with the reading that represents its case elsewhere on the page."""
    speaks = {one.case: one.run for one in results}
    found: dict[Any, list[tuple[str, str, Any]]] = {}
    for reading in readings:
        for claim, measured in reading.claimed.items():
            # A claim may also be about a case under no technique, of which the newest speaks.
            own = [each for each in measured if speaks.setdefault(each[0], reading.run) == reading.run]
            if own:
                found.setdefault(claim, []).extend(own)
    return found


@lru_cache(maxsize=4096)
def key_of(case: str) -> CaseKey | None:
    """A case key taken apart; None for a text that is none."""
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
    """How a case ended that did not end well, and why; with how many replicates where not all ended so."""
    ended = side([(each.status, each.reason) for each in replicates])
    if ended.status == OutcomeStatus.OK:
        return None
    alike = [each.reason for each in replicates if each.status == ended.status]
    return ended.status, side_reason(ended) if len(alike) < len(replicates) else alike[0]
