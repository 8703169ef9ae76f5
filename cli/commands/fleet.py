"""`pyrometer fleet`: start and join a fleet, and its status as tables."""

import json
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from analysis.staleness import part_label
from common.file_lock import lock_file
from common.text import printable, printable_lines
from configuration.schema import PORT, host_and_port
from configuration.suggestions import unknown
from fleet.ray import processes as ray
from fleet.status import configured_fleet, drain, drained_nodes, undrain
from reports.text.staleness_text import in_words, why_it_waits
from runner.telemetry.gpu import probe
from scheduled_jobs.scheduler.process_identity import machine_name
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.fleet_status import FleetStatus, NodeStatus

from ..context import USAGE, context, in_one_sentence, say
from ..options import Json
from ..output.console import report_console, table

_NOTHING = "-"


def _by_name(found: FleetStatus) -> list[NodeStatus]:
    return [found.nodes[name] for name in sorted(found.nodes)]


def nodes_table(found: FleetStatus) -> Table:
    """A row for each machine: its task, its labels, its hardware."""
    listed = table("machine", "state", "tasks", "labels", "hardware", "version")
    for node in _by_name(found):
        doing = [f"task {task.id}: {part_label(task.schedule, task.part)}" for task in node.doing]
        state = node.state
        if state == "silent" and node.seen_at is not None:
            state = f"silent for {in_words(found.now - node.seen_at)}"
        labels = ", ".join(label for label in node.labels if label != node.name)
        what = str(node.facts.get("hardware") or _NOTHING), str(node.facts.get("version") or _NOTHING)
        cells = (node.name, state, "\n".join(doing) or _NOTHING, labels or _NOTHING, *what)
        listed.add_row(*(escape(printable(cell)) for cell in cells))
    return listed


def waiting_table(found: FleetStatus) -> Table:
    """The waiting tasks, with the reasons."""
    listed = table("task", "schedule", "label", "why it waits")
    for task, why in found.waiting:
        cells = (str(task.id), part_label(task.schedule, task.part), task.label or "any machine")
        listed.add_row(*(escape(printable(cell)) for cell in (*cells, why_it_waits(task, why))))
    return listed


def examined_table(found: FleetStatus) -> Table:
    """The report of each machine's doctor."""
    listed = table("machine", "hardware", "GPUs", "environments", "telemetry", "missing")
    for node in _by_name(found):
        facts = node.facts
        if not facts.get("hardware"):
            listed.add_row(escape(node.name), "not reported yet", *[_NOTHING] * 4)
            continue
        capabilities = _dicts(facts.get("capabilities"))
        can = sorted({str(one.get("name")) for one in capabilities if one.get("present")})
        cells = (
            node.name,
            str(facts["hardware"]),
            "\n".join(_texts(facts.get("gpus"))) or "none",
            "\n".join(f"{one.get('name')}: {one.get('says')}" for one in _dicts(facts.get("environments")))
            or "none",
            ", ".join(can) or "nothing",
            "\n".join(_texts(facts.get("cannot"))) or _NOTHING,
        )
        listed.add_row(*(escape(printable_lines(cell)) for cell in cells))
    return listed


def _texts(value: object) -> Iterable[str]:
    return map(str, value) if isinstance(value, list) else ()


