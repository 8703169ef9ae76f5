"""What Ray's processes are started with: every holder of the fleet's token can read it."""

import json
from pathlib import Path

import pytest

from fleet.ray.processes import ENVIRONMENT, FOLDER, RayMember, node_variables, variables

SECRETS = {
    "PYROMETER_DATABASE_URL": "postgresql://pyrometer:s3cret@db/pyrometer",
    "PYROMETER_DATABASE_URL_FILE": "/run/secrets/s3cret",
    "PYROMETER_ALERTS__TEAM": "mailto://s3cret",
    "PYROMETER_DASHBOARD__COOKIE_SECRET": "s3cret",
    "PGPASSWORD": "s3cret",
    "PGPASSFILE": "/etc/s3cret",
}
OTHERS = {
    "PATH": "/usr/bin",
    "LD_LIBRARY_PATH": "/opt/cuda",
    "PYROMETER_MACHINE": "a",
    "OMP_NUM_THREADS": "4",
}


@pytest.mark.parametrize(
    "make", [variables, lambda token, environ: node_variables(token, Path("/n"), environ)]
)
def test_no_process_of_ray_has_a_secret_of_ours(make: object) -> None:
    assert callable(make)
    made = make(Path("/token"), {**OTHERS, **SECRETS})
    assert "s3cret" not in json.dumps(made)
    assert made["LD_LIBRARY_PATH"] == "/opt/cuda" and made["RAY_AUTH_TOKEN_PATH"] == "/token"
    # Of ours only the two variables that the agent reads.
    assert {name for name in made if name.startswith("PYROMETER_")} <= {FOLDER, ENVIRONMENT}


def test_the_children_of_a_node_have_its_other_variables() -> None:
    made = node_variables(Path("/token"), Path("/n"), {**OTHERS, **SECRETS})
    assert json.loads(made[ENVIRONMENT]) == OTHERS


def test_ray_opens_the_documented_ports_and_no_others() -> None:
    command = RayMember("10.0.0.5", 10000, Path("/token"), Path("/f")).head(6379)
    ports = dict(each.lstrip("-").split("=") for each in command if "-port=" in each)
    assert ports == {
        "port": "6379",
        "node-manager-port": "10000",
        "object-manager-port": "10001",
        "runtime-env-agent-port": "10002",
        "min-worker-port": "10010",
        "max-worker-port": "10099",
    }
