"""A machine without GPU, numactl, compiler and write access: it measures, and says what it cannot and why."""

import sys

import pytest

from db.connection.engine import open_database
from db.runs import queries
from support.site import ADD, ROOT, Site, obey_permissions

pytestmark = pytest.mark.torch

ONCE = ("--replicates", "1")
PLACES = """
from configuration.data_dirs import resolve_places
from configuration.settings import load_settings
places = resolve_places(load_settings())
print(places.data_dir, places.database_url, *places.notes, sep="\\n")
"""


def test_a_poor_machine_is_measured_and_its_limits_are_reported(site: Site) -> None:
    home = site.temporary / "home"
    poor = {"HOME": str(home), "PATH": str(site.temporary), "CUDA_VISIBLE_DEVICES": ""}
    site.before_exec = obey_permissions
    (site.folder / "pyrometer.db").unlink()
    site.folder.chmod(0o555)
    try:
        done = site.call("run", "--suite", "quick", "--cases", "cases.py", "--case", ADD, *ONCE, **poor)
        places = site.execute(sys.executable, "-c", PLACES, **poor, PYTHONPATH=str(ROOT)).out
        suite = site.call("run", "--resume", "latest", **poor)
    finally:
        site.folder.chmod(0o755)
    assert done.code == 0, done
    state = home / ".local" / "state" / "pyrometer"
    data, url, *notes = places.splitlines()
    assert (data, url) == (str(state), f"sqlite:///{state}/pyrometer.db"), "where the dashboard looks"
    introduction = done.out[: done.out.index("  1/1 ")]
    folder = site.folder
    for sentence in (
        f"not here: {folder}/.pyrometer cannot be written (Permission denied), so data goes to {state}; ",
        f"not here: {folder}/pyrometer.db cannot be written (Permission denied), so the database goes to ",
        "not here: no CUDA device is visible to the measured PyTorch: ",
        "not here: numactl is not installed: memory cannot be bound to a NUMA node",
        "not here: no C++ compiler is installed: torch.compile cannot build CPU kernels, ",
        "not here: blocks are not repeated because of other programs' load: contention_limit is 1",
    ):
        assert sentence in introduction
    assert len(notes) == 2 and all(f"not here: {note}" in introduction for note in notes)
    with open_database(url, create=False) as database:
        summary = queries.recent_runs(database)[0]
        assert (summary.state, summary.counts) == ("complete", {"ok": 1})
        run = queries.run_record(database, summary.id)
        assert run is not None and set(notes) < set(run.notes)
    assert f"run {summary.id} is complete" in suite.one_sentence()
    assert not (folder / ".pyrometer").exists() and not (folder / "pyrometer.db").exists()
