"""Made-up upgrades for the tests of reports: cases of every kind, judged by the real rules."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from analysis.comparison.case_results import CaseResult, CaseSide
from analysis.comparison.pairs import Pair
from analysis.comparison.policy import Policy
from analysis.comparison.screening import ScreenedCase, Selection
from analysis.comparison.thresholds import Threshold, threshold_of
from analysis.comparison.verdict import Verdict, judge
from analysis.decision.upgrade import decide
from analysis.dispatch_difference import compare_cases
from analysis.kernel_difference import CaseKernels, KernelChange
from records.dispatch import CaseFingerprint
from records.outcomes import OutcomeStatus
from reports.report_context import ComparedEnvironment, JudgedUpgrade, Subject
from support.builders.run_records import a_case_fingerprint, a_night
from support.builders.upgrade_cases import FLOOR, result
from support.builders.upgrade_cases import verdict as a_verdict

#: What a case may say of itself: markup of every kind, a new line, a colour for a terminal, a mention.
NASTY = (
    "RuntimeError: <img src=x onerror=alert(1)> | a | b\n`rm -rf` [me](http://x) @octocat #12 \x1b[31m"
    "</table></details></script> &amp;"
)


def an_exact_verdict(metric: str, old: float, new: float) -> Verdict:
    """A verdict on two equal pairs of a metric that hardly varies."""
    return judge(metric, [Pair(old, new)] * 2, threshold_of(metric))


def a_result(case: str, percent: float = 0.0, **changes: Any) -> CaseResult:
    """A case that works in both environments; keyword arguments are those of `a_verdict` or of CaseResult."""
    of_verdict = {name: changes.pop(name) for name in ("noise", "n", "old_ms", "torn") if name in changes}
    if "old_ms" in of_verdict:
        of_verdict["old"] = of_verdict.pop("old_ms")
    more: Mapping[str, Verdict] = changes.pop("more", {})
    given: dict[str, Any] = {
        "technique": case.rpartition("/")[2],
        "verdicts": {FLOOR: a_verdict(percent, **of_verdict), **more},
        "pair_seconds": 21.0,
    }
    return result(case, **{**given, **changes})


def a_subject(**changes: Any) -> Subject:
    """An upgrade from 2.13.0 to 2.15.0 on a small machine."""
    given: dict[str, Any] = {
        "old": ComparedEnvironment(
            "2.13.0",
            "2.13.0+cpu",
            "3.11.7",
            "0f3a6c2e9d1b4857",
            packages=("numpy==2.3.1", "setuptools==80.9.0", "torch==2.13.0+cpu", "Jinja2==3.1.6"),
        ),
        "new": ComparedEnvironment(
            "2.15.0",
            "2.15.0+cpu",
            "3.12.4",
            "b7d2f05e6a98c314",
            packages=("numpy==2.4.0", "jinja2==3.1.6", "torch==2.15.0+cpu", "triton==3.8.0"),
            asked="/opt/venvs/torch 2.15/bin/python",
        ),
        "run": "20261121-144620-57a7",
        "suite": "cpu",
        "machine": "perf-01",
        "hardware": "Intel Xeon Gold 6430, 2 cores",
        "device": "cpu",
        "started_at": datetime(2026, 11, 21, 14, 46, 20, tzinfo=UTC),
        "ended_at": datetime(2026, 11, 21, 16, 2, 5, tzinfo=UTC),
        "settings": {"threads": 1, "variables": {"MALLOC_ARENA_MAX": "1"}, "cpus": [1]},
        "harness": "harness-41fe02",
        "pyrometer": "0.1.0",
        "command": "pyrometer upgrade 2.13.0 '/opt/venvs/torch 2.15/bin/python' --suite cpu",
        "notes": ("no CUDA device is visible: peak allocated and reserved are not measured",),
        "options": ("--preset", "quiet"),
    }
    return Subject(**{**given, **changes})


def reported(cases: Sequence[CaseResult], policy: Policy | None = None, **changes: Any) -> JudgedUpgrade:
    """What the functions of `reports` take, judged."""
    policy = policy or Policy()
    listed = list(cases)
    return JudgedUpgrade(a_subject(policy=policy, **changes), listed, decide(listed, policy))


def every_kind() -> list[CaseResult]:
    """One case of each kind, some with numbers for the tables of their own."""
    resnet, bert, gpt = (
        "resnet50/infer/batch=8,image=224",
        "bert_base/infer/batch=1,layers=2,tokens=128",
        "gpt2_small/train/batch=2,tokens=128",
    )
    compiled = {
        "compile_cold": a_verdict(18.0, "compile_cold", noise=8.0, old=16.3),
        "compile_warm": a_verdict(-14.0, "compile_warm", noise=5.0, old=1.9),
        "graph_breaks": an_exact_verdict("graph_breaks", 0, 2),
    }
    memory = {"rss_peak_steady": an_exact_verdict("rss_peak_steady", 612.0, 688.0)}
    return [
        a_result(f"{resnet}/eager", 3.4, old_ms=48.31, more=memory),
        a_result(f"{resnet}/compile=default", -12.5, old_ms=31.07, noise=2.0, more=compiled, torn=2),
        a_result(f"{resnet}/compile=max-autotune,precision=bf16", -2.1, old_ms=18.5, noise=1.5),
        a_result(
            f"{bert}/eager", 0.1, old_ms=33.44, more={"first_call": a_verdict(2.0, "first_call", old=0.31)}
        ),
        a_result(f"{bert}/compile=default", 0.9, old_ms=29.8, noise=4.5),
        a_result(f"{bert}/compile=max-autotune,precision=bf16", 310.0, old_ms=9.12, noise=5.0),
        a_result(f"{gpt}/eager", -0.3, old_ms=113.5, noise=0.5),
        a_result(f"{gpt}/compile=default", new=CaseSide("crashed", NASTY), verdicts={}),
        a_result(
            f"{gpt}/compile=max-autotune,precision=bf16", old=CaseSide("wrong", "off by 4 %"), verdicts={}
        ),
        a_result(
            "mlp_overhead/infer/batch=64/eager", new=CaseSide("contended", "another program"), verdicts={}
        ),
        a_result(
            "lstm_lm/infer/batch=4,tokens=8/export=onnxruntime",
            old=CaseSide("oom"),
            new=CaseSide("oom"),
            verdicts={},
        ),
        a_result("custom_cnn/train/batch=4/eager", verdicts={FLOOR: a_verdict(0.5, n=3, old=17.65)}),
        a_result("unet/infer/batch=1/eager", verdicts={FLOOR: judge(FLOOR, [], threshold_of(FLOOR))}),
    ]


def a_mixed_upgrade() -> JudgedUpgrade:
    """Everything at once: it ends as a no-go."""
    return reported(every_kind(), Policy(must_not_regress=("resnet50/*/eager",), weights={"bert_base*": 2.0}))


def a_large_upgrade(many: int = 60) -> JudgedUpgrade:
    """So many cases of a real suite's kind, of which a few moved."""
    names = (
        "resnet50",
        "bert_base",
        "gpt2_small",
        "vit_base",
        "unet",
        "lstm_lm",
        "mlp_overhead",
        "conv2d",
        "sdpa",
        "matmul",
    )
    techniques = (
        "eager",
        "compile=default",
        "compile=reduce-overhead",
        "precision=bf16",
        "export=aoti",
        "memory=channels-last",
    )
    cases = [
        a_result(
            f"{name}/infer/batch={8 << place // 60}/{technique}",
            (place * 37 % 23 - 11) * 0.05 if place % 7 else (place % 13 - 6) * 1.3,
            noise=0.4 + (place * 17 % 11) / 4,
            old_ms=1.5 + place * 3.7,
        )
        for place, (name, technique) in enumerate(
            (n, t) for _ in range(many // 60 + 1) for n in names for t in techniques
        )
    ]
    return reported(cases[:many])


def dispatched() -> JudgedUpgrade:
    """A mixed upgrade of which it is known what runs differently: a mover, a case that failed, one alike."""
    cases = every_kind()
    slower, faster, alike = (cases[number].case for number in (0, 1, 3))
    fast, slow = (f"convolution src:f32:aBcd16b by {name}" for name in ("jit:avx512_core", "ref:any"))
    failed = CaseFingerprint(faster, a_night(0), OutcomeStatus.CRASHED, "killed by SIGILL")
    old = [
        a_case_fingerprint(slower, onednn={fast: 9}),
        a_case_fingerprint(faster),
        a_case_fingerprint(alike),
    ]
    new = [a_case_fingerprint(slower, onednn={slow: 9}), failed, a_case_fingerprint(alike)]
    found = compare_cases({each.case: each for each in old}, {each.case: each for each in new})
    return reported(cases, dispatch=found)


def on_a_gpu() -> JudgedUpgrade:
    """A mixed upgrade with the kernels of two cases: of a slower one, and of one that did not move."""
    cases = every_kind()
    slower, alike = cases[0].case, cases[3].case
    changes = (
        KernelChange("gemm<float, 8>", 100.0, 131.5, 1.0, 2.0),
        KernelChange("split_k_reduce", 0.0, 12.25, 0.0, 1.0),
        KernelChange("copy", 4.0, 0.0, 1.0, 0.0),
        KernelChange("bias", 2.0, 2.01, 1.0, 1.0),
    )
    return reported(cases, kernels=tuple(CaseKernels(case, changes) for case in (slower, alike)))


def screened() -> JudgedUpgrade:
    """A screened upgrade: two cases that passed, one without a fingerprint, and three that went on."""
    ok = CaseSide("ok")
    passed = [
        CaseResult(
            f"quiet{n}/infer/-/eager", "eager", ok, ok, {}, screen=ScreenedCase((0.01, -0.02), None, n > 0)
        )
        for n in range(2)
    ]
    went_on = [
        a_result("faster/infer/-/eager", -20.0, screen=ScreenedCase((-0.2,), Selection.CHANGE, True)),
        a_result("other_kernel/infer/-/eager", screen=ScreenedCase((), Selection.DISPATCH, True)),
        a_result("lost/infer/-/eager", screen=ScreenedCase((0.01,), Selection.NO_PAIRS, True)),
    ]
    return reported([*passed, *went_on])


#: Upgrades of every kind, by what is to be seen in them.
UPGRADES: dict[str, Callable[[], JudgedUpgrade]] = {
    "mixed": a_mixed_upgrade,
    "dispatched": dispatched,
    "screened": screened,
    "on a GPU": on_a_gpu,
    "large": a_large_upgrade,
    "empty": lambda: reported([]),
    "go": lambda: reported([a_result(f"case{n}/infer/-/eager", -3.0) for n in range(3)]),
    "unclear": lambda: reported([a_result(f"case{n}/infer/-/eager", -2.0, noise=40.0) for n in range(6)]),
    "broken": lambda: reported([a_result("a/infer/-/eager", new=CaseSide("wrong"), verdicts={})]),
    "counts": lambda: reported(
        [
            a_result(f"c{n}/infer/-/eager", verdicts={"graph_breaks": an_exact_verdict("graph_breaks", n, 2)})
            for n in range(4)
        ],
        Policy(metric="graph_breaks", thresholds={"graph_breaks": Threshold(0.0, exact=True)}),
    ),
}


@cache
def upgrade_of(which: str) -> JudgedUpgrade:
    """One of them, judged once."""
    return UPGRADES[which]()
