"""The policy an upgrade is judged by, as pyrometer.toml has it, and how precisely pairs are measured."""

from dataclasses import replace

from analysis import rounds
from analysis.policy import Policy
from analysis.thresholds import Threshold, threshold_of
from configuration.nearest import unknown
from configuration.settings import Settings
from runner.records import Timing

from .context import UsageError


def choose_policy(settings: Settings, name: str | None) -> Policy:
    """The policy by that name, or the configured one; raises UsageError for what cannot be meant."""
    name = name or settings.policy
    if name not in settings.policies:
        raise UsageError(unknown("policy", name, settings.policies))
    values = settings.policies[name].model_dump(exclude_none=True)
    try:
        shares: dict[str, float] = values.pop("thresholds", {})
        thresholds = {metric: _threshold(metric, share) for metric, share in shares.items()}
        worst = {**Policy().worst, **values.pop("worst", {})}
        return Policy(thresholds=thresholds, worst=worst, **values)
    except ValueError as error:
        raise UsageError(f"policy {name}: {error}") from None


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
