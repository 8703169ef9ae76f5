"""Two environments of one fingerprint: one of them twice, or two that cannot be distinguished."""

from pathlib import Path

import pytest

from analysis.comparison.plan import Plan
from cli.context import context
from runner.environment import MeasuredEnvironment
from workflows.planning.plan_run import ProbedMachine, compare_builds
from workflows.planning.plan_upgrade import (
    _affordable,
    distinguish_environments,
    unmatched_waivers,
    waivers,
)


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        (
            "/old/bin/python",
            "note: both are the same environment (A/A test): any difference comes from the method or the "
            "machine\n",
        ),
        (
            "/new/bin/python",
            "note: the fingerprints of both environments are equal: a difference between them is outside "
            "what a fingerprint records\n",
        ),
    ],
)
def test_what_is_said_of_equal_fingerprints(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    new: str,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    facts = {"fingerprint": "print", "devices": []}
    sides = [MeasuredEnvironment("one", python, facts, (), {}) for python in ("/old/bin/python", new)]
    monkeypatch.chdir(tmp_path)
    probed = distinguish_environments(context(), ProbedMachine(tuple(sides), {}))
    assert capsys.readouterr().err == sentence
    assert len({one.fingerprint for one in probed.environments}) == 2


@pytest.mark.parametrize(("budget", "room"), [(40.0, "0 pairs"), (60.0, "1 pair"), (120.0, "2 pairs")])
def test_the_pairs_that_a_budget_has_room_for_are_counted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    budget: float,
    room: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "pyrometer.toml").touch()
    monkeypatch.chdir(tmp_path)
    _affordable(context(), Plan(8), budget, 50.0, over_suite=False)
    assert f"enough for about {room} of each case" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "noted"),
    [
        (("2.13.0+cpu", None), ("2.15.0+cu132", "13.2"), True),
        (("2.13.0", "13.0"), ("2.15.0+cpu", None), True),
        (("2.13.0+cpu", None), ("2.15.0+cpu", None), False),
        (("2.13.0+cu130", "13.0"), ("2.15.0+cu132", "13.2"), False),
    ],
)
def test_a_build_for_cpus_against_one_for_cuda_is_noted(
    old: tuple[str, str | None], new: tuple[str, str | None], noted: bool
) -> None:
    sides = [
        MeasuredEnvironment(name, "/bin/python", {"torch": torch, "cuda": cuda}, (), {})
        for name, (torch, cuda) in (("old", old), ("new", new))
    ]
    note = compare_builds(sides)
    assert bool(note) == noted
    if noted:
        assert old[0] in note and new[0] in note and "memory" in note


def test_what_is_waived_and_is_no_case_is_known() -> None:
    cases = ["resnet50/infer/-/eager", "mlp/infer/-/eager"]
    waived = waivers(["resnet50", "mlp/*", "resnet5O"], ["known"])
    assert unmatched_waivers(waived, cases) == ["resnet5O"]
