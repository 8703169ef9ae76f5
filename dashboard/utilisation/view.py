"""The view of the Utilisation page: read from its address, written back to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dashboard.components import links, wording
from dashboard.components.query_params import Query, View, pick, pick_fingerprint, unknown_value
from records.telemetry import TelemetryWindow

#: The most devices side by side.
MAX_DEVICES = 4


@dataclass(frozen=True, slots=True)
class Utilisation(View):
    """The utilisation page: one replicate's window. `environment` is a whole fingerprint."""

    home: ClassVar = links.UTILISATION
    # Another run or case has other environments and devices.
    resets: ClassVar = dict.fromkeys(("run", "case"), ("environment", "devices"))

    run: str
    case: str
    environment: str
    replicate: int
    devices: tuple[str, ...]

    def query(self) -> dict[str, list[str]]:
        """The selection as a URL's query; for an empty field the page chooses a value."""
        has_replicate = self.environment != ""
        return {
            "run": [self.run],
            "case": [self.case],
            "environment": [links.short(self.environment)] if has_replicate else [],
            "replicate": [str(self.replicate)] if has_replicate else [],
            "device": list(self.devices),
        }

    def holds(self, window: TelemetryWindow) -> bool:
        """Whether a device's window belongs to the replicate that is shown."""
        identity = (self.run, self.case, self.environment, self.replicate)
        return (window.run, window.case, window.environment, window.replicate) == identity


def utilisation(
    query: Query, run: str, windows: Sequence[TelemetryWindow], defaults: Sequence[TelemetryWindow] = ()
) -> tuple[Utilisation, list[TelemetryWindow], list[str]]:
    """The replicate and devices of `run` that `query` names, the windows of all its devices, and complaints.

    `windows` are those of the run and must not be empty; without a case in `query` it is one of `defaults`.
    Raises SharedLabel for the label of several environments.
    """
    complaints: list[str] = []
    cases = sorted({w.case for w in windows})
    opening = sorted({w.case for w in defaults or windows})
    with_utilisation = {w.case for w in windows if w.utilisation is not None}
    first = next((each for each in opening if each in with_utilisation), opening[0])
    case = pick(query, "case", cases, first, complaints)
    own = [w for w in windows if w.case == case]
    # The last environment is the candidate, and comes first in a list with the newest first.
    environments = {w.environment: w.environment_name for w in own}
    environment = pick_fingerprint(query, "environment", environments, own[0].environment, complaints)
    own = [w for w in own if w.environment == environment]
    replicates = sorted({w.replicate for w in own})
    replicate_text = pick(query, "replicate", list(map(str, replicates)), str(replicates[0]), complaints)
    own = sorted((w for w in own if w.replicate == int(replicate_text)), key=_gpus_first)
    devices = _pick_devices(query, [w.device for w in own], complaints)
    return Utilisation(run, case, environment, int(replicate_text), devices), own, complaints


def _pick_devices(query: Query, known: Sequence[str], complaints: list[str]) -> tuple[str, ...]:
    names = list(dict.fromkeys(query.get("device", ())))
    complaints += [unknown_value("device", device, known) for device in names if device not in known]
    devices = [device for device in names if device in known]
    if len(devices) > MAX_DEVICES:
        complaints.append(f"At most {MAX_DEVICES} devices are compared; the first {MAX_DEVICES} are shown.")
    if devices:
        return tuple(devices[:MAX_DEVICES])
    gpus = [device for device in known if device != wording.HOST]
    host = [device for device in known if device == wording.HOST]
    return (*gpus[: MAX_DEVICES - len(host)], *host)


def _gpus_first(window: TelemetryWindow) -> tuple[bool, str, str]:
    return window.device == wording.HOST, window.name, window.device
