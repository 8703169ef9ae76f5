"""What is found between two dispatch fingerprints, and which of it is alarming."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from analysis.dispatch_difference import (
    CaseDifference,
    DispatchWarning,
    NotCompared,
    compare_cases,
    compare_fingerprints,
)
from records.dispatch import CaseFingerprint, DispatchFingerprint, DispatchPart
from reports.text.dispatch_text import case_words, summary_words

CONV = "convolution forward_training src:f32:{} wei:f32:Acdb16a dst:f32:{} by {}"


def fingerprint(missing: Mapping[str, str] | None = None, **parts: Mapping[str, int]) -> DispatchFingerprint:
    """A fingerprint with these parts; every other part is recorded and empty."""
    whole = {part: parts.get(part, {}) for part in DispatchPart if part not in (missing or {})}
    return DispatchFingerprint(whole, missing or {})


def test_the_same_has_no_changes():
    """Whatever the order of its names."""
    one = fingerprint(operators={"aten::mm(fp32, fp32)": 2, "aten::add(fp32)": 1})
    other = fingerprint(operators={"aten::add(fp32)": 1, "aten::mm(fp32, fp32)": 2})
    difference = compare_fingerprints(one, other)
    assert difference.changes == ()
    assert difference.not_compared == {}
    assert one.content_hash == other.content_hash


def test_added_gone_and_another_count():
    """Each is one change with both counts."""
    old = fingerprint(mkl={"SGEMM(T,N)": 4, "SGEMV": 1})
    new = fingerprint(mkl={"SGEMM(T,N)": 2, "DGEMM": 3})
    changes = compare_fingerprints(old, new).changes
    assert {(c.before, c.after, c.count_before, c.count_after) for c in changes} == {
        ("SGEMM(T,N)", "SGEMM(T,N)", 4, 2),
        ("SGEMV", "", 1, 0),
        ("", "DGEMM", 0, 3),
    }
    assert {change.warning for change in changes} == {None}


def test_implementations_that_only_have_another_name():
    """As between oneDNN 3.4 and 3.5; another instruction set is another implementation all the same."""
    names = {
        CONV.format("acdb", "acdb", "brgconv:avx512_core"): CONV.format(
            "acdb", "acdb", "brg_conv_fwd:avx512_core"
        ),
        "matmul src:bf16:ab by brg:avx512_core_bf16": "matmul src:bf16:ab by brg_matmul:avx512_core_bf16",
        "deconvolution src:f32:acdb by brg_conv:avx2+brgconv_strided:avx2": (
            "deconvolution src:f32:acdb by brg_deconv:avx2+brgconv_strided:avx2"
        ),
    }
    old = fingerprint(onednn=dict.fromkeys(names, 2))
    assert compare_fingerprints(old, fingerprint(onednn=dict.fromkeys(names.values(), 2))).changes == ()
    slower = [name.replace("avx512_core", "avx2") for name in names.values()]
    changes = compare_fingerprints(old, fingerprint(onednn=dict.fromkeys(slower, 2))).changes
    assert {change.after for change in changes} == {*slower[:1], "matmul src:bf16:ab by brg_matmul:avx2_bf16"}


@pytest.mark.parametrize("slow", ["ref:any", "gemm:ref", "simple:any"])
def test_a_reference_kernel_in_place_of_a_fast_one(slow: str):
    """One change, of the same operation, also where the layout of its inputs changed with it."""
    old = fingerprint(onednn={CONV.format("aBcd16b", "aBcd16b", "jit:avx512_core"): 5})
    for tag in ("aBcd16b", "abcd"):
        (change,) = compare_fingerprints(old, fingerprint(onednn={CONV.format(tag, tag, slow): 5})).changes
        assert change.before.endswith("jit:avx512_core")
        assert change.after.endswith(slow)
        assert change.warning == DispatchWarning.REFERENCE_KERNEL


def test_a_reference_kernel_that_goes_is_no_warning():
    """Nor one that was there before in another layout."""
    slow, fast = CONV.format("a", "a", "ref:any"), CONV.format("a", "a", "jit:avx512_core")
    gone = compare_fingerprints(fingerprint(onednn={slow: 5}), fingerprint(onednn={fast: 5}))
    assert gone.warnings == ()
    moved = CONV.format("b", "b", "ref:any")
    assert compare_fingerprints(fingerprint(onednn={slow: 5}), fingerprint(onednn={moved: 5})).warnings == ()


@pytest.mark.parametrize(
    ("part", "name", "warning"),
    [
        ("operators", "aten::_slow_conv2d_forward(fp32, fp32)", DispatchWarning.SLOW_CONVOLUTION),
        ("operators", "aten::copy_(bf16, fp32)", DispatchWarning.CAST),
        ("operators", "aten::copy_(fp32, fp32:expanded)", DispatchWarning.COPY),
        ("operators", "aten::clone(fp32)", DispatchWarning.COPY),
        ("operators", "aten::fill_(fp32)", DispatchWarning.COPY),
        ("onednn", "reorder src:f32:abcd dst:f32:aBcd16b by jit:uni", DispatchWarning.COPY),
        ("kernels", "Memcpy DtoH (Device -> Pageable)", DispatchWarning.CPU_FALLBACK),
        ("compiler", "frames run eager", DispatchWarning.EAGER_FALLBACK),
        ("compiler", "graph breaks", DispatchWarning.GRAPH_BREAK),
        ("compiler", "CUDA graphs skipped", DispatchWarning.CUDA_GRAPH_SKIPPED),
        ("operators", "aten::view(fp32)", None),
        ("compiler", "guards", None),
    ],
)
def test_warnings(part: str, name: str, warning: DispatchWarning | None):
    """Raised where there is more of it, and never where there is less."""
    few, many = fingerprint(**{part: {name: 1}}), fingerprint(**{part: {name: 3}})
    (change,) = compare_fingerprints(few, many).changes
    assert change.warning == warning
    assert compare_fingerprints(many, few).warnings == ()


def test_a_copy_in_another_layout_is_not_a_new_copy():
    """As many copies as before."""
    old = fingerprint(operators={"aten::copy_(fp32, fp32:expanded)": 2})
    new = fingerprint(operators={"aten::copy_(fp32, fp32)": 2})
    assert compare_fingerprints(old, new).warnings == ()


def test_a_renamed_operator_is_one_change():
    """Of equal inputs and counts; another count is another operator."""
    old = fingerprint(operators={"aten::_scaled_dot_product_flash_attention(fp32, fp32, fp32)": 2})
    name = "aten::_scaled_dot_product_flash_attention_for_cpu(fp32, fp32, fp32)"
    (change,) = compare_fingerprints(old, fingerprint(operators={name: 2})).changes
    assert (change.before, change.after) == (next(iter(old.parts["operators"])), name)
    assert len(compare_fingerprints(old, fingerprint(operators={name: 3})).changes) == 2


def test_a_fused_kernel_that_fell_apart():
    """Into two kernels, or with a part of it outside any kernel."""
    old = fingerprint(fused={"cpp_fused_gelu_native_layer_norm": 1})
    apart = compare_fingerprints(
        old, fingerprint(fused={"cpp_fused_gelu": 1, "cpp_fused_native_layer_norm": 1})
    )
    assert apart.changes[0].warning == DispatchWarning.FUSION_LOST
    outside = fingerprint(
        fused={"cpp_fused_gelu": 1}, operators={"aten::native_layer_norm(fp32, fp32, fp32)": 1}
    )
    assert DispatchWarning.FUSION_LOST in compare_fingerprints(old, outside).warnings
    renamed = fingerprint(fused={"cpp_fused_gelu_layer_norm_view": 1})
    assert compare_fingerprints(old, renamed).warnings == ()


def test_alarming_changes_come_first():
    """Then by part, then the largest."""
    old = fingerprint()
    new = fingerprint(
        operators={"aten::view(fp32)": 50, "aten::clone(fp32)": 1},
        onednn={"matmul src:f32:ab by ref:any": 1},
        mkl={"SGEMM(T,N)": 1},
    )
    changes = compare_fingerprints(old, new).changes
    assert [change.after.split("(")[0].split(" ")[0] for change in changes] == [
        "matmul",
        "aten::clone",
        "SGEMM",
        "aten::view",
    ]


def test_a_missing_part_is_not_compared():
    """With the reason; the others are."""
    old = fingerprint(missing={"onednn": "lines of its verbose mode cannot be read"}, mkl={"SGEMM(T,N)": 1})
    difference = compare_fingerprints(old, fingerprint(onednn={"matmul by ref:any": 1}))
    assert difference.not_compared == {"onednn": "lines of its verbose mode cannot be read"}
    assert [change.part for change in difference.changes] == [DispatchPart.MKL]


def test_layouts_that_one_side_does_not_know_are_left_out():
    """Operators are compared without them."""
    old = DispatchFingerprint({"operators": {"aten::mm(fp32, fp32)": 1}}, layouts=False)
    new = DispatchFingerprint({"operators": {"aten::mm(fp32, fp32:transposed)": 1}})
    difference = compare_fingerprints(old, new)
    assert difference.changes == ()
    assert difference.not_compared["layouts"] == NotCompared.NO_STRIDES


def test_another_form_is_not_compared():
    """It would differ in words alone."""
    difference = compare_fingerprints(fingerprint(), DispatchFingerprint({}, format=99))
    assert difference.not_compared == dict.fromkeys(DispatchPart, NotCompared.OTHER_FORMAT)


def test_a_case_without_a_fingerprint_is_not_compared_and_says_why():
    """One was killed, one was never begun; both come back from JSON."""
    taken = {
        case: CaseFingerprint(case, datetime(2026, 1, 1, tzinfo=UTC), "ok", fingerprint=fingerprint())
        for case in ("a", "b")
    }
    killed = CaseFingerprint("b", datetime(2026, 1, 1, tzinfo=UTC), "crashed", "killed by SIGKILL in build")
    found = compare_cases({**taken, "b": killed}, {"b": taken["b"], "a": taken["a"]}, ["a", "b", "c"])
    assert [(one.case, one.old_failure, one.new_failure) for one in found] == [
        ("b", "crashed: killed by SIGKILL in build", ""),
        ("c", NotCompared.OUT_OF_TIME, NotCompared.OUT_OF_TIME),
        ("a", "", ""),
    ]
    assert tuple(CaseDifference.from_body(one.to_body()) for one in found) == found
    never = "not compared: {} has no fingerprint (the time limit for fingerprints was reached)"
    assert case_words(found[1], 9) == [never.format("OLD"), never.format("NEW")]
    assert summary_words(found) == "0 of 1 case runs differently, 2 could not be compared."
