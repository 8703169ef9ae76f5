"""A run's header about its environments, as the runner needs it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from runner.session_plan import TargetEnvironment
from workflows.run_header import Header


def a_header(*environments: Mapping[str, Any], device: str = "cpu") -> Header:
    """The header of a run that measures these environments."""
    return Header(
        run="tonight",
        suite="smoke",
        started_at="2026-11-21T00:00:00+00:00",
        command="pyrometer run",
        machine={},
        environments=environments,
        preset={},
        harness="",
        harness_path="",
        user_version="",
        timing={},
        device=device,
        budget_seconds=60.0,
        planned=(),
    )


@pytest.mark.parametrize(
    ("facts", "build"),
    [
        ({"torch": "2.13.0+cpu", "torch_git": "cf30153"}, "2.13.0+cpu (cf30153)"),
        ({"torch": "2.13.0+cpu", "torch_git": None}, "2.13.0+cpu"),
        ({}, ""),
    ],
)
def test_a_target_knows_its_torch(facts: dict[str, str | None], build: str) -> None:
    environment = {"name": "mine", "python": "/mine/bin/python", "fingerprint": "print", "facts": facts}
    header = a_header(environment)
    again = Header.from_body(header.to_body())
    assert again.targets == {"print": TargetEnvironment("mine", "/mine/bin/python", "print", build)}


def test_a_header_of_an_earlier_program_has_its_preset_under_another_name() -> None:
    header = replace(a_header(), preset={"name": "quiet"})
    body = header.to_body()
    assert Header.from_body({**body, "profile": body.pop("preset")}) == header


def sees(*uuids: str) -> Mapping[str, Any]:
    """An environment that sees so many devices, and their UUIDs."""
    return {"name": "mine", "facts": {"devices": [{"name": "H100", "uuid": uuid} for uuid in uuids]}}


@pytest.mark.parametrize(
    ("environments", "gpus"),
    [
        ([sees("", ""), sees("a", "b")], ("a", "b")),
        ([sees("a", "b"), sees("", "")], ("a", "b")),
        # Which of the two it is would not be known.
        ([sees("", "b"), sees("a", "b")], ("a", "b")),
        ([sees("", ""), sees("", "b")], ()),
        ([sees(), sees("a")], ("a",)),
        ([{"name": "mine", "facts": {"devices": [{"name": "H100"}]}}], ()),
    ],
)
def test_the_gpus_of_a_run_are_known_by_the_first_torch_that_tells_them(
    environments: list[Mapping[str, Any]], gpus: tuple[str, ...]
) -> None:
    assert a_header(*environments, device="cuda:0").gpus == gpus
    assert a_header(*environments).gpus == ()


@pytest.mark.parametrize(
    ("device", "mode", "why"),
    [
        ("cuda:0", "default", ""),
        (
            "cuda:0",
            "exclusive process",
            "its GPU is in compute mode exclusive process: one process at a time",
        ),
        # The CPU of such a machine takes any number.
        ("cpu", "exclusive process", ""),
    ],
)
def test_the_mode_of_its_cards_says_how_many_processes_they_take(device: str, mode: str, why: str) -> None:
    cards = {"0": {"compute_mode": mode, "numa_node": 1}, "1": {"compute_mode": "default"}}
    header = replace(a_header(device=device), machine={"conditions": {"gpus": cards}})
    assert header.one_process == why
    assert header.gpu_node == (1 if device == "cuda:0" else None)
    assert (a_header(device=device).one_process, a_header(device=device).gpu_node) == ("", None)