def _dicts(value: object) -> Sequence[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


app = typer.Typer(help="Measure on several machines for one head.", no_args_is_help=True)

_NO_FLEET = (
    'no fleet is configured: this machine measures alone; [fleet] engine = "ray" or "slurm" in '
    "pyrometer.toml configures one"
)
#: The text in Ray's log after it has started.
_STARTED = "Ray runtime started."
#: Parts of a GPU's name that are left out of its label.
_BRANDS = frozenset({"nvidia", "tesla", "geforce", "quadro"})
_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
Ports = Annotated[
    int,
    typer.Option(
        min=1024,
        max=65536 - ray.PORTS,
        help=f"the first of the {ray.PORTS} ports that this machine uses for the fleet",
    ),
]

_HEAD_HELP = f"""Run the head of a fleet, until Ctrl-C or SIGTERM. The head does not measure.

\b
[fleet]                        in pyrometer.toml
engine = "ray"
address = "10.0.0.5:{PORT}"       an address of this machine that all others reach

The first start creates the token of the fleet. A process that has it can run any program on every
machine of the fleet. Run `pyrometer scheduler` on the same machine; it assigns the tasks. See docs/fleet.md.
"""


@app.command("head", help=_HEAD_HELP)
def head(ports: Ports = 10000) -> None:
    """Run a head (the help text is a constant, which keeps its layout)."""
    with in_one_sentence():
        app_context = context()
        fleet = app_context.settings.fleet
        if fleet.engine == "slurm":
            raise UsageError("Slurm needs no head: start `pyrometer scheduler`")
        ray.check_installed()
        if fleet.address is None:
            raise UsageError(
                f'no address of the head: set [fleet] address = "ADDRESS:{PORT}" in pyrometer.toml'
            )
        if fleet.engine == "none":
            raise UsageError('no fleet is configured: set [fleet] engine = "ray" in pyrometer.toml')
        host, port = host_and_port(fleet.address)
        _check_ports(ports, port)
        ip = ray.resolve(host)
        ray.check_local_address(ip)
        token = fleet.token(app_context.places.data_dir)
        if ray.make_token(token):
            say(f"created the token of the fleet: {token}")
        ray.check_token(token)
        with _alone(app_context, "head") as folder:
            member = ray.RayMember(ip, ports, token, folder)
            say(f"on each other machine: copy {token} to fleet/token in its data folder, then")
            say(f"  pyrometer fleet join {fleet.address}")
            code = _run_ray(
                app_context,
                "head",
                member.head(port),
                ray.variables(token),
                f"the head listens at {ip}:{port}",
            )
    raise typer.Exit(code)


_JOIN_HELP = f"""Join the fleet whose head listens at ADDRESS, and measure for it until Ctrl-C or SIGTERM.

\b
pyrometer fleet join 10.0.0.5:{PORT}
pyrometer fleet join 10.0.0.5:{PORT} --label rack=7 --label owner=vision

Needs a copy of the head's token: the file fleet/token in the data folder. A schedule selects this machine by
its name, by machine_labels in its pyrometer.toml, by --label, or by the name of its GPU. When it is stopped,
a run that is measuring here keeps its finished results.
"""


@app.command("join", help=_JOIN_HELP)
def join(
    address: Annotated[
        str | None,
        typer.Argument(help="address of the head, HOST:PORT [default: [fleet] address]", show_default=False),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="a label of this machine, KEY=VALUE (repeatable)")
    ] = None,
    ip: Annotated[
        str | None,
        typer.Option(
            "--ip", help="address of this machine [default: that of the interface towards the head]"
        ),
    ] = None,
    ports: Ports = 10000,
) -> None:
    """Run a node (the help text is a constant, which keeps its layout)."""
    with in_one_sentence():
        app_context = context()
        ray.check_installed()
        address = address or app_context.settings.fleet.address
        if address is None:
            raise UsageError(
                f"give the address of the head: HOST:PORT, such as 10.0.0.5:{PORT}, or [fleet] address"
            )
        try:
            host, port = host_and_port(address)
        except ValueError:
            raise UsageError(f'"{address}" is not HOST:PORT of a head, such as 10.0.0.5:{PORT}') from None
        labels = {**_accelerator(), **_labels(label or [])}
        token = app_context.settings.fleet.token(app_context.places.data_dir)
        ray.check_token(token)
        there = ray.resolve(host)
        own_address = ray.local_address_towards(there, port)
        if ip is not None:
            ray.check_local_address(ip)
        with _alone(app_context, "node") as folder:
            command = ray.RayMember(ip or own_address, ports, token, folder).node(
                f"{there}:{port}", machine_name(), labels
            )
            sentence = f"{machine_name()} measures for {address}"
            code = _run_ray(app_context, "node", command, ray.node_variables(token, Path.cwd()), sentence)
    raise typer.Exit(code)


@app.command("status")
def status(as_json: Json = False) -> None:
    """List the machines of the fleet with their tasks, then waiting tasks and why they wait.

    The exit code is 0 also if no fleet is configured.
    """
    with in_one_sentence():
        app_context = context(reading=True)
        if app_context.settings.fleet.engine == "none":
            typer.echo(
                json.dumps({"nodes": [], "waiting": [], "notes": [_NO_FLEET]}) if as_json else _NO_FLEET
            )
            return
        found = configured_fleet(app_context)
    if as_json:
        typer.echo(json.dumps(found.body(), indent=2))
        return
    console = report_console()
    for note in found.notes:
        say(f"note: {note}")
    if not found.nodes:
        say("no machine has joined: `pyrometer fleet join` on each")
    else:
        console.print(nodes_table(found))
    if found.waiting:
        console.print()
        console.print(waiting_table(found))


@app.command("drain")
def drain_node(
    node: Annotated[str, typer.Argument(help="a machine of the fleet, by its name")],
    undone: Annotated[bool, typer.Option("--undo", help="assign tasks to it again")] = False,
) -> None:
    """Assign no new tasks to a machine. It finishes its tasks; then it can be stopped or upgraded."""
    with in_one_sentence():
        app_context = context()
        data_dir = app_context.places.data_dir
        if undone:
            if not undrain(data_dir, node):
                raise UsageError(unknown("drained machine", node, drained_nodes(data_dir)))
            typer.echo(f"{node} gets tasks again")
            return
        found = configured_fleet(app_context)
        if node not in found.nodes and node not in drained_nodes(data_dir):
            raise UsageError(unknown("machine of the fleet", node, found.nodes))
        drain(data_dir, node)
    typer.echo(f"{node} gets no new tasks; {_left_to_do(found, node)}")


