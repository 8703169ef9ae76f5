"""The suites that come with Pyrometer: curated cases with a time budget."""

from dataclasses import dataclass, field

from .records import Timing


@dataclass(frozen=True, slots=True)
class Suite:
    """A list of case keys (or globs over the cases on offer), in order of importance.

    Replicates are taken in rounds over all cases, so that a budget that runs out costs replicates of all
    before it costs a case.
    """

    name: str
    cases: tuple[str, ...]
    replicates: int = 3
    budget_seconds: float = 3600.0
    timing: Timing = field(default_factory=Timing)
    summary: str = ""


_SMOKE = (
    "mlp_overhead/infer/batch=64/eager",
    "mlp_overhead/infer/batch=64/compile=default",
    "resnet50/infer/batch=1,image=64/eager",
    "bert_base/infer/batch=1,layers=2,tokens=128/eager",
    "gpt2_small/infer/batch=1,layers=2,tokens=128/precision=amp-bf16",
    "custom_cnn/train/batch=4/eager",
    "lstm_lm/infer/batch=4,tokens=8/eager",
    "custom_gru_cell/infer/batch=16,hidden=256,steps=8/eager",
    "transformer_xl/infer/batch=1,layers=2,tokens=150/eager",
)

_FULL_SIZE = (
    "resnet50/{phase}/batch=8,image=224",
    "bert_base/{phase}/batch=4,layers=12,tokens=128",
    "gpt2_small/{phase}/batch=1,layers=12,tokens=128",
    "transformer_xl/{phase}/batch=1,layers=16,tokens=150",
    "lstm_lm/{phase}/batch=20,tokens=35",
    "custom_gru_cell/{phase}/batch=16,hidden=256,steps=64",
    "custom_cnn/{phase}/batch=32",
    "mlp_overhead/{phase}/batch=64",
)


def _cpu_cases() -> tuple[str, ...]:
    """Eager for every model and phase; compile and bf16 where they decide something on a CPU.

    `lstm_lm` is never compiled here: Dynamo leaves nn.LSTM to eager, so it could only be `not_compiled`.
    """
    cases: list[str] = []
    for phase in ("infer", "train"):
        for workload in _FULL_SIZE:
            stem = workload.format(phase=phase)
            cases.append(f"{stem}/eager")
            compiled = ("mlp_overhead", "custom_cnn") if phase == "train" else ("",)
            if stem.startswith(compiled) and not stem.startswith("lstm_lm"):
                cases.append(f"{stem}/compile=default")
            if stem.startswith(("resnet50", "bert_base", "gpt2_small", "mlp_overhead")) and phase == "infer":
                cases.append(f"{stem}/precision=amp-bf16")
    cases.append("bert_base/train/batch=4,layers=12,tokens=128/precision=amp-bf16")
    cases.append("bert_base/infer/batch=4,layers=12,tokens=128/compile=default,precision=amp-bf16")
    return tuple(cases)


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "smoke",
            _SMOKE,
            replicates=3,
            budget_seconds=180.0,
            timing=Timing(
                measure_seconds=1.0, warm_up_max_seconds=4.0, max_seconds=4.0, deadline_seconds=120.0
            ),
            summary="does everything still run, and roughly how fast: a few minutes on two cores",
        ),
        Suite(
            "cpu",
            _cpu_cases(),
            replicates=3,
            budget_seconds=5400.0,
            timing=Timing(measure_seconds=3.0, warm_up_max_seconds=15.0, max_seconds=30.0),
            summary="every model at its real size on the CPU: inference, training, eager, compiled, bf16",
        ),
    )
}
