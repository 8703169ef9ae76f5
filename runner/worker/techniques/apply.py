"""From a case key to a stage: the workload is built, then each technique is applied in turn."""

from collections.abc import Callable
from typing import Any

from ..case import Workload
from ..case_key import CaseKey
from ..prepared_case import Act, Stage, UnknownCase, Unsupported, begin, finish, make
from . import compiled, exported, graphs, precision, storage

#: Each changes the act for the axes it knows and leaves it alone where they have their defaults.
IN_ORDER = (storage.apply, precision.apply, exported.apply, compiled.apply, graphs.apply)

#: The axes a closure can be measured under: what surrounds or compiles the call.
_FOR_CLOSURES = ("compile", "dynamic", "precision", "cpus", "threads", "omp", "allocator", "memory")

#: The precisions that are a matter of surroundings.
_FORMATS_FOR_CLOSURES = ("fp32", "tf32", "amp-fp16", "amp-bf16")


def build(key: CaseKey, device: str, seed: int) -> Stage:
    """The case of `key` with seeded weights and inputs on `device`, under its technique, in this process.

    Raises UnknownCase for a key that fits no case, Unsupported for a technique that cannot be had here.
    """
    made = make(key, seed)
    if isinstance(made, Workload):
        return dress(begin(key, device, made))
    return _closure(key, device, made)


def dress(act: Act) -> Stage:
    """Apply every technique of the act's key and make its stage."""
    for apply in IN_ORDER:
        apply(act)
    return finish(act)


def _closure(key: CaseKey, device: str, function: Callable[[], object]) -> Stage:
    if key.phase != "infer":
        raise UnknownCase(f"case {key.name} is a closure and has no phase {key.phase}")
    if beyond := [axis for axis, _ in key.technique if axis not in _FOR_CLOSURES]:
        raise Unsupported(f"a case given as a closure has no model to put under {beyond[0]}")
    if (number := key.axis("precision")) not in _FORMATS_FOR_CLOSURES:
        raise Unsupported(f"a case given as a closure has no model to put into {number}")
    if key.axis("dynamic") == "mark":
        raise Unsupported("a case given as a closure has no inputs to mark as dynamic")
    storage.limit(key, device)
    called: Callable[..., Any] = compiled.compile_function(key, device, function)
    context = precision.context(key, device)

    # As it stands: what surrounds the call, gradients included, is the closure's own business.
    def step() -> Any:
        with context():
            return called()

    return Stage(key, step if key.axis("precision") != "fp32" else called, None, 1, "steps", None)
