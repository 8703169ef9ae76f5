"""Checks that fingerprints match their stored content, so that an imported file cannot claim the fingerprint
of another environment.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

#: The suffix of the second identity of an environment that is compared with itself.
AGAIN = "-again"
#: What the fingerprint of a measured environment covers (see `runner.worker.environment`).
_ENVIRONMENT = (
    *("python", "implementation", "torch", "torch_git", "cuda", "cudnn", "hip", "debug", "packages"),
    "build_digest",
)
#: What the fingerprint of the canary covers.
_CANARY = ("script", "gpu_script", "python", "implementation", "cpus")


def own_fingerprint(fingerprint: str) -> str:
    """The environment's own fingerprint, also where it is compared with itself (A/A test)."""
    return fingerprint.removesuffix(AGAIN)


def fingerprint_of(content: Mapping[str, Any]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of JSON with sorted keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def compared_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a preset without its name: presets with equal settings are comparable."""
    return {name: value for name, value in settings.items() if name != "name"}


def preset_follows(fingerprint: str, settings: Mapping[str, Any]) -> bool:
    """Whether the fingerprint of a preset is that of its settings."""
    return fingerprint == fingerprint_of(compared_settings(settings))


def environment_follows(
    fingerprint: str, torch_version: str, python_version: str, facts: Mapping[str, Any]
) -> bool:
    """Whether the fingerprint of an environment, or of the canary, is that of its facts and versions."""
    if (torch_version, python_version) != (facts.get("torch", ""), facts.get("python")):
        return False
    covered = _CANARY if "script" in facts else _ENVIRONMENT
    content = {name: facts[name] for name in covered if name in facts}
    return own_fingerprint(fingerprint) == fingerprint_of(content)
