"""A prepared case: built from its key, under its technique, ready to be called."""

import contextlib
import math
import random
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .case import REGISTER, Case, Workload
from .case_key import CaseKey
from .measurements import bounds

#: Small enough that training changes no number's size, large enough to be a real update.
LEARNING_RATE = 1e-5
#: All sets of rotated inputs together. Three times the level-2 cache of every GPU there is (the largest has
#: 126 MiB) and of most last-level caches of CPUs. A constant, not what this machine would need: a case is the
#: same workload everywhere. Behind a larger cache, as of a virtual machine that sees its host's, part may
#: still be found.
ROTATED_BYTES = 512 << 20
#: Of small inputs no more sets than this; below 128 KiB a set, the cache may keep them.
_MOST_SETS = 4096
#: What only the workload can know. Everything else is measured, and no case may put its own word over that.
_OWN_METRICS = ("data_wait", "queue_latency", "queue_latency_p99")

Inputs = tuple[torch.Tensor, ...]
#: The shapes of one step's inputs.
Shapes = tuple[tuple[int, ...], ...]
#: Metrics by catalogue name that a technique or workload computes once, at the end.
FinalMetrics = Callable[[], Mapping[str, float]]


class UnknownCase(LookupError):
    """The key names a workload that this harness does not have, or parameters it does not take."""


class BadReport(ValueError):
    """A workload reports a metric that it may not report, or a value that cannot be kept."""


class UnsupportedCase(Exception):
    """The environment or machine does not support the technique; the text says why in a sentence."""


@dataclass
class Preparation:
    """A workload while techniques prepare it, one after the other; what each changes, the next one finds.

    `called` is what a step calls with one of `inputs` (taken in turn), `context` makes the context manager
    around the call, `backward` takes the loss, `optimizer` makes the optimizer and `update` is its step.
    `make_step` makes the step out of all this; a replacement calls this module's with other inputs.
    `metrics` and `facts` come from preparing; `final_metrics` are computed at the end.
    """

    key: CaseKey
    device: str
    model: torch.nn.Module
    called: Callable[..., Any]
    inputs: tuple[Inputs, ...]
    loss: "Callable[[Any], torch.Tensor] | None"
    workload: Workload
    context: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    backward: "Callable[[torch.Tensor], None]" = torch.Tensor.backward
    update: "Callable[[torch.optim.Optimizer], None]" = lambda optimizer: optimizer.step()
    optimizer: "Callable[[Preparation], torch.optim.Optimizer]" = lambda prep: make_optimizer(prep)
    make_step: "Callable[[Preparation, InputRotation], Callable[[], Any]]" = lambda prep, rotation: make_step(
        prep, rotation
    )
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    final_metrics: list[FinalMetrics] = field(default_factory=list[FinalMetrics])

    @property
    def training(self) -> bool:
        """Whether a step trains."""
        return self.key.phase == "train"

    @property
    def shapes(self) -> tuple[Shapes, ...]:
        """The shapes of each step's inputs, in turn."""
        return tuple(tuple(tuple(tensor.shape) for tensor in one) for one in self.inputs)


@dataclass
class PreparedCase:
    """The callable that is timed and what surrounds it.

    `step()` runs one inference (returning the model's output) or one training step (returning the loss,
    gradients left in place) on the next inputs of `rotation`. `model` is None for
    a case given as a closure. `shapes` are those of the inputs, in the order in which steps take them.
    `classes` and `compared`: see `Workload`.
    """

    key: CaseKey
    step: Callable[[], Any]
    model: torch.nn.Module | None
    items: int
    unit: str
    flops: float | None
    rotation: "InputRotation" = field(default_factory=lambda: InputRotation(((),)))
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    final_metrics: list[FinalMetrics] = field(default_factory=list[FinalMetrics])
    shapes: tuple[Shapes, ...] = ()
    classes: bool = False
    compared: bool = True

    @property
    def dtype(self) -> str | None:
        """What the model's weights are kept in."""
        first = None if self.model is None else next(self.model.parameters(), None)
        return None if first is None else str(first.dtype)

    @property
    def parameters(self) -> int | None:
        """Number of trained numbers, each shared tensor counted once."""
        return None if self.model is None else sum(p.numel() for p in self.model.parameters())


