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
    """The run that answers best on each hardware that measured the same pair of versions as `one`.

    On its own hardware that is `one` itself. The newest whole runs of other suites there come after: what one
    suite found is not taken back by another. Builds for another device are the same version.
    """
    best = {one.run.hardware: one}
    alike = [each for each in items if not each.confirms and _pair(each) == _pair(one)]
    for each in alike:
        known = best.setdefault(each.run.hardware, each)
        if known is not one and answers(each) > answers(known):
            best[each.run.hardware] = each
    others: dict[tuple[str, str], Listed] = {}
    for each in alike:
        place = each.run.hardware, each.run.suite
        if all(answers(each)[:3]) and each.run.suite != best[each.run.hardware].run.suite:
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


def _pair(one: Listed) -> tuple[str, ...]:
    old, new = released(one.old.torch_version), released(one.new.torch_version)
    # One version against itself: the two are distinguished by their names.
    return (old, new, one.old.name, one.new.name) if old == new else (old, new)
