"""The words of what runs differently."""

from analysis.dispatch_difference import (
    DispatchDifference,
    NotCompared,
    compare_cases,
    compare_fingerprints,
)
from records.dispatch import CaseFingerprint, DispatchFingerprint
from records.outcomes import OutcomeStatus
from reports.text.dispatch_text import case_words, difference_words, summary_words
from support.builders.run_records import BERT, MLP, RESNET, a_case_fingerprint, a_night

FAST = "matmul src:f32:ab by brg_matmul:avx512_core"
SLOW = "matmul src:f32:ab by ref:any"


def test_why_a_part_is_not_compared_is_a_sentence_and_a_recorded_text_stays_as_it_is() -> None:
    reasons = {"layouts": NotCompared.NO_STRIDES, "mkl": "recorded on one side only", "fused": "not built in"}
    assert difference_words(DispatchDifference((), reasons), 9) == [
        "not compared: layouts: an old PyTorch does not record strides",
        "not compared: MKL: recorded on one side only",
        "not compared: fused kernel: not built in",
    ]
    named = difference_words(DispatchDifference((), {why: why for why in NotCompared}), 9)
    assert all(not line.endswith(f": {why}") for line, why in zip(named, NotCompared, strict=True))


def test_each_kind_of_change_has_its_line() -> None:
    old = DispatchFingerprint(
        {
            "onednn": {FAST: 2},
            "mkl": {"SGEMM(T,N)": 3},
            "operators": {"aten::t(fp32)": 1},
            "code": {"graph a": 1},
        }
    )
    new = DispatchFingerprint(
        {
            "onednn": {SLOW: 2},
            "mkl": {"SGEMM(T,N)": 1},
            "operators": {"aten::clone(fp32)": 4},
            "code": {"graph b": 1},
        }
    )
    assert difference_words(compare_fingerprints(old, new), 9) == [
        "[reference kernel] oneDNN: matmul src:f32:ab by ref:any instead of brg_matmul:avx512_core, 2x",
        "[more copies] operator: aten::clone(fp32), new, 4x",
        "MKL: SGEMM(T,N), 3x before, 1x now",
        "operator: aten::t(fp32), gone, was 1x",
        "generated code: 1 graph differs",
    ]
    assert difference_words(compare_fingerprints(old, new), 1)[1] == "and 3 more"


def test_code_that_is_gone_differs() -> None:
    old = DispatchFingerprint({"code": {"graph a": 1, "graph b": 1}})
    for now, graphs in (({}, 2), ({"graph a": 1}, 1), ({"graph c": 1}, 2), ({"graph c": 3}, 3)):
        (line,) = difference_words(compare_fingerprints(old, DispatchFingerprint({"code": now})), 9)
        assert line.startswith(f"generated code: {graphs} ")


def test_cases_are_summed_up_the_alarming_first() -> None:
    failed = CaseFingerprint(BERT, a_night(0), OutcomeStatus.CRASHED, "killed by SIGILL")
    old = {
        each.case: each for each in (a_case_fingerprint(MLP), a_case_fingerprint(RESNET, onednn={FAST: 1}))
    }
    new = {
        each.case: each for each in (a_case_fingerprint(MLP), a_case_fingerprint(RESNET, onednn={SLOW: 1}))
    }
    found = compare_cases({**old, BERT: a_case_fingerprint(BERT)}, {**new, BERT: failed})
    assert [one.case for one in found] == [RESNET, BERT, MLP]
    assert case_words(found[1], 9) == ["not compared: NEW has no fingerprint (crashed: killed by SIGILL)"]
    assert case_words(found[2], 9) == []
    assert summary_words(found) == (
        "1 of 2 cases run differently, 1 could not be compared: reference kernel in 1."
    )
    assert summary_words(found[2:]) == "0 of 1 case runs differently."


def test_other_code_of_the_same_kernels_is_said_apart() -> None:
    old, new = (
        a_case_fingerprint(
            fused={"cpp_fused_relu": 1}, compiler={"guards": guards}, code={f"graph {guards}": 1}
        )
        for guards in (8, 9)
    )
    found = compare_cases({MLP: old}, {MLP: new})
    assert summary_words(found) == "1 of 1 case runs differently (1 only in guards or generated code)."
    more = a_case_fingerprint(fused={"cpp_fused_relu": 2}, compiler={"guards": 9}, code={"graph 9": 1})
    assert summary_words(compare_cases({MLP: old}, {MLP: more})) == "1 of 1 case runs differently."
