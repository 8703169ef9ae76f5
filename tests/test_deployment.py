"""Image, services and units name commands, files and settings that exist, and close what they can."""

import configparser
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from sqlalchemy import make_url
from typer.testing import CliRunner
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from cli.registry import app
from configuration.settings import load_settings
from db.connection.engine import open_database
from db.errors import ReadOnly
from db.runs import queries
from db.runs.store import save_run
from runner.suites.suite import built_in
from support.builders.run_records import a_run
from support.fakes.nvml import Shim
from support.servers.loopback import Quiet, answering
from support.servers.ports import free_port
from support.servers.postgres import PostgresServer
from support.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[1]
PACKAGES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["build-backend"][
    "module-name"
]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if "PYROMETER_IMAGE" in service["image"])
WORKER: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.worker.yml").read_text())
#: Stands for the driver's program: what it prints comes from NVML, of which the tests have a stand-in.
NVIDIA_SMI = """#!{python}
import pynvml
pynvml.nvmlInit()
driver = pynvml.nvmlSystemGetDriverVersion()
for index in range(pynvml.nvmlDeviceGetCount()):
    print(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(index)) + ", " + driver)
"""
UNITS = sorted((ROOT / "deploy").glob("*.service"))
HOME = "/var/lib/pyrometer"


def assert_is_a_command(*words: str) -> None:
    """What stands behind `pyrometer` is a command with options that it has; values are not looked at."""
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0, f"pyrometer {shlex.join(words)}: {shown.output}"
    assert words[0] in shown.output.partition("\n\n")[0]


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions in order, their continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    return [
        (name, " ".join(rest.split()))
        for name, rest in re.findall(r"^([A-Z]+) (.*)$", text.replace("\\\n", " "), re.MULTILINE)
    ]


def last(name: str) -> str:
    """What the worker's image, the default one, has as its last instruction of that name."""
    return [rest for instruction, rest in instructions() if instruction == name][-1]


def unit(file: Path) -> configparser.ConfigParser:
    """A unit's sections; of a key that is given twice the last."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    parser.read(file)
    return parser


def documented_commands() -> list[list[str]]:
    """Every call of our program on the page, in its shell commands and between its lines, as arguments."""
    page = (ROOT / "docs/deployment.md").read_text()
    lines = re.findall(r"`(?!`)([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    for block in re.findall(r"```bash\n(.*?)```", page, re.DOTALL):
        lines += block.replace("\\\n", " ").splitlines()
    found: list[list[str]] = []
    for line in lines:
        words = shlex.split(line, comments=True)
        for at, word in enumerate(words[:-1]):
            ours = word == "pyrometer" and (at == 0 or words[at - 1] == "scheduler")
            if ours or word.endswith("/bin/pyrometer"):
                found.append(words[at + 1 :])
    return found


def test_every_service_runs_a_command_of_ours() -> None:
    assert OURS == ["dashboard", "migrate", "scheduler", "scheduler-gpu"]
    for name in OURS:
        assert_is_a_command(*SERVICES[name]["command"])


def test_the_image_runs_our_command_as_an_ordinary_user() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["pyrometer"]
    command = json.loads(last("CMD"))
    assert_is_a_command(*command)
    assert command[1:] == SERVICES["dashboard"]["command"][1:]
    targets = [rest.rpartition(" AS ")[2] for name, rest in instructions() if name == "FROM"]
    assert targets == ["build", "base", "app", "worker"]
    commands = [json.loads(rest) for name, rest in instructions() if name == "CMD"]
    assert commands == [SERVICES["dashboard"]["command"], command]
    # What is installed as root comes before the user that the image runs as.
    users = [rest for name, rest in instructions() if name == "USER"]
    assert users == ["pyrometer", "root", "pyrometer"]
    assert last("USER") == "pyrometer"
    assert last("WORKDIR") == last("VOLUME") == HOME
    assert "useradd --uid 10001" in (ROOT / "Dockerfile").read_text()


def test_the_image_can_be_built_without_a_registry_for_its_syntax() -> None:
    assert "# syntax" not in (ROOT / "Dockerfile").read_text()


def test_the_documented_commands_are_ours() -> None:
    commands = documented_commands()
    assert ["schedule", "trigger", "nightly"] in commands and ["db", "upgrade"] in commands
    for words in commands:
        assert_is_a_command(*words)


def test_the_build_sees_the_program_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == {
        *PACKAGES,
        "pyproject.toml",
        "uv.lock",
        "README.md",
        "LICENSE",
    }
    copied = [
        word
        for name, rest in instructions()
        if name == "COPY" and "--from" not in rest
        for word in rest.split()[:-1]
    ]
    assert sorted(copied) == [".", "pyproject.toml", "uv.lock"]


def test_what_is_installed_has_every_file_of_the_packages(tmp_path: Path) -> None:
    # As the Dockerfile builds it: a style sheet that stays behind would be missed in the image only.
    uv = Path(sys.executable).with_name("uv")
    built = subprocess.run(
        [uv, "build", "--quiet", "--offline", "--wheel", "--out-dir", tmp_path, ROOT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packed = {name for name in wheel.namelist() if not name.endswith("/")}
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sorted(files - packed) == []


@contextmanager
def answering_ready(status: int) -> Iterator[int]:
    """A real server that answers /readyz with this status and all else with 404; gives its port."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()
            self.wfile.write(b"1 200 1\n")

    with answering(Handler) as port:
        yield port


