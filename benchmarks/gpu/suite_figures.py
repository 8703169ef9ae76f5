"""From the outcomes of the acceptance's runs to the figures of its lines."""

from collections.abc import Mapping, Sequence
from typing import Any

from records.outcomes import Outcome, OutcomeStatus

Figures = dict[str, Any]

_MLP = "mlp_overhead/infer/batch=64"
_MLP_TRAIN = "mlp_overhead/train/batch=64"
_GEMM = "gemm/infer/size=4096"
_BERT_TRAIN = "bert_base/train/batch=4,layers=2,tokens=128"
_LARGE_TRAIN = "bert_base/train/batch=16,layers=4,tokens=512"
_CNN = "custom_cnn/infer/batch=32"
#: Outcomes that are right though they are not `ok`: there are no 16 GPUs.
EXPECTED = {f"{_BERT_TRAIN}/parallel=ddp,ranks=16": OutcomeStatus.UNSUPPORTED}


class Outcomes:
    """Outcomes by case; a case or a metric that is missing answers None."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.all = {outcome.case: outcome for outcome in outcomes}

    def ok(self, case: str) -> int | None:
        """Whether it is `ok`; None where there is no outcome."""
        return None if case not in self.all else int(self.all[case].status == OutcomeStatus.OK)

    def metric(self, case: str, name: str) -> float | None:
        """One metric of one case."""
        return self.all[case].metrics.get(name) if case in self.all else None

    def fact(self, case: str, name: str) -> Any:
        """One fact of one case."""
        return self.all[case].facts.get(name) if case in self.all else None

    def ratio(self, case: str, by: str, name: str = "latency") -> float | None:
        """A metric of one case by that of another."""
        ours, theirs = self.metric(case, name), self.metric(by, name)
        return None if ours is None or not theirs else ours / theirs

    def by_tolerance(self, case: str, name: str = "error") -> float | None:
        """An error by the one that this number format may have."""
        error, check = self.metric(case, name), self.fact(case, "check")
        return None if error is None or not check else error / check["tolerance"]


def suite(planned: Sequence[str], outcomes: Outcomes) -> Figures:
    """How many cases have no outcome, and which one is not as expected."""
    bad = {
        case: f"{one.status}: {one.reason}"[:300]
        for case, one in outcomes.all.items()
        if one.status != EXPECTED.get(case, OutcomeStatus.OK)
    }
    missing = [case for case in planned if case not in outcomes.all]
    return {
        "cases": len(planned),
        "missing": len(missing),
        "missing_cases": missing,
        "not_ok": len(bad),
        "not_ok_cases": bad,
    }


def stored_state(header: Mapping[str, Any]) -> Figures:
    """The cards whose state stands in the header of a run."""
    machine = header["machine"]
    states: Mapping[str, Mapping[str, Any]] = machine["conditions"].get("gpus", {})
    known = [number for number, state in states.items() if len(state) > 1]
    return {"states": states, "cards_without_state": len(machine["hardware"]["gpus"]) - len(known)}


def of_suite(outcomes: Outcomes) -> dict[str, Figures]:
    """The figures of every line that suite `accept` shows on CUDA."""
    return {
        "answers": _answers(outcomes),
        "graphs": _graphs(outcomes),
        "captured_training": _training(outcomes, f"{_MLP_TRAIN}/graph=capture"),
        "launch_bound": _launch_bound(outcomes),
        "grad_scaler": {
            **_training(outcomes, f"{_BERT_TRAIN}/precision=amp-fp16"),
            "skips": outcomes.metric(f"{_BERT_TRAIN}/precision=amp-fp16", "scaler_skips"),
        },
        "ranks": _ranks(outcomes),
        "instances": _instances(outcomes),
        "pipeline": _pipeline(outcomes),
    }


def of_memory(outcomes: Outcomes, header: Mapping[str, Any], memory_mib: float) -> dict[str, Figures]:
    """The figures of every line that suite `accept-memory` shows; `memory_mib` is all that the GPU has."""
    return {"memory": _memory(outcomes, memory_mib), "copies": _copies(outcomes, header)}


def _answers(outcomes: Outcomes) -> Figures:
    fp32 = outcomes.metric(f"{_GEMM}/eager", "error")
    tf32 = outcomes.metric(f"{_GEMM}/precision=tf32", "error")
    shares = {case: outcomes.by_tolerance(case) for case in outcomes.all}
    known = [share for share in shares.values() if share is not None]
    return {
        "fp32_error": fp32,
        "tf32_error": tf32,
        # The reference is computed in fp32 by the same kernels, so its own error may be 0.
        "tf32_by_fp32": None if fp32 is None or tf32 is None else tf32 / max(fp32, 1e-7),
        "worst_by_tolerance": max(known, default=None),
    }


def _graphs(outcomes: Outcomes) -> Figures:
    captured = f"{_MLP}/graph=capture"
    parts = ("capture", "instantiate", "first_replay", "graph_pool")
    return {
        "capture_by_eager": outcomes.ratio(captured, f"{_MLP}/eager"),
        "callables_by_eager": outcomes.ratio(f"{_MLP}/graph=callables", f"{_MLP}/eager"),
        "reduce_overhead_by_eager": outcomes.ratio(f"{_MLP}/compile=reduce-overhead", f"{_MLP}/eager"),
        "skips": outcomes.metric(f"{_MLP}/compile=reduce-overhead", "cudagraph_skips"),
        **{name: outcomes.metric(captured, name) for name in parts},
    }


def _training(outcomes: Outcomes, case: str) -> Figures:
    return {"ok": outcomes.ok(case), "drift_by_tolerance": outcomes.by_tolerance(case, "loss_drift")}


def _launch_bound(outcomes: Outcomes) -> Figures:
    captured = f"{_MLP}/graph=capture"
    return {
        "eager": outcomes.metric(f"{_MLP}/eager", "launch_bound"),
        "captured": outcomes.metric(captured, "launch_bound"),
        "product": outcomes.metric(f"{_GEMM}/eager", "launch_bound"),
        "device_time_ratio": outcomes.ratio(captured, f"{_MLP}/eager", "device_time"),
    }


def _memory(outcomes: Outcomes, memory_mib: float) -> Figures:
    eager, checkpointed = f"{_LARGE_TRAIN}/eager", f"{_LARGE_TRAIN}/checkpoint=on"
    reserved = outcomes.metric(f"{_LARGE_TRAIN}/memory=quarter", "cuda_peak_reserved")
    return {
        "checkpoint_by_eager": outcomes.ratio(checkpointed, eager, "cuda_peak_allocated"),
        "eager_mib": outcomes.metric(eager, "cuda_peak_allocated"),
        "limited_by_limit": None if reserved is None else reserved / (memory_mib / 4),
    }


def _copies(outcomes: Outcomes, header: Mapping[str, Any]) -> Figures:
    """GB/s of copies; of pinned memory by what the link carries, of pageable memory by those of pinned."""
    named = {
        name: f"host_copy/infer/direction={direction},mebibytes=256,pinned={pinned}/eager"
        for name, direction, pinned in (
            ("to_device_pageable", "to_device", False),
            ("to_device_pinned", "to_device", True),
            ("to_host_pinned", "to_host", True),
        )
    }
    figures: Figures = {name: outcomes.metric(case, "bandwidth") for name, case in named.items()}
    pair = named["to_device_pageable"], named["to_device_pinned"]
    figures["pageable_by_pinned"] = outcomes.ratio(*pair, "bandwidth")
    for direction in ("to_device", "to_host"):
        link, pinned = _link_gb_per_second(header), figures[f"{direction}_pinned"]
        figures[f"{direction}_by_link"] = None if link is None or pinned is None else pinned / link
    return figures


#: GB/s of a lane by generation of PCIe, coding taken off (128b/130b; flits from 6 on).
_LANE_GB_PER_SECOND = {3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}


def _link_gb_per_second(header: Mapping[str, Any]) -> float | None:
    """What the PCIe link of the first GPU carries in one direction; None where it is not known."""
    card = header["machine"]["conditions"].get("gpus", {}).get("0", {})
    lane, width = _LANE_GB_PER_SECOND.get(card.get("pcie_generation")), card.get("pcie_width")
    return None if lane is None or width is None else lane * width


def _ranks(outcomes: Outcomes) -> Figures:
    refused = outcomes.all.get(f"{_BERT_TRAIN}/parallel=ddp,ranks=16")
    return {
        "ddp": outcomes.ok(f"{_BERT_TRAIN}/parallel=ddp"),
        "fsdp2": outcomes.ok(f"{_BERT_TRAIN}/parallel=fsdp2"),
        "too_many_refused": None if refused is None else int(refused.status == OutcomeStatus.UNSUPPORTED),
        "sentence": "" if refused is None else refused.reason,
    }


def _instances(outcomes: Outcomes) -> Figures:
    case = f"{_CNN}/instances=2"
    latency, kernels = outcomes.metric(case, "latency"), outcomes.metric(case, "device_time")
    return {
        "ok": outcomes.ok(case),
        # A GPU runs the kernels of one process at a time.
        "busy_share": None if not latency or kernels is None else 2 * kernels / latency,
        "throughput_by_one": outcomes.ratio(case, f"{_CNN}/eager", "throughput"),
    }


def _pipeline(outcomes: Outcomes) -> Figures:
    case = next((case for case in outcomes.all if case.startswith("input_pipeline/")), "")
    return {"ok": outcomes.ok(case), "data_wait": outcomes.metric(case, "data_wait")}


def telemetry(outcomes: Outcomes) -> Figures:
    """How many windows lack a kind of reading; in the run there is one window a case."""
    kinds = {
        "without_utilisation": ("sm_utilisation", "gpu_busy", "gpu_busy_polled"),
        "without_clock": ("sm_clock",),
        "without_temperature": ("temperature",),
        "without_energy": ("energy_per_item",),
    }
    each = outcomes.all.values()
    return {
        **{
            kind: sum(not any(name in one.metrics for name in names) for one in each)
            for kind, names in kinds.items()
        },
        "notes": sorted({str(note) for one in each for note in one.facts.get("telemetry_notes", ())}),
    }


def process_memory(outcomes: Outcomes) -> Figures:
    """What the driver has of a process by what PyTorch's allocator has, where both are known."""
    shares = [
        one.metrics["process_memory"] / one.metrics["cuda_peak_allocated"]
        for one in outcomes.all.values()
        if one.metrics.get("process_memory") and one.metrics.get("cuda_peak_allocated")
    ]
    # Container drivers answer no sizes: nothing to compare is no failure.
    return {"process_by_allocated": min(shares, default=1.0), "processes_with_memory": len(shares)}


