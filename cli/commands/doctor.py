"""`pyrometer doctor` reports what this machine can measure; `pyrometer init` writes settings for it."""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from common.text import plural, printable_lines
from configuration.reading import FILE_NAME
from configuration.settings import DEFAULT_TORCH, load_settings
from runner import environment as environments
from runner import machine
from runner.errors import BrokenEnvironment
from runner.execution import harness
from runner.telemetry.capability import Capability, Probe, host_capabilities
from runner.telemetry.gpu import probe
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.planning.resolve_environment import declared_environments, existing_interpreter, store_of
from workflows.planning.select_cases import choose_preset
from workflows.run_header import telemetry_body

from ..context import context, in_one_sentence


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on stdout")] = False,
) -> None:
    """Report what this machine can measure, what it cannot measure, and why."""
    with in_one_sentence():
        found = examine(context(noting=False))
    gpus, cpu = probe.examine(), host_capabilities()
    if as_json:
        warnings = [each for gpu in gpus.gpus for each in gpu.warnings]
        body = {**found, "telemetry": telemetry_body(gpus, cpu), "warnings": warnings}
        typer.echo(json.dumps(body, indent=2, default=str))
        return
    for line in doctor_lines(found, gpus, cpu):
        typer.echo(printable_lines(line))


def doctor_lines(found: Mapping[str, Any], gpus: Probe, cpu: Iterable[Capability]) -> list[str]:
    """The results of `examine`, and the telemetry of this machine, one line each."""
    preset = found["preset"]
    return [
        f"hardware   {found['hardware']}",
        f"data       {found['data_dir']}",
        *(f"measures   environment {name}: {text}" for name, text in found["environments"].items()),
        f"preset     {preset['name']}: {cpus_line(preset['pinned_cpus'])}",
        *telemetry_lines(gpus, cpu),
        *(f"cannot     {note}" for note in found["cannot"]),
        *(f"warning    {each}" for gpu in gpus.gpus for each in gpu.warnings),
    ]


def examine(app_context: AppContext) -> dict[str, Any]:
    """The whole report of `doctor` as plain values."""
    preset = choose_preset(app_context.settings, None)
    built = harness.build(app_context.places.data_dir / "harness")
    store = store_of(app_context)
    answers: dict[str, str] = {}
    gpus: list[Mapping[str, Any]] = []
    for name, spec in declared_environments(app_context.settings).items():
        python = existing_interpreter(store, spec)
        if python is None:
            answers[name] = f"not built: `pyrometer environments build {name}`"
            continue
        try:
            described = environments.describe(name, python, built, preset)
        except BrokenEnvironment as error:
            answers[name] = f"broken: {error}"
            continue
        gpus = gpus or described.gpus
        facts = described.facts
        answers[name] = (
            f"torch {facts['torch']}, Python {facts['python']}, {plural(facts['threads'], 'thread')}, "
            f"{len(facts['devices'])} CUDA devices"
        )
    facts = machine.describe(gpus)
    return {
        "hardware": facts.hardware_label,
        "conditions": dict(facts.conditions),
        "data_dir": str(app_context.places.data_dir),
        "environments": answers,
        "preset": preset.settings,
        "cannot": [*app_context.places.notes, *preset.notes, *machine.limits(gpus)],
    }


def cpus_line(pinned: int) -> str:
    """The CPUs on which a preset measures, as text; `pinned` is their number, 0 without pinning."""
    if not pinned:
        return "not pinned: all CPUs are measured"
    return f"{plural(pinned, 'CPU')} measured, the rest for housekeeping"


#: The metrics of each source of GPU utilisation, as text.
_UTILISATION_SOURCES = {
    "gpm": "SM utilisation from hardware counters",
    "dcgm": "SM utilisation from hardware counters, through a DCGM host engine",
    "samples": "GPU busy time from the driver's buffer, no SM utilisation",
    "polling": "GPU busy time by polling, no SM utilisation",
    "none": "no utilisation of any kind",
}


