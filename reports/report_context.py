"""The context of a report: run, environments, preset and commands around the numbers."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from analysis.comparison.case_results import CaseResult
from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.decision.upgrade import Upgrade
from analysis.decision.what_would_decide import PairsToDecide
from analysis.dispatch_difference import CaseDifference
from analysis.kernel_difference import CaseKernels
from records.fingerprints import own_fingerprint
from records.runs import StepScript

#: Of this many the two sides start first in half each: it is an even number.
_PAIRS = "--pairs"
_COLD_PAIRS = "--cold-pairs"
#: Two of one kind have neighbours in the package index.
_VERSION, _NIGHTLY = r"\d+(\.\d+)+\S*", r"nightly\b.*"
#: The script of a step; and the options of `upgrade` that `bisect` takes as well, each of which has a value.
_STEP = "--step"
_OF_BISECT = (_STEP, "--package", "--preset", "--policy", "--device", "--deadline")

#: Facts of a build besides the versions, each with its title.
_BUILD: Mapping[str, str] = {
    "implementation": "Python's implementation",
    "torch_git": "PyTorch's commit",
    "cudnn": "cuDNN",
    "hip": "HIP",
    "debug": "debug build",
    "build_digest": "digest of the build's flags",
}


@dataclass(frozen=True, slots=True)
class ComparedEnvironment:
    """One side of an upgrade. `asked` is the spec to type to measure it; where empty, its name.

    `packages` are `name==version`; `cuda` is empty for a build without CUDA. `build` is what else makes it
    another: commit, cuDNN, flags, each by the name of the fact, as `build_of` takes them from all facts.
    """

    name: str
    torch: str
    python: str
    fingerprint: str
    cuda: str = ""
    packages: tuple[str, ...] = ()
    asked: str = ""
    build: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Subject:
    """A measured upgrade: both environments, the machine, the settings and the policy.

    `settings` are those of the preset. `ended_at` is None for a run that has not ended. `options` are what a
    command needs to measure the same, without the two environments and the case, such as `--preset NAME`.
    `dispatch` is what runs differently in each case; empty where that was not looked at. `kernels` are
    those of each case on both sides, on a GPU. `step` is the script that was measured instead of cases,
    `tracebacks` what it raised, old and new, empty for nothing.
    """

    old: ComparedEnvironment
    new: ComparedEnvironment
    run: str
    suite: str
    machine: str
    hardware: str
    device: str
    started_at: datetime
    ended_at: datetime | None = None
    state: str = "complete"
    preset: str = "quiet"
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    harness: str = ""
    pyrometer: str = ""
    command: str = ""
    notes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    plan: Plan = field(default_factory=Plan)
    policy: Policy = field(default_factory=Policy)
    dispatch: tuple[CaseDifference, ...] = ()
    kernels: tuple[CaseKernels, ...] = ()
    step: StepScript | None = None
    tracebacks: tuple[str, str] = ("", "")

    @property
    def resume(self) -> str:
        """The command that resumes it where it was measured; empty for one that was not interrupted."""
        command = ["pyrometer", "upgrade", "--resume", self.run]
        return shlex.join(command) if self.state == "interrupted" else ""

    def reproduce(self, case: str) -> str:
        """What to type to measure one case of this upgrade again."""
        return self._command([case], self.options)

    def cases_to_decide(self, upgrade: Upgrade) -> tuple[PairsToDecide, ...]:
        """The cases that pairs beyond the plan would decide; none before the plan itself has ended."""
        return upgrade.to_decide if self.state == "complete" else ()

    def to_decide(self, one: PairsToDecide) -> str:
        """The command that decides a case: a new plan with the pairs that it takes, if any number would."""
        if one.pairs is None:
            return self.reproduce(one.case)
        pairs, given = _even_pairs(one), self.options
        if one.cold:
            # Spare ones for those that end without a number are among them.
            given = (*_without(_COLD_PAIRS, given), _COLD_PAIRS, str(2 * pairs))
        return self._command([one.case], (*_without(_PAIRS, given), _PAIRS, str(pairs)))

    def decide_all(self, every: Sequence[PairsToDecide]) -> str:
        """The one command that decides all of these cases, each with the pairs of the one that takes most.

        Cases that no reasonable number of pairs would decide are measured as they were.
        """
        given = self.options
        decidable = [one for one in every if one.pairs is not None]
        if decidable:
            given = (*_without(_PAIRS, given), _PAIRS, str(max(map(_even_pairs, decidable))))
        if cold := [one for one in decidable if one.cold]:
            given = (*_without(_COLD_PAIRS, given), _COLD_PAIRS, str(2 * max(map(_even_pairs, cold))))
        return self._command([one.case for one in every], given)

    def bisect(self) -> str:
        """What to type to find where the step changed; empty where no step was measured.

        Where the package index does not say what lies between the two (see `between_is_known`), the reader
        adds `--candidates`.
        """
        if self.step is None:
            return ""
        both = zip(self.options[::2], self.options[1::2], strict=False)
        options = [part for option, value in both if option in _OF_BISECT for part in (option, value)]
        return shlex.join(["pyrometer", "bisect", *self._sides, *options])

    @property
    def between_is_known(self) -> bool:
        """Whether the package index says what lies between the two: two versions, or two nightlies."""
        versions = [re.fullmatch(_VERSION, side) for side in self._sides]
        return all(versions) or all(re.fullmatch(_NIGHTLY, side) for side in self._sides)

    def with_script_alone(self) -> "Subject":
        """The same whose commands name the script without its folder, for a reader who saved it."""
        if self.step is None:
            return self
        return replace(self, options=(_STEP, self.step.name, *_without(_STEP, self.options)))

    @property
    def _sides(self) -> list[str]:
        return [side.asked or side.name for side in (self.old, self.new)]

    def _command(self, cases: Iterable[str], options: Iterable[str]) -> str:
        # A step is the only case of its run, and among the options.
        chosen = [part for case in cases for part in ("--case", case)] if self.step is None else []
        return shlex.join(["pyrometer", "upgrade", *self._sides, *chosen, *options])


class JudgedUpgrade(NamedTuple):
    """An upgrade with everything a report needs."""

    subject: Subject
    results: Sequence[CaseResult]
    upgrade: Upgrade


def _even_pairs(one: PairsToDecide) -> int:
    """How many pairs a case takes; an even number, so that each side starts first in half of them."""
    return (one.pairs or 0) + (one.pairs or 0) % 2


def _without(option: str, given: Sequence[str]) -> tuple[str, ...]:
    if option not in given:
        return tuple(given)
    at = given.index(option)
    return (*given[:at], *given[at + 2 :])


@dataclass(frozen=True, slots=True)
class EnvironmentChange:
    """What differs between two environments; empty where one of them has no such thing."""

    what: str
    old: str
    new: str


def changes(old: ComparedEnvironment, new: ComparedEnvironment) -> tuple[EnvironmentChange, ...]:
    """What the new environment has other than the old: Python, PyTorch and its build, then packages."""
    whole = [
        EnvironmentChange("Python", old.python, new.python),
        EnvironmentChange("PyTorch", old.torch, new.torch),
        EnvironmentChange("CUDA", old.cuda, new.cuda),
        *(
            EnvironmentChange(title, old.build.get(fact, ""), new.build.get(fact, ""))
            for fact, title in _BUILD.items()
        ),
    ]
    olds, news = _packages(old.packages), _packages(new.packages)
    # PyTorch's own version is above, with its build.
    names = sorted({*olds, *news} - {"torch"})
    packages = [EnvironmentChange(name, olds.get(name, ""), news.get(name, "")) for name in names]
    return tuple(change for change in (*whole, *packages) if change.old != change.new)


def same_environment(old: ComparedEnvironment, new: ComparedEnvironment) -> bool:
    """Whether both are one environment by their fingerprints, which cover more than the listed facts."""
    return own_fingerprint(old.fingerprint) == own_fingerprint(new.fingerprint)


def build_of(facts: Mapping[str, Any]) -> dict[str, str]:
    """The facts of an environment's build, as texts; absent ones are left out."""
    values = {fact: facts.get(fact) for fact in _BUILD}
    return {fact: "yes" if value is True else str(value) for fact, value in values.items() if value}


def _packages(listed: Iterable[str]) -> dict[str, str]:
    """Version by normalised name (PEP 503); of a package that is there twice, both."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in listed:
        name, _, version = one.partition("==")
        found[re.sub(r"[-_.]+", "-", name).lower()].add(version or "unknown")
    return {name: ", ".join(sorted(versions)) for name, versions in found.items()}
