"""What `doctor`, `environments` and `db` say about this machine."""

import json

import pytest

from support.command_line import typed
from support.fakes.nvml import Shim
from support.site import Site

pytestmark = pytest.mark.torch


def test_doctor_says_what_can_be_measured_what_cannot_and_why(site: Site) -> None:
    with (site.folder / "pyrometer.toml").open("a") as file:
        file.write('[environments.gone]\npython = "gone/bin/python"\n')
    done = site.call("doctor", "--json", PATH=str(site.temporary))
    assert done.code == 0, done
    found = json.loads(done.out)
    assert found["environments"]["default"].startswith("torch 2.")
    assert "broken: environment gone: there is no interpreter at" in found["environments"]["gone"]
    assert found["data_dir"] == str(site.folder / ".pyrometer")
    assert any(sentence.startswith("numactl is not installed: ") for sentence in found["cannot"])


@pytest.mark.slow
def test_doctor_says_how_each_card_is_set(site: Site, shim: Shim) -> None:
    variables = shim.variables("two", "0 0 compute_mode 3")
    gpus = json.loads(site.call("doctor", "--json", **variables).out)["telemetry"]["gpu"]["gpus"]
    assert len(gpus) == 2 and gpus[0]["state"]["compute_mode"] == "exclusive process"
    assert "compute mode: exclusive process" in site.call("doctor", **variables).out


def test_the_environments_describe_themselves(site: Site) -> None:
    done = typed(site, "environments", "list", "--json")
    (default,) = json.loads(done.out)
    assert default["name"] == "default" and default["torch"].startswith("2.")
    # The fingerprint of an interpreter that Pyrometer did not build needs torch; `show` starts it.
    shown = json.loads(typed(site, "environments", "show", "default", "--json").out)
    assert default["fingerprint"] is None and shown["fingerprint"] and len(shown["torch_git"]) == 40


def test_the_database_is_upgraded_once(site: Site) -> None:
    (site.folder / "pyrometer.db").unlink()
    first, second = typed(site, "db", "upgrade"), typed(site, "db", "upgrade")
    assert (first.code, second.code) == (0, 0)
    assert first.out.startswith("upgraded from nothing to ")
    assert second.out == first.out.replace("upgraded from nothing to", "already at")
    bad = typed(site, "db", "upgrade", PYROMETER_DATABASE_URL="mysql://me:secret@host/name")
    assert "secret" not in bad.one_sentence()
