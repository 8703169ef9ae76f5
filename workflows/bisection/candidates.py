"""What lies between the two ends of a bisection: as the package index offers it, or as it was listed."""

from dataclasses import dataclass, replace
from datetime import date

from packaging.version import Version

from configuration.settings import Settings
from runner.environments.interpreter import look_at
from runner.environments.package_index import dated, offered
from runner.environments.recipe import NIGHTLY, Recipe
from runner.environments.versions import date_of, parse

from ..errors import UsageError
from ..planning.resolve_environment import declared, wanted

_LIST_THEM = "name what lies between with --candidates A,B,C"


@dataclass(frozen=True, slots=True)
class _End:
    """One end that is nothing but a version: as typed, as a version, whether a nightly, and its recipe."""

    spec: str
    version: Version
    nightly: bool
    recipe: Recipe


def choose_candidates(settings: Settings, good: str, bad: str, listed: str | None) -> tuple[str, ...]:
    """Specs in order, the good end first and the bad one last; what is between may be nothing.

    Two released versions have the releases between them that the index offers, two nightlies the nightlies,
    one for each day. `listed` are specs with commas between them instead. Raises UsageError, and IndexFailed.
    """
    ends = (_lasting(settings, good), _lasting(settings, bad))
    if ends[0] == ends[1]:
        raise UsageError(f"a bisection has two ends, and both are {good}")
    if listed is None:
        return (ends[0], *_between(settings, *ends), ends[1])
    specs = [_lasting(settings, text.strip()) for text in listed.split(",") if text.strip()]
    # Who lists them all has listed the ends as well.
    between = [spec for spec in specs if spec not in ends]
    if twice := {spec for spec in between if between.count(spec) > 1}:
        raise UsageError(f"--candidates names {sorted(twice)[0]} twice")
    return (ends[0], *between, ends[1])


def _lasting(settings: Settings, text: str) -> str:
    """`text` so that it means the same tomorrow and in another folder."""
    if text in declared(settings):
        return text
    one = wanted(settings, text)
    if one.recipe is None:
        return str(one.python).removesuffix("/bin/python")
    if one.recipe.torch and one.recipe.dated and one.recipe != _as_those_between(settings, one.recipe.torch):
        # A day of a declared nightly, which has an index of its own.
        return text
    recipe = one.recipe if one.recipe.dated else dated(one.recipe, look_at(one.recipe.base_python))
    return recipe.wheel or recipe.torch


def _between(settings: Settings, good: str, bad: str) -> list[str]:
    """What the index offers between two versions, from the good one to the bad one."""
    first, last = _end(settings, good), _end(settings, bad)
    if first.nightly != last.nightly:
        raise UsageError(f"one of {good} and {bad} is a nightly and the other is not: {_LIST_THEM}")
    recipe = replace(first.recipe, torch=NIGHTLY) if first.nightly else first.recipe
    found = offered(recipe, look_at(""), pre=first.nightly)
    return between(first.version, last.version, found)


def _end(settings: Settings, spec: str) -> _End:
    # A declared one may have an index or packages of its own, which those between would not have.
    one = None if spec in declared(settings) else wanted(settings, spec)
    if one is None or one.recipe is None or one.recipe != _as_those_between(settings, one.recipe.torch):
        raise UsageError(
            f"{spec} is no version that the package index could have others beside: {_LIST_THEM}"
        )
    torch = one.recipe.torch
    text = f"0.dev{torch.split()[1].replace('-', '')}" if torch.startswith(NIGHTLY) else torch
    version = parse(text)
    assert version is not None, torch
    return _End(spec, version, date_of(version) is not None, one.recipe)


def _as_those_between(settings: Settings, torch: str) -> Recipe | None:
    """What a version is built from that is nothing but one; None for none."""
    return wanted(settings, torch).recipe if torch else None


def between(good: Version, bad: Version, versions: list[str]) -> list[str]:
    """Those strictly between, from the good one to the bad one, which may be the older.

    Of nightlies only days count: each as `nightly 2026-11-20`. Of two builds of one release the first counts.
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
    """Where a version stands: a nightly by its day alone, a build where its release does."""
    day = date_of(version)
    return (day, Version("0")) if day else (date.min, Version(version.public))