def faults(outcomes: Outcomes) -> dict[str, Figures]:
    """What became of the cases that go wrong, and of those beside them."""

    def status(name: str, technique: str = "precision=bf16") -> OutcomeStatus | None:
        outcome = outcomes.all.get(f"{name}/infer/-/{technique}")
        return None if outcome is None else outcome.status

    def reached(name: str, wanted: OutcomeStatus, technique: str = "precision=bf16") -> int | None:
        found = status(name, technique)
        return None if found is None else int(found == wanted)

    reasons = {case: f"{one.status}: {one.reason}"[:300] for case, one in outcomes.all.items()}
    crashed = (
        reached("fails_an_assertion", OutcomeStatus.CRASHED),
        reached("reads_beyond", OutcomeStatus.CRASHED),
    )
    others = [reached(name, OutcomeStatus.OK, "eager") for name in ("fails_an_assertion", "reads_beyond")]
    return {
        "out_of_memory": {
            "oom": reached("asks_too_much", OutcomeStatus.OOM),
            "other_ok": reached("asks_too_much", OutcomeStatus.OK, "eager"),
            "outcomes": reasons,
        },
        "device_faults": {
            "assert_crashed": crashed[0],
            "access_crashed": crashed[1],
            "others_ok": None if None in others else int(all(others)),
            "outcomes": reasons,
        },
    }


def disturbed(outcomes: Sequence[Outcome]) -> int:
    """Blocks that did not count because of another program's work on the GPU."""
    listed = [entry for one in outcomes for entry in one.facts.get("tainted_blocks", ())]
    return sum(entry.get("cause") == "company" for entry in listed)
