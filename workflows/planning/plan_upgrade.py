"""Plan the run of an upgrade: two environments, measured in pairs, and the policy."""

import getpass
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from analysis.comparison import rounds
from analysis.comparison.plan import FEWEST, Plan
from analysis.comparison.policy import Policy, Waiver
from analysis.comparison.screening import FIRST_FULL, SHORT_PAIRS, Screen
from analysis.comparison.thresholds import Threshold, threshold_of
from analysis.decision.comparison import MOST_PAIRS, Comparison
from analysis.decision.suite_pairs import varies
from analysis.dispatch_difference import CaseDifference
from analysis.metrics import COLD, METRICS
from common.text import plural
from configuration.settings import Settings
from configuration.suggestions import unknown
from records.fingerprints import AGAIN
from records.kinds import RunKind
from records.runs import StepScript
from runner.environment import MeasuredEnvironment
from runner.execution.compile_cache import compiles
from runner.session_plan import Timing
from runner.step_file import read_step, spelled_step
from runner.suites.plan import estimate, replicates
from runner.suites.suite import Suite
from runner.worker.case_key import CaseKey

from ..app_context import AppContext
from ..errors import NothingToMeasure, UsageError
from ..session_queue import pairs_planned
from .plan_run import Chosen, PreparedRun, ProbedMachine, RunPlan, ask, gpus_in_use, prepare, timing_of
from .resolve_environment import make_ready
from .screening import short
from .select_cases import CHOSEN, canonical_key, choose_cases, refuse_too_many

#: Without a budget only the plan of pairs ends the run.
NO_BUDGET_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """The arguments of an upgrade. `old` and `new` are names, versions, wheels or interpreters.

    `step` is a script, `FILE.py` or `FILE.py:FUNCTION`, that is measured instead of cases of a suite, `tests`
    are paths or node ids of pytest whose tests are measured instead; `packages` are installed into
    environments that are built. `waived_by` is the person who excludes the cases of `waive`; empty for the
    user of this process. `fingerprints`: whether differing operators and kernels are recorded before
    measuring. `screen`: whether only the cases that a screen selects are measured in full (see
    `analysis.comparison.screening`). `lock_clocks`: the locked clock of the measured GPUs in MHz.
    """

    old: str = ""
    new: str = ""
    suite: str | None = None
    cases: tuple[str, ...] = ()
    case_files: tuple[Path, ...] = ()
    census: Path | None = None
    preset: str | None = None
    policy: str | None = None
    device: str | None = None
    pairs: int | None = None
    cold_pairs: int | None = None
    also: tuple[str, ...] = ()
    budget: float | None = None
    deadline: float | None = None
    run_id: str | None = None
    confirms: bool = False
    waive: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    waived_by: str = ""
    fingerprints: bool = True
    screen: bool = False
    step: str | None = None
    packages: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    lock_clocks: int | None = None


def pairs_plan(pairs: int | None, most: int = MOST_PAIRS, usual: int = Plan().largest) -> Plan:
    """The plan with at most the given pairs of each case, `usual` for None.

    Raises UsageError for an odd number, for fewer than the smallest plan, and for more than `most`.
    """
    if pairs is None:
        return Plan(usual)
    if pairs < FEWEST or pairs % 2:
        raise UsageError(
            f"--pairs takes an even number from {FEWEST} on: each side starts first in half of the pairs"
        )
    if pairs > most:
        raise UsageError(f"--pairs takes at most {most:,}")
    return Plan(pairs)


def prepare_upgrade(
    app: AppContext, request: UpgradeRequest, chosen: Chosen, plan: Plan, policy: Policy
) -> PreparedRun:
    """The run that compares the two environments of the request, which are built if missing.

    The caller holds the machine lock. Raises UsageError, RunnerError or JobError.
    """
    ready = make_ready(app, [request.old, request.new], packages=request.packages)
    probed = distinguish_environments(app, ask(chosen, ready))
    old, new = probed.environments
    suite = chosen.suite
    cases = choose_cases(suite, [canonical_key(pattern) for pattern in request.cases], old, app.settings)
    if not cases:
        raise NothingToMeasure("no case is selected")
    timing = pair_timing(timing_of(suite, request.deadline, app.settings), policy)
    timing = replace(timing, cold_replicates=request.cold_pairs or timing.cold_replicates)
    waived = waivers(request.waive, request.because, request.waived_by)
    _note_unmatched(app, policy, request.policy or app.settings.policy, cases)
    for glob in unmatched_waivers(waived, cases):
        app.reporter.note(f'--waive "{glob}" matches none of {plural(len(cases), "case")}')
    if unjudged := unjudged_limits(policy, timing.cold_replicates, plan, cases):
        app.reporter.note(unjudged)
    if request.budget:
        on_cuda = bool(gpus_in_use(old, request.device or suite.device))
        if request.screen:
            _note_short_pairs(app, request.budget, cases, timing, on_cuda=on_cuda)
        else:
            over_suite = varies(policy) and not request.confirms
            pair = sum(estimate(one, timing, on_cuda=on_cuda) for one in replicates(cases, 2))
            plan = _affordable(app, plan, request.budget, pair, over_suite=over_suite)
    refuse_too_many(len(cases), 2 * plan.largest)
    sides = (old.fingerprint, new.fingerprint)
    specs, options = (ready[0].asked, ready[1].asked), _options(request, plan, suite)
    screen = Screen() if request.screen else None
    comparison = Comparison(*sides, plan, policy, specs, options, request.also, waived, screen)
    planned = pairs_planned(comparison, cases)
    budget, device = request.budget or NO_BUDGET_SECONDS, request.device or suite.device
    kind = RunKind.CONFIRMATION if request.confirms else RunKind.UPGRADE
    run_plan = RunPlan(
        planned, timing, budget, device, comparison, kind, request.fingerprints, request.lock_clocks
    )
    return prepare(app, chosen, probed, run_plan, request.run_id)


