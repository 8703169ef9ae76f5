"""The files of a fingerprint: events of the profiler, lines of oneDNN, MKL and Inductor, generated code."""

import json

import pytest

from runner.dispatch.file_readers import (
    hash_of,
    layout_of,
    read_autotuning,
    read_events,
    read_generated,
    read_printed,
)


def _event(name: str, *inputs: tuple[str, list[int], list[int]]) -> dict[str, object]:
    types, dims, strides = zip(*inputs, strict=True) if inputs else ((), (), ())
    arguments = {"Input type": list(types), "Input Dims": list(dims), "Input Strides": list(strides)}
    return {"cat": "cpu_op", "name": name, "args": arguments}


def test_operators_are_counted_by_name_format_and_layout():
    """Regions, steps and our own marks are no operators; scalars are no inputs."""
    dense, turned = ("float", [4, 8], [8, 1]), ("c10::BFloat16", [8, 4], [1, 8])
    events = [
        _event("aten::mm", dense, turned),
        _event("aten::mm", dense, turned, ("Scalar", [], [])),
        _event("AddmmBackward0", dense),
        _event("autograd::engine::evaluate_function: AddmmBackward0", dense),
        _event("Torch-Compiled Region: 0/0"),
        {"cat": "user_annotation", "name": "aten::mine"},
        {"cat": "kernel", "name": "sm90_xmma_gemm  f32f32", "args": {}},
        {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "args": {}},
    ]
    operators, kernels, layouts = read_events(events)
    assert operators == {"aten::mm(fp32, bf16:transposed)": 2}
    assert kernels == {"sm90_xmma_gemm f32f32": 1, "Memcpy DtoH (Device -> Pageable)": 1}
    assert layouts


def test_long_names_of_kernels_that_differ_in_their_end_are_others():
    """The operation of an elementwise kernel stands behind its number formats."""
    begun = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
    formats = "BinaryFunctor<c10::Half, c10::Half, c10::Half, at::native::binary_internal::"
    names = [f"{begun}{formats}{operation}Functor<float> > >(int, int)" for operation in ("Mul", "Div")]
    _, kernels, _ = read_events({"cat": "kernel", "name": name, "args": {}} for name in (*names, names[0]))
    assert sorted(kernels.values()) == [1, 2]
    assert {len(name) for name in kernels} == {160}


def test_without_strides_no_layout_is_claimed():
    """An old PyTorch records sizes and types only."""
    event = {"cat": "cpu_op", "name": "aten::t", "args": {"Input type": ["float"], "Input Dims": [[2, 3]]}}
    operators, _, layouts = read_events([event])
    assert operators == {"aten::t(fp32)": 1}
    assert not layouts


@pytest.mark.parametrize(
    ("sizes", "strides", "layout"),
    [
        ([], [], ""),
        ([2, 3], [3, 1], ""),
        ([2, 1, 3], [3, 99, 1], ""),
        ([2, 3], [1, 2], "transposed"),
        ([2, 3], [0, 1], "expanded"),
        ([2, 3, 4, 5], [60, 1, 15, 3], "channels_last"),
        ([2, 3, 4, 5, 6], [360, 1, 90, 18, 3], "channels_last"),
        ([2, 3], [6, 2], "strided"),
        ([[2, 3], [4]], [[3, 1], [1]], ""),
        ([2, 3], [], ""),
    ],
)
def test_layouts(sizes: list[int], strides: list[int], layout: str):
    """Dimensions of size 1 may have any stride."""
    assert layout_of(sizes, strides) == layout


