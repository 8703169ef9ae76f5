"""References of a case: published claims, and the baselines that its technique is compared with."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, get_args

from records.references import Baseline, Claim, ClaimKind

from ..worker.case_key import CaseKey, CaseKeyError

_FILE = Path(__file__).with_name("claims.toml")


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim, in the order of the file; raises ValueError for a claim of no known kind."""
    return tuple(_claim(table) for table in tomllib.loads(_FILE.read_text())["claim"])


def claims_for(case: str) -> tuple[Claim, ...]:
    """The claims about a case key, in the order of the file."""
    return tuple(claim for claim in all_claims() if claim.concerns(case))


def _claim(table: dict[str, Any]) -> Claim:
    value = table["value"]
    low, high = value if isinstance(value, list) else (value, value)
    if table["kind"] not in get_args(ClaimKind):
        raise ValueError(f"a claim is of no kind {table['kind']!r}: one of {', '.join(get_args(ClaimKind))}")
    return Claim(
        cases=tuple(table["cases"]),
        statement=table["statement"],
        metric=table["metric"],
        kind=table["kind"],
        low=float(low),
        high=float(high),
        hardware=table["hardware"],
        source=table["source"],
        url=table.get("url", ""),
    )


def baselines(case: str) -> tuple[Baseline, ...]:
    """What the case called `case` is set against; nothing for a baseline or a text that is no key."""
    try:
        key = CaseKey.parse(case)
    except CaseKeyError:
        return ()
    if key == key.eager:
        return ()
    eager = (str(key.eager),)
    # Of several processes, memory is that of the one that needs most.
    memory = Baseline("memory", eager)
    if key.count("instances") > 1:
        kinds = (("speed-up", eager), ("one process", _one_process(key)))
        return (*(Baseline(kind, cases, estimator="throughput") for kind, cases in kinds), memory)
    speed_up = Baseline("speed-up", eager)
    if key.axis("parallel") == "none":
        return speed_up, memory, Baseline("size", eager)
    if key.count("ranks") == 1:
        return speed_up, memory
    return speed_up, Baseline("efficiency", _one_rank(key), key.count("ranks")), memory


def _one_rank(key: CaseKey) -> tuple[str, ...]:
    # Alone, a rank has the whole batch either way, who started it makes no step faster, and how it would
    # talk to others makes none either.
    nearest = key.with_technique(ranks="1", nodes="1")
    weak = nearest.with_technique(scaling="weak")
    spawned = weak.with_technique(launcher="spawn")
    return _keys(nearest, weak, spawned, spawned.with_technique(hook="none", bucket="25", ddp="plain"))


def _one_process(key: CaseKey) -> tuple[str, ...]:
    single = key.with_technique(instances="1")
    if key.axis("threads") == "preset":
        # Instances share all the cores out, and one process has a thread on each.
        return _keys(single, single.with_technique(cpus="all"))
    single = single.with_technique(threads=str(key.count("instances") * key.count("threads")))
    everywhere = single.with_technique(cpus="all")
    return _keys(single, everywhere, everywhere.with_technique(threads="preset"))


def _keys(*keys: CaseKey) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(str, keys)))
