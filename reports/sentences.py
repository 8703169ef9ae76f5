"""The sentences that all forms of the report share."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.comparison.screening import SHORT_PAIRS
from analysis.comparison.thresholds import Threshold, threshold_of
from analysis.decision.upgrade import Table, Upgrade
from analysis.metrics import METRICS
from analysis.robust_mean import ORDER_CAP
from common.text import some

from . import wording
from .report_context import ComparedEnvironment, Subject, same_environment
from .rows import Row, statuses
from .scorecard import limit_rules
from .text import numbers

#: The explanation of the table "what would decide it".
TO_DECIDE = (
    "The pairs are measured under a new plan of that size; they do not extend the old one. Estimated from "
    "the present change and noise, for a probability of 80 %."
)


#: How differences of operators and kernels were recorded.
DISPATCH = "One untimed step of each case was recorded before anything was measured."
KERNEL_TIMES = (
    "The kernels that take longest, recorded by CUPTI after the timing; times are sums over all calls."
)
KERNELS = "The kernels of changed cases whose time differs most, recorded by CUPTI after the timing."
#: The text before the command that resumes an interrupted upgrade.
GOES_ON = "On the machine that measured it, resume with:"


#: The explanation of the second mean: see `analysis.geomean.random_effects`.
_RANDOM_EFFECTS = (
    " The random-effects mean weights cases by their precision: a case with a wide interval hardly changes "
    "it. The limit of the policy applies to the first mean."
)
#: The risk of a go, from the error rates of the rules (see docs/decisions/0011-verdicts.md).
_RISK = "Of a hundred upgrades that exceed one of these limits, at most one would be judged a go."


def title(subject: Subject) -> str:
    """The two environments."""
    return f"{subject.old.name} to {subject.new.name}"


def place(subject: Subject) -> str:
    """On what it was measured, and when."""
    return f"{subject.hardware}, suite {subject.suite}, {wording.moment(subject.started_at)}"


def so_far(subject: Subject) -> str:
    """The note that the upgrade has not ended, so that its verdict is not taken for final; empty for an ended
    one.
    """
    sentences = {"running": "The upgrade is still being measured", "interrupted": "It was interrupted"}
    state = sentences.get(subject.state)
    return f"{state}: this is its verdict so far." if state else ""


def candidates(subject: Subject) -> str:
    """The options of a bisection if the package index cannot list the versions between; empty if it can."""
    if subject.between_is_known:
        return ""
    old, new = subject.old.name, subject.new.name
    return (
        f"To bisect, add --candidates with the environments between {old} and {new}, in order and with "
        "commas: versions, wheels, interpreters or names of your pyrometer.toml. The package index cannot "
        "list them."
    )


def risk(upgrade: Upgrade) -> str:
    """The error rate of a go and the number of undecided cases; empty for other decisions."""
    if upgrade.decision != "go" or upgrade.suite is None:
        return ""
    open_cases = sum(verdict.word == "unclear" for verdict in upgrade.verdicts.values())
    if not open_cases:
        return _RISK
    are = "is" if open_cases == 1 else "are"
    return (
        f"{_RISK} {wording.plural(open_cases, 'case')} {are} individually undecided, which does not affect "
        f"the decision."
    )


def screen(each: Sequence[Row]) -> str:
    """The number of screened cases, and the reasons why some went on to full pairs; empty without a
    screen.
    """
    screened = [row.result.screen for row in each if row.result.screen is not None]
    if not screened:
        return ""
    why = Counter(one.selection for one in screened if one.selection is not None)
    went_on = "; ".join(f"{many} {wording.SELECTIONS[one]}" for one, many in why.most_common())
    unknown = sum(not one.compared for one in screened)
    return (
        f"Screened: {wording.plural(len(screened), 'case')}, by fingerprint and {SHORT_PAIRS} short pairs "
        f"each. {why.total()} went on to full pairs{f' ({went_on})' if went_on else ''}."
        + (f" {unknown} could be screened only by short pairs." if unknown else "")
    )


def waiver_lines(each: Sequence[Row], upgrade: Upgrade) -> list[str]:
    """The cases that are left out of the decision, with reason, name and day, and which of them broke."""
    lines: list[str] = []
    for one in upgrade.waived:
        broke = [row.case for row in each if one.matches(row.case) and _stopped_working(row)]
        about = ", ".join(part for part in (one.because, one.by, one.on) if part)
        lines.append(f"Waived: {one.case} ({about}){f'; broke: {some(broke)}' if broke else ''}")
    return lines


def _stopped_working(row: Row) -> bool:
    return row.result.broke or row.result.may_have_broken


def none_broke(each: Sequence[Row]) -> str:
    """That no case broke and none was repaired, where at most waived ones did."""
    waived = any(_stopped_working(row) or row.result.repaired for row in each)
    return f"No case broke, and none was repaired{', but for those that are waived' if waived else ''}."


def not_listed(each: Sequence[Row]) -> str:
    """How many cases are in no geomean and not among the exclusions; empty for none."""
    apart = [row.status for row in each if row.status in ("screened", "waived")]
    return f"In no geomean, and not listed here: {wording.count_words(apart)}." if apart else ""


def case_count_line(each: Sequence[Row], upgrade: Upgrade) -> str:
    """The number of cases by verdict, and the pairs behind the geomean."""
    overall = upgrade.overall
    rests = (
        f"{wording.plural(overall.pairs, 'pair')} of processes over {wording.plural(overall.cases, 'case')}"
    )
    return (
        f"{wording.plural(len(each), 'case')}: {', '.join(statuses(each)) or 'none'}. {rests}; "
        f"{wording.plural(len(each) - overall.cases, 'case')} left out."
    )


def interval_heading(subject: Subject, upgrade: Upgrade) -> str:
    """The confidence of the intervals of the deciding metric; those of an exact metric have none."""
    judged = [verdict for verdict in upgrade.verdicts.values() if verdict.low is not None]
    if judged and all(verdict.confidence is None for verdict in judged):
        return "range of the pairs"
    return f"{wording.share(1 - subject.plan.alpha)} interval"


def about_plot(subject: Subject, upgrade: Upgrade) -> str:
    """The explanation of the forest plot."""
    return (
        f"Change of the {METRICS[subject.policy.metric].title.lower()}, new against old, logarithmic, worst "
        f"first. Lines: {interval_heading(subject, upgrade)}. Grey: below the threshold. "
        f"{about_same(subject)}"
    )


def about_same(subject: Subject) -> str:
    """Why the interval of a case with verdict `same` may be wider than the threshold.

    Empty if both error rates are equal, and for an exact metric, which is not tested.
    """
    exact = threshold_of(subject.policy.metric, subject.policy.thresholds).exact
    if exact or subject.plan.alpha == subject.plan.alpha_same:
        return ""
    return (
        f"“Same” is proved with an error rate of {wording.share(subject.plan.alpha_same)}, a change with "
        f"{wording.share(subject.plan.alpha)}: the interval of a case that is the same may exceed the "
        f"threshold."
    )


def about_cases(metric: str) -> str:
    """The explanation of the table of cases."""
    definition = METRICS[metric]
    text = (
        f"{definition.title}: {definition.meaning}; {definition.better} is better. Old and new are medians "
        f"over n pairs; the change is estimated from the pairs."
    )
    if threshold_of(metric).exact:
        return text
    detected = (
        "A change of the size under “visible from” would have been detected with a probability of 80 %."
    )
    return f"{text} {detected}"


def about_means(subject: Subject) -> str:
    """The explanation of the geomeans."""
    policy = subject.policy
    threshold = threshold_of(policy.metric, policy.thresholds)
    weighed = ", weighted by the policy" if policy.weights else ", each case counting once"
    return (
        f"Geometric mean of new / old of the {METRICS[policy.metric].title.lower()}{weighed}. It applies to "
        f"these cases only.{_negligible(threshold)}{_of_one_look(subject.plan, threshold)}"
        f"{'' if threshold.exact else _RANDOM_EFFECTS}"
    )


def _of_one_look(plan: Plan, threshold: Threshold) -> str:
    """The number of looks that the intervals of the geomeans cover, on which their widths depend."""
    if plan.smallest == plan.largest or threshold.exact:
        return ""
    return (
        " The interval of the geomean over all cases covers all looks of the decision; that of a technique "
        "is for a single look at all its pairs."
    )


def _negligible(threshold: Threshold) -> str:
    """The note that a mean over an exact metric ignores differences below the threshold: see
    `comparison.upgrade`.
    """
    applies = threshold.exact and threshold.absolute
    return " A difference below the threshold counts as 0." if applies else ""


def table_title(table: Table) -> str:
    """The heading of a table of one metric."""
    title, metric = table.title.capitalize(), METRICS[table.metric].title
    return metric if metric == title else f"{title}: {metric}"


def table_summary(table: Table) -> str:
    """The number of cases by verdict, and the mean over those with a ratio."""
    words = [numbers.word(verdict) for verdict in table.verdicts.values()]
    order = ["slower", "worse", "unclear", "same", "faster", "better"]
    counted = wording.count_words(
        sorted(words, key=lambda word: order.index(word) if word in order else len(order))
    )
    if not table.geomean.cases:
        return counted
    return (
        f"{counted}; geomean {wording.mean(table.geomean)} over {wording.plural(table.geomean.cases, 'case')}"
    )


def about_table(table: Table, policy: Policy) -> str:
    """The explanation of a table of one metric under a policy."""
    definition = METRICS[table.metric]
    text = f"{definition.title}: {definition.meaning}; {definition.better} is better."
    judged = table.verdicts.values()
    # With too few pairs the interval is unknown instead.
    if any(one.low is not None for one in judged) and not any(one.location for one in judged):
        text += " It hardly varies: the interval is the range of the pairs."
    many = len(table.verdicts)
    if table.geomean.cases < many:
        text += f" Geomean over {table.geomean.cases} of {wording.plural(many, 'case')}."
    return text + (_negligible(threshold_of(table.metric, policy.thresholds)) if table.geomean.cases else "")


def how(subject: Subject) -> str:
    """The method, as a paragraph."""
    plan = subject.plan
    pairs = f"{plan.smallest}" if plan.smallest == plan.largest else f"{plan.smallest} to {plan.largest}"
    cap = wording.share(round(math.expm1(ORDER_CAP), 3))
    return (
        f"A pair is two fresh processes, one of each environment, alive together and measured block by block "
        f"in turns. A case has {pairs} pairs: they are given to the cases where they contribute most to the "
        f"decision, and the error rate covers all looks together. The slowdown of the side that starts first "
        f"is corrected, up to {cap}. At most {wording.share(plan.alpha)} of unchanged cases are called "
        f"faster or slower, and at most {wording.share(plan.alpha_same)} of cases that differ by the "
        f"threshold are called the same."
    )


def facts(subject: Subject) -> list[tuple[str, str]]:
    """The context of the numbers as names and values; empty ones are left out."""
    listed = [
        ("old environment", environment(subject.old)),
        ("new environment", environment(subject.new)),
        ("machine", subject.machine),
        ("hardware", subject.hardware),
        ("device", subject.device),
        ("preset", subject.preset),
        *((f"preset, {name}", value) for name, value in flat(subject.settings)),
        ("suite", subject.suite),
        ("run", f"{subject.run}, {subject.state}"),
        ("started", wording.moment(subject.started_at)),
        ("ended", wording.moment(subject.ended_at) if subject.ended_at else ""),
        ("took", wording.duration(subject.started_at, subject.ended_at) if subject.ended_at else ""),
        ("harness", subject.harness),
        ("Pyrometer", subject.pyrometer),
        ("command", subject.command),
    ]
    return [(name, value) for name, value in listed if value]


def environment(one: ComparedEnvironment) -> str:
    """An environment as a line."""
    build = f", CUDA {one.cuda}" if one.cuda else ""
    return f"{one.name}: PyTorch {one.torch}{build}, Python {one.python}, fingerprint {one.fingerprint}"


def no_difference(subject: Subject) -> str:
    """The sentence about two environments whose listed facts do not differ."""
    if same_environment(subject.old, subject.new):
        return "No difference: the versions and packages are the same."
    return (
        f"The recorded facts are the same, but the fingerprints differ: {subject.old.fingerprint} and "
        f"{subject.new.fingerprint}."
    )


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested values as names and texts."""
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += flat(value, f"{prefix}{name} ")
        elif isinstance(value, list | tuple):
            found.append((f"{prefix}{name}", ", ".join(map(str, value))))
        else:
            found.append((f"{prefix}{name}", "" if value is None else str(value)))
    return found


