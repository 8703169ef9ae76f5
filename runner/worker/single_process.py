"""A case measured by this process alone, and what the worker's loop asks of whatever it measures."""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, Protocol

import torch

from . import correctness
from .case_key import CaseKey
from .measurements import bounds, compiling, memory, timing
from .messages import Block, Window
from .prepared_case import UnsupportedCase, final_metrics, guard_metrics
from .techniques.apply import build
from .techniques.compilation import records_graphs


class CaseRunner(Protocol):
    """One process, or a group of them, that runs a case."""

    def first_call(self) -> int:
        """The first step, in nanoseconds."""
        ...

    def warm_up(self, min_seconds: float, max_seconds: float) -> timing.WarmUp:
        """Steps until they are steady."""
        ...

    def block(self, iterations: int, lead_in: int, per_sample: int) -> Block:
        """Timed steps after `lead_in` untimed ones, a sample for each `per_sample` of them."""
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
        """Whether the answer is right; called last, for it takes memory and changes the model."""
        ...

    def close(self) -> None:
        """Leave no process behind."""
        ...


class SingleProcess:
    """One prepared case in this process; raises what building and running the case raises."""

    def __init__(self, key: CaseKey, device: str, seed: int) -> None:
        if key.axis("compile") != "none":
            compiling.keep_headers_next_to_the_cache()
        self._device = device
        self._seed = seed
        self.prepared = build(key, device, seed)
        self._trace: correctness.LossTrace | None = None
        self._calls_ns: list[int] = []
        #: Of each block that counts: the place of its first step in the turn of shapes, and what it took.
        self._timed: list[tuple[int, Sequence[float]]] = []
        self._place = 0

    def first_call(self) -> int:
        """The first step; of a training case, loss and gradients are kept for the answer's check."""
        returned = self._call()
        if self.prepared.model is None and self._device == "cpu" and torch.cuda.is_initialized():
            raise UnsupportedCase(
                "it computes on a GPU, and on the CPU nothing waits for one: leave out --device"
            )
        self._trace = correctness.record_step(self.prepared, returned)
        return self._calls_ns[0]

    def warm_up(self, min_seconds: float, max_seconds: float) -> timing.WarmUp:
        """Steps until they are steady; the first ones record the loss trace and the cost of new shapes."""
        self._early_steps()
        self.prepared.rotation.fill()
        memory.release_memory(self._device)
        return timing.warm_up(self.prepared.step, self._device, min_seconds, max_seconds)

    def block(self, iterations: int, lead_in: int, per_sample: int) -> Block:
        """Timed steps."""
        block = timing.block(
            self.prepared.step, self._device, iterations, lead_in=lead_in, per_sample=per_sample
        )
        # All samples only where they are of several shapes: kept ones would show in the memory peak.
        samples = block.samples_ns if self._shapes > 1 else (median(block.samples_ns),)
        self._timed.append((self._place, samples))
        self._place += len(block.samples_ns)
        return block

    def forget(self) -> None:
        """Leave the last block out of the median step."""
        self._timed.pop()

    def observe(self, seconds: float) -> Window:
        """Free-running steps."""
        return timing.observe(self.prepared.step, self._device, seconds)

    def facts(self) -> dict[str, Any]:
        """What describes the case as it runs here; of a compiled one, what the compiler has done so far."""
        prepared = self.prepared
        facts: dict[str, Any] = {
            "items": prepared.items,
            "unit": prepared.unit,
            "flops": prepared.flops,
            "parameters": prepared.parameters,
            "dtype": prepared.dtype,
            "threads": torch.get_num_threads(),
            "shapes": self._shapes,
            **bounds.peak_facts(self._device, prepared.key.axis("precision")),
            **prepared.facts,
        }
        if prepared.key.axis("compile") != "none":
            compiled = compiling.report(records_graphs(prepared.key, self._device))
            facts |= {"compile": asdict(compiled), "not_compiled": compiled.ran_eager}
            if records_graphs(prepared.key, self._device) and compiled.cudagraph_skips:
                facts["cudagraphs"] = f"{compiled.cudagraph_skips} left out: " + "; ".join(
                    dict.fromkeys(compiled.cudagraph_skip_reasons)
                )
        return facts

    def metrics(self) -> Mapping[str, float]:
        """Metrics of the preparation, final metrics of techniques and case, compiler counters.

        On CUDA also what takes steps of its own after the last block.
        """
        prepared, device = self.prepared, self._device
        metrics = {**prepared.metrics, **final_metrics(prepared)}
        if prepared.key.axis("compile") != "none":
            metrics |= compiling.report(records_graphs(prepared.key, device)).metrics
        if prepared.key.phase == "infer":
            metrics.update(
                guard_metrics(prepared, lambda: timing.measure_request_latency(prepared.step, device))
            )
        step_ns = timing.typical_step_ns(self._timed, self._shapes)
        device_time = guard_metrics(
            prepared,
            lambda: bounds.measure_device_time(prepared.step, device, step_ns, self._shapes, prepared.facts),
        )
        return {**metrics, **device_time}

    def check(self) -> correctness.Check:
        """Compare with the eager fp32 reference; what cannot be compared is a note."""
        try:
            return correctness.check(self.prepared, self._device, self._seed, self._trace)
        except Exception as error:
            # Everything is measured; what the check cannot compare must not cost that.
            traceback.print_exc()
            allowed = correctness.tolerance(self.prepared.key)
            return correctness.Check(None, allowed, note=f"not compared: {error}"[:500])

    def close(self) -> None:
        """Nothing of this process needs to be closed."""

    @property
    def _shapes(self) -> int:
        """Inputs of how many shapes the steps take in turn; 1 where all are alike."""
        return len(self.prepared.shapes) if len(set(self.prepared.shapes)) > 1 else 1

    def _call(self) -> Any:
        returned: list[Any] = []
        taken = timing.first_call(lambda: returned.append(self.prepared.step()), self._device)
        self._calls_ns.append(taken)
        return returned.pop()

    def _early_steps(self) -> None:
        prepared = self.prepared
        compared = 1 if self._trace is None else correctness.STEPS
        while len(self._calls_ns) < max(compared, compiling.calls_of_each_shape(prepared.shapes)):
            returned = self._call()
            if len(self._calls_ns) <= compared:
                self._trace = correctness.record_step(prepared, returned, self._trace)
        prepared.metrics |= compiling.shape_costs(prepared.shapes, self._calls_ns)