def test_lines_of_both_forms_of_onednn_and_of_mkl():
    """Version 2 and 3 of oneDNN's lines name the same choice; times, sizes and addresses do not matter."""
    lines = [
        "onednn_verbose,v1,info,oneDNN v3.12.0 (commit 80afa71)",
        "onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation",
        "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core,undef,src:f32::blocked:ab::f0 "
        "wei:f32:a:blocked:ba::f0 bia:undef::undef::: dst:f32::blocked:ab::f0,attr-scratchpad:user,,4x8,0.1",
        "onednn_verbose,primitive,exec,cpu,matmul,brg_matmul:avx512_core,undef,src_f32::blocked:ab::f0 "
        "wei_f32::blocked:ba::f0 dst_f32::blocked:ab::f0,attr-scratchpad:user ,,4x8:8x8,0.7",
        "dnnl_verbose,exec,cpu,matmul,gemm:jit,undef,src_f32::blocked:ab:f0,attr-post-ops:eltwise_relu:0.5,,4x8,2",
        "MKL_VERBOSE oneMKL 2024.0 Update 2 Product build 20240605 for Intel(R) 64 architecture",
        "MKL_VERBOSE SGEMM(T,N,64,4,7200,0x7ffe,0x7f49,7200) 2.48ms CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:2",
        "MKL_VERBOSE SGEMM(T,N,64,4,7200,0x7fff,0x7f50,7200) 9us CNR:OFF Dyn:1 FastMM:1 TID:1  NThr:1",
        "MKL_VERBOSE vmsErf(128,0x7f,0x7f,) 12ns CNR:OFF",
        "MKL_VERBOSE vmsErf(128,0x7f,0x7f,) 12ns CNR:OFF",
        "the case itself prints",
    ]
    onednn, mkl, unread = read_printed(lines)
    assert onednn == {
        "matmul src:f32:ab wei:f32:ba dst:f32:ab by brg_matmul:avx512_core": 2,
        "matmul src:f32:ab +eltwise_relu by gemm:jit": 1,
    }
    assert mkl == {"SGEMM(T,N)": 2, "vmsErf": 1}
    assert not unread


@pytest.mark.parametrize(
    ("line", "library"),
    [
        ("onednn_verbose,v1,primitive,exec", "onednn"),
        ("onednn_verbose,v9,something,new,cpu,matmul", "onednn"),
        ("onednn_verbose", ""),
        ("onednn_verbose,", "onednn"),
        ("onednn_verbose,v1,primitive,create:cache_hit,cpu,matmul,jit,,,,0.1", ""),
        ("MKL_VERBOSE", "mkl"),
        ("MKL_VERBOSE SGEMM(T,N", "mkl"),
    ],
)
def test_a_line_that_cannot_be_read_is_counted(line: str, library: str):
    """It belongs to its library, and is nothing that was called."""
    onednn, mkl, unread = read_printed([line])
    assert not onednn and not mkl
    assert dict(unread) == ({library: 1} if library else {})


def test_the_first_choice_of_autotuning_is_the_one_taken():
    """As Inductor prints it: the fastest first; times do not matter."""
    lines = [
        "AUTOTUNE addmm(4x64, 4x64, 64x64)\n",
        "strides: [0, 1], [64, 1], [1, 64]\n",
        "  cpp_CppMicroGemmFP32Vec_7 0.0168 ms 100.0% \n",
        "  addmm 0.0321 ms 52.5% \n",
        "SingleProcess AUTOTUNE benchmarking takes 0.2854 seconds\n",
    ]
    assert read_autotuning(lines) == {"addmm(4x64, 4x64, 64x64) by cpp_CppMicroGemmFP32Vec": 1}


CODE = """# AOT ID: ['0_inference']
import torch
cpp_fused_relu_0 = async_compile.cpp_pybinding(['float*'], '''
#include "/tmp/cache/abc.h"
extern "C" void kernel(float* in_out_ptr0)
{
    #pragma omp parallel num_threads(2)
    auto tmp0 = in_out_ptr0[0L];
    auto tmp1 = tmp0 + static_cast<float>(0.5);
}
''')
async_compile.wait(globals())
def call(args):
    arg0_1, arg1_1 = args
    assert_size_stride(arg0_1, (4, ), (1, ))
    buf0 = empty_strided_cpu((4, 64), (64, 1), torch.float32)
    # Source: /home/me/model.py:7
    cpp_fused_relu_0(buf0)
    del arg0_1
    return (buf0, )

def benchmark_compiled_module(times=10):
    pass
"""


