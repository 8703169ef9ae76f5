"""The telemetry of a machine when a run was made, and what was absent and why: a run's facts as tables."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from dashboard.components import markup
from records.runs import Run
from runner.telemetry.capability import Capability, Probe

#: Where a run's facts hold what was found: `gpu` as NVML answered, `cpu` as the kernel did.
FACT = "telemetry"


def tables(run: Run) -> str:
    """Present and absent capabilities of every device, each with how or why; empty for a run without."""
    facts = _facts(run)
    parts: list[str] = []
    probe = _probe(facts)
    if probe is not None:
        driver = f" · driver {probe.driver}, CUDA {probe.cuda}" if probe.driver else ""
        if probe.absent:
            parts.append(f'<h3 class="py-place">GPUs{escape(driver)}</h3>{markup.notes([probe.absent])}')
        for gpu in probe.gpus:
            part = f" · part of {gpu.mig_of}" if gpu.mig_of else ""
            name = f"GPU {gpu.index}: {gpu.name}"
            parts.append(f'<h3 class="py-place">{escape(name)} · {escape(gpu.uuid + part + driver)}</h3>')
            parts += [markup.notes(gpu.warnings)] if gpu.warnings else []
            parts.append(_table(name, gpu.capabilities))
    if kernel := _kernel(facts):
        parts.append('<h3 class="py-place">CPUs and processes</h3>')
        parts.append(_table("CPUs and processes", kernel))
    return "".join(parts)


def listed(run: Run) -> list[tuple[str, str, str]]:
    """Every capability of every device: whose, which, and `present` or `absent` with how or why."""
    facts = _facts(run)
    probe = _probe(facts)
    gpus = [(f"GPU {gpu.index}: {gpu.name}", gpu.capabilities) for gpu in probe.gpus] if probe else []
    return [
        (whose, _spelled(each), f"{'present' if each.present else 'absent'}: {each.detail}")
        for whose, own in [*gpus, ("CPUs and processes", _kernel(facts))]
        for each in own
    ]


def absent(run: Run) -> list[str]:
    """The absent telemetry of a run's machine, each as one line with its reason."""
    facts = _facts(run)
    lines: list[str] = []
    probe = _probe(facts)
    if probe is not None:
        lines += [f"No GPU is read: {probe.absent}."] if probe.absent else []
        lines += [
            f"{gpu.name}: no {_spelled(each)} ({each.detail})."
            for gpu in probe.gpus
            for each in gpu.capabilities
            if not each.present
        ]
    lines += [f"No {_spelled(each)} ({each.detail})." for each in _kernel(facts) if not each.present]
    # Eight GPUs of one kind say the same eight times.
    return list(dict.fromkeys(lines))


def present(run: Run) -> list[str]:
    """The telemetry of a run's machine, by name; GPUs of one kind are listed once."""
    facts = _facts(run)
    probe = _probe(facts)
    gpus = [each for gpu in probe.gpus for each in gpu.capabilities] if probe is not None else []
    return list(dict.fromkeys(_spelled(each) for each in (*gpus, *_kernel(facts)) if each.present))


def _facts(run: Run) -> Mapping[str, Any]:
    facts = run.facts.get(FACT)
    return facts if isinstance(facts, Mapping) else {}


def _probe(capabilities: Mapping[str, Any]) -> Probe | None:
    # Another version may have written it: what cannot be read is not shown.
    try:
        return Probe.from_body(capabilities["gpu"])
    except (KeyError, TypeError, AttributeError):
        return None


def _kernel(capabilities: Mapping[str, Any]) -> list[Capability]:
    try:
        return [Capability(**each) for each in capabilities["cpu"]]
    except (KeyError, TypeError):
        return []


def _table(label: str, capabilities: Sequence[Capability]) -> str:
    columns = [("Capability", False), ("", False), ("How, or why not", False)]
    rows = (
        (
            escape(_spelled(each)),
            '<span class="py-good">✓ present</span>'
            if each.present
            else '<span class="py-odd">– absent</span>',
            f'<span class="py-reason">{escape(each.detail)}</span>',
        )
        for each in capabilities
    )
    return markup.table(f"Capabilities of {label}", columns, rows)


def _spelled(capability: Capability) -> str:
    return capability.name.replace("_", " ")
