"""Kernels of a case in two environments: the one whose time moved most comes first."""

from typing import Any

from analysis.kernel_difference import STORED, Kernel, KernelChange, kernel_changes, stored_kernels
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
    assert [change.word for change in found.changes] == ["slower", "new", "gone"]


def test_a_case_without_a_table_on_one_side_is_not_compared() -> None:
    table = outcome("a/infer/-/eager", [GEMM, 1.0, 1.0])
    assert kernel_changes([table], [an_outcome("a/infer/-/eager")]) == ()
    assert kernel_changes([table], [outcome("b/infer/-/eager", [GEMM, 1.0, 1.0])]) == ()


def test_rows_of_another_form_are_left_out() -> None:
    odd = an_outcome("a/infer/-/eager", facts={"kernels": [[GEMM, 1.0, 3.0], ["short"], 7, [1, 2, 3]]})
    (found,) = kernel_changes([odd], [odd])
    assert found.changes == (KernelChange(GEMM, 3.0, 3.0, 1.0, 1.0),)
    assert kernel_changes([an_outcome("a/infer/-/eager", facts={"kernels": "many"})], [odd]) == ()


def test_kernels_of_one_side_are_its_medians_longest_first() -> None:
    processes = [
        outcome("a/infer/-/eager", [COPY, 1.0, 5.0], [GEMM, 2.0, us]) for us in (100.0, 102.0, 900.0)
    ]
    # What one process of three calls is no kernel of a step.
    processes[0].facts["kernels"].append([NEW, 1.0, 3000.0])
    assert stored_kernels(processes) == (Kernel(GEMM, 2.0, 102.0), Kernel(COPY, 1.0, 5.0))
    assert stored_kernels([an_outcome("a/infer/-/eager")]) == ()


def test_what_a_full_table_has_no_room_for_is_neither_new_nor_gone() -> None:
    before = [[f"kernel_{number}", 1.0, 1000.0 - number] for number in range(STORED)]
    after = [*before[:-1], ["long", 1.0, 5000.0]]
    for old, new, word in ((before, after, "new"), (after, before, "gone")):
        (found,) = kernel_changes([outcome("a/infer/-/eager", *old)], [outcome("a/infer/-/eager", *new)])
        # `kernel_29` takes less than the shortest of the other table: it may run there too.
        assert {one.name: one.word for one in found.changes if one.word != "same"} == {"long": word}


def test_a_full_table_without_a_kernel_does_not_halve_its_time() -> None:
    whole = [[f"kernel_{number}", 1.0, 1000.0 - number] for number in range(STORED)]
    cut = [*whole[:-1], ["now_and_then", 1.0, 980.0]]
    processes = [outcome("a/infer/-/eager", *whole), outcome("a/infer/-/eager", *cut)]
    last = whole[-1]
    assert Kernel(*last) in stored_kernels(processes)
    (found,) = kernel_changes(processes, [outcome("a/infer/-/eager", *whole)])
    assert next(one for one in found.changes if one.name == last[0]).word == "same"
