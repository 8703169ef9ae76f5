"""On which device each schedule will measure here, as far as that is known before a run begins."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from common.text import plural
from configuration.settings import Settings

from .select_cases import choose_suite


@dataclass(frozen=True, slots=True)
class ScheduleDevice:
    """What a schedule measures on a machine, as a sentence, and whether on its GPU."""

    schedule: str
    sentence: str
    on_gpu: bool


def schedule_devices(
    settings: Settings, labels: Collection[str], gpus: Sequence[str]
) -> tuple[ScheduleDevice, ...]:
    """The enabled schedules that a machine with these labels measures; `gpus` are its GPUs by name.

    Raises UsageError for a schedule with an unknown suite.
    """
    found: list[ScheduleDevice] = []
    for name, schedule in settings.schedules.items():
        if schedule.job not in ("measure", "upgrade") or not schedule.enabled:
            continue
        if schedule.machines and not set(schedule.machines) & set(labels):
            continue
        suite = choose_suite(settings, schedule.suite, list(schedule.cases or ()), bool(schedule.case_files))
        wanted = schedule.device or suite.device
        on_gpu = wanted == "cuda" or (wanted == "auto" and bool(gpus))
        device = (gpus[0] if gpus else "a GPU, which this machine does not have") if on_gpu else "the CPU"
        sides = [schedule.old, schedule.new] if schedule.job == "upgrade" else schedule.environments
        environments = ", ".join(filter(None, sides))
        found.append(
            ScheduleDevice(name, f"{name}: suite {suite.name} of {environments} on {device}", on_gpu)
        )
    return tuple(found)


def unmeasured_gpus(devices: Collection[ScheduleDevice], gpus: Sequence[str]) -> str:
    """A sentence where a machine has GPUs that none of its schedules measures; empty otherwise."""
    if not gpus or not devices or any(each.on_gpu for each in devices):
        return ""
    return f"no schedule measures the {plural(len(gpus), 'GPU')} of this machine: suite nightly-gpu does"
