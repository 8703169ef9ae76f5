"""What differs between two environments, and the command that measures a case again."""

import shlex
from dataclasses import replace

from report_builders import a_subject

from analysis.settling import Settling
from reports.subject import Change, changes


def test_what_differs_is_python_torch_cuda_and_packages_by_name() -> None:
    subject = a_subject()
    assert changes(subject.old, replace(subject.new, cuda="13.0")) == (
        Change("Python", "3.11.7", "3.12.4"),
        Change("PyTorch", "2.13.0+cpu", "2.15.0+cpu"),
        Change("CUDA", "", "13.0"),
        Change("numpy", "2.3.1", "2.4.0"),
        Change("setuptools", "80.9.0", ""),
        Change("triton", "", "3.8.0"),
    )


def test_equal_environments_differ_in_nothing() -> None:
    old = a_subject().old
    # Names are written in many ways, and the order is nobody's.
    other = replace(old, name="other", packages=("jinja2==3.1.6", *old.packages[:2][::-1], "TORCH==9"))
    assert changes(old, other) == ()


def test_a_package_that_is_there_twice_is_told_with_both_versions() -> None:
    old = a_subject().old
    twice = replace(old, packages=(*old.packages, "numpy==1.26.0", "odd"))
    assert changes(old, twice) == (Change("numpy", "2.3.1", "1.26.0, 2.3.1"), Change("odd", "", "unknown"))


def test_the_command_can_be_typed_as_it_stands() -> None:
    case = "mine/infer/name=it's odd/eager"
    assert shlex.split(a_subject().reproduce(case)) == [
        "pyrometer", "upgrade", "2.13.0", "/opt/venvs/torch 2.15/bin/python", "--case", case,
        "--profile", "quiet",
    ]  # fmt: skip


def test_what_settles_a_case_is_a_plan_of_its_own_size() -> None:
    subject = a_subject(options=("--suite", "cpu", "--pairs", "6", "--device", "cpu"))
    assert subject.settle(Settling("m/infer/-/eager", 13, 4.0, "shaky")).endswith(
        "--case m/infer/-/eager --suite cpu --device cpu --pairs 14"
    )
    compiles = replace(subject, options=("--cold-pairs", "1", "--pairs", "6", "--also", "compile_warm"))
    assert compiles.settle(Settling("m/infer/-/compile=default", 12, None, "worst", cold=True)).endswith(
        "--case m/infer/-/compile=default --also compile_warm --cold-pairs 24 --pairs 12"
    )
    nothing = Settling("m/infer/-/eager", None, None, "shaky")
    assert subject.settle(nothing) == subject.reproduce("m/infer/-/eager")