def rules(subject: Subject) -> list[str]:
    """The policy as sentences."""
    policy = subject.policy
    definition = METRICS[policy.metric]
    lines = [
        f"Cases and geomean are judged by {policy.metric}, {definition.title}; "
        f"{definition.better} is better.",
        f"At most {wording.share(policy.slower_share)} of the cases, by weight, may be worse by "
        f"{_limit(policy.metric, policy.case)} or more.",
        *(
            f"No case may be worse than {_limit(metric, limit)} in {METRICS[metric].title}."
            for metric, limit in policy.worst.items()
        ),
        f"The geomean may be no worse than {_limit(policy.metric, policy.overall)}.",
        limit_rules("Compile time (warm, cold, first call)", policy.compile_time, policy.slower_share),
        limit_rules("Peak memory", policy.peak_memory, policy.slower_share),
        f"At most {wording.share(policy.unmeasured_share)} of the cases, by weight, may have no number, "
        "besides those that broke, were repaired or are broken in both.",
        f"At most {wording.share(policy.false_discovery_rate)} of the cases called faster or slower may be "
        f"chance.",
    ]
    lines += [f"{glob} must not regress." for glob in policy.must_not_regress]
    others = "of all others" + (", and of the cases that must not regress" if policy.must_not_regress else "")
    lines += [f"{glob} may break; {others}, a broken case is a no-go." for glob in policy.may_break]
    if not policy.may_break:
        lines += ["A broken case is a no-go."]
    lines += [f"{glob} counts {weight:g} times." for glob, weight in policy.weights.items()]
    return lines


def _limit(metric: str, share: float) -> str:
    """A limit in the direction that is worse."""
    return numbers.format_limit(math.log1p(share) * METRICS[metric].cost)
