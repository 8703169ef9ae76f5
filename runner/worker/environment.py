"""Description of the measured environment: versions, build, devices, fingerprint."""

import hashlib
import importlib.metadata
import json
import os
import platform
import sys
from typing import Any

import torch

from .measurements import device_errors, memory
from .variables import relevant_variables

#: What `torch.__config__.show()` says only where a GPU is visible. Versions are recorded separately.
_WHERE_A_GPU_IS = (
    *("CUDA Runtime", "Built with CUDA Runtime", "NVCC architecture flags", "CuDNN", "Built with CuDNN"),
    *("Magma", "HIP Runtime", "MIOpen"),
)


def describe() -> dict[str, Any]:
    """Versions, build and devices of this environment, with a fingerprint over what identifies it.

    The fingerprint covers interpreter, torch build and installed packages; it leaves out the machine,
    its devices and the variables, which are recorded separately.
    """
    packages, build = _packages(), torch.__config__.show()
    identity = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "torch": torch.__version__,
        "torch_git": getattr(torch.version, "git_version", None),
        "cuda": torch.version.cuda,
        "cudnn": _cudnn(),
        "hip": getattr(torch.version, "hip", None),
        "debug": torch.version.debug,
        "packages": packages,
        # Two builds of one commit differ in their flags and libraries, and in nothing above.
        "build_digest": hashlib.sha256(
            "\n".join([without_machine(build), *_architectures()]).encode()
        ).hexdigest()[:16],
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    problem = cuda_problem()
    return {
        **identity,
        "fingerprint": digest[:16],
        "build": build,
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "devices": [] if problem else _cuda_devices(),
        **({"cuda_problem": problem} if problem else {}),
        "executable": sys.executable,
        "variables": relevant_variables(os.environ),
    }


def without_machine(build: str) -> str:
    """What `torch.__config__.show()` says of a build, whatever CPU it runs on and whatever GPU is visible."""
    return "\n".join(line for line in build.splitlines() if not _of_the_machine(line))


def _of_the_machine(line: str) -> bool:
    return "CPU capability usage" in line or line.strip(" -").startswith(_WHERE_A_GPU_IS)


def _architectures() -> list[str]:
    """The GPU architectures that a build has code for, on one line; none of a build for CPUs.

    torch.cuda.get_arch_list() asks for the same; that of an older PyTorch only where a GPU is visible.
    """
    get_flags = getattr(torch._C, "_cuda_getArchFlags", None)
    flags = get_flags() if get_flags else None
    return [flags] if isinstance(flags, str) else []


def _packages() -> list[str]:
    found = {f"{d.metadata['Name']}=={d.version}" for d in importlib.metadata.distributions()}
    return sorted(found, key=str.lower)


def _cudnn() -> int | None:
    """The version of a CUDA build's cuDNN. The library knows it without a driver, and so without a GPU."""
    if not torch.version.cuda:
        return None
    try:
        return torch.backends.cudnn.version()
    except (RuntimeError, OSError):
        # It is not the one that torch was built for. Without a GPU nothing is measured with it.
        if _has_cuda():
            raise
        return None


def _has_cuda() -> bool:
    return torch.cuda.is_available()


def cuda_problem() -> str:
    """Why a build for CUDA computes on no GPU here, in PyTorch's words; empty for one that can, or for CPUs.

    A driver may be too old for the build, and the build for the GPU, or too new.
    """
    if not torch.version.cuda:
        return ""
    try:
        torch.cuda.init()
        (torch.ones(1, device="cuda") + 1).item()
    except (RuntimeError, AssertionError) as error:
        text = str(error).strip().split("\n")[0]
        # Then it computes, but not now: that is no matter of the build.
        return "" if device_errors.device_is_busy(error) or memory.is_out_of_memory(error) else text
    return ""


def _cuda_devices() -> list[dict[str, Any]]:
    if not _has_cuda():
        return []
    devices: list[dict[str, Any]] = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        devices.append(
            {
                "name": properties.name,
                "uuid": str(getattr(properties, "uuid", "")),
                "compute_capability": f"{properties.major}.{properties.minor}",
                "memory_mib": properties.total_memory // 2**20,
                "multiprocessors": properties.multi_processor_count,
            }
        )
    return devices
