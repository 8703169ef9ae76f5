"""The available and absent telemetry of a run's machine, from the facts of the run, as tables."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from dashboard.components import markup
from records.runs import Run
from reports.table import Column, DataTable
from reports.tables import reason_text
from runner.telemetry.capability import Capability, GpuCapabilities, Probe

#: The keys of a run's facts with the telemetry: `gpu` from NVML, `cpu` from the kernel.
FACT = "telemetry"
_PRESENT, _ABSENT = '<span class="py-good">✓ present</span>', '<span class="py-odd">– absent</span>'


def tables(run: Run) -> str:
    """Present and absent capabilities of every device, with the source or the reason; empty for a run without
    them.
    """
    probe = _probe(run)
    driver = f" · driver {probe.driver}, CUDA {probe.cuda}" if probe and probe.driver else ""
    parts: list[str] = []
    if probe and probe.absent:
        parts.append(f'<h3 class="py-place">GPUs{escape(driver)}</h3>{markup.notes([probe.absent])}')
    for gpu, capabilities in _devices(run):
        about = ""
        if gpu is not None:
            about = f" · {gpu.uuid}{f' · part of {gpu.mig_of}' if gpu.mig_of else ''}{driver}"
        parts.append(f'<h3 class="py-place">{escape(_title(gpu) + about)}</h3>')
        parts += [markup.notes(gpu.warnings)] if gpu is not None and gpu.warnings else []
        parts.append(_table(_title(gpu), capabilities))
    return "".join(parts)


def capability_rows(run: Run) -> list[tuple[str, str, str]]:
    """Every capability of every device: device, name, and `present` or `absent` with the source or the
    reason.
    """
    return [
        (_title(gpu), _capability_name(each), f"{'present' if each.present else 'absent'}: {each.detail}")
        for gpu, own in _devices(run)
        for each in own
    ]


def absent(run: Run) -> list[str]:
    """The absent telemetry of a run's machine, each as one line with its reason."""
    probe = _probe(run)
    lines = [f"No GPU telemetry: {probe.absent}."] if probe and probe.absent else []
    lines += [
        f"{'No' if gpu is None else f'{gpu.name}: no'} {_capability_name(each)} ({each.detail})."
        for gpu, own in _devices(run)
        for each in own
        if not each.present
    ]
    # Eight equal GPUs would have the same line eight times.
    return list(dict.fromkeys(lines))


def present(run: Run) -> list[str]:
    """The telemetry of a run's machine, by name; GPUs of one kind are listed once."""
    return list(
        dict.fromkeys(_capability_name(each) for _, own in _devices(run) for each in own if each.present)
    )


def _probe_facts(run: Run) -> Mapping[str, Any]:
    facts = run.facts.get(FACT)
    return facts if isinstance(facts, Mapping) else {}


def _probe(run: Run) -> Probe | None:
    # Another version may have written it: unreadable parts are left out.
    try:
        return Probe.from_body(_probe_facts(run)["gpu"])
    except (KeyError, TypeError, AttributeError):
        return None


def _devices(run: Run) -> list[tuple[GpuCapabilities | None, Sequence[Capability]]]:
    """The capabilities of each GPU, then those of the CPUs."""
    probe = _probe(run)
    gpus: list[tuple[GpuCapabilities | None, Sequence[Capability]]] = []
    gpus += [(gpu, gpu.capabilities) for gpu in probe.gpus] if probe else []
    try:
        kernel = [Capability(**each) for each in _probe_facts(run)["cpu"]]
    except (KeyError, TypeError):
        kernel = []
    return [*gpus, (None, kernel)] if kernel else gpus


def _title(gpu: GpuCapabilities | None) -> str:
    return "CPUs and processes" if gpu is None else f"GPU {gpu.index}: {gpu.name}"


def _table(label: str, capabilities: Sequence[Capability]) -> str:
    columns: list[Column[Capability]] = [
        Column("", "Capability", format=_capability_name),
        Column("", "", html=lambda each: _PRESENT if each.present else _ABSENT),
        Column("", "How, or why not", format=lambda each: reason_text(each.detail)),
    ]
    return DataTable(f"Capabilities of {label}", columns, capabilities, folded=False).html()


def _capability_name(capability: Capability) -> str:
    return capability.name.replace("_", " ")
