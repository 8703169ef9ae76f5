"""Claims: each is about cases that some suite measures, in a metric that exists, and says its origin."""

import pytest

from analysis.metrics import METRICS
from records.references import Claim
from runner.suites.references import all_claims, claims_for
from runner.suites.suite import built_in

CASES = {case for suite in built_in().values() for case in suite.cases}


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.statement)
def test_every_claim_can_be_compared_with_a_measurement(claim: Claim) -> None:
    assert all(any(Claim.concerns(_only(claim, glob), case) for case in CASES) for glob in claim.cases)
    assert claim.metric in METRICS
    assert 0 < claim.low <= claim.high
    assert claim.statement and claim.hardware
    # A claim without a known origin must say so.
    assert claim.url.startswith("https://") or "source not found" in claim.source


def _only(claim: Claim, glob: str) -> Claim:
    return Claim((glob,), claim.statement, claim.metric, claim.kind, claim.low, claim.high, "-", "-", "")


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (
            "resnet50/infer/batch=32,image=224/compile=reduce-overhead",
            [("latency_floor", 2.3), ("cuda_peak_allocated", 0.1), ("throughput", 2600)],
        ),
        (
            "resnet50/infer/batch=1,image=224/compile=default",
            [("latency_floor", 2.3), ("latency", 1.7)],
        ),
        (
            "bert_base/infer/batch=1,layers=12,tokens=128/compile=default",
            [("latency_floor", 2.8)],
        ),
        (
            "bert_base/infer/batch=32,layers=12,tokens=128/compile=default",
            [("cuda_peak_allocated", 0.1)],
        ),
        (
            "three_convolutions/infer/batch=1,image=224/compile=default",
            [("latency_floor", 2.3)],
        ),
        (
            "three_convolutions/infer/batch=32,image=224/compile=max-autotune",
            [("cuda_peak_allocated", 0.1)],
        ),
        ("custom_cnn/infer/batch=32/compile=max-autotune", []),
        (
            "bert_large/train/batch=8,layers=24,tokens=128/precision=amp-fp16",
            [("latency_floor", 2.3), ("cuda_peak_allocated", 0.4), ("loss_drift", 0.001)],
        ),
        (
            "resnet50/infer/batch=8,image=64/precision=int8-static",
            [("model_size", 4.0), ("latency_floor", 3.0)],
        ),
        ("bert_base/train/batch=16,layers=12,tokens=128/parallel=ddp,ranks=8", [("throughput", 0.92)]),
        (
            "dynamic_shapes/infer/batch=4,layers=2,lengths=9/compile=default,dynamic=off",
            [("new_shape", 0.015)],
        ),
        ("layernorm_gelu/infer/rows=4096,width=1024/compile=default", [("sm_utilisation", 1.26)]),
        ("resnet50/infer/batch=32,image=224/eager", []),
        ("bert_base/train/batch=16,layers=12,tokens=128/parallel=ddp", []),
    ],
)
def test_the_claims_of_a_case(case: str, wanted: list[tuple[str, float]]) -> None:
    assert [(claim.metric, claim.low) for claim in claims_for(case)] == wanted


def test_a_claim_of_a_range_has_two_ends() -> None:
    assert [(c.low, c.high) for c in all_claims() if c.metric == "new_shape"] == [(0.015, 0.020)]
