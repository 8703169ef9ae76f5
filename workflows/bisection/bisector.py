"""A bisection: the candidates in their order, and the comparisons between them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Protocol

from packaging.version import Version

from analysis.bisection import BisectionEnd, Question, answer, walk
from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.decision.comparison import MOST_PAIRS, Comparison
from analysis.metrics import COLD
from common.interrupts import Interrupts
from configuration.settings import Settings
from records.kinds import RunKind, RunState
from reports.body import upgrade_json
from reports.wording import case_result
from runner import environment as environments
from runner import journal
from runner.environment import MeasuredEnvironment
from runner.environments.interpreter import look_at
from runner.environments.package_index import list_versions, resolve_nightly
from runner.environments.recipe import NIGHTLY, Recipe
from runner.environments.versions import date_of, parse
from runner.errors import BrokenEnvironment, BuildFailed
from runner.execution import harness as harnesses
from runner.step_file import step_case

from ..app_context import AppContext
from ..errors import CannotResume, NothingToMeasure, UsageError
from ..ingest import read_run
from ..load_run import judge_run
from ..measure import RunResult, new_run_id
from ..planning.plan_run import (
    Chosen,
    PreparedRun,
    ProbedMachine,
    RunPlan,
    ask,
    check_alike,
    prepare,
    prepare_again,
    timing_of,
)
from ..planning.plan_upgrade import (
    NO_BUDGET_SECONDS,
    choose_policy,
    choose_step,
    distinguish_environments,
    option_words,
    pair_timing,
    pairs_plan,
    policy_for_metric,
)
from ..planning.resolve_environment import (
    ReadyEnvironment,
    declared_environments,
    make_ready,
    parse_environment,
    with_packages,
)
from ..planning.select_cases import CHOSEN, canonical_key, choose_cases, choose_preset, choose_suite
from ..run_header import Header
from ..run_locally import exclusive_machine, measure_watched
from ..session_queue import pairs_planned
from .state import Bisection, Current, Shelf, Step


@dataclass(frozen=True, slots=True)
class _End:
    """An end that is a plain version: the version, whether it is a nightly, and its recipe."""

    version: Version
    nightly: bool
    recipe: Recipe


def choose_candidates(settings: Settings, good: str, bad: str, listed: str | None) -> tuple[str, ...]:
    """Specs in order, the good end first and the bad one last, perhaps with none in between.

    The candidates between two released versions are the releases that the index offers, between two nightlies
    the nightlies, one for each day. `listed` replaces them with specs separated by commas. Raises UsageError,
    and IndexFailed.
    """
    ends = (_absolute_text(settings, good), _absolute_text(settings, bad))
    if ends[0] == ends[1]:
        raise UsageError(f"both ends of the bisection are {good}")
    if listed is None:
        return (ends[0], *_between(settings, *ends), ends[1])
    specs = [_absolute_text(settings, text.strip()) for text in listed.split(",") if text.strip()]
    # The list may include the ends.
    between = [spec for spec in specs if spec not in ends]
    if twice := {spec for spec in between if between.count(spec) > 1}:
        raise UsageError(f"--candidates names {sorted(twice)[0]} twice")
    return (ends[0], *between, ends[1])


def _absolute_text(settings: Settings, text: str) -> str:
    """`text` in a form that has the same meaning on another day and in another folder."""
    if text in declared_environments(settings):
        return text
    one = parse_environment(settings, text)
    if one.recipe is None:
        return str(one.python).removesuffix("/bin/python")
    if one.recipe.torch and one.recipe.dated and one.recipe != _as_those_between(settings, one.recipe.torch):
        # The day of a declared nightly with its own index.
        return text
    recipe = one.recipe if one.recipe.dated else resolve_nightly(one.recipe, look_at(one.recipe.base_python))
    return recipe.wheel or recipe.torch


def _between(settings: Settings, good: str, bad: str) -> list[str]:
    """The versions of the index between two versions, from the good one to the bad one."""
    first, last = (_end(settings, spec, (good, bad)) for spec in (good, bad))
    if first.nightly != last.nightly:
        mixed = f"one of {good} and {bad} is a nightly and the other is not"
        raise UsageError(f"{mixed}: {_how_to_list(settings, (good, bad))}")
    recipe = replace(first.recipe, torch=NIGHTLY) if first.nightly else first.recipe
    found = list_versions(recipe, look_at(""), pre=first.nightly)
    return between(first.version, last.version, found)


def _how_to_list(settings: Settings, ends: tuple[str, str]) -> str:
    """The advice if the index cannot list the versions in between, with the declared environments."""
    declared = ", ".join(name for name in declared_environments(settings) if name not in ends)
    names = f"names of pyrometer.toml ({declared})" if declared else "names of pyrometer.toml"
    return (
        f"list the environments from {ends[0]} to {ends[1]} with --candidates, separated by commas: "
        f'versions, wheels, interpreters or {names}; --candidates "" compares only the two ends'
    )


def _end(settings: Settings, spec: str, ends: tuple[str, str]) -> _End:
    # A declared environment may have its own index or packages, which the candidates would lack.
    one = None if spec in declared_environments(settings) else parse_environment(settings, spec)
    if one is None or one.recipe is None or one.recipe != _as_those_between(settings, one.recipe.torch):
        unlisted = f"{spec} is not a version that the package index can list neighbours of"
        raise UsageError(f"{unlisted}: {_how_to_list(settings, ends)}")
    torch = one.recipe.torch
    text = f"0.dev{torch.split()[1].replace('-', '')}" if torch.startswith(NIGHTLY) else torch
    version = parse(text)
    assert version is not None, torch
    return _End(version, date_of(version) is not None, one.recipe)


def _as_those_between(settings: Settings, torch: str) -> Recipe | None:
    """The recipe of a plain version; None for anything else."""
    return parse_environment(settings, torch).recipe if torch else None


def between(good: Version, bad: Version, versions: list[str]) -> list[str]:
    """The versions strictly between, from the good one to the bad one, which may be older.

    Nightlies are compared by day, each as `nightly 2026-11-20`. Of two builds of one release the first is
    used.
    """
    by_name: dict[str, Version] = {}
    for version in filter(None, map(parse, versions)):
        day = date_of(version)
        if (day is None) == (date_of(good) is None) and (day or not version.is_prerelease):
            by_name.setdefault(f"{NIGHTLY} {day}" if day else version.public, version)
    low, high = sorted((_age(good), _age(bad)))
    inside = [name for name, version in by_name.items() if low < _age(version) < high]
    found = sorted(inside, key=lambda name: _age(by_name[name]))
    return found if _age(good) < _age(bad) else found[::-1]


def _age(version: Version) -> tuple[date, Version]:
    """The position of a version: a nightly's by its day alone, a build's as its release."""
    day = date_of(version)
    return (day, Version("0")) if day else (date.min, Version(version.public))


#: An unclear comparison is repeated once with this multiple of the pairs.
LARGER = 2
#: The largest multiple of a plan's pairs: twice as many at the second time, plus spare ones.
_AT_MOST = 3


@dataclass(frozen=True, slots=True)
class BisectRequest:
    """The arguments of a bisection: `good` and `bad` are specs, `candidates` are specs with commas.

    `step` and `packages` are those of `UpgradeRequest`.
    """

    good: str = ""
    bad: str = ""
    case: str = ""
    candidates: str | None = None
    suite: str | None = None
    case_files: tuple[Path, ...] = ()
    preset: str | None = None
    policy: str | None = None
    metric: str | None = None
    device: str | None = None
    pairs: int | None = None
    deadline: float | None = None
    step: str | None = None
    packages: tuple[str, ...] = ()


def begin(app: AppContext, request: BisectRequest) -> Bisection:
    """The requested bisection, with nothing measured yet; it may query the package index."""
    settings = app.settings
    policy = policy_for_metric(choose_policy(settings, request.policy), request.metric)
    plan = pairs_plan(request.pairs, MOST_PAIRS // LARGER)
    preset = choose_preset(settings, request.preset)
    given = [request.case, *map(str, request.case_files)]
    step = choose_step(request.step, request.suite, list(filter(None, given)))
    case = request.case if step is None else step_case(step)
    suite = choose_suite(settings, request.suite, [case], bool(request.case_files))
    candidates = choose_candidates(settings, request.good, request.bad, request.candidates)
    for text in candidates:
        with_packages(parse_environment(settings, text), request.packages)
    harness = harnesses.build(app.places.data_dir / "harness", request.case_files, step)
    timing = pair_timing(timing_of(suite, request.deadline, settings), policy)
    cold = _cold_pairs(policy, plan)
    return Bisection(
        id=new_run_id(),
        started_at=datetime.now(UTC).isoformat(),
        command=app.command,
        candidates=candidates,
        case=canonical_key(case),
        suite=suite.name,
        preset=preset.name,
        preset_fingerprint=preset.fingerprint,
        device=request.device or suite.device,
        timing=replace(timing, cold_replicates=cold or timing.cold_replicates),
        rule=Comparison("", "", plan, policy),
        harness=harness,
        options=_options(request, cold),
        packages=request.packages,
    )


def _cold_pairs(policy: Policy, plan: Plan) -> int | None:
    """The number of pairs with an empty compile cache: all if the metric requires it, None for the
    default.
    """
    return _AT_MOST * plan.largest if policy.metric in COLD else None


def _options(request: BisectRequest, cold: int | None) -> tuple[str, ...]:
    """The options an upgrade needs to measure the same, without environments, case and pairs."""
    named = (
        ("--suite", request.suite),
        ("--preset", request.preset),
        ("--policy", request.policy),
        ("--device", request.device),
        ("--deadline", request.deadline),
        ("--cold-pairs", cold),
        ("--also", request.metric),
    )
    return option_words(named, request.case_files, request.step, request.packages)


def shelf(app: AppContext) -> Shelf:
    """Where bisections are kept."""
    return Shelf(app.places.data_dir / "bisects")


class BisectionReporter(Protocol):
    """Receives the steps of a bisection."""

    def report_start(self, bisection: Bisection) -> None:
        """It begins, or is resumed with the steps that it has."""
        ...

    def report_question(self, bisection: Bisection, question: Question) -> None:
        """Two candidates are compared next."""
        ...

    def report_run(self, header: Header, result: RunResult) -> None:
        """The run of a comparison is over."""
        ...

    def report_answer(self, bisection: Bisection, step: Step) -> None:
        """A comparison has its answer."""
        ...


class _UnmeasurableCandidate(Exception):
    """A candidate that cannot be measured; the text says why."""


class Bisector:
    """Runs the comparisons one after the other; each is a separate upgrade, and the state is saved after
    it.
    """

    def __init__(
        self, app: AppContext, bisection: Bisection, reporter: BisectionReporter, interrupts: Interrupts
    ) -> None:
        self.bisection = bisection
        self._app = app
        self._shelf = shelf(app)
        self._reporter = reporter
        self._interrupts = interrupts
        preset = choose_preset(app.settings, bisection.preset)
        # The old name of a selection of cases.
        name = None if bisection.suite == CHOSEN else bisection.suite
        suite = choose_suite(app.settings, name, [bisection.case], own_cases=True)
        self._chosen = Chosen(preset, suite, bisection.harness)

    @property
    def begun(self) -> bool:
        """Whether a comparison can be resumed."""
        return bool(self.bisection.steps or self.bisection.current)

    def to_its_end(self) -> BisectionEnd | None:
        """Compare until the bisection ends; None if it was interrupted.

        Raises UsageError, RunnerError or JobError for errors that the user has to correct.
        """
        if self.begun:
            self._check_unchanged()
            self._forgive()
            self._reporter.report_start(self.bisection)
        while True:
            question = walk(len(self.bisection.candidates), self.bisection.answers)
            if self.bisection.current:
                step = self._left_over(self.bisection.current)
            elif isinstance(question, BisectionEnd):
                return question
            else:
                step = None if self._interrupts.requested() else self._compare_candidates(question)
            if step is None:
                return None
            self._keep(replace(self.bisection, steps=(*self.bisection.steps, step), current=None))
            self._reporter.report_answer(self.bisection, step)

    def _check_unchanged(self) -> None:
        """Comparisons under different conditions could not be combined."""
        one = self.bisection
        if not one.harness.path.exists():
            raise CannotResume(
                f"bisection {one.id}: its harness {one.harness.path} was removed; start a new one"
            )
        if self._chosen.preset.fingerprint != one.preset_fingerprint:
            raise CannotResume(
                f"preset {one.preset} has changed since bisection {one.id} began; start a new one"
            )

    def _forgive(self) -> None:
        """Try unavailable environments again if the bisection ended because of them."""
        end = walk(len(self.bisection.candidates), self.bisection.answers)
        if isinstance(end, BisectionEnd):
            steps = [step for step in self.bisection.steps if step.run or step.new not in end.between]
            self.bisection = replace(self.bisection, steps=tuple(steps))

    def _left_over(self, current: Current) -> Step | None:
        """Finish the comparison that an earlier process began; None if it is interrupted."""
        folder = self._app.runs / current.run
        path = folder / journal.FILE
        if not path.exists() or not path.stat().st_size:
            # Killed before it began.
            return self._compare_candidates(current.question)
        header, contents = read_run(path)
        if not contents.missing_replicates(header.replicates):
            result = RunResult(header.run, RunState.COMPLETE, contents.outcomes, stored=True, seconds=None)
            return self._step(current.question, header, result)
        with exclusive_machine(self._app.reporter):
            return self._measure_run(current.question, prepare_again(self._app, folder))

    def _compare_candidates(self, question: Question) -> Step | None:
        if self.begun:
            self._reporter.report_question(self.bisection, question)
        with exclusive_machine(self._app.reporter):
            try:
                both = self._environments(question)
            except _UnmeasurableCandidate as reason:
                return Step(question.old, question.new, "skip", str(reason))
            prepared = self._prepare_run(question, both)
            if not self.begun:
                # Only after the ends and the case are known.
                self._reporter.report_start(self.bisection)
                self._reporter.report_question(self.bisection, question)
            self._keep(replace(self.bisection, current=Current(question, prepared.header.run)))
            return self._measure_run(question, prepared)

    def _environments(self, question: Question) -> ProbedMachine:
        """Both sides, built and described; raises _Skipped if the new one cannot be.

        An end, and a candidate that was measured before, is not skipped: the user has to correct the error.
        """
        old, new = (self.bisection.candidates[at] for at in (question.old, question.new))
        may_skip = question.old == 0 and question.new < len(self.bisection.candidates) - 1
        packages = self.bisection.packages
        make_ready(self._app, [old], packages=packages)
        try:
            ready = make_ready(self._app, [old, new], packages=packages)
            other = self._describe_environment(ready[1])
        except (BuildFailed, BrokenEnvironment) as error:
            if may_skip:
                raise _UnmeasurableCandidate(str(error)) from error
            raise
        found = ask(self._chosen, ready[:1])
        both = replace(found, environments=(*found.environments, other))
        try:
            check_alike(both.environments, self.bisection.device)
        except UsageError as error:
            if may_skip:
                raise _UnmeasurableCandidate(str(error)) from error
            raise
        for at, one in zip((question.old, question.new), both.environments, strict=True):
            self.bisection = self.bisection.met(at, one.fingerprint)
        return distinguish_environments(self._app, both)

    def _describe_environment(self, one: ReadyEnvironment) -> MeasuredEnvironment:
        return environments.describe(one.name, one.python, self._chosen.harness, self._chosen.preset)

    def _prepare_run(self, question: Question, both: ProbedMachine) -> PreparedRun:
        one = self.bisection
        old, new = both.environments
        if not one.steps:
            found = choose_cases(self._chosen.suite, [one.case], old, self._app.settings)
            if len(found) != 1:
                raise _several(one.case, found)
            one = self.bisection = replace(one, case=found[0])
        plan = one.rule.plan
        if question.again:
            plan = replace(plan, largest=plan.largest * LARGER)
        names = (one.candidates[question.old], one.candidates[question.new])
        options = (*one.options, "--pairs", str(plan.largest))
        rule = replace(one.rule, plan=plan, asked=names, options=options)
        comparison = replace(rule, old=old.fingerprint, new=new.fingerprint)
        planned = pairs_planned(comparison, [one.case])
        return prepare(
            self._app,
            self._chosen,
            both,
            RunPlan(planned, one.timing, NO_BUDGET_SECONDS, one.device, comparison, RunKind.BISECTION),
        )

    def _measure_run(self, question: Question, prepared: PreparedRun) -> Step | None:
        result = measure_watched(self._app, prepared, self._interrupts, self._reporter.report_run)
        return None if result.state == RunState.INTERRUPTED else self._step(question, prepared.header, result)

    def _step(self, question: Question, header: Header, result: RunResult) -> Step:
        judged = judge_run(header, result)
        (found,) = judged.results
        metric = judged.subject.policy.metric
        body = upgrade_json(judged)
        return Step(
            question.old,
            question.new,
            answer(found, metric),
            case_result(found, metric),
            header.run,
            judged.subject.reproduce(self.bisection.case),
            body["cases"][0],
            tuple(body["environments"]["changes"]),
        )

    def _keep(self, bisection: Bisection) -> None:
        self.bisection = bisection
        self._shelf.save(bisection)


def _several(pattern: str, found: Sequence[str]) -> Exception:
    if not found:
        return NothingToMeasure("no case is selected")
    first = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
    return UsageError(f'a bisection follows one case, but "{pattern}" matches {len(found)}: {first}')
