"""What two machines must agree on before one lends itself to the other: both would measure one thing."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..environment import Environment
from ..execution.harness import Harness
from ..profile import Profile
from ..worker.messages import torch_build


@dataclass(frozen=True, slots=True)
class Terms:
    """One side of a loan in plain values. `run` and `machine` say to whom; a lender has none of them.

    `environment` holds what identifies it, `variables` a digest for each of the profile's that are compared:
    values may be nobody's business. `gpus` is how many devices are computed on; of a lender, how many there
    are.
    """

    pyrometer: str
    harness: str
    user_cases: str
    environment: Mapping[str, Any]
    profile: str
    variables: Mapping[str, str]
    threads: int | None
    gpus: int
    run: str = ""
    machine: str = ""

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_body(body: Mapping[str, Any]) -> "Terms":
        """The inverse of `to_body`; raises ValueError for anything else."""
        try:
            terms = Terms(**body)
        except TypeError as error:
            raise ValueError("these are the terms of another Pyrometer") from error
        if not isinstance(terms.environment, dict) or not isinstance(terms.variables, dict):
            raise ValueError("these are no terms")
        # It names a folder here.
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", str(terms.run)):
            raise ValueError("these are no terms")
        return terms


def terms_of(
    version: str,
    harness: Harness,
    environment: Environment,
    profile: Profile,
    gpus: int,
    run: str = "",
    machine: str = "",
) -> Terms:
    """The terms of one side."""
    facts = environment.facts
    return Terms(
        pyrometer=version,
        harness=harness.version,
        user_cases=harness.user_version,
        environment={
            "fingerprint": environment.fingerprint,
            "torch": torch_build(str(facts.get("torch", "")), facts.get("torch_git")),
            "python": facts.get("python"),
            "packages": list(facts.get("packages", ())),
        },
        profile=profile.name,
        variables={name: _digest(value) for name, value in profile.compared.items()},
        threads=profile.threads,
        gpus=gpus,
        run=run,
        machine=machine,
    )


def difference(lender: Terms, asked: Terms) -> str:
    """Why a machine on terms `lender` cannot take part in what is `asked`, a sentence; empty if it can."""
    if lender.pyrometer != asked.pyrometer:
        return f"it has Pyrometer {lender.pyrometer}, and {asked.pyrometer} asks: both need the same"
    if lender.harness != asked.harness:
        return f"its harness is {lender.harness}, and {asked.harness} asks: both need the same Pyrometer"
    if lender.user_cases != asked.user_cases:
        return "its cases of your own are others: both need the same --cases"
    if unlike := _environment(lender.environment, asked.environment):
        return unlike
    if lender.profile != asked.profile:
        return f"it lends itself under profile {lender.profile}, and {asked.profile} asks: use --profile"
    names = sorted({*lender.variables, *asked.variables})
    if changed := [name for name in names if lender.variables.get(name) != asked.variables.get(name)]:
        return f"profile {lender.profile} has another {changed[0]} there: both need the same"
    if lender.threads != asked.threads:
        return f"profile {lender.profile} has another number of threads there: both need the same"
    if lender.gpus < asked.gpus:
        return f"its PyTorch sees {lender.gpus} GPUs, and {asked.gpus} are computed on here"
    return ""


def _environment(lender: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    if lender.get("fingerprint") == asked.get("fingerprint"):
        return ""
    for word in ("torch", "python"):
        if lender.get(word) != asked.get(word):
            return f"its environment has {word} {lender.get(word)}, and {asked.get(word)} asks"
    packages = {*lender.get("packages", ())} ^ {*asked.get("packages", ())}
    if packages:
        return f"its environment has other packages ({sorted(packages)[0]} is on one side only)"
    return "its environment has another build of the same torch"


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode(errors="surrogateescape")).hexdigest()[:16]