def with_screen(prepared: PreparedRun) -> PreparedRun:
    """A screened run whose plan skips the short pairs of cases with differing operators or kernels.

    Any other run is unchanged.
    """
    header, comparison = prepared.header, prepared.header.pair_comparison
    if comparison is None or comparison.screen is None:
        return prepared
    cases = list(dict.fromkeys(planned.case for planned in header.replicates))
    screen = Screen.of(cases, [CaseDifference.from_body(body) for body in header.dispatch])
    planned = tuple(
        (case, environment, number)
        for case, environment, number in header.planned
        if number >= FIRST_FULL or case not in screen.changed
    )
    body = replace(comparison, screen=screen).to_body()
    return replace(prepared, header=replace(header, planned=planned, comparison=body))


def _options(request: UpgradeRequest, plan: Plan, suite: Suite) -> tuple[str, ...]:
    """The options of a command that measures and judges the same, without the two environments and a case."""
    named = (
        ("--preset", request.preset),
        ("--policy", request.policy),
        ("--device", request.device),
        ("--suite", suite.name if suite.name != CHOSEN else None),
        ("--lock-clocks", request.lock_clocks),
        ("--deadline", request.deadline),
        ("--cold-pairs", request.cold_pairs),
        *(("--also", metric) for metric in request.also),
    )
    own = option_words(named, request.case_files, request.step, request.packages)
    return (*own, "--pairs", str(plan.largest))


def option_words(
    named: Iterable[tuple[str, str | float | None]],
    case_files: Iterable[Path],
    step: str | None,
    packages: Iterable[str],
) -> tuple[str, ...]:
    """The `named` options with a value, then files of cases, a step script and packages, in a form that is
    valid in any folder.
    """
    options = (
        *named,
        *(("--cases", str(file.expanduser().absolute())) for file in case_files),
        ("--step", spelled_step(step) if step else None),
        *(("--package", package) for package in packages),
    )
    texts = ((name, f"{value:g}" if isinstance(value, float) else value) for name, value in options if value)
    return tuple(str(part) for option in texts for part in option)


def choose_step(step: str | None, suite: str | None, cases: Sequence[str]) -> StepScript | None:
    """The step script to measure, None for none.

    `cases` are patterns and files of cases. Raises BadStep for an unsuitable script, and UsageError if cases
    are selected as well.
    """
    if step is None:
        return None
    if suite is not None or cases:
        raise UsageError("--step measures one script: leave out --suite, --case and --cases")
    return read_step(step)


def distinguish_environments(app: AppContext, probed: ProbedMachine) -> ProbedMachine:
    """Both environments, with different fingerprints even if they are the same."""
    old, new = probed.environments
    if old.fingerprint != new.fingerprint:
        return probed
    if old.python == new.python:
        app.reporter.note(
            "both are the same environment (A/A test): any difference comes from the method or the machine"
        )
    else:
        app.reporter.note(
            "the fingerprints of both environments are equal: a difference between them is outside what a "
            "fingerprint records"
        )
    return replace(probed, environments=(old, _again(new)))


def _again(environment: MeasuredEnvironment) -> MeasuredEnvironment:
    facts = {**environment.facts, "fingerprint": environment.fingerprint + AGAIN}
    return replace(environment, name=f"{environment.name}{AGAIN}", facts=facts)


def _note_unmatched(app: AppContext, policy: Policy, name: str, cases: Sequence[str]) -> None:
    """Report globs that match no case: they are misspelt, or for another suite."""
    for rule, glob in policy.unmatched_globs(cases):
        app.reporter.note(f'policy {name}: {rule} "{glob}" matches none of {plural(len(cases), "case")}')


