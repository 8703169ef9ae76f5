"""What a run's header says of its environments, as whoever measures needs it."""

import pytest

from runner.records import Target
from scheduled_jobs.header import Header


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
    header = Header(
        run="tonight",
        suite="smoke",
        started_at="2026-11-21T00:00:00+00:00",
        command="pyrometer run",
        machine={},
        environments=(environment,),
        profile={},
        harness="",
        harness_path="",
        user_version="",
        timing={},
        device="cpu",
        budget_seconds=60.0,
        planned=(),
    )
    again = Header.from_body(header.to_body())
    assert again.targets == {"print": Target("mine", "/mine/bin/python", "print", build)}
