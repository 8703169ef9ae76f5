"""The queries of the comparison of two runs, cached for a few seconds.

All of it raises `db.errors.DatabaseError`, which `app.py` turns into one sentence.
"""

from collections.abc import Sequence
from itertools import combinations

from dashboard.components import load
from dashboard.run_pairs.comparison import TechniquePair, has_pairs, only_technique
from dashboard.server.database import database_at
from db.runs import queries
from records.kinds import RunSource
from records.runs import RunSummary

#: The number of newest imported runs that are searched for pairs of techniques.
_SEARCHED = 100


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


@load.cache
def technique_pairs(url: str) -> list[TechniquePair]:
    """Imported runs of one technique each on one hardware, one pair for each two techniques: the pair with
    the most workloads, among equals that of the newest runs.
    """
    newest = load.recent_runs(url, limit=_SEARCHED)
    runs = [run for run in newest if run.source == RunSource.IMPORTED]
    cases = _cases(url, [run.id for run in runs]) if runs else {}
    named = [(run, technique) for run in runs if (technique := only_technique(cases[run.id]))]
    best: dict[tuple[str, str, str], TechniquePair] = {}
    for (one, own), (other, theirs) in combinations(named, 2):
        if own == theirs or one.hardware != other.hardware:
            continue
        pair = _pair(cases, *sorted(((one, own), (other, theirs)), key=_baseline_first))
        place = pair.hardware, *pair.techniques
        if pair.workloads and (place not in best or pair.workloads > best[place].workloads):
            best[place] = pair
    return sorted(best.values(), key=lambda pair: -pair.workloads)


def _baseline_first(of: tuple[RunSummary, str]) -> tuple[bool, str]:
    return of[1] != "eager", of[1]


def _pair(
    cases: dict[str, frozenset[str]], a: tuple[RunSummary, str], b: tuple[RunSummary, str]
) -> TechniquePair:
    workloads = [{case.rpartition("/")[0] for case in cases[run.id]} for run, _ in (a, b)]
    many = len(workloads[0] & workloads[1])
    return TechniquePair(a[0].id, b[0].id, (a[1], b[1]), a[0].hardware, many)
