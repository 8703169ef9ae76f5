"""Versions of PyTorch in their order: releases as versions, nightlies by their date."""

from bisect import bisect_left
from collections.abc import Iterable
from datetime import date, datetime

from packaging.version import InvalidVersion, Version


def parse(text: str) -> Version | None:
    """The version that `text` spells by PEP 440, or None. `v2.13.0` is one too, `2.13.x` is none."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def date_of(version: Version) -> date | None:
    """The day of a nightly, which PyTorch writes as `2.16.0.dev20261120`; None for anything else."""
    try:
        return datetime.strptime(str(version.dev or ""), "%Y%m%d").date()
    except ValueError:
        return None


def age(version: Version) -> tuple[date, Version]:
    """A key that sorts the oldest first: releases by PEP 440, behind them the nightlies by their date.

    Behind, not between: by PEP 440 a nightly of 2.15 made after the branch of 2.16 would be older than
    yesterday's of 2.16, and an order that follows the date among nightlies and PEP 440 elsewhere is none.
    """
    return date_of(version) or date.min, version


def sort_versions(texts: Iterable[str]) -> list[str]:
    """The versions among `texts`, each once, the oldest first; what is no version is left out."""
    versions = {version for text in texts if (version := parse(text))}
    return [str(version) for version in sorted(versions, key=age)]


def around(wanted: str, offered: Iterable[str], count: int = 5) -> list[str]:
    """Up to `count` of the offered versions nearest to `wanted`, the oldest first."""
    versions = sort_versions(offered)
    version = parse(wanted)
    if version is None:
        return versions[-count:]
    at = bisect_left([age(Version(text)) for text in versions], age(version))
    first = max(0, min(at - (count + 1) // 2, len(versions) - count))
    return versions[first : first + count]


def is_it(wanted: str, installed: str) -> bool:
    """Whether an installed version is the wanted one: 2.13.0+cpu is 2.13.0, 2.13.0 is not 2.13.0+cpu."""
    one, other = parse(wanted), parse(installed)
    if one is None or other is None:
        return wanted == installed
    return one == (other if one.local else Version(other.public))


def of_day(day: date, offered: Iterable[str]) -> str | None:
    """The nightly of that day, the highest where there are several; None where there is none."""
    found = [text for text in sort_versions(offered) if date_of(Version(text)) == day]
    return found[-1] if found else None


def nightlies(offered: Iterable[str]) -> list[str]:
    """The nightlies, the oldest first."""
    return [text for text in sort_versions(offered) if date_of(Version(text))]
