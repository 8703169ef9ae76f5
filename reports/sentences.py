"""The sentences around the numbers, the same in every form of the report."""

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

#: How to read what would decide an unclear upgrade.
TO_DECIDE = (
    "New pairs under a new plan of that size, not more of the old ones. An estimate from this point and this "
    "noise, with a chance of 80 %."
)


#: How it is known what runs differently.
DISPATCH = "One untimed step of each case was recorded before anything was measured."
KERNEL_TIMES = "The kernels that take longest, looked at by CUPTI after the timing; times are over all calls."
KERNELS = "Of the cases that moved, the kernels whose time differs most, after the timing, by CUPTI."
#: Before the command that resumes an interrupted one.
GOES_ON = "On the machine that measured it, resume with:"


#: What the second mean is: see `analysis.geomean.random_effects`.
_RANDOM_EFFECTS = (
    " The random-effects mean counts cases by how precisely they are known: one that is hardly known does "
    "not move it. The policy's limit is about the first."
)
#: Beside a go, by how often a rule with these errors is wrong (see docs/decisions/0011-verdicts.md).
_RISK = "Of a hundred upgrades that exceed one of these limits, at most one would be judged a go."


def title(subject: Subject) -> str:
    """From where to where."""
    return f"{subject.old.name} to {subject.new.name}"


def place(subject: Subject) -> str:
    """On what it was measured, and when."""
    return f"{subject.hardware}, suite {subject.suite}, {wording.moment(subject.started_at)}"


def so_far(subject: Subject) -> str:
    """That the upgrade is not over yet, so that no reader takes it for final; empty for one that is."""
    sentences = {"running": "It is still being measured", "interrupted": "It was interrupted"}
    state = sentences.get(subject.state)
    return f"{state}: this is the verdict so far." if state else ""


def candidates(subject: Subject) -> str:
    """What a bisection needs where the package index cannot list what lies between; empty where it can."""
    if subject.between_is_known:
        return ""
    old, new = subject.old.name, subject.new.name
    return (
        f"To bisect, add --candidates with the environments between {old} and {new}, in order and with "
        "commas: versions, wheels, interpreters or names of your pyrometer.toml. The package index cannot "
        "list them."
    )


def risk(upgrade: Upgrade) -> str:
    """How often such a decision is wrong, and how many cases it leaves open; empty where it is no go."""
    if upgrade.decision != "go" or upgrade.suite is None:
        return ""
    open_cases = sum(verdict.word == "unclear" for verdict in upgrade.verdicts.values())
    if not open_cases:
        return _RISK
    are = "is" if open_cases == 1 else "are"
    return (
        f"{_RISK} {wording.plural(open_cases, 'case')} {are} undecided one by one, which the decision does "
        "not need."
    )


