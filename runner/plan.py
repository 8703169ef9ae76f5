"""From a suite to sessions: which cases, in which order, and what they may cost."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

from .records import Planned, SessionPlan, Timing
from .worker.case_key import CaseKey, CaseKeyError

#: What a replicate costs beyond warm-up and measuring, in seconds, until this machine has shown otherwise:
#: starting Python and importing torch, building the model; compiling with an empty and with a filled cache.
_START_SECONDS = 3.0
_COMPILE_SECONDS = {"cold": 25.0, "warm": 8.0}


def offered(workloads: Iterable[Mapping[str, Any]], *, source: str = "") -> list[str]:
    """Keys of every eager fp32 case the workloads offer; `source` keeps modules whose name begins so."""
    keys: list[str] = []
    for workload in workloads:
        if not str(workload["source"]).startswith(source):
            continue
        names = sorted(workload["grid"])
        for phase in workload["phases"]:
            for values in product(*(workload["grid"][name] for name in names)):
                parameters = dict(zip(names, values, strict=True))
                keys.append(str(CaseKey.of(workload["name"], phase, parameters, {})))
    return keys


def select(cases: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The cases that match any of the patterns, in their own order; all of them without patterns.

    A pattern is a whole key, a glob, or the beginning of a key up to a slash (`resnet50`, `resnet50/infer`).
    """
    if not patterns:
        return list(cases)
    return [case for case in cases if any(matches(case, pattern) for pattern in patterns)]


def matches(case: str, pattern: str) -> bool:
    """Whether a case key is meant by a pattern (see `select`)."""
    return case == pattern or fnmatchcase(case, pattern) or case.startswith(pattern.rstrip("/") + "/")


def invalid(cases: Iterable[str], workloads: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Cases of a suite that this harness cannot build, each with the reason in one sentence."""
    known = {str(w["name"]): w for w in workloads}
    problems: dict[str, str] = {}
    for text in cases:
        try:
            key = CaseKey.parse(text)
        except CaseKeyError as error:
            problems[text] = str(error)
            continue
        workload = known.get(key.name)
        if workload is None:
            problems[text] = f"no case is named {key.name!r}"
        elif key.phase not in workload["phases"]:
            problems[text] = f"{key.name} has no phase {key.phase!r}, only {', '.join(workload['phases'])}"
        elif sorted(dict(key.parameters)) != sorted(workload["grid"]):
            problems[text] = (
                f"{key.name} takes the parameters {', '.join(sorted(workload['grid'])) or 'none'}"
            )
    return problems


def sessions(planned: Sequence[Planned], timing: Timing) -> list[SessionPlan]:
    """Group replicates into sessions: the cases of one workload together, one replicate after the other.

    All first replicates come before all second ones: replicates of a case lie apart in time, so that they
    sample the machine's moods too, and a budget that runs out takes from all alike.
    """
    groups: dict[tuple[int, str], list[Planned]] = {}
    for one in planned:
        groups.setdefault((one.replicate, CaseKey.parse(one.case).workload), []).append(one)
    ordered = sorted(groups.items(), key=lambda item: item[0][0])
    return [
        SessionPlan(f"{workload}#{replicate}", tuple(group), sum(estimate(one, timing) for one in group))
        for (replicate, workload), group in ordered
    ]


def estimate(planned: Planned, timing: Timing) -> float:
    """Seconds that one replicate is expected to take."""
    seconds = _START_SECONDS + timing.warm_up_min_seconds * 2 + timing.measure_seconds * 1.2
    if CaseKey.parse(planned.case).axis("compile") != "none":
        seconds += _COMPILE_SECONDS["warm" if planned.replicate else "cold"]
    return seconds
