"""A case measured by this process alone, and what the worker's loop asks of whatever it measures."""

import traceback
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Protocol

import torch

from . import correctness
from .case_key import CaseKey
from .measurements import bounds, compiling, memory, timing
from .messages import Block, Window
from .techniques.apply import build


class Performer(Protocol):
    """What stands on stage: one process, or a group of them."""

    def first_call(self) -> int:
        """The first step, in nanoseconds."""
        ...

    def warm_up(self, min_seconds: float, max_seconds: float) -> timing.WarmUp:
        """Steps until they are steady."""
        ...

    def block(self, iterations: int) -> Block:
        """Timed steps."""
        ...

    def forget(self) -> None:
        """Leave the last block out of what is counted over blocks."""
        ...

    def observe(self, seconds: float) -> Window:
        """Free-running steps."""
        ...

    def facts(self) -> dict[str, Any]:
        """What describes the case as it runs here: items, unit, flops, parameters, dtype, threads..."""
        ...

    def metrics(self) -> Mapping[str, float]:
        """What is known at the end, after the last block, and is no matter of blocks."""
        ...

    def check(self) -> correctness.Check:
        """Whether the answer is right; asked last, for it takes memory and changes the model."""
        ...

    def close(self) -> None:
        """Leave no process behind."""
        ...


class Solo:
    """One stage in this process; raises what building and running the case raises."""

    def __init__(self, key: CaseKey, device: str, seed: int) -> None:
        if key.axis("compile") != "none":
            compiling.keep_headers_beside_the_cache()
        self._device = device
        self._seed = seed
        self.stage = build(key, device, seed)
        self._course: correctness.Course | None = None
        self._calls_ns: list[int] = []

    def first_call(self) -> int:
        """The first step; of a training case, loss and gradients are kept for the answer's check."""
        returned = self._call()
        self._course = correctness.course(self.stage, returned)
        return self._calls_ns[0]

    def warm_up(self, min_seconds: float, max_seconds: float) -> timing.WarmUp:
        """Steps until they are steady; the first ones tell the training's course and what new shapes cost."""
        self._early_steps()
        memory.let_go(self._device)
        return timing.warm_up(self.stage.step, self._device, min_seconds, max_seconds)

    def block(self, iterations: int) -> Block:
        """Timed steps."""
        return timing.block(self.stage.step, self._device, iterations)

    def forget(self) -> None:
        """Nothing is counted here."""

    def observe(self, seconds: float) -> Window:
        """Free-running steps."""
        return timing.observe(self.stage.step, self._device, seconds)

    def facts(self) -> dict[str, Any]:
        """What describes the case as it runs here; of a compiled one, what the compiler has done so far."""
        stage = self.stage
        known: dict[str, Any] = {
            "items": stage.items,
            "unit": stage.unit,
            "flops": stage.flops,
            "parameters": stage.parameters,
            "dtype": stage.dtype,
            "threads": torch.get_num_threads(),
            "shapes": self._shapes,
            **stage.facts,
        }
        if stage.key.axis("compile") != "none":
            compiled = compiling.report()
            known |= {"compile": asdict(compiled), "not_compiled": compiled.ran_eager}
        return known

    def metrics(self) -> Mapping[str, float]:
        """What preparing told, the last words of the techniques and of the case, the compiler's counts."""
        told = dict(self.stage.metrics)
        for words in self.stage.last_words:
            told |= words()
        if self.stage.key.axis("compile") != "none":
            told |= compiling.report().metrics
        return told | dict(bounds.measure_launch_bound(self.stage.step, self._device, self._shapes))

    def check(self) -> correctness.Check:
        """Compare with the eager fp32 reference; what cannot be compared is a note."""
        try:
            return correctness.check(self.stage, self._device, self._seed, self._course)
        except Exception as error:
            # Everything is measured; what the check cannot compare must not cost that.
            traceback.print_exc()
            allowed = correctness.tolerance(self.stage.key)
            return correctness.Check(None, allowed, note=f"not compared: {error}"[:500])

    def close(self) -> None:
        """Nothing of this process needs to be closed."""

    @property
    def _shapes(self) -> int:
        """Inputs of how many shapes the steps take in turn; 1 where all are alike."""
        return len(self.stage.shapes) if len(set(self.stage.shapes)) > 1 else 1

    def _call(self) -> Any:
        returned: list[Any] = []
        taken = timing.first_call(lambda: returned.append(self.stage.step()), self._device)
        self._calls_ns.append(taken)
        return returned.pop()

    def _early_steps(self) -> None:
        stage = self.stage
        compared = 1 if self._course is None else correctness.STEPS
        while len(self._calls_ns) < max(compared, compiling.calls_of_each_shape(stage.shapes)):
            returned = self._call()
            if len(self._calls_ns) <= compared:
                self._course = correctness.course(stage, returned, self._course)
        stage.metrics |= compiling.shape_costs(stage.shapes, self._calls_ns)
