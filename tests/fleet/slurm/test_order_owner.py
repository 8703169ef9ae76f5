"""An order is a command line: a job obeys none that another user could have written."""

import os
from pathlib import Path

import pytest

from fleet.slurm.job import Job, JobFolder
from fleet.slurm.node import _foreign
from support.site import unavailable


@pytest.fixture
def order(tmp_path: Path) -> Path:
    folder = tmp_path / "token"
    folder.mkdir(mode=0o755)
    (folder / "order.json").write_text("{}")
    return folder


def test_an_order_of_ours_is_obeyed(order: Path) -> None:
    assert _foreign(order) == ""


@pytest.mark.parametrize("name", [".", "order.json"])
def test_what_every_user_may_write_is_refused(order: Path, name: str) -> None:
    (order / name).chmod(0o777)
    assert "is not ours alone" in _foreign(order)


@pytest.mark.parametrize("name", [".", "order.json"])
def test_an_order_of_another_user_is_refused(order: Path, name: str) -> None:
    if os.getuid() != 0:
        unavailable("only root may give files away")
    os.chown(order / name, 65534, 65534)
    assert "is not ours alone" in _foreign(order)


def test_a_link_to_an_order_is_refused(order: Path) -> None:
    (order / "order.json").rename(order / "other.json")
    (order / "order.json").symlink_to(order / "other.json")
    assert "is not ours alone" in _foreign(order)


def test_no_other_user_reads_the_variables_of_a_job(tmp_path: Path) -> None:
    variables = {"PYROMETER_ENVIRONMENTS__DEFAULT__INDEX": "https://ada:secret@packages.example.com/simple"}
    folder = JobFolder(tmp_path / "jobs" / ("0" * 32))
    job = Job("node-1", "", "", ("pyrometer",), "/", variables, "/data", "/environments", 60.0, 5.0)
    folder.write_job(job)
    assert folder.job == job
    assert folder.path.stat().st_mode & 0o077 == 0
    assert _foreign(folder.path) == ""
