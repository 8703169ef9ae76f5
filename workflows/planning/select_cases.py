"""Resolve command line arguments to preset, environment, suite and cases."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.text import key_matches, plural
from configuration.reading import label_of
from configuration.settings import Settings
from configuration.suggestions import nearest, unknown
from records.outcomes import PlannedReplicate
from runner import preset
from runner.environment import MeasuredEnvironment
from runner.errors import BadSuite
from runner.execution import tracing
from runner.session_plan import Timing
from runner.suites import plan
from runner.suites.suite import Suite, TablePath, built_in, compose, is_glob, is_key, too_many, whole_key
from runner.worker.case_key import PHASES, CaseKey, Value

from ..errors import UsageError

#: The cases that an environment can build, as it reports them.
Workloads = Sequence[Mapping[str, Any]]

#: The name of the suite of a run that selects cases without a suite.
CHOSEN = "chosen"
DEFAULT_SUITE = "smoke"
#: A selection by patterns that takes longer has to be confirmed.
_LONG_SECONDS = 300.0


def choose_preset(settings: Settings, name: str | None) -> preset.MachinePreset:
    """The preset by that name, or the configured one; raises UsageError for an unknown name."""
    name = settings.preset if name is None else name
    if name not in settings.presets:
        raise UsageError(unknown("preset", name, settings.presets))
    chosen = settings.presets[name]
    return preset.make(
        name,
        chosen.base,
        variables=chosen.environment,
        cpus=preset.parse_cpus(chosen.cpus) if chosen.cpus else None,
        threads=chosen.threads,
    )


def suite_names(settings: Settings) -> list[str]:
    """The names of all suites: built-in ones, then the configured ones."""
    return list(dict.fromkeys((*built_in(), *settings.suites)))


def suite_named(settings: Settings, name: str, above: tuple[str, ...] = ()) -> Suite:
    """The suite of that name, a configured one over the built-in one that it may change.

    Raises UsageError for an unknown name and for an invalid suite; errors in unrelated suites are ignored.
    `above` are the suites that include it.
    """
    names = suite_names(settings)
    if name not in names:
        raise UsageError(unknown("suite", name, names))
    if name not in settings.suites:
        return built_in()[name]
    table = settings.suites[name].model_dump(exclude_none=True)
    suites = {other: built_in().get(other, Suite(other, ())) for other in names}
    if name not in built_in():
        suites[name] = Suite(name, (), summary="from pyrometer.toml")
    for number, other in enumerate(table.get("include", ())):
        if other in above:
            place = _place(settings, name, ("include", number))
            raise UsageError(f'{place}: "{other}" includes "{name}" itself')
        if other in settings.suites and other != name:
            suites[other] = suite_named(settings, other, (*above, name))
    try:
        return compose(name, table, suites)
    except BadSuite as error:
        raise UsageError(f"{_place(settings, name, error.path)}: {_error_text(error)}") from None


def _error_text(error: BadSuite) -> str:
    """The error of a suite, with a suggestion if a similar word exists."""
    if error.kind:
        return unknown(error.kind, error.word, error.valid)
    near = nearest(error.word, error.valid) if error.word else None
    return f'{error}; did you mean "{near}"?' if near else str(error)


def all_suites(settings: Settings, *, tolerant: bool = False) -> dict[str, Suite]:
    """Every suite by its name; raises UsageError for a wrong one, or leaves it out if `tolerant`."""
    suites: dict[str, Suite] = {}
    for name in suite_names(settings):
        try:
            suites[name] = suite_named(settings, name)
        except UsageError:
            if not tolerant:
                raise
    return suites


def _place(settings: Settings, name: str, path: TablePath) -> str:
    """The place of a word in the settings file, for messages."""
    suite = f"suite {name}"
    if settings.file is None or name not in settings.suites:
        return suite
    place = ".".join(str(part) for part in ("suites", name, *path))
    return f"{label_of(settings.file, Path.cwd())}: {place}"


def choose_suite(settings: Settings, name: str | None, patterns: list[str], own_cases: bool) -> Suite:
    """The suite to measure; raises UsageError for an unknown name, and an invalid suite.

    The default is `smoke`, unless cases or a file of cases are given.
    """
    if name is None and (patterns or own_cases):
        return Suite(CHOSEN, (), summary="cases chosen on the command line")
    return suite_named(settings, DEFAULT_SUITE if name is None else name)


def with_telemetry(suite: Suite) -> Suite:
    """Cases chosen on the command line with the telemetry window that the built-in suites have."""
    if suite.name != CHOSEN:
        return suite
    seconds = built_in()[DEFAULT_SUITE].timing.observe_seconds
    return replace(suite, timing=replace(suite.timing, observe_seconds=seconds))


def tracing_suite(steps: int) -> Suite:
    """The suite of `pyrometer profile`: the given cases, once each, traced instead of measured."""
    return Suite(tracing.SUITE, (), replicates=1, timing=Timing(trace_steps=steps))


def one_each(cases: list[str], patterns: list[str]) -> list[str]:
    """The single case that each pattern matches, in the order of the patterns.

    Raises UsageError for a pattern with several matches, and for cases whose tables cannot be subtracted.
    """
    found: list[str] = []
    for pattern in patterns:
        meant = [case for case in cases if key_matches(case, pattern)]
        if len(meant) > 1:
            raise UsageError(f"{pattern} matches {len(meant)} cases: name one of them, such as {meant[0]}")
        if meant[0] in found:
            raise UsageError(f"{meant[0]} cannot be compared with itself: name another technique")
        found += meant
    if len({CaseKey.parse(case).workload for case in found}) > 1:
        raise UsageError(f"{' and '.join(found)} are different workloads: only techniques can be subtracted")
    return found


def refuse_too_many(cases: int, replicates: int) -> None:
    """Raise UsageError for more cases than one run may have."""
    if problem := too_many(cases, replicates):
        raise UsageError(problem)


def refuse_long(
    patterns: Sequence[str], planned: Sequence[PlannedReplicate], timing: Timing, *, on_cuda: bool = False
) -> None:
    """Raise UsageError for cases chosen by patterns that take long, unless that was confirmed.

    Whole keys, and a file of cases without a pattern, need no confirmation.
    """
    if all(map(is_key, patterns)):
        return
    least = sum(plan.estimate(one, timing, on_cuda=on_cuda) for one in planned)
    if least <= _LONG_SECONDS:
        return
    # The length of a step is unknown before measuring, so only two bounds of the duration are known.
    most = least + len(planned) * (timing.warm_up_max_seconds + timing.max_seconds)
    cases = plural(len({one.case for one in planned}), "case")
    raise UsageError(
        f"this selects {cases} in {len(planned):,} processes, which take {least / 60:.0f} minutes if their "
        f"steps are short and up to {most / 60:.0f} if they are long: use --yes to measure them, --budget "
        f"SECONDS to measure as many as fit, or a narrower --case"
    )


def canonical_key(pattern: str) -> str:
    """A whole case key in its canonical form, so that one case has one series; anything else unchanged."""
    if not is_key(pattern):
        return pattern
    try:
        return whole_key(pattern, ())
    except BadSuite:
        return pattern


def choose_cases(
    suite: Suite, patterns: list[str], environment: MeasuredEnvironment, settings: Settings
) -> list[str]:
    """The case keys to measure; raises UsageError if a pattern or a suite names an unknown case."""
    offered = plan.eager_cases(environment.workloads)
    own = plan.eager_cases(environment.workloads, source="user_cases")
    if suite.cases:
        candidates = expand_globs(suite, offered) + own
    elif own and not patterns:
        candidates = own
    else:
        suites = all_suites(settings, tolerant=True).values()
        known = [case for other in suites for case in expand_globs(other, offered)]
        candidates = list(dict.fromkeys(known + offered))
    refuse_unknown(suite, environment.workloads, settings)
    if suite.name == CHOSEN:
        known = {str(each["name"]): each for each in environment.workloads if not _is_own(each)}
        patterns = [case for pattern in patterns for case in _small(pattern, known)]
    chosen = list(dict.fromkeys(plan.select(candidates, patterns)))
    for pattern in patterns:
        if not any(key_matches(case, pattern) for case in candidates):
            chosen.append(_spelled_out(pattern, candidates, environment))
    return chosen


def _small(pattern: str, workloads: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The cases for the bare name of a built-in workload without a suite: its cases in `smoke`, or a small
    case with the first value of each parameter, in its first phase, eager.

    Other patterns are unchanged.
    """
    if pattern not in workloads:
        return [pattern]
    if listed := plan.select(built_in()[DEFAULT_SUITE].cases, [pattern]):
        return listed
    one = workloads[pattern]
    return [str(CaseKey.of(pattern, one["phases"][0], {k: v[0] for k, v in one["grid"].items()}, {}))]


