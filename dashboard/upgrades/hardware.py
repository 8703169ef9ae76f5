"""One pair of versions on all hardware that measured it: a run for each, the worst verdict first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.decision.reasons import WORST_FIRST, Decision
from dashboard.components.query_params import released
from dashboard.upgrades.view import Listed, answers
from reports.scorecard import Entry

_WORST: tuple[Decision | None, ...] = (*WORST_FIRST, None)


@dataclass(frozen=True, slots=True)
class HardwareVerdict:
    """What an upgrade came to on one hardware; `decision` is None where this database cannot judge it."""

    listed: Listed
    decision: Decision | None = None
    because: str = ""
    entries: tuple[Entry, ...] = ()


def on_all_hardware(one: Listed, items: Iterable[Listed]) -> list[Listed]:
    """The run that answers best on each machine that measured the same pair of versions as `one`.

    On its own machine that is `one` itself. The newest whole runs of other suites there come after. What one
    suite or one machine of a hardware found is not taken back by another. Builds for another device are the
    same version.
    """
    best = {_place(one): one}
    alike = [each for each in items if not each.confirms and _pair(each) == _pair(one)]
    for each in alike:
        known = best.setdefault(_place(each), each)
        if known is not one and answers(each) > answers(known):
            best[_place(each)] = each
    others: dict[tuple[str, str, str], Listed] = {}
    for each in alike:
        place = *_place(each), each.run.suite
        if all(answers(each)[:3]) and each.run.suite != best[_place(each)].run.suite:
            others[place] = max(others.get(place, each), each, key=answers)
    return [*best.values(), *others.values()]


def worst_first(verdicts: Iterable[HardwareVerdict]) -> list[HardwareVerdict]:
    """No-go before unclear before go; equal ones by the name of the hardware."""
    return sorted(
        verdicts,
        key=lambda one: (_WORST.index(one.decision), one.listed.run.hardware_label, one.listed.run.id),
    )


def missing(verdicts: Sequence[HardwareVerdict], known: Mapping[str, str]) -> list[str]:
    """The labels of known hardware (by fingerprint) on which the pair was not measured, by name."""
    there = {one.listed.run.hardware for one in verdicts}
    return sorted({label for fingerprint, label in known.items() if fingerprint not in there})


def _place(one: Listed) -> tuple[str, str]:
    return one.run.hardware, one.run.machine


def _pair(one: Listed) -> tuple[str, ...]:
    old, new = released(one.old.torch_version), released(one.new.torch_version)
    # One version against itself: the two are distinguished by their names.
    return (old, new, one.old.name, one.new.name) if old == new else (old, new)
