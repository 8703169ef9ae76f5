"""What differs between two environments, and the command that measures a case again."""

import shlex
from dataclasses import replace

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.decision.comparison import Comparison
from analysis.decision.what_would_decide import PairsToDecide
from records.fingerprints import AGAIN
from reports import sentences
from reports.markdown import upgrade_markdown
from reports.page import upgrade_html
from reports.report_context import EnvironmentChange, JudgedUpgrade, changes
from reports.upgrade_report import environment_of, judge_upgrade
from support.builders.run_records import a_run, an_environment
from support.builders.upgrade_reports import a_subject, reported


def test_what_differs_is_python_torch_cuda_and_packages_by_name() -> None:
    subject = a_subject()
    assert changes(subject.old, replace(subject.new, cuda="13.0")) == (
        EnvironmentChange("Python", "3.11.7", "3.12.4"),
        EnvironmentChange("PyTorch", "2.13.0+cpu", "2.15.0+cpu"),
        EnvironmentChange("CUDA", "", "13.0"),
        EnvironmentChange("numpy", "2.3.1", "2.4.0"),
        EnvironmentChange("setuptools", "80.9.0", ""),
        EnvironmentChange("triton", "", "3.8.0"),
    )


def test_equal_environments_differ_in_nothing() -> None:
    old = a_subject().old
    # Names are written in many ways, and the order is arbitrary.
    other = replace(old, name="other", packages=("jinja2==3.1.6", *old.packages[:2][::-1], "TORCH==9"))
    assert changes(old, other) == ()


def test_what_a_file_has_in_place_of_packages_is_none() -> None:
    for packages in (7, "torch", {"torch": "2.13.0"}, None):
        assert environment_of(replace(an_environment(), facts={"packages": packages})).packages == ()


def test_two_builds_of_one_version_differ_in_what_makes_them_two() -> None:
    facts = {
        "implementation": "CPython", "torch_git": "1" * 40, "cuda": "12.6", "cudnn": 90100, "hip": None,
        "debug": False, "build_digest": "aaaa", "packages": ["torch==2.13.0a0"],
    }  # fmt: skip
    other = {**facts, "torch_git": "2" * 40, "cudnn": 90700, "debug": True, "build_digest": "bbbb"}
    old, new = (
        replace(an_environment("2.13.0a0", name), facts=own)
        for name, own in (("good", facts), ("bad", other))
    )
    one = judge_upgrade(
        a_run(environments=[old, new]), Comparison(old.fingerprint, new.fingerprint, Plan(), Policy()), []
    )
    assert changes(one.subject.old, one.subject.new) == (
        EnvironmentChange("PyTorch's commit", "1" * 40, "2" * 40),
        EnvironmentChange("cuDNN", "90100", "90700"),
        EnvironmentChange("debug build", "", "yes"),
        EnvironmentChange("digest of the build's flags", "aaaa", "bbbb"),
    )
    for text in (upgrade_markdown(one), upgrade_html(one)):
        assert "No difference: the versions" not in text and "2" * 40 in text


def test_nothing_differs_only_where_the_fingerprints_are_one() -> None:
    subject = a_subject()
    again = replace(subject.old, name="again", fingerprint=subject.old.fingerprint + AGAIN)
    itself = replace(subject, new=again)
    assert sentences.no_difference(itself) == "No difference: the versions and packages are the same."
    odd = replace(subject, new=replace(again, fingerprint="b7d2f05e6a98c314"))
    assert sentences.no_difference(odd) == (
        "The recorded facts are the same, but the fingerprints differ: 0f3a6c2e9d1b4857 and b7d2f05e6a98c314."
    )
    _, results, upgrade = reported([])
    for report in (upgrade_markdown, upgrade_html):
        assert sentences.no_difference(itself) in report(JudgedUpgrade(itself, results, upgrade))
        assert sentences.no_difference(odd) in report(JudgedUpgrade(odd, results, upgrade))


def test_a_package_installed_twice_is_listed_with_both_versions() -> None:
    old = a_subject().old
    twice = replace(old, packages=(*old.packages, "numpy==1.26.0", "odd"))
    assert changes(old, twice) == (
        EnvironmentChange("numpy", "2.3.1", "1.26.0, 2.3.1"),
        EnvironmentChange("odd", "", "unknown"),
    )


def test_the_command_can_be_typed_as_it_stands() -> None:
    case = "mine/infer/name=it's odd/eager"
    assert shlex.split(a_subject().reproduce(case)) == [
        "pyrometer", "upgrade", "2.13.0", "/opt/venvs/torch 2.15/bin/python", "--case", case,
        "--preset", "quiet",
    ]  # fmt: skip


def test_what_decides_a_case_is_a_plan_of_its_own_size() -> None:
    subject = a_subject(options=("--suite", "cpu", "--pairs", "6", "--device", "cpu"))
    assert subject.to_decide(PairsToDecide("m/infer/-/eager", 13, 4.0, "shaky")).endswith(
        "--case m/infer/-/eager --suite cpu --device cpu --pairs 14"
    )
    compiles = replace(subject, options=("--cold-pairs", "1", "--pairs", "6", "--also", "compile_warm"))
    assert compiles.to_decide(
        PairsToDecide("m/infer/-/compile=default", 12, None, "worst", cold=True)
    ).endswith("--case m/infer/-/compile=default --also compile_warm --cold-pairs 24 --pairs 12")
    nothing = PairsToDecide("m/infer/-/eager", None, None, "shaky")
    assert subject.to_decide(nothing) == subject.reproduce("m/infer/-/eager")
