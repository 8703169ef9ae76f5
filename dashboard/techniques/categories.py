"""The subjects of techniques, by what a case changes about its workload."""

from typing import Literal

from runner.worker.case_key import CaseKey

Subject = Literal["compile", "precision", "graphs", "pinning", "scaling", "others", "together"]

#: The axes of each subject; a case of two subjects is of neither, for the effect could not be assigned.
_AXES: dict[Subject, frozenset[str]] = {
    "compile": frozenset({"compile", "dynamic", "wrapper", "freezing"}),
    "precision": frozenset({"precision"}),
    "graphs": frozenset({"graph"}),
    "pinning": frozenset({"cpus", "threads", "omp", "instances"}),
    "others": frozenset(
        {"allocator", "attention", "layout", "checkpoint", "export", "memory", "optimizer"}
        | {"cudnn", "onednn", "device_allocator"}
    ),
}


def subject(key: CaseKey) -> Subject:
    """What a case under a technique is about; several ranks are always about scaling."""
    changed = {axis for axis, _ in key.technique}
    if "parallel" in changed:
        return "scaling"
    for name, axes in _AXES.items():
        if changed <= axes:
            return name
    return "together"


def several_ranks(key: CaseKey) -> bool:
    """Whether a case is one of several ranks, and so has an efficiency."""
    return key.axis("parallel") != "none" and key.count("ranks") > 1


def technique(key: CaseKey) -> str:
    """A technique without its workload: `compile=default precision=bf16`; `eager fp32` for none."""
    return " ".join(f"{axis}={value}" for axis, value in key.technique) or "eager fp32"


def workload(key: CaseKey) -> str:
    """A workload in words, without its technique: `resnet50 infer batch=8 image=64`."""
    return " ".join([key.name, key.phase, *(f"{name}={value}" for name, value in key.parameters)])
