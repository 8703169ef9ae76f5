"""Changes of an upgrade's policy in an address: read from it, applied, written back and written as TOML."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis.comparison.policy import RULES as LIMITS
from analysis.comparison.policy import Limits, Policy
from analysis.comparison.thresholds import threshold_of
from analysis.metrics import METRICS
from configuration.suggestions import unknown
from dashboard.components.query_params import Query

#: The metrics that can decide: those with a better direction.
DECIDING = tuple(name for name, metric in METRICS.items() if metric.better != "neither")
#: The largest threshold in per cent: in pyrometer.toml it is a share of at most 1.
_MOST_PER_CENT = 100.0
#: The value that removes a limit of a policy: in an address, and in pyrometer.toml as a share.
NO_LIMIT, _NEVER = "none", 1e6


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """Changes to the policy that an upgrade was measured under; None means no change.

    `threshold` is that of the deciding metric; from `case` on a case is materially slower; `worst`, as
    (metric, limit), override the limits of the policy for a single case; infinity removes one. All are in per
    cent. `weights`, as (glob, number), and `must`, globs of cases that must not regress, replace those of the
    policy.
    """

    metric: str | None = None
    threshold: float | None = None
    weights: tuple[tuple[str, float], ...] | None = None
    must: tuple[str, ...] | None = None
    case: float | None = None
    worst: tuple[tuple[str, float], ...] | None = None

    @property
    def changed(self) -> bool:
        """Whether there is any change."""
        return self != RuleChanges()

    def query(self) -> dict[str, list[str]]:
        """The changes as a part of an address; a name without a value empties a list."""
        result: dict[str, list[str]] = {}
        if self.metric is not None:
            result["metric"] = [self.metric]
        if self.threshold is not None:
            result["threshold"] = [number(self.threshold)]
        if self.case is not None:
            result["case"] = [number(self.case)]
        if self.worst is not None:
            result["worst"] = [
                f"{metric}:{NO_LIMIT if math.isinf(limit) else number(limit)}" for metric, limit in self.worst
            ]
        if self.weights is not None:
            result["weight"] = [f"{glob}:{number(weight)}" for glob, weight in self.weights] or [""]
        if self.must is not None:
            result["must"] = list(self.must) or [""]
        return result

    def apply_to(self, policy: Policy) -> Policy:
        """The policy with these changes; raises ValueError for invalid ones."""
        metric = policy.metric if self.metric is None else self.metric
        thresholds = dict(policy.thresholds)
        if self.threshold is not None:
            usual = threshold_of(metric, policy.thresholds)
            thresholds[metric] = replace(usual, relative=self.threshold / 100)
        limits = {**policy.worst, **{name: limit / 100 for name, limit in self.worst or ()}}
        return replace(
            policy,
            metric=metric,
            thresholds=thresholds,
            case=policy.case if self.case is None else self.case / 100,
            worst={name: limit for name, limit in limits.items() if limit != math.inf},
            weights=policy.weights if self.weights is None else dict(self.weights),
            must_not_regress=policy.must_not_regress if self.must is None else self.must,
        )

    def differing_from(self, policy: Policy) -> "RuleChanges":
        """The changes without those that equal the policy."""
        metric = policy.metric if self.metric is None else self.metric
        limits = {name: 100 * limit for name, limit in policy.worst.items()}
        worst = tuple(one for one in self.worst or () if not _same(one[1], limits.get(one[0], math.inf)))
        return RuleChanges(
            metric=None if metric == policy.metric else metric,
            threshold=None if _same(self.threshold, per_cent(policy, metric)) else self.threshold,
            case=None if _same(self.case, 100 * policy.case) else self.case,
            worst=worst or None,
            weights=None if self.weights == tuple(policy.weights.items()) else self.weights,
            must=None if self.must == policy.must_not_regress else self.must,
        )


def _same(value: float | None, other: float) -> bool:
    return value is not None and math.isclose(value, other)


def per_cent(policy: Policy, metric: str) -> float:
    """The threshold of a metric by a policy, in per cent."""
    return round(100 * threshold_of(metric, policy.thresholds).relative, 10)


def number(value: float) -> str:
    """A number in the shortest form: `2`, `0.5`."""
    return f"{value:.12g}"


def rule_changes(query: Query, policy: Policy) -> tuple[RuleChanges, list[str]]:
    """The changes in an address, and complaints about invalid ones."""
    rules, complaints = RuleChanges(), list[str]()
    for field, (name, read) in _READERS.items():
        texts = [each for each in query.get(name) or () if each]
        # Weights and globs without a value mean empty lists.
        if not texts and not (name in query and field in ("weights", "must")):
            continue
        try:
            new_rules = replace(rules, **{field: read(texts)})
            new_rules.apply_to(policy)
        except ValueError as error:
            text = str(error)
            complaints.append(f"{text[:1].upper()}{text[1:]}; the rule is ignored.")
        else:
            rules = new_rules
    return rules.differing_from(policy), complaints


def _parse_metric(texts: Sequence[str]) -> str:
    if texts[-1] not in DECIDING:
        raise ValueError(unknown("metric", texts[-1], DECIDING))
    return texts[-1]


def _threshold(texts: Sequence[str]) -> float:
    share = _number(texts[-1])
    if not 0 <= share <= _MOST_PER_CENT:
        raise ValueError(f'a threshold is a number of per cent from 0 to 100, such as 2, not "{texts[-1]}"')
    return share


def _case(texts: Sequence[str]) -> float:
    limit = _number(texts[-1])
    if math.isnan(limit):
        raise ValueError(f'the limit of a case is a number of per cent, such as 5, not "{texts[-1]}"')
    return limit


def _number(text: str) -> float:
    """A number of per cent, with or without the sign; NaN for anything else."""
    try:
        return float(text.strip().removesuffix("%"))
    except ValueError:
        return math.nan


def limit_of(text: str) -> tuple[str, float]:
    """Metric and limit in per cent from `METRIC:NUMBER`, infinity from `METRIC:none`; raises ValueError."""
    metric, _, limit = (part.strip() for part in text.rpartition(":"))
    share = math.inf if limit == NO_LIMIT else _number(limit)
    if not metric or not (limit == NO_LIMIT or math.isfinite(share)):
        raise ValueError(f'a limit is METRIC:PER_CENT, not "{text}"')
    if metric not in DECIDING:
        raise ValueError(unknown("metric", metric, DECIDING))
    return metric, share


def weight_of(text: str) -> tuple[str, float]:
    """Glob and weight from `GLOB:NUMBER`; raises ValueError for anything else."""
    glob, _, weight = text.rpartition(":")
    try:
        if glob.strip():
            return glob.strip(), float(weight)
    except ValueError:
        pass
    raise ValueError(f'a weight is CASE_OR_GLOB:NUMBER, not "{text}"')


#: By field of `RuleChanges`, its parameter in an address, and the function that reads its values.
_READERS: Mapping[str, tuple[str, Callable[[Sequence[str]], Any]]] = {
    "metric": ("metric", _parse_metric),
    "threshold": ("threshold", _threshold),
    "case": ("case", _case),
    "worst": ("worst", lambda texts: tuple(dict(map(limit_of, texts)).items())),
    "weights": ("weight", lambda texts: tuple(dict(map(weight_of, texts)).items())),
    "must": ("must", lambda texts: tuple(dict.fromkeys(texts))),
}


def toml(policy: Policy, name: str) -> str:
    """The policy as a table of pyrometer.toml: the deciding metric, and differences from the built-in
    policy.
    """
    usual = Policy()
    shares = {metric: own.relative for metric, own in policy.thresholds.items()}
    shares.setdefault(policy.metric, threshold_of(policy.metric).relative)
    worst = {metric: limit for metric, limit in policy.worst.items() if usual.worst.get(metric) != limit}
    worst |= {metric: _NEVER for metric in usual.worst if metric not in policy.worst}
    lines = [f"[policies.{name}]", f"metric = {_text(policy.metric)}", f"thresholds = {_table(shares)}"]
    for rule in ("must_not_regress", "may_break"):
        globs: Sequence[str] = getattr(policy, rule)
        if globs:
            lines.append(f"{rule} = [{', '.join(map(_text, globs))}]")
    lines += [
        f"{rule} = {_table(own)}" for rule, own in (("weights", policy.weights), ("worst", worst)) if own
    ]
    for rule in ("compile_time", "peak_memory"):
        limits: Limits = getattr(policy, rule)
        if limits != getattr(usual, rule):
            blocks = ", ".join(map(_text, limits.blocks))
            shares = {name: getattr(limits, name) for name in LIMITS}
            lines.append(f"{rule} = {_table(shares).removesuffix(' }')}, blocks = [{blocks}] }}")
    for rule in ("case", "slower_share", "overall", "unmeasured_share", "false_discovery_rate"):
        if getattr(policy, rule) != getattr(usual, rule):
            lines.append(f"{rule} = {getattr(policy, rule)!r}")
    return "\n".join(lines)


def _table(values: Mapping[str, float]) -> str:
    format_value: Callable[[float], str] = repr
    return (
        "{ " + ", ".join(f"{_text(name)} = {format_value(float(own))}" for name, own in values.items()) + " }"
    )


def _text(plain: str) -> str:
    # A JSON string is a TOML string, except for one control character that JSON does not escape.
    return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")
