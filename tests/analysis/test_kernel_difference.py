"""Kernels of a case in two environments: the one whose time moved most comes first."""

from typing import Any

from analysis.kernel_difference import KernelChange, kernel_changes
from support.builders.run_records import an_outcome

GEMM, COPY, NEW = "ampere_bf16_gemm", "copy", "split_k_reduce"


def outcome(case: str, *kernels: list[Any], **about: Any) -> Any:
    return an_outcome(case, facts={"kernels": list(kernels)}, **about)


def test_each_kernel_is_the_median_over_processes() -> None:
    before = [outcome("a/infer/-/eager", [GEMM, 2.0, us], [COPY, 1.0, 5.0]) for us in (100.0, 102.0, 900.0)]
    after = [outcome("a/infer/-/eager", [GEMM, 2.0, 130.0], [NEW, 2.0, 20.0])]
    (found,) = kernel_changes(before, after)
    assert found.changes == (
        KernelChange(GEMM, 102.0, 130.0, 2.0, 2.0),
        KernelChange(NEW, 0.0, 20.0, 0.0, 2.0),
        KernelChange(COPY, 5.0, 0.0, 1.0, 0.0),
    )
    assert [change.difference_us for change in found.changes] == [28.0, 20.0, -5.0]


def test_a_case_without_a_table_on_one_side_is_not_compared() -> None:
    table = outcome("a/infer/-/eager", [GEMM, 1.0, 1.0])
    assert kernel_changes([table], [an_outcome("a/infer/-/eager")]) == ()
    assert kernel_changes([table], [outcome("b/infer/-/eager", [GEMM, 1.0, 1.0])]) == ()


def test_rows_of_another_form_are_left_out() -> None:
    odd = an_outcome("a/infer/-/eager", facts={"kernels": [[GEMM, 1.0, 3.0], ["short"], 7, [1, 2, 3]]})
    (found,) = kernel_changes([odd], [odd])
    assert found.changes == (KernelChange(GEMM, 3.0, 3.0, 1.0, 1.0),)
    assert kernel_changes([an_outcome("a/infer/-/eager", facts={"kernels": "many"})], [odd]) == ()
