"""Which runs have cases to compare, kept for a few seconds.

All of it raises `db.errors.DatabaseError`, which `app.py` turns into one sentence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from dashboard.components import load
from dashboard.components.frames import version_order
from dashboard.run_pairs.comparison import ImportedPair, has_pairs, only_technique
from dashboard.server.database import database_at
from db.runs import queries
from records.kinds import RunCategory
from records.runs import RunsOnly, RunSummary

#: Imported runs among which pairs are looked for, the newest; of these those with the most outcomes.
_SEARCHED, _LARGEST = 2000, 100


def comparable(url: str, a: str, b: str) -> bool:
    """Whether two runs have any case to compare."""
    return has_pairs(cases_of_run(url, a), cases_of_run(url, b))


@load.cache
def cases_of_run(url: str, run_id: str) -> frozenset[str]:
    """The cases of a run, without those of the canary."""
    return _cases(url, [run_id])[run_id]


def _cases(url: str, run_ids: Sequence[str]) -> dict[str, frozenset[str]]:
    endings = queries.endings(database_at(url), run_ids)
    return {run: frozenset(each.case for each in own) for run, own in endings.items()}


@dataclass(frozen=True, slots=True)
class _ImportedRun:
    """A run of another tool that has one `technique`."""

    run: RunSummary
    technique: str
    workloads: frozenset[str]

    @property
    def version(self) -> str:
        """Its PyTorch; empty where that is not known, or where there are several."""
        return self.run.torch_versions[0] if len(self.run.torch_versions) == 1 else ""


@load.cache
def _imported_runs(url: str) -> list[_ImportedRun]:
    """The largest imported runs of one technique each, the newest first."""
    runs = load.recent_runs(url, limit=_SEARCHED, only=RunsOnly(category=RunCategory.IMPORTED))
    largest = {run.id for run in sorted(runs, key=lambda run: -sum(run.counts.values()))[:_LARGEST]}
    cases = _cases(url, sorted(largest)) if largest else {}
    return [
        _ImportedRun(run, technique, frozenset(case.rpartition("/")[0] for case in cases[run.id]))
        for run in runs
        if run.id in largest and (technique := only_technique(cases[run.id]))
    ]


def _on_one_hardware(url: str) -> Iterator[tuple[_ImportedRun, _ImportedRun, int]]:
    """Every two imported runs on one hardware that share workloads, and how many."""
    for one, other in combinations(_imported_runs(url), 2):
        if one.run.hardware == other.run.hardware and (many := len(one.workloads & other.workloads)):
            yield one, other, many


@load.cache
def technique_pairs(url: str) -> list[ImportedPair]:
    """Imported runs of one technique each on one hardware, a pair for each two techniques there.

    Of several such pairs one of a single PyTorch comes before others, then the one with most workloads, of as
    many that of the newest runs.
    """
    best: dict[tuple[str, str, str], tuple[bool, ImportedPair]] = {}
    for one, other, many in _on_one_hardware(url):
        if one.technique == other.technique:
            continue
        a, b = sorted((one, other), key=lambda each: (each.technique != "eager", each.technique))
        sides = a.technique.replace(",", " "), b.technique.replace(",", " ")
        pair = ImportedPair(a.run.id, b.run.id, sides, a.run.hardware, many)
        alike = one.run.torch_versions == other.run.torch_versions
        place = pair.hardware, *pair.sides
        known = best.get(place)
        if known is None or (alike, many) > (known[0], known[1].workloads):
            best[place] = alike, pair
    return sorted((pair for _, pair in best.values()), key=lambda pair: -pair.workloads)


@load.cache
def version_pairs(url: str) -> list[ImportedPair]:
    """Imported runs of two PyTorch versions on one hardware, a pair for each technique there.

    Of the pairs that share at least half as many workloads as any does, that of the newest versions.
    """
    found: dict[tuple[str, str], list[ImportedPair]] = {}
    for one, other, many in _on_one_hardware(url):
        versions = {one.version, other.version}
        if one.technique != other.technique or "" in versions or len(versions) == 1:
            continue
        a, b = sorted((one, other), key=lambda each: version_order(each.version))
        sides = a.version, b.version
        pair = ImportedPair(a.run.id, b.run.id, sides, a.run.hardware, many, a.technique.replace(",", " "))
        found.setdefault((a.run.hardware, one.technique), []).append(pair)
    return sorted(map(_newest_versions, found.values()), key=lambda pair: -pair.workloads)


def _newest_versions(pairs: Sequence[ImportedPair]) -> ImportedPair:
    most = max(pair.workloads for pair in pairs)
    large = [pair for pair in pairs if 2 * pair.workloads >= most]
    return max(large, key=lambda pair: (*map(version_order, reversed(pair.sides)), pair.workloads))
