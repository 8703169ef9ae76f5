"""From a suite to sessions: which cases, in which order, and what they may cost."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from common.text import key_matches
from records.outcomes import PlannedReplicate

from ..session_plan import SessionPlan, Timing
from ..worker.case_key import AXES, CaseKey, CaseKeyError

#: What a replicate costs beyond warm-up and measuring, in seconds, until this machine has shown otherwise.
#: The figures are rounded up from runs on a virtual machine with two cores, PyTorch 2.13 on the CPU; the
#: run corrects them by what it has seen. First: starting Python and importing torch, building the model.
_START_SECONDS = 2.0
#: The first call under torch.compile with an empty and with a filled cache, by what `compile` says.
_COMPILE_SECONDS = {"max-autotune": (40.0, 10.0), "aot_eager": (4.0, 4.0), "cudagraphs": (4.0, 4.0)}
_INDUCTOR_SECONDS = (25.0, 8.0)
#: The same on a GPU with what is asked after the last block, rounded up from small models on one H100
#: (examples/gpu/h100, PyTorch 2.11). What was not measured there, such as a filled cache and max-autotune, is
#: as on the CPU.
_CUDA_START_SECONDS = 5.0
_CUDA_INDUCTOR_COLD_SECONDS = 10.0
_CUDA_BLOCK_SECONDS = 0.5
_CUDA_OBSERVE_SECONDS = 5.0
#: Taking a model out of Python, in each process anew.
_EXPORT_SECONDS = {"aot-inductor": 40.0, "onnxruntime": 15.0, "export": 5.0}
#: Preparing and calibrating a quantised model.
_QUANTISE_SECONDS = 5.0
#: Processes after the first one of a case share its CPUs while they start: each adds this.
_PROCESS_SECONDS = 4.0


def eager_cases(workloads: Iterable[Mapping[str, Any]], *, source: str = "") -> list[str]:
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
    return [case for case in cases if any(key_matches(case, pattern) for pattern in patterns)]


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


def sessions(planned: Sequence[PlannedReplicate]) -> list[SessionPlan]:
    """Group replicates into sessions: the cases of one workload together, one replicate after the other.

    All first replicates come before all second ones: replicates of a case lie apart in time, so that they
    sample the machine's moods too, and a budget that runs out takes from all alike.
    """
    groups: dict[tuple[int, str], list[PlannedReplicate]] = {}
    for one in planned:
        groups.setdefault((one.replicate, CaseKey.parse(one.case).workload), []).append(one)
    ordered = sorted(groups.items(), key=lambda item: item[0][0])
    return [SessionPlan(f"{workload}#{replicate}", tuple(group)) for (replicate, workload), group in ordered]


def estimate(planned: PlannedReplicate, timing: Timing, *, on_cuda: bool = False) -> float:
    """Seconds that one replicate is expected to take."""
    key = CaseKey.parse(planned.case)
    seconds = _CUDA_START_SECONDS if on_cuda else _START_SECONDS
    blocks = timing.min_blocks * _CUDA_BLOCK_SECONDS if on_cuda else 0.0
    seconds += timing.warm_up_min_seconds * 2 + max(timing.measure_seconds * 1.2, blocks)
    if planned.replicate == 0 and timing.observe_seconds:
        seconds += max(timing.observe_seconds, _CUDA_OBSERVE_SECONDS if on_cuda else 0.0)
    seconds += _PROCESS_SECONDS * (max(key.count("ranks"), key.count("instances")) - 1)
    if (mode := key.axis("compile")) != "none":
        # Each shape may be compiled anew; how many there are is known only to the workload.
        usual = (_CUDA_INDUCTOR_COLD_SECONDS, _INDUCTOR_SECONDS[1]) if on_cuda else _INDUCTOR_SECONDS
        cold, warm = _COMPILE_SECONDS.get(mode, usual)
        seconds += cold if planned.replicate < timing.cold_replicates else warm
    seconds += _EXPORT_SECONDS.get(key.axis("export"), 0.0)
    if key.axis("precision").startswith(("int8", "fp8", "int4")):
        seconds += _QUANTISE_SECONDS
    return seconds


@dataclass(frozen=True, slots=True)
class Share:
    """What one axis of a technique takes of a plan: its values in use, its cases, their expected seconds.

    A case under several axes counts in each. Axis `eager` holds the cases under none.
    """

    axis: str
    values: tuple[str, ...]
    cases: int
    seconds: float


def replicates(cases: Iterable[str], number: int, environment: str = "") -> list[PlannedReplicate]:
    """`number` replicates of each case, all first ones before all second ones."""
    listed = list(cases)
    return [PlannedReplicate(case, environment, one) for one in range(number) for case in listed]


def shares(planned: Iterable[PlannedReplicate], timing: Timing, *, on_cuda: bool = False) -> list[Share]:
    """What each axis takes of a plan, in the order of the axes, `eager` first."""
    seconds: dict[str, float] = {}
    cases: dict[str, dict[str, None]] = {}
    values: dict[str, dict[str, None]] = {}
    for one in planned:
        for axis, value in CaseKey.parse(one.case).technique or (("eager", ""),):
            seconds[axis] = seconds.get(axis, 0.0) + estimate(one, timing, on_cuda=on_cuda)
            cases.setdefault(axis, {})[one.case] = None
            values.setdefault(axis, {})[value] = None
    order = [axis for axis in ("eager", *AXES) if axis in cases]
    return [Share(axis, tuple(filter(None, values[axis])), len(cases[axis]), seconds[axis]) for axis in order]
