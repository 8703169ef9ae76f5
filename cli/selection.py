"""From what was typed to what is measured: profile, environment, suite, cases."""

from dataclasses import replace
from pathlib import Path

from configuration.nearest import unknown
from configuration.settings import DEFAULT_ENVIRONMENT, Settings
from runner import plan, profile
from runner.environment import Environment
from runner.suites import SUITES, Suite

from .context import UsageError

#: The suite of a run that names cases and no suite.
CHOSEN = "chosen"
DEFAULT_SUITE = "smoke"


def choose_profile(settings: Settings, name: str | None) -> profile.Profile:
    """The profile by that name, or the configured one; raises UsageError for an unknown name."""
    name = name or settings.profile
    if name not in settings.profiles:
        raise UsageError(unknown("profile", name, settings.profiles))
    wanted = settings.profiles[name]
    return profile.make(
        name,
        wanted.base,
        variables=wanted.environment,
        cpus=profile.parse_cpus(wanted.cpus) if wanted.cpus else None,
        threads=wanted.threads,
    )


def choose_environment(settings: Settings, name: str | None, python: Path | None) -> tuple[str, Path]:
    """Name and interpreter; raises UsageError for an unknown name."""
    if python is not None:
        # Not resolved: a virtual environment is known by the link, not by what it points to.
        absolute = python.absolute()
        return (absolute.parent.parent.name or "python"), absolute
    name = name or DEFAULT_ENVIRONMENT
    if name not in settings.environments:
        raise UsageError(unknown("environment", name, settings.environments))
    return name, Path(settings.environments[name].python)


def all_suites(settings: Settings) -> dict[str, Suite]:
    """The built-in suites and the configured ones on top; a configured one changes what it names."""
    suites = dict(SUITES)
    for name, wanted in settings.suites.items():
        base = suites.get(name, Suite(name, (), summary="from pyrometer.toml"))
        measured = wanted.measure_seconds or base.timing.measure_seconds
        suites[name] = replace(
            base,
            cases=wanted.cases if wanted.cases is not None else base.cases,
            replicates=wanted.replicates or base.replicates,
            budget_seconds=wanted.budget_seconds or base.budget_seconds,
            timing=replace(base.timing, measure_seconds=measured, max_seconds=max(4 * measured, 4.0)),
        )
    return suites


def choose_suite(settings: Settings, name: str | None, patterns: list[str], own_cases: bool) -> Suite:
    """The suite to measure; raises UsageError for an unknown name.

    Without a name it is `smoke`; but who names cases, or brings a file of them, means those.
    """
    suites = all_suites(settings)
    if name is None and (patterns or own_cases):
        return Suite(CHOSEN, (), summary="cases chosen on the command line")
    name = name or DEFAULT_SUITE
    if name not in suites:
        raise UsageError(unknown("suite", name, suites))
    return suites[name]


def choose_cases(
    suite: Suite, patterns: list[str], environment: Environment, settings: Settings
) -> list[str]:
    """The case keys to measure; raises UsageError when a pattern or a suite names what does not exist."""
    offered = plan.offered(environment.workloads)
    own = plan.offered(environment.workloads, source="user_cases")
    if suite.cases:
        candidates = _expanded(suite, offered) + own
    elif own and not patterns:
        candidates = own
    else:
        known = [case for other in all_suites(settings).values() for case in _expanded(other, offered)]
        candidates = list(dict.fromkeys(known + offered))
    if suite.name in settings.suites:
        _refuse_unknown(suite, candidates, environment)
    chosen = list(dict.fromkeys(plan.select(candidates, patterns)))
    for pattern in patterns:
        if not any(plan.matches(case, pattern) for case in candidates):
            chosen.append(_spelled_out(pattern, candidates, environment))
    return chosen


def _refuse_unknown(suite: Suite, candidates: list[str], environment: Environment) -> None:
    """Raise UsageError if a configured suite names a case that the harness cannot build."""
    for wanted in suite.cases:
        if not any(plan.matches(case, wanted) for case in candidates):
            offered = plan.offered(environment.workloads)
            raise UsageError(f"suite {suite.name}: {unknown('case', wanted, offered)}")
    for case in candidates:
        if problem := _problem(case, environment):
            raise UsageError(f"suite {suite.name}: {problem}")


def _problem(case: str, environment: Environment) -> str:
    """Why the harness cannot build a case, in one sentence; empty when it can."""
    reason = plan.invalid([case], environment.workloads).get(case)
    names = {str(workload["name"]) for workload in environment.workloads}
    if reason is None or case.count("/") != 3 or (name := case.partition("/")[0]) in names:
        return f'case "{case}": {reason}' if reason else ""
    return f'case "{case}": {unknown("case", name, names)}'


def _expanded(suite: Suite, offered: list[str]) -> list[str]:
    """A suite's cases with its globs replaced by what they match among the cases on offer."""
    cases: list[str] = []
    for case in suite.cases:
        cases.extend(plan.select(offered, [case]) if any(sign in case for sign in "*?[") else [case])
    return cases


def _spelled_out(pattern: str, candidates: list[str], environment: Environment) -> str:
    """A key that no suite lists but the harness can build; raises UsageError for anything else."""
    if pattern.count("/") == 3 and not any(sign in pattern for sign in "*?["):
        if problem := _problem(pattern, environment):
            raise UsageError(problem)
        return pattern
    raise UsageError(unknown("case", pattern, candidates))