def screen(each: Sequence[Row]) -> str:
    """How many cases were screened, and why how many of them went on; empty without a screen."""
    screened = [row.result.screen for row in each if row.result.screen is not None]
    if not screened:
        return ""
    why = Counter(one.selection for one in screened if one.selection is not None)
    went_on = "; ".join(f"{many} {wording.SELECTIONS[one]}" for one, many in why.most_common())
    unknown = sum(not one.compared for one in screened)
    return (
        f"Screened: {wording.plural(len(screened), 'case')}, by fingerprint and {SHORT_PAIRS} short pairs "
        f"each. {why.total()} went on to full pairs{f' ({went_on})' if went_on else ''}."
        + (f" {unknown} could be screened by short pairs only." if unknown else "")
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
    """How many cases have which verdict, and what the geomean rests on."""
    overall = upgrade.overall
    rests = (
        f"{wording.plural(overall.pairs, 'pair')} of processes over {wording.plural(overall.cases, 'case')}"
    )
    return (
        f"{wording.plural(len(each), 'case')}: {', '.join(statuses(each)) or 'none'}. {rests}; "
        f"{wording.plural(len(each) - overall.cases, 'case')} left out."
    )


def interval_heading(subject: Subject, upgrade: Upgrade) -> str:
    """What the intervals of the metric that decides are; those of an exact one have no confidence."""
    judged = [verdict for verdict in upgrade.verdicts.values() if verdict.low is not None]
    if judged and all(verdict.confidence is None for verdict in judged):
        return "range of the pairs"
    return f"{wording.share(1 - subject.plan.alpha)} interval"


def about_plot(subject: Subject, upgrade: Upgrade) -> str:
    """How the forest plot is to be read."""
    return (
        f"Change of the {METRICS[subject.policy.metric].title.lower()}, new against old, logarithmic, the "
        f"worst first. Lines: {interval_heading(subject, upgrade)}. Grey: too small to matter. "
        f"{about_same(subject)}"
    )


def about_same(subject: Subject) -> str:
    """Why the interval of a case that stayed the same may be wider than the threshold.

    Empty where it is not: where both errors are one, and of an exact metric, which is not tested.
    """
    exact = threshold_of(subject.policy.metric, subject.policy.thresholds).exact
    if exact or subject.plan.alpha == subject.plan.alpha_same:
        return ""
    return (
        f"“Same” is proved with an error of {wording.share(subject.plan.alpha_same)}, a change is called "
        f"with one of {wording.share(subject.plan.alpha)}: the interval of a case that is the same may reach "
        "beyond the threshold."
    )


def about_cases(metric: str) -> str:
    """How the table of cases is to be read."""
    definition = METRICS[metric]
    text = (
        f"{definition.title}: {definition.meaning}; {definition.better} is better. Old and new are "
        "medians over n pairs, the change is what the pairs have in common."
    )
    if threshold_of(metric).exact:
        return text
    return f"{text} A change of the size under “visible from” would have been seen with a chance of 80 %."


def about_means(subject: Subject) -> str:
    """How the geomeans are to be read."""
    policy = subject.policy
    threshold = threshold_of(policy.metric, policy.thresholds)
    weighed = ", weighed by the policy" if policy.weights else ", each case counting once"
    return (
        f"Geometric mean of new / old of the {METRICS[policy.metric].title.lower()}{weighed}. It is "
        f"about these cases and no others.{_negligible(threshold)}{_of_one_look(subject.plan, threshold)}"
        f"{'' if threshold.exact else _RANDOM_EFFECTS}"
    )


def _of_one_look(plan: Plan, threshold: Threshold) -> str:
    """Over how many looks the intervals of the geomeans hold, which makes them wider or narrower."""
    if plan.smallest == plan.largest or threshold.exact:
        return ""
    return (
        " The interval over all holds over all looks of the decision; that of a technique is that of all its "
        "pairs, looked at once."
    )


def _negligible(threshold: Threshold) -> str:
    """That a mean over an exact metric leaves out what is too little to matter: see `comparison.upgrade`."""
    applies = threshold.exact and threshold.absolute
    return " A difference that is too small to matter counts as none." if applies else ""


def table_title(table: Table) -> str:
    """The heading of a table of one metric."""
    title, metric = table.title.capitalize(), METRICS[table.metric].title
    return metric if metric == title else f"{title}: {metric}"


def table_summary(table: Table) -> str:
    """How many cases have which verdict, and the mean over those that have a ratio."""
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
    """How a table of one metric, judged by a policy, is to be read."""
    definition = METRICS[table.metric]
    text = f"{definition.title}: {definition.meaning}; {definition.better} is better."
    judged = table.verdicts.values()
    # With too few pairs the interval is unknown, which is another matter.
    if any(one.low is not None for one in judged) and not any(one.location for one in judged):
        text += " It hardly varies: the interval is the range of the pairs."
    many = len(table.verdicts)
    if table.geomean.cases < many:
        text += f" Geomean over {table.geomean.cases} of {wording.plural(many, 'case')}."
    return text + (_negligible(threshold_of(table.metric, policy.thresholds)) if table.geomean.cases else "")


def how(subject: Subject) -> str:
    """How it was measured, in a paragraph."""
    plan = subject.plan
    pairs = f"{plan.smallest}" if plan.smallest == plan.largest else f"{plan.smallest} to {plan.largest}"
    cap = wording.share(round(math.expm1(ORDER_CAP), 3))
    return (
        f"A pair is two fresh processes, one of each environment, alive together and measured block by block "
        f"in turns. A case has {pairs} pairs: they go where they decide the most, and the error is "
        f"spent over all looks together. By how much the first to start is slower is taken out, up to "
        f"{cap}. A change that is none is called in at most {wording.share(plan.alpha)} of cases, and what "
        f"differs by the threshold is called the same in at most {wording.share(plan.alpha_same)}."
    )


def facts(subject: Subject) -> list[tuple[str, str]]:
    """Everything around the numbers, as names and values; what is empty is left out."""
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
    """An environment in a line."""
    build = f", CUDA {one.cuda}" if one.cuda else ""
    return f"{one.name}: PyTorch {one.torch}{build}, Python {one.python}, fingerprint {one.fingerprint}"


def no_difference(subject: Subject) -> str:
    """The sentence about two environments whose listed facts do not differ."""
    if same_environment(subject.old, subject.new):
        return "Nothing: not a version, not a package."
    return (
        "Nothing that was written down of them, and yet they are two: their fingerprints are "
        f"{subject.old.fingerprint} and {subject.new.fingerprint}."
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
    """The policy in sentences."""
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
        f"At most {wording.share(policy.false_discovery_rate)} of what is called faster or slower is chance.",
    ]
    lines += [f"{glob} must not regress." for glob in policy.must_not_regress]
    others = "of all others" + (", and of what must not regress" if policy.must_not_regress else "")
    lines += [f"{glob} may break; {others}, one that breaks is a no-go." for glob in policy.may_break]
    if not policy.may_break:
        lines += ["A case that breaks is a no-go."]
    lines += [f"{glob} counts {weight:g} times." for glob, weight in policy.weights.items()]
    return lines


def _limit(metric: str, share: float) -> str:
    """A limit in the direction that is worse."""
    return numbers.format_limit(math.log1p(share) * METRICS[metric].cost)
