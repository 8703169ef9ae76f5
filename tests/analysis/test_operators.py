"""Operator tables: whose time is whose, and what a difference says."""

from datetime import UTC, datetime
from typing import Any

import pytest

from analysis.operators import (
    KERNEL,
    OPERATOR,
    OperatorChange,
    OriginDifference,
    difference,
    operators,
    total_us,
    unlike,
)
from records.outcomes import OperatorTable


def a_row(name: str, own_us: float, calls: float = 1.0, kind: str = OPERATOR) -> dict[str, Any]:
    """A row as it stands in an outcome's facts; an operator's launches take ten times as long."""
    place = "self_cpu_us" if kind == OPERATOR else "self_device_us"
    other = {"self_device_us": 10 * own_us} if kind == OPERATOR else {}
    return {"name": name, "kind": kind, "calls": calls, place: own_us, **other}


A = operators([a_row("addmm", 30.0, 3), a_row("copy_", 4.0), a_row("gemm", 70.0, kind=KERNEL)])
B = operators([a_row("addmm", 20.0, 3), a_row("relu", 7.0, 2), a_row("gemm", 71.0, kind=KERNEL)])


def test_the_longest_own_time_comes_first_and_is_counted_once() -> None:
    assert [(row.name, row.own_us) for row in A] == [("gemm", 70.0), ("addmm", 30.0), ("copy_", 4.0)]
    assert (total_us(A, OPERATOR), total_us(A, KERNEL)) == (34.0, 70.0)


def test_what_a_row_does_not_say_is_zero() -> None:
    (row,) = operators([{"name": "x", "kind": OPERATOR, "calls": None}])
    assert (row.calls, row.own_us, row.self_memory_bytes) == (0.0, 0.0, 0.0)


def test_a_difference_is_b_minus_a_with_the_rows_of_one_side_in_it() -> None:
    changes = difference(A, B)
    assert [(c.name, c.delta_us) for c in changes] == [
        ("addmm", -10.0),
        ("relu", 7.0),
        ("copy_", -4.0),
        ("gemm", 1.0),
    ]
    assert changes[1] == OperatorChange("relu", OPERATOR, None, 2.0, None, 7.0)
    assert changes[2] == OperatorChange("copy_", OPERATOR, 1.0, None, 4.0, None)


def test_the_other_way_round_every_sign_changes() -> None:
    there = {(c.name, c.kind): c.delta_us for c in difference(A, B)}
    back = {(c.name, c.kind): -c.delta_us for c in difference(B, A)}
    assert there == back


def test_a_table_differs_from_itself_by_nothing() -> None:
    changes = difference(A, A)
    assert {c.delta_us for c in changes} == {0.0}
    assert len(changes) == len(A)


def test_a_kernel_and_an_operator_of_one_name_are_two() -> None:
    table = operators([a_row("same", 1.0), a_row("same", 2.0, kind=KERNEL)])
    assert [(c.kind, c.self_us_b) for c in difference([], table)] == [(KERNEL, 2.0), (OPERATOR, 1.0)]


def a_table(**changed: str) -> OperatorTable:
    """An operator table without rows."""
    about = {"case": "mlp/infer/-/eager", "environment": "2.13.0", "torch_version": "2.13.0+cpu"}
    about |= {"hardware": "H200", "preset": "quiet", "device": "cpu", "harness": "0123456789ab"}
    return OperatorTable("run", datetime(2026, 11, 20, tzinfo=UTC), **{**about, **changed}, rows=())


@pytest.mark.parametrize("name", ["hardware", "preset", "device", "harness"])
def test_tables_that_differ_are_refused_with_the_reason(name: str) -> None:
    one = a_table()
    assert unlike(one, one) is None
    assert unlike(one, a_table(**{name: "another"})) == OriginDifference(name, getattr(one, name), "another")


def test_a_technique_and_an_environment_may_differ_and_a_workload_may_not() -> None:
    one = a_table()
    assert unlike(one, a_table(case="mlp/infer/-/compile=default", environment="2.14.0")) is None
    assert unlike(one, a_table(case="cnn/infer/-/eager")) == OriginDifference(
        "workload", "mlp/infer/-", "cnn/infer/-"
    )