def _is_own(workload: Mapping[str, Any]) -> bool:
    """Whether a workload is from a file of --cases."""
    return str(workload["source"]).startswith("user_cases")


def refuse_unknown(suite: Suite, workloads: Workloads, settings: Settings) -> None:
    """Raise UsageError if a configured suite names a case that the harness cannot build."""
    if suite.name not in settings.suites:
        return
    offered = plan.eager_cases(workloads)
    own = any(map(_is_own, workloads))
    for case in suite.cases:
        if not is_glob(case):
            problem = _problem(case, workloads)
        else:
            problem = "" if plan.select(offered, [case]) else unknown("case", case, offered)
        if problem:
            hint = "" if own else "; cases of your own come with --cases FILE"
            place = _place(settings, suite.name, suite.places.get(case, ()))
            raise UsageError(f"{place}: {problem}{hint}")


def _problem(case: str, offered: Workloads) -> str:
    """The reason why the harness cannot build a case, as a sentence; empty if it can."""
    reason = plan.invalid([case], offered).get(case)
    workloads = {str(workload["name"]): workload for workload in offered}
    if reason is None:
        reason = _unfit(CaseKey.parse(case), workloads)
        return f'case "{case}": {reason}' if reason else ""
    if case.count("/") != 3:
        return f'case "{case}": {reason}'
    name, phase, parameters, _ = case.split("/")
    if name not in workloads:
        return f'case "{case}": {unknown("case", name, workloads)}'
    if phase in PHASES and phase not in workloads[name]["phases"]:
        return f'case "{case}": {unknown(f"phase of {name}", phase, workloads[name]["phases"])}'
    for parameter in (part.partition("=")[0] for part in parameters.split(",") if part != "-"):
        if parameter and parameter not in workloads[name]["grid"]:
            return f'case "{case}": {unknown(f"parameter of {name}", parameter, workloads[name]["grid"])}'
    return f'case "{case}": {reason}'


