"""A run that another Pyrometer began is resumed only where this one understands it and its workers."""

from pathlib import Path
from typing import Any

import pytest

from runner import machine
from runner.execution import harness
from runner.journal import Journal
from runner.nodes import NodeMachines
from runner.worker.messages import PROTOCOL
from support.builders.journals import a_header, a_plan
from workflows.errors import CannotResume
from workflows.planning.plan_run import machine_of, resumable

RUN = "20260901-020000-00000001"
OWN = f"PROTOCOL = {PROTOCOL}\n"


def begun(folder: Path, messages: str = OWN, **changes: Any) -> Path:
    """A run of this machine of which nothing is measured, with a harness whose messages are these."""
    file = folder / "harness/runner/worker/messages.py"
    file.parent.mkdir(parents=True)
    file.write_text(messages)
    about: dict[str, Any] = {
        "harness": harness._digest({"runner/worker/messages.py": messages.encode()}),
        "harness_path": str(folder / "harness"),
        "machine": machine_of(machine.describe([]), NodeMachines()),
        "preset": {"fingerprint": "profile", "name": "quiet", "settings": {}, "cpus": []},
    }
    with Journal(folder / "runs" / RUN) as journal:
        journal.header(a_header(RUN, a_plan(), **(about | changes)).to_body())
    return journal.path.parent


def test_what_this_pyrometer_began_is_resumed(tmp_path: Path) -> None:
    header, _, contents = resumable(begun(tmp_path))
    assert contents.missing_replicates(header.replicates) == header.replicates


@pytest.mark.parametrize(
    ("messages", "changes"),
    [
        (f"PROTOCOL = {PROTOCOL + 1}\n", {}),
        (OWN, {"timing": {"seconds_of_another_version": 1.0}}),
        (OWN, {"comparison": {"rule_of_another_version": 1}}),
    ],
)
def test_what_this_pyrometer_does_not_understand_is_begun_anew(
    tmp_path: Path, messages: str, changes: dict[str, Any]
) -> None:
    folder = begun(tmp_path, messages, **changes)
    with pytest.raises(CannotResume, match=f"run {RUN} .*; start a new run$"):
        resumable(folder)


def test_a_harness_that_names_no_protocol_is_checked_when_it_measures(tmp_path: Path) -> None:
    header, own, _ = resumable(begun(tmp_path, "PROTOCOLS = 1\n"))
    assert (header.run, own.path.name) == (RUN, "harness")


def test_a_harness_of_which_a_power_cut_left_a_part_measures_nothing(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    (tmp_path / "harness/runner/worker/main.py").touch()
    with pytest.raises(CannotResume, match=f"run {RUN}: its harness .* is not what it was"):
        resumable(folder)
