"""What a case is made of, and the register that `@case` fills."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from .case_key import PHASES, CaseKey, Value

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Workload:
    """A model with its inputs, built on the CPU in fp32 with seeded weights; the worker moves and casts it.

    `items` of `unit` are processed by one step (throughput = items / latency). `flops` is the analytic
    number of floating-point operations of one forward pass, a multiply-add counting as two; a training
    step is taken as three times that (backward costs twice the forward: Kaplan et al. 2020,
    arXiv:2001.08361, section 2.1). None where it is not counted. `loss` maps the model's output to a
    scalar and is needed for phase `train` only.

    `variants` are the inputs of later steps, taken in turn: step k calls the model with
    `(inputs, *variants)[k % n]`; they bring other numbers or shapes. With `rotated` timed steps take copies
    of the inputs in turn instead: the same numbers at other addresses, 512 MiB together as they are computed
    with, so that a small operation does not find its inputs in the cache. `report` is asked once, at the end,
    for metrics of the workload's own, by the names of the catalogue. `ceiling` asks for the share of the
    fastest matrix product here. `checkpointed` names the submodules (`layers.0`) that activation
    checkpointing wraps. `classes`: the output is one tensor, whose last dimension holds the scores of
    classes, which is then compared by the class it names, too. `bytes_moved`: of one step of a copy in fp32,
    for its bandwidth. Without `compared` the answer is not compared with a reference's: it draws random
    numbers, or need not be finite.
    """

    model: "nn.Module"
    inputs: "tuple[Tensor, ...]"
    items: int
    unit: str = "samples"
    flops: float | None = None
    loss: "Callable[[Any], Tensor] | None" = None
    variants: "tuple[tuple[Tensor, ...], ...]" = ()
    report: "Callable[[], Mapping[str, float]] | None" = None
    ceiling: bool = False
    checkpointed: tuple[str, ...] = ()
    classes: bool = False
    bytes_moved: int | None = None
    compared: bool = True
    rotated: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError for inputs that are no tuple, unknown submodules and impossible numbers."""
        inputs: Any = self.inputs
        if not isinstance(inputs, tuple):
            # `(x)` instead of `(x,)` would hand the model the rows of x, and measure another shape.
            raise ValueError("inputs must be a tuple of tensors, such as (x,)")
        self._check_variants()
        self._check_checkpointed()
        if type(self.items) is not int or self.items < 1:
            raise ValueError(f"items must be a whole number above 0, not {self.items!r}")
        if self.flops is not None and not (type(self.flops) in (int, float) and 0 < self.flops < math.inf):
            raise ValueError(f"flops must be a number above 0 or None, not {self.flops!r}")
        moved: Any = self.bytes_moved
        if moved is not None and not (type(moved) is int and moved > 0):
            raise ValueError(f"bytes_moved must be a whole number above 0 or None, not {moved!r}")

    def _check_variants(self) -> None:
        variants: Any = self.variants
        if not isinstance(variants, tuple) or not all(
            isinstance(v, tuple) for v in cast("tuple[Any, ...]", variants)
        ):
            raise ValueError("variants must be a tuple of tuples of tensors, such as ((x,), (y,))")
        if any(len(variant) != len(self.inputs) for variant in self.variants):
            raise ValueError(f"every variant must hold {len(self.inputs)} tensors, as inputs does")
        if self.variants and self.rotated:
            raise ValueError("rotated inputs are copies of one set: give either rotated or variants")

    def _check_checkpointed(self) -> None:
        checkpointed: Any = self.checkpointed
        if not isinstance(checkpointed, tuple):
            # A bare "layers" would be read letter by letter.
            raise ValueError('checkpointed must be a tuple of names, such as ("layers.0",)')
        known = {name for name, _ in self.model.named_modules() if name} if checkpointed else set[str]()
        if unknown := [name for name in self.checkpointed if name not in known]:
            raise ValueError(f"checkpointed: the model has no submodule {unknown[0]!r}")


#: A case may also return a closure: it is measured as it stands (phase `infer`, one item a step).
Build = Callable[..., "Workload | Callable[[], object]"]


#: What the built-in cases are about. A suite leaves out a family of which it has no case.
FAMILIES = (
    "products",
    "convolutions",
    "indexing and reductions",
    "elementwise",
    "attention",
    "linear algebra",
    "optimizers",
    "transformers",
    "decoding",
    "encoder-decoder",
    "convolutional networks",
    "recurrent networks",
    "diffusion",
    "programs",
    "input pipeline",
    "start",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One registered workload: how to build it, and the parameters and phases it is offered with.

    `guards` says which kind of regression the case stands for; "" where its docstring does not.
    """

    name: str
    build: Build
    grid: Mapping[str, Sequence[Value]]
    phases: tuple[str, ...]
    summary: str
    family: str = ""
    guards: str = ""


REGISTER: dict[str, Case] = {}


def read_docstring(text: str | None) -> tuple[str, str]:
    """The first line of a case's docstring, and what follows `Guards:` in its last paragraph, in one line."""
    lines = inspect.cleandoc(text or "").split("\n")
    _, _, guards = "\n".join(lines).partition("\nGuards: ")
    return lines[0], " ".join(guards.split("\n\n")[0].split())


def case(
    *, phases: Sequence[str] = ("infer",), family: str = "", **grid: Sequence[Value]
) -> Callable[[Build], Build]:
    """Register the decorated function as a workload under its own name.

    The function's arguments are the workload's parameters; `grid` lists the values it is offered with
    by default. `family` is one of FAMILIES, or "" for a case of your own. Raises ValueError for a name used
    twice, an unknown phase or family, a grid that does not match the function's arguments, or a value that
    cannot be part of a case key.
    """

    def register(build: Build) -> Build:
        name = getattr(build, "__name__", "")
        arguments = list(inspect.signature(build).parameters)
        if name in REGISTER:
            raise ValueError(f"two cases are named {name!r}")
        if unknown := [phase for phase in phases if phase not in PHASES]:
            raise ValueError(f"case {name}: unknown phase {unknown[0]!r}, one of {', '.join(PHASES)}")
        if family and family not in FAMILIES:
            raise ValueError(f"case {name}: unknown family {family!r}, one of {', '.join(FAMILIES)}")
        if sorted(arguments) != sorted(grid):
            raise ValueError(f"case {name}: takes {arguments}, but its grid names {sorted(grid)}")
        for parameter, values in grid.items():
            if isinstance(values, str) or not hasattr(values, "__iter__"):
                raise ValueError(f"case {name}: {parameter} needs a list of values, not {values!r}")
            for value in values:
                CaseKey.of(name, PHASES[0], {parameter: value}, {})
        offered = {parameter: list(values) for parameter, values in grid.items()}
        summary, guards = read_docstring(build.__doc__)
        REGISTER[name] = Case(name, build, offered, tuple(phases), summary, family, guards)
        return build

    return register