def telemetry_lines(gpus: Probe, cpu: Iterable[Capability]) -> list[str]:
    """The telemetry of this machine, one line each: first the GPUs, then the CPUs."""
    lines = [f"telemetry  GPU: none, {gpus.absent}"] if gpus.absent else []
    for gpu in gpus.gpus:
        part = f"MIG device of GPU {gpu.index}" if gpu.mig_of else f"GPU {gpu.index}"
        source = _UTILISATION_SOURCES[gpu.utilisation_source]
        lines.append(f"telemetry  {part}, {gpu.name}, driver {gpus.driver}: {source}")
        about = {**gpu.state, **gpu.health}
        lines += [f"           {name.replace('_', ' ')}: {value}" for name, value in about.items()]
        lines += _capability_lines(gpu.capabilities)
    return [*lines, "telemetry  CPU", *_capability_lines(cpu)]


def _capability_lines(capabilities: Iterable[Capability]) -> list[str]:
    return [f"           {'✓' if each.present else '✗'} {each.name}: {each.detail}" for each in capabilities]


_GIB = 2**30
#: The share of the free disk space for built environments; at most the default size.
_DISK_SHARE, _MOST_GIB = 0.5, 60

_TEMPLATE = """\
# Settings of Pyrometer for this machine: {hardware}, {gpus}.
# docs/configuration.md describes every key. A key after "# " is an example or a default.
# Runs, environments and the database lie in this folder, in .pyrometer/ and pyrometer.db.

# The time zone of the schedules below.
timezone = "{timezone}"

# The disk space of all built environments, in GiB; the least recently used one is removed first.
environments_gib = {environments_gib}

# Labels of this machine besides its host name, for schedules and `pyrometer upgrade --on LABEL`.
# machine_labels = ["bench"]

# The environment that is measured by default. It is built when it is first needed; `python = "PATH"`
# in place of `torch` measures an existing interpreter.
[environments.default]
torch = "{torch}"
# index = "https://download.pytorch.org/whl/cpu"   # instead of the package index that pip is configured with

# What `pyrometer serve` measures every night.
# [schedules.nightly]
# cron = "30 2 * * *"
# suite = "{suite}"
# environments = ["{torch}", "nightly"]
# baseline = "{torch}"

# Who is notified: URLs of Apprise, for example mailto://, slack:// or json://.
# [alerts]
# targets = ["mailto://user:password@example.com"]

# The limits of `pyrometer upgrade`.
# [policies.default]
# worst = {{ latency_floor = 0.10 }}
"""


def init() -> None:
    """Write a commented pyrometer.toml for this machine. An existing one is never changed."""
    with in_one_sentence():
        before = load_settings()
        file = Path.cwd() / FILE_NAME
        try:
            with file.open("x", encoding="utf-8") as stream:
                stream.write(settings_text(file.parent))
        except FileExistsError:
            raise UsageError(f"{file} exists already and is not changed") from None
    typer.echo(f"{file}: settings for this machine; runs and database lie in this folder from now on")
    if not before.in_project and (before.data_dir / "runs").exists():
        typer.echo(f"earlier runs stay in {before.data_dir}")


def settings_text(folder: Path) -> str:
    """The commented settings for this machine, whose environments are built on the disk of `folder`."""
    gpus = probe.examine().gpus
    return _TEMPLATE.format(
        hardware=machine.describe([]).hardware_label,
        gpus=plural(len(gpus), "NVIDIA GPU") if gpus else "no NVIDIA GPU",
        timezone=_timezone(),
        environments_gib=min(_MOST_GIB, max(1, int(shutil.disk_usage(folder).free * _DISK_SHARE / _GIB))),
        torch=DEFAULT_TORCH,
        suite="gpu" if gpus else "cpu",
    )


def _timezone() -> str:
    """The name of this machine's time zone, by the link that systemd and Debian set; UTC where it is not."""
    name = os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    return name if "/" in name else "UTC"