def make(key: CaseKey, seed: int) -> Any:
    """What the case's function builds from `seed`; raises UnknownCase where the key does not fit it."""
    registered = REGISTER.get(key.name)
    if registered is None:
        raise UnknownCase(f"no case is named {key.name!r}")
    if key.phase not in registered.phases:
        raise UnknownCase(f"case {key.name} has no phase {key.phase}: one of {', '.join(registered.phases)}")
    given = dict(key.parameters)
    if sorted(given) != sorted(registered.grid):
        raise UnknownCase(f"case {key.name} takes {sorted(registered.grid)}, not {sorted(given)}")
    _seed_generators(seed, registered)
    return registered.build(**given)


def _seed_generators(seed: int, registered: Case) -> None:
    """Have PyTorch, Python and, in a case of the user's, NumPy draw the same numbers in each process.

    The reference of the answer is such a case as well.
    """
    torch.manual_seed(seed)
    random.seed(seed)
    # NumPy imports its generators when they are first used: the built-in cases draw with PyTorch alone.
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and not registered.build.__module__.startswith("runner."):
        numpy.random.seed(seed)


def begin(key: CaseKey, device: str, made: Workload) -> Preparation:
    """A preparation without any technique yet: model and inputs moved to `device`, in training or eval mode.

    Its workload has no inputs any more: what a technique casts or lays out anew would stay in memory.
    """
    if key.phase == "train" and made.loss is None:
        raise UnknownCase(f"case {key.name} has no loss and cannot train")
    model = made.model.to(device)
    model.train(key.phase == "train")
    inputs = tuple(tuple(tensor.to(device) for tensor in one) for one in (made.inputs, *made.variants))
    return Preparation(key, device, model, model, inputs, made.loss, replace(made, inputs=(), variants=()))


def finish(prep: Preparation) -> PreparedCase:
    """The prepared case of a preparation whose techniques are all applied."""
    rotation = InputRotation(prep.inputs, copied=prep.workload.rotated)
    step = prep.make_step(prep, rotation)
    flops = prep.workload.flops
    if flops is not None and prep.training:
        flops *= 3
    words = list(prep.final_metrics)
    if prep.workload.report is not None:
        words.append(_reported_metrics(prep.workload.report))
    if prep.workload.bytes_moved is not None and prep.key.axis("precision") == "fp32":
        prep.facts["bytes_moved"] = prep.workload.bytes_moved
    if prep.workload.ceiling:
        words.append(lambda: bounds.measure_matmul_peak(prep.key, prep.device, prep.facts))
    return PreparedCase(
        prep.key,
        step,
        prep.model,
        prep.workload.items,
        prep.workload.unit,
        flops,
        rotation,
        prep.metrics,
        prep.facts,
        words,
        prep.shapes,
        prep.workload.classes,
        prep.workload.compared,
    )