@app.command("doctor")
def doctor(as_json: Json = False) -> None:
    """Report what each machine of the fleet can measure, what it cannot measure, and why."""
    with in_one_sentence():
        found = configured_fleet(context(reading=True), describe=True)
    if as_json:
        typer.echo(json.dumps({node.name: dict(node.facts) for node in _by_name(found)}, indent=2))
        return
    for note in found.notes:
        say(f"note: {note}")
    if found.nodes:
        report_console().print(examined_table(found))
    else:
        say("no machine has joined: `pyrometer fleet join` on each")


def _left_to_do(found: FleetStatus, node: str) -> str:
    doing = found.nodes[node].doing if node in found.nodes else ()
    if not doing:
        return "it has no task: it can be stopped"
    named = ", ".join(str(task.id) for task in doing)
    return f"it finishes task {named}: `pyrometer tasks show {doing[0].id}` follows it"


def _check_ports(first: int, port: int) -> None:
    if first <= port < first + ray.PORTS:
        raise UsageError(
            f"port {port} of the head is one of those from {first} on: choose other ports with --ports"
        )


def _labels(texts: list[str]) -> dict[str, str]:
    """Labels from KEY=VALUE texts; raises UsageError for labels that the engine would refuse."""
    found: dict[str, str] = {}
    for text in texts:
        key, _, value = text.partition("=")
        if not (_KEY.fullmatch(key) and _KEY.fullmatch(value)):
            raise UsageError(f"--label {text} is not KEY=VALUE of letters, digits and . _ -")
        if found.setdefault(key, value) != value:
            raise UsageError(f"--label {key} is given twice, as {found[key]} and as {value}")
    return found


def _accelerator() -> dict[str, str]:
    """Labels of the first GPU of this machine, as `accelerator_labels` has them."""
    names = [gpu.name for gpu in probe.examine().gpus if gpu.name]
    return accelerator_labels(names[0]) if names else {}


def accelerator_labels(name: str) -> dict[str, str]:
    """`NVIDIA H100 80GB HBM3` is an `H100`, and whole `H100-80GB-HBM3`."""
    words = [word for word in re.findall(r"[A-Za-z0-9]+", name) if word.lower() not in _BRANDS]
    numbered = next((at for at, word in enumerate(words) if re.search(r"\d", word)), len(words))
    short, whole = "-".join(words[: numbered + 1]), "-".join(words)
    return {"accelerator": short[:63], "gpu": whole[:63].strip("-")} if words else {}


@contextmanager
def _alone(app_context: AppContext, role: str) -> Generator[Path]:
    """The folder of Ray for this role; raises UsageError while another process with the data folder uses
    it.
    """
    data_dir = app_context.places.data_dir
    with lock_file(data_dir / "fleet" / f"{role}.lock") as locked:
        if not locked:
            raise UsageError(f"a {role} with the data folder {data_dir} is running already")
        yield ray.ray_folder(data_dir, role)


def _run_ray(
    app_context: AppContext, role: str, command: list[str], variables: Mapping[str, str], sentence: str
) -> int:
    """Run Ray until a stop is requested; prints why it cannot run, or why it ended."""
    log = app_context.places.data_dir / "fleet" / f"ray-{role}.log"
    foreground = ray.Foreground(command, variables, log, ray.PROCESS_NAMES)
    has_started: list[bool] = []

    def report_start() -> None:
        has_started.append(True)
        say(sentence)

    code = foreground.run(report_start, _STARTED, ray.WRONG_TOKEN)
    if code and has_started:
        say(f"pyrometer: Ray ended unexpectedly; finished results are kept; its log is {log}")
    elif code:
        say(f"pyrometer: Ray did not start: {start_error(foreground.output())}; its log is {log}")
    elif has_started:
        say(f"the {role} has stopped; finished results are kept")
    return USAGE if code else 0


#: Errors in Ray's log, and their meanings.
_KNOWN: tuple[tuple[str, str], ...] = (
    (ray.WRONG_TOKEN, "the head refuses this machine's token: copy it from the head again"),
    ("Version mismatch", "head and node need the same version of Ray, and of Python up to the minor version"),
    ("Address already in use", "a port that it needs is in use: choose others by --ports"),
    (
        "is already running at",
        "nodes on this machine still use this address: stop them, or try again after they have left",
    ),
    (
        "timed out during startup",
        "the head did not answer in time; this can happen when several machines join at once: try again",
    ),
)


def start_error(log: str) -> str:
    """The reason why Ray did not start, as a sentence from its log."""
    for sign, sentence in _KNOWN:
        if sign in log:
            return sentence
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return printable(lines[-1]) if lines else "its log is empty"