def _unfit(key: CaseKey, workloads: Mapping[str, Mapping[str, Any]]) -> str:
    """The error of a value whose type differs from those of the workload's grid, such as a text for a number.

    Whether the workload accepts a value of the right type is known only when it is built.
    """
    for parameter, value in key.parameters:
        offered: list[Value] = workloads[key.name]["grid"][parameter]
        kinds = {type(one) for one in offered} | ({int} if float in map(type, offered) else set())
        if type(value) not in kinds:
            return (
                f"{key.name} takes no {parameter}={value}, but values such as {', '.join(map(str, offered))}"
            )
    return ""


def expand_globs(suite: Suite, offered: list[str]) -> list[str]:
    """The cases of a suite with its globs replaced by their matches among the available cases."""
    cases: list[str] = []
    for case in suite.cases:
        found = plan.select(offered, [case]) if is_glob(case) else [case]
        cases += [
            one for one in found if one in suite.places or one in suite.baselines or not _excludes(suite, one)
        ]
    return cases


def _excludes(suite: Suite, case: str) -> bool:
    return any(key_matches(case, pattern) for pattern in suite.excluded)


def _spelled_out(pattern: str, candidates: list[str], environment: MeasuredEnvironment) -> str:
    """A key that is in no suite but that the harness can build; raises UsageError for anything else."""
    if is_key(pattern):
        if problem := _problem(pattern, environment.workloads):
            raise UsageError(problem)
        return pattern
    raise UsageError(unknown("case", pattern, candidates))


@dataclass(frozen=True, slots=True)
class ScheduleDevice:
    """The measurement of a schedule on a machine, as a sentence, and whether it uses a GPU."""

    schedule: str
    sentence: str
    on_gpu: bool


def schedule_devices(
    settings: Settings, labels: Collection[str], gpus: Sequence[str]
) -> tuple[ScheduleDevice, ...]:
    """The enabled schedules that a machine with these labels measures; `gpus` are its GPUs by name.

    Raises UsageError for a schedule with an unknown suite.
    """
    found: list[ScheduleDevice] = []
    for name, schedule in settings.schedules.items():
        if schedule.job not in ("measure", "upgrade") or not schedule.enabled:
            continue
        if schedule.machines and not set(schedule.machines) & set(labels):
            continue
        suite = choose_suite(settings, schedule.suite, list(schedule.cases or ()), bool(schedule.case_files))
        choice = schedule.device or suite.device
        on_gpu = choice == "cuda" or (choice == "auto" and bool(gpus))
        device = (gpus[0] if gpus else "a GPU, which this machine does not have") if on_gpu else "the CPU"
        sides = [schedule.old, schedule.new] if schedule.job == "upgrade" else schedule.environments
        environments = ", ".join(filter(None, sides))
        found.append(
            ScheduleDevice(name, f"{name}: suite {suite.name} of {environments} on {device}", on_gpu)
        )
    return tuple(found)


def unmeasured_gpus(devices: Collection[ScheduleDevice], gpus: Sequence[str]) -> str:
    """A sentence if a machine has GPUs that none of its schedules measures; empty otherwise."""
    if not gpus or not devices or any(each.on_gpu for each in devices):
        return ""
    return f"no schedule measures the {plural(len(gpus), 'GPU')} of this machine: suite nightly-gpu does"