def _extent(tensor: torch.Tensor) -> int:
    """How many numbers a tensor's memory holds: fewer where it is expanded, more where it has gaps."""
    if tensor.layout != torch.strided or not tensor.numel():
        return tensor.numel()
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in the same layout at another address."""
    given, extent = tensor.detach(), _extent(tensor)
    if given.device.type == "xla":
        # XLA would compute a clone in the step that takes it.
        return given.cpu().to(given.device)
    if extent == given.numel():
        copied = given.clone()
    else:
        copied = given.as_strided((extent,), (1,)).clone().as_strided(given.shape, given.stride())
    return copied.requires_grad_(tensor.requires_grad)


def _reported_metrics(report: FinalMetrics) -> FinalMetrics:
    """Metrics that a workload reports; raises BadReport for a measured metric and a value not finite."""

    def check_report() -> Mapping[str, float]:
        reported = report()
        for name, value in reported.items():
            if name not in _OWN_METRICS:
                raise BadReport(
                    f"report() returns {name!r}: a workload may return only {', '.join(_OWN_METRICS)}"
                )
            if not math.isfinite(value):
                raise BadReport(f"report() returns {name}={value}: not a number that can be kept")
        return reported

    return check_report


def final_metrics(prepared: PreparedCase) -> dict[str, float]:
    """What techniques and workload compute at the end; raises BadReport."""
    metrics: dict[str, float] = {}
    for compute in prepared.final_metrics:
        metrics |= guard_metrics(prepared, compute)
    return metrics


def guard_metrics(prepared: PreparedCase, compute: FinalMetrics) -> Mapping[str, float]:
    """What `compute` answers; an error is the fact `not_measured` instead, but for a BadReport.

    By then every block is measured: a profiler that fails, or a product that does not fit beside the other
    contenders of a session, must not cost that.
    """
    try:
        return compute()
    except BadReport:
        raise
    except Exception as error:
        traceback.print_exc()
        reasons: list[str] = prepared.facts.setdefault("not_measured", [])
        reasons.append(
            f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"[:500]
        )
        return {}


class InputRotation:
    """The inputs of one step after the other, round and round; of `copied` ones there is one set at first."""

    def __init__(self, inputs: tuple[Inputs, ...], *, copied: bool = False) -> None:
        self.inputs = inputs
        self._copied = copied
        self._next = 0

    def fill(self) -> None:
        """Before steps are timed: copy what is to be copied, ROTATED_BYTES together; larger inputs never.

        Copies, because a cache goes by address, and copying is much faster than drawing.
        """
        if not self._copied:
            return
        first = self.inputs[0]
        set_bytes = sum(_extent(tensor) * tensor.element_size() for tensor in first)
        count = min(_MOST_SETS, ROTATED_BYTES // max(1, set_bytes))
        self.inputs = (first, *(tuple(map(_copy, first)) for _ in range(count - 1)))

    def take(self) -> Inputs:
        """The next step's inputs."""
        taken = self.inputs[self._next]
        self._next = (self._next + 1) % len(self.inputs)
        return taken

    def rewind(self) -> None:
        """Begin with the first inputs again."""
        self._next = 0


def make_step(prep: Preparation, rotation: InputRotation) -> Callable[[], Any]:
    """The step of the preparation's phase."""
    return training_step(prep, rotation) if prep.training else inference_step(prep, rotation)


def inference_step(prep: Preparation, rotation: InputRotation) -> Callable[[], Any]:
    """One forward pass without gradients."""

    def step() -> Any:
        with torch.no_grad(), prep.context():
            return prep.called(*rotation.take())

    return step


def training_step(prep: Preparation, rotation: InputRotation) -> Callable[[], torch.Tensor]:
    """Forward, backward and update; gradients are left in place and cleared by the next step."""
    loss_of = prep.loss
    assert loss_of is not None
    optimizer = prep.optimizer(prep)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with prep.context():
            loss = loss_of(prep.called(*rotation.take()))
        prep.backward(loss)
        prep.update(optimizer)
        return loss.detach()

    return step


def make_optimizer(prep: Preparation, capturable: bool = False) -> torch.optim.Optimizer:
    """AdamW over the preparation's model in the implementation of axis `optimizer`.

    `capturable` keeps the count of steps on the device, as a CUDA graph needs it.
    """
    parameters = list(prep.model.parameters())
    return adamw(prep, lambda **how: torch.optim.AdamW(parameters, capturable=capturable, **how))


def adamw(prep: Preparation, make: Callable[..., torch.optim.Optimizer]) -> torch.optim.Optimizer:
    """What `make` makes with the options of axis `optimizer`; a fact says which implementation it is.

    Fused is the default; where this PyTorch has no fused AdamW for the device, its own choice is taken.
    """
    taken = prep.key.axis("optimizer")
    if taken == "fused":
        try:
            made = make(lr=LEARNING_RATE, fused=True)
        except RuntimeError:
            taken = "foreach" if prep.device.startswith("cuda") else "loop"
        else:
            prep.facts["optimizer"] = taken
            return made
    prep.facts["optimizer"] = taken
    return make(lr=LEARNING_RATE, foreach=taken == "foreach", fused=False)