def probe(port: int) -> int:
    """How the image's health check ends when the dashboard listens on this port."""
    command: list[str] = json.loads(last("HEALTHCHECK").partition(" CMD ")[2])
    assert "/8501 " in command[-1]
    command[-1] = command[-1].replace("/8501 ", f"/{port} ")
    return subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_SECONDS).returncode


def test_the_health_check_asks_whether_the_dashboard_is_ready() -> None:
    with answering_ready(200) as port:
        assert probe(port) == 0
    assert probe(port) != 0
    with answering_ready(503) as port:
        assert probe(port) != 0


@contextmanager
def deployed_dashboard(folder: Path) -> Iterator[int]:
    """A dashboard that is started as its service is, on a free port; gives the port."""
    port = free_port()
    program = Path(sys.executable).with_name("pyrometer")
    process = subprocess.Popen(
        [program, *SERVICES["dashboard"]["command"], "--port", str(port)],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYROMETER_")},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout and f":{port}" in process.stdout.readline()
            yield port
        finally:
            process.terminate()


@pytest.mark.slow
def test_the_deployed_dashboard_goes_by_its_own_names_only(tmp_path: Path) -> None:
    with deployed_dashboard(tmp_path) as port:
        for name, refused in (("localhost", False), ("127.0.0.1", False), ("evil.example", True)):
            wire = socket.create_connection(("127.0.0.1", port))
            address = f"ws://{name}:{port}/_stcore/stream"
            try:
                with connect(address, sock=wire, additional_headers={"Origin": f"http://{name}:{port}"}):
                    assert not refused, name
            except InvalidStatus as error:
                assert refused and error.response.status_code == 403, name
        assert probe(port) == 0


def test_services_start_in_order_and_come_back() -> None:
    assert SERVICES["database"]["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert SERVICES["migrate"]["restart"] == "no"
    for name in set(OURS) - {"migrate"}:
        waits = {other: how["condition"] for other, how in SERVICES[name]["depends_on"].items()}
        done = "service_completed_successfully"
        assert waits == {"database": "service_healthy", "migrate": done, "roles": done}
        assert SERVICES[name]["restart"] == "unless-stopped"
    assert SERVICES["migrate"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert SERVICES["roles"]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert SERVICES["roles"]["restart"] == "no"


def test_services_have_no_more_rights_than_they_need() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"] and service["init"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "user", "pid", "network_mode"} & service.keys(), name
    for name in OURS:
        assert SERVICES[name]["cap_drop"] == ["ALL"]
        assert SERVICES[name].get("cap_add", []) in ([], ["SYS_NICE"])
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published == ["127.0.0.1:${PYROMETER_PORT:-8501}:8501"]
    assert SERVICES["database"]["networks"] == ["inside"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}


def test_only_one_scheduler_measures_a_machine() -> None:
    assert SERVICES["scheduler"]["profiles"] == ["cpu"]
    assert SERVICES["scheduler-gpu"]["profiles"] == ["gpu"]
    (device,) = SERVICES["scheduler-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    # The lock between containers lies in the temporary folder that they share.
    assert all("tmp:/tmp" in SERVICES[name]["volumes"] for name in OURS)


def test_only_the_migration_has_the_owner_s_url_and_the_dashboard_may_only_read() -> None:
    given = {name: set(service["secrets"]) for name, service in SERVICES.items()}
    assert [name for name in given if "database_url" in given[name]] == ["migrate"]
    assert [name for name in given if "database_password" in given[name]] == ["database", "roles"]
    assert [name for name in given if "writer_url" in given[name]] == ["scheduler", "scheduler-gpu"]
    (own,) = SERVICES["dashboard"]["secrets"]
    file = SERVICES["dashboard"]["environment"]["PYROMETER_DATABASE_URL_FILE"]
    assert file == f"/run/secrets/{own}"
    # It writes only where .env says so.
    assert own == "${PYROMETER_DASHBOARD_ACCOUNT:-reader}_url"
    assert {"reader_url", "writer_url"} <= COMPOSE["secrets"].keys()
    assert f"data:{HOME}:ro" in SERVICES["dashboard"]["volumes"]
    assert len(SERVICES["dashboard"]["volumes"]) == len(SERVICES["scheduler"]["volumes"])
    assert SERVICES["dashboard"]["volumes"][1:] == SERVICES["scheduler"]["volumes"][1:]


@pytest.mark.postgres
def test_the_accounts_of_the_services_can_do_what_they_must_and_no_more(
    prepared: Path, postgres: PostgresServer
) -> None:
    url = postgres.new_database("postgres")
    command = [
        word.replace("$$", "$")
        .replace("/run/secrets", str(prepared / "secrets"))
        .replace("/roles.sql", str(ROOT / "deploy/roles.sql"))
        for word in SERVICES["roles"]["command"]
    ]
    about = {
        "PGHOST": str(postgres.folder),
        "PGDATABASE": make_url(url).database or "",
        "PGUSER": "pyrometer",
    }
    assert about.keys() == SERVICES["roles"]["environment"].keys()
    path = {"PATH": f"{postgres.binaries}:{os.environ['PATH']}"}
    # As at each start.
    for _ in range(2):
        done = subprocess.run(command, env={**path, **about}, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    writer, reader = (
        load_settings(
            cwd=prepared, environ={"PYROMETER_DATABASE_URL_FILE": f"secrets/{role}_url"}
        ).database_url
        for role in ("writer", "reader")
    )
    # The test's server has no address: the account counts, and that it has a password.
    local = make_url(url)
    as_writer, as_reader = (
        local.set(username=make_url(each).username).render_as_string(hide_password=False)
        for each in (writer, reader)
    )
    with open_database(as_writer, create=False) as database:
        save_run(database, a_run())
    with open_database(as_reader, create=False) as database:
        assert queries.count_runs(database) == 1
        with pytest.raises(ReadOnly):
            save_run(database, a_run("another"))
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT rolname, rolpassword FROM pg_authid WHERE rolname LIKE 'pyrometer%er' ORDER BY 1"
        ).fetchall()
    kept = {name: password for name, password in found if password}
    assert kept.keys() == {"pyrometer_reader", "pyrometer_writer"}
    assert all(password.startswith("SCRAM-SHA-256$") for password in kept.values())
    postgres.drop_database(url)


def test_passwords_are_in_files_that_the_services_are_given() -> None:
    for name, service in SERVICES.items():
        assert {by_default(secret) for secret in service["secrets"]} <= COMPOSE["secrets"].keys()
        for variable, value in service["environment"].items():
            if variable.endswith("_FILE"):
                assert value.removeprefix("/run/secrets/") in service["secrets"], name
        assert not {key for key in service["environment"] if re.search("PASSWORD$|URL$", key)}


def by_default(text: str) -> str:
    """The text as Compose has it where no variable is set."""
    return re.sub(r"\$\{\w+:-(\w*)\}", r"\1", text)


def test_the_fleet_on_kubernetes_runs_commands_of_ours_with_settings_that_exist(tmp_path: Path) -> None:
    (cluster,) = (
        each
        for each in yaml.safe_load_all((ROOT / "deploy/kuberay.yaml").read_text())
        if each["kind"] == "RayCluster"
    )
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    pods = [group["template"]["spec"] for group in groups]
    containers = [container for pod in pods for container in pod["containers"]]
    assert [each["name"] for each in containers] == ["head", "scheduler", "node"]
    for pod in pods:
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for each in pod["containers"] for mount in each["volumeMounts"]} == volumes
    # The folder of a machine belongs to root when it is made: the image's user writes to it.
    (data,) = (volume for volume in pods[1]["volumes"] if volume["name"] == "data")
    (owner,) = pods[1]["initContainers"]
    user, group = (pods[1]["securityContext"][name] for name in ("runAsUser", "runAsGroup"))
    (mount,) = owner["volumeMounts"]
    assert "hostPath" in data and mount["name"] == "data"
    assert owner["command"] == ["chown", f"{user}:{group}", mount["mountPath"]]
    assert (owner["securityContext"]["runAsUser"], owner["securityContext"]["runAsNonRoot"]) == (0, False)
    assert f"--uid {user} " in (ROOT / "Dockerfile").read_text()
    for each in containers:
        program, *words = each["command"]
        assert program == "pyrometer"
        assert_is_a_command(*words)
        variables = {one["name"]: one.get("value", "10.0.0.5") for one in each["env"]}
        settings = {
            name: text.replace("$(POD_IP)", variables.get("POD_IP", "")) for name, text in variables.items()
        }
        for name in ("POD_IP", "PYROMETER_CONFIG", "PYROMETER_DATABASE_URL_FILE"):
            settings.pop(name, None)
        assert load_settings(cwd=tmp_path, environ=settings).fleet.token_file == Path(
            "/run/secrets/fleet/token"
        )
    # No node has the database's credentials.
    assert "DATABASE" not in json.dumps(pods[1])


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A folder in which `deploy/prepare` was run."""
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    prepare(tmp_path)
    return tmp_path


def prepare(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The ended `deploy/prepare` of a folder."""
    return subprocess.run(
        [folder / "deploy/prepare"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={**os.environ, **variables},
    )


def prepared_with_gpus(folder: Path, shim: Shim, script: str, *more: str) -> tuple[str, str, dict[str, str]]:
    """`deploy/prepare` beside a driver that plays a script: what it said, and the lines of .env."""
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    smi = folder / "nvidia-smi"
    smi.write_text(NVIDIA_SMI.format(python=sys.executable))
    smi.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    done = prepare(folder, PATH=path, **shim.variables(script, *more))
    assert done.returncode == 0, done.stderr
    lines = (folder / ".env").read_text().splitlines()
    return done.stdout, done.stderr, dict(line.split("=", 1) for line in lines if not line.startswith("#"))


@pytest.mark.slow
def test_prepare_has_a_gpu_measured_on_the_gpu(tmp_path: Path, shim: Shim) -> None:
    said, warned, variables = prepared_with_gpus(tmp_path, shim, "two")
    assert variables["COMPOSE_PROFILES"] == "gpu" and variables["PYROMETER_SHM"] == "6gb"
    settings = load_settings(cwd=tmp_path, environ={})
    suite = settings.schedules["nightly"].suite
    assert suite == "nightly-gpu" and built_in()[suite].device == "cuda"
    assert "device  2 x " in said and 'suite = "nightly-gpu"' in said and warned == ""


@pytest.mark.slow
def test_prepare_warns_of_a_driver_that_is_too_old_for_releases(tmp_path: Path, shim: Shim) -> None:
    said, warned, _ = prepared_with_gpus(tmp_path, shim, "h200", "0 - driver 570.86.15")
    assert "driver 570.86.15" in said and "needs driver 580" in warned


def test_prepare_says_that_a_machine_without_a_gpu_measures_its_cpu(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    done = prepare(tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert "device  the CPU" in done.stdout and 'suite = "cpu"' in done.stdout


def test_the_app_and_the_worker_have_an_image_each_that_is_built_once() -> None:
    built = {name: SERVICES[name]["build"]["target"] for name in OURS if "build" in SERVICES[name]}
    # Of two schedulers one runs.
    assert built == {"migrate": "app", "scheduler": "worker", "scheduler-gpu": "worker"}
    image = "${PYROMETER_IMAGE:-pyrometer}"
    for name in OURS:
        assert SERVICES[name]["image"] == f"{image}-{built.get(name, 'app')}"
        # Else it would be looked for in a registry before it is built.
        assert SERVICES[name]["pull_policy"] == ("build" if name in built else "never")
    for name in set(OURS) - {"migrate"}:
        assert SERVICES[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


@pytest.mark.parametrize("name", ["scheduler", "scheduler-gpu"])
def test_a_worker_is_the_scheduler_without_what_the_first_machine_has(name: str) -> None:
    left_out = ("depends_on", "networks", "pull_policy")
    first = {key: value for key, value in SERVICES[name].items() if key not in left_out}
    assert WORKER["services"][name] == first
    assert WORKER["services"].keys() == {"scheduler", "scheduler-gpu"}
    assert WORKER["volumes"] == {part: COMPOSE["volumes"][part] for part in ("data", "tmp")}


def test_the_database_is_opened_on_an_address_that_is_given() -> None:
    opened = yaml.safe_load((ROOT / "deploy/compose.database.yml").read_text())["services"]["database"]
    (port,) = opened["ports"]
    assert port.startswith("${PYROMETER_DATABASE_ADDRESS:?") and port.endswith("}:5432:5432")
    assert set(opened["networks"]) == COMPOSE["networks"].keys()


def test_a_mirrors_configuration_reaches_the_build_and_each_scheduler() -> None:
    mirror = yaml.safe_load((ROOT / "deploy/compose.mirror.yml").read_text())["services"]
    built = {name for name in OURS if "build" in SERVICES[name]}
    assert {name for name in mirror if "build" in mirror[name]} == built
    assert {name for name in mirror if "environment" in mirror[name]} == {"scheduler", "scheduler-gpu"}


def test_prepare_makes_what_the_services_need(prepared: Path) -> None:
    needed = [Path(secret["file"]) for secret in COMPOSE["secrets"].values()]
    assert all((prepared / file).stat().st_mode & 0o777 == 0o644 for file in needed)
    assert (prepared / "secrets").stat().st_mode & 0o777 == 0o700
    password = (prepared / "secrets/database_password").read_text()
    assert re.fullmatch("[0-9a-f]{48}", password)
    environ = {"PYROMETER_DATABASE_URL_FILE": "secrets/database_url"}
    url = load_settings(cwd=prepared, environ=environ).database_url
    assert url == f"postgresql://pyrometer:{password}@database/pyrometer"
    passwords = {password}
    for role in ("writer", "reader"):
        environ = {"PYROMETER_DATABASE_URL_FILE": f"secrets/{role}_url"}
        own = make_url(load_settings(cwd=prepared, environ=environ).database_url)
        assert (own.username, own.host, own.database) == (f"pyrometer_{role}", "database", "pyrometer")
        roles = (prepared / "secrets/database_roles").read_text()
        assert f"ALTER ROLE pyrometer_{role} PASSWORD '{own.password}';\n" in roles
        passwords.add(str(own.password))
    assert len(passwords) == 3
    variables = dict(
        line.split("=", 1)
        for line in (prepared / ".env").read_text().splitlines()
        if not line.startswith("#")
    )
    assert variables["COMPOSE_PROFILES"] in ("cpu", "gpu")
    assert variables["PYROMETER_MACHINE"] and variables["PYROMETER_DASHBOARD_ACCOUNT"] == "reader"


def test_prepare_replaces_nothing(prepared: Path) -> None:
    def contents() -> dict[Path, bytes]:
        return {file: file.read_bytes() for file in prepared.rglob("*") if file.is_file()}

    before = contents()
    assert prepare(prepared).returncode == 0
    assert contents() == before


def test_prepare_refuses_a_password_that_it_cannot_put_into_a_url(prepared: Path) -> None:
    (prepared / "secrets/database_url").unlink()
    (prepared / "secrets/database_password").write_text("p@ss")
    refused = prepare(prepared)
    assert refused.returncode == 1 and "write secrets/database_url yourself" in refused.stderr
    assert not (prepared / "secrets/database_url").exists()


def test_only_the_scheduler_can_send_notifications() -> None:
    assert [name for name in SERVICES if "alerts" in SERVICES[name]["secrets"]] == [
        "scheduler",
        "scheduler-gpu",
    ]


def test_what_prepare_makes_is_never_committed_nor_built_in() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"/secrets/", "/.env"} <= set(ignored)


def test_the_deployed_settings_are_settings(prepared: Path) -> None:
    settings = load_settings(cwd=prepared, environ={})
    assert settings.file == prepared / "pyrometer.toml"
    assert "nightly" in settings.schedules
    targets = COMPOSE["secrets"].keys() & {Path(str(settings.alerts.targets_file)).name}
    assert targets == {"alerts"}


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.stem)
def test_units_run_a_command_of_ours_where_its_settings_lie(file: Path) -> None:
    service = unit(file)["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program == "/opt/pyrometer/.venv/bin/pyrometer"
    assert_is_a_command(*words)
    assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}" == HOME
    assert (service["User"], service["NoNewPrivileges"], service["ProtectSystem"]) == (
        "pyrometer",
        "yes",
        "strict",
    )


def test_no_unit_hides_the_lock_between_runs_or_filters_what_is_measured() -> None:
    for name in ("scheduler", "fleet-node"):
        service = unit(ROOT / f"deploy/pyrometer-{name}.service")["Service"]
        assert "PrivateTmp" not in service and "/tmp" in service["ReadWritePaths"].split()
        assert [key for key in service if key.startswith(("SystemCall", "Restrict", "Lock"))] == []


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.stem)
def test_systemd_understands_the_units(file: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / file.name
    program = Path(sys.executable).with_name("pyrometer")
    unit.write_text(file.read_text().replace("/opt/pyrometer/.venv/bin/pyrometer", str(program)))
    verified = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
