"""The policy an upgrade is judged by, as pyrometer.toml has it, and how precisely pairs are measured."""

from collections.abc import Iterable
from dataclasses import replace

from analysis.comparison import rounds
from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.comparison.thresholds import Threshold, threshold_of
from analysis.metrics import COLD, METRICS
from configuration.settings import Settings
from configuration.suggestions import unknown
from runner.execution.launch.compile_cache import compiles
from runner.session_plan import Timing
from runner.worker.case_key import CaseKey

from ..errors import UsageError


def choose_policy(settings: Settings, name: str | None) -> Policy:
    """The policy by that name, or the configured one; raises UsageError for what cannot be meant."""
    name = settings.policy if name is None else name
    if name not in settings.policies:
        raise UsageError(unknown("policy", name, settings.policies))
    values = settings.policies[name].model_dump(exclude_none=True)
    try:
        shares: dict[str, float] = values.pop("thresholds", {})
        thresholds = {metric: _threshold(metric, share) for metric, share in shares.items()}
        usual = Policy()
        worst = {**usual.worst, **values.pop("worst", {})}
        limits = {
            kind: replace(own, **values.pop(kind, {}))
            for kind, own in (("compile_time", usual.compile_time), ("peak_memory", usual.peak_memory))
        }
        return Policy(thresholds=thresholds, worst=worst, **limits, **values)
    except ValueError as error:
        raise UsageError(f"policy {name}: {error}") from None


def check_judged(metrics: Iterable[str]) -> None:
    """Raise UsageError where one of them is no metric that could be better or worse."""
    judged = [name for name, metric in METRICS.items() if metric.better != "neither"]
    for name in metrics:
        if name not in judged:
            raise UsageError(unknown("metric", name, judged))


def following(policy: Policy, metric: str | None) -> Policy:
    """The policy, deciding by that metric where one is given; raises UsageError where none could."""
    if metric is None:
        return policy
    check_judged([metric])
    return replace(policy, metric=metric)


def beyond_judging(policy: Policy, cold_pairs: int, plan: Plan, cases: Iterable[str]) -> str:
    """Why limits of the policy cannot be judged with so few pairs that compile; empty where they can."""
    cold = (one for one in COLD & policy.worst.keys() if not threshold_of(one, policy.thresholds).exact)
    limited, fewest = ", ".join(sorted(cold)), plan.smallest
    if not limited or not any(compiles(CaseKey.parse(case)) for case in cases) or cold_pairs >= fewest:
        return ""
    return (
        f"the policy limits {limited}: of what is compiled {cold_pairs} of the pairs will know that, fewer "
        f"than the {fewest} it takes. --cold-pairs {2 * plan.largest} has all of them compile anew"
    )


def paired(timing: Timing, policy: Policy) -> Timing:
    """How long a pair is measured: until chance in it is at most half of what matters to the policy.

    Of no other metric than the one that rounds are compared by is it known while they go on.
    """
    if policy.metric != rounds.METRIC:
        return timing
    return replace(timing, pair_error=threshold_of(policy.metric, policy.thresholds).log / 2)


def _threshold(metric: str, share: float) -> Threshold:
    """The default kind of threshold of a metric, with another share."""
    usual = threshold_of(metric)
    return Threshold(share, usual.absolute, usual.exact)