def _with(line: str) -> str:
    """The code with one more line in the body of `call`."""
    return CODE.replace("    return (buf0, )", f"    {line}\n    return (buf0, )")


def _trace(*codes: str) -> list[str]:
    lines: list[str] = []
    for code in codes:
        about = {"inductor_output_code": {"filename": "/tmp/x.py"}, "has_payload": "5e8b"}
        lines.append(f"V1125 19:51:08.604000 12349 torch/_inductor/graph.py:1] {json.dumps(about)}\n")
        lines += [f"\t{line}\n" for line in code.splitlines()]
        lines.append('V1125 19:51:08.604000 12349 torch/x.py:1] {"artifact": {"name": "y"}}\n')
        lines += ["\tcpp_fused_other_0 = async_compile.cpp(\n", "no record at all\n"]
    return lines


def test_generated_code_has_its_kernels_and_a_hash_per_graph():
    """Payloads of other records are not code."""
    fused, graphs = read_generated(_trace(CODE, CODE.replace("relu_0", "relu_1")))
    assert fused == {"cpp_fused_relu": 2}
    assert graphs == {f"graph {hash_of(CODE)}": 2}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/tmp/cache/abc.h", "/home/you/def.h"),
        ("/home/me/model.py:7", "/srv/model.py:70"),
        ("num_threads(2)", "num_threads(16)"),
        ("buf0", "buf7"),
        ("arg0_1", "arg7_1"),
        ("AOT ID: ['0_inference']", "AOT ID: ['4_inference']"),
        ("times=10", "times=20"),
        ("relu_0", "relu_12"),
    ],
)
def test_places_and_names_do_not_change_the_hash(old: str, new: str):
    """Paths, threads, numbers of buffers, and the benchmark below the code."""
    assert hash_of(CODE.replace(old, new)) == hash_of(CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [("0.5", "0.25"), ("float32", "float64"), ("tmp0 +", "tmp0 *"), ("(64, 1)", "(1, 4)")],
)
def test_what_is_computed_changes_the_hash(old: str, new: str):
    """Constants, number formats, operations and layouts."""
    assert old in CODE
    assert hash_of(CODE.replace(old, new)) != hash_of(CODE)


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        ("x1 = (xindex // 512) % 128", "512", "64"),
        ("auto tmp2 = tmp1 * static_cast<float>(0.7071067811865476);", "0.707106781", "0.398942280"),
        ("buf1 = extern_kernels.convolution(buf0, arg1_1, stride=(2, 2))", "(2, 2)", "(1, 1)"),
        ("buf1 = torch.ops.aten.mean.default(buf0)", "mean", "amax"),
    ],
)
def test_a_line_that_computes_is_hashed_to_its_end(line: str, old: str, new: str):
    """In Triton and Python `//` divides, a long decimal is no hash, and a call gives its answer a name."""
    code = _with(line)
    assert hash_of(code) != hash_of(CODE)
    assert hash_of(code.replace(old, new)) != hash_of(code)


@pytest.mark.parametrize(
    "line",
    [
        "// Create an input, in / out",
        "# Original ATen: [aten.relu]",
        "inductor_ops = torch.ops.inductor",
        "aten = torch.ops.aten",
    ],
)
def test_a_line_that_computes_nothing_is_not_hashed(line: str):
    """Comments, and names at the top of the module."""
    assert hash_of(f"{line}\n{CODE}") == hash_of(CODE)


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("auto buf1 = std::move(buf0);", "auto buf1 = std::move(buf0);  // reuse"),
        ("run(key='0123456789abcdef01')", "run(key='76543210fedcba9876')"),
    ],
)
def test_comments_behind_a_statement_and_hashes_do_not_count(line: str, same: str):
    assert hash_of(CODE) != hash_of(_with(line)) == hash_of(_with(same))