def _affordable(app: AppContext, plan: Plan, budget: float, pair_seconds: float, *, over_suite: bool) -> Plan:
    """The plan that fits the budget; it is made before the first pair of all cases.

    If the suite is judged as a whole, cases leave unneeded pairs to others.
    """
    room = int(budget // max(pair_seconds, 1.0))
    if room < plan.largest:
        note = f"a budget of {budget:g} s is enough for about {plural(room, 'pair')} of each case"
        if over_suite and room < FEWEST:
            note += (
                f", and fewer than {FEWEST} are not judged: unless a case breaks, the upgrade will be unclear"
            )
        app.reporter.note(note)
    return plan.within(2 * room if over_suite else room)


def _note_short_pairs(
    app: AppContext, budget: float, cases: Sequence[str], timing: Timing, *, on_cuda: bool
) -> None:
    """Report a budget that may end a screen before each case has its short pairs.

    The plan is unchanged, because the number of cases with full pairs is known only after the short ones.
    """
    processes = replicates(cases, 2 * SHORT_PAIRS)
    seconds = sum(estimate(one, short(timing), on_cuda=on_cuda) for one in processes)
    if budget < seconds:
        pairs = f"the short pairs of {plural(len(cases), 'case')}, which take about {seconds:.0f} s"
        app.reporter.note(f"a budget of {budget:g} s may not be enough for {pairs}")


def waivers(cases: Sequence[str], because: Sequence[str], user: str = "") -> tuple[Waiver, ...]:
    """The cases excluded from the decision as of today, in the name of `user`, by default the process owner.

    A single reason applies to all cases. Raises UsageError for a case without a reason, or a reason without a
    case.
    """
    if bool(cases) != bool(because) or len(because) not in (len(cases), min(len(cases), 1)):
        raise UsageError("--waive CASE requires --because TEXT: one for all, or one for each")
    if not all(text.strip() for text in (*cases, *because)):
        raise UsageError("--waive and --because require a text that is not empty")
    reasons = because if len(because) == len(cases) else [because[0]] * len(cases)
    today, user = f"{datetime.now(UTC):%Y-%m-%d}", user or getpass.getuser()
    return tuple(Waiver(case, why, user, today) for case, why in zip(cases, reasons, strict=True))


def unmatched_waivers(waived: Iterable[Waiver], cases: Collection[str]) -> list[str]:
    """The waived globs that match none of these cases: misspelt, or for another suite."""
    return [one.case for one in waived if not any(map(one.matches, cases))]


def check_screen(request: UpgradeRequest, policy: Policy) -> None:
    """Raise UsageError for a screen without fingerprints, or with another metric than that of a screen."""
    if not request.screen:
        return
    if not request.fingerprints:
        raise UsageError("--screen compares fingerprints: leave out --no-fingerprint")
    if request.confirms:
        raise UsageError("findings are confirmed by full pairs: leave out --screen")
    if policy.metric != rounds.METRIC:
        raise UsageError(f"--screen compares {rounds.METRIC}, but the policy judges by {policy.metric}")


def choose_policy(settings: Settings, name: str | None) -> Policy:
    """The policy by that name, or the configured one; raises UsageError for an unknown name or invalid
    values.
    """
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
    """Raise UsageError if one of them is not a metric with a better direction."""
    judged = [name for name, metric in METRICS.items() if metric.better != "neither"]
    for name in metrics:
        if name not in judged:
            raise UsageError(unknown("metric", name, judged))


def policy_for_metric(policy: Policy, metric: str | None) -> Policy:
    """The policy with that deciding metric, if given; raises UsageError for an unsuitable one."""
    if metric is None:
        return policy
    check_judged([metric])
    return replace(policy, metric=metric)


def unjudged_limits(policy: Policy, cold_pairs: int, plan: Plan, cases: Iterable[str]) -> str:
    """The reason why limits of the policy cannot be judged with so few cold pairs; empty if they can."""
    cold = (one for one in COLD & policy.worst.keys() if not threshold_of(one, policy.thresholds).exact)
    limited, fewest = ", ".join(sorted(cold)), plan.smallest
    if not limited or not any(compiles(CaseKey.parse(case)) for case in cases) or cold_pairs >= fewest:
        return ""
    return (
        f"the policy limits {limited}, which only pairs with an empty compile cache measure: {cold_pairs} "
        f"are planned, at least {fewest} are needed. With --cold-pairs {2 * plan.largest} all pairs are cold"
    )


def pair_timing(timing: Timing, policy: Policy) -> Timing:
    """The timing of a pair: it is measured until its noise is at most half of the threshold of the policy.

    This is possible only for the metric that is compared round by round.
    """
    if policy.metric != rounds.METRIC:
        return timing
    return replace(timing, pair_error=threshold_of(policy.metric, policy.thresholds).log / 2)


def _threshold(metric: str, share: float) -> Threshold:
    """The default threshold of a metric with another share."""
    usual = threshold_of(metric)
    return Threshold(share, usual.absolute, usual.exact)
