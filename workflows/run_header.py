"""The first line of a run's journal: the whole description of the run without outcomes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from analysis.decision.comparison import COMPARED, Comparison
from analysis.dispatch_difference import DISPATCH
from records.environments import Environment
from records.kinds import EnvironmentKind, RunKind, RunSource, RunState
from records.machines import Hardware, Machine
from records.old_runs import kind_of_old_run, source_of_old_run
from records.outcomes import PlannedReplicate
from records.runs import STEP, Run, RunPreset
from runner.environment import MeasuredEnvironment
from runner.errors import JournalError
from runner.machine import MachineFacts
from runner.preset import MachinePreset
from runner.session_plan import TargetEnvironment, Timing
from runner.telemetry.capability import Capability, Probe
from runner.worker.messages import torch_build

#: The key in the state of a card for the locked SM clock in MHz.
LOCKED_CLOCK = "locked_clock_mhz"


@dataclass(frozen=True, slots=True)
class Header:
    """A planned run in plain values: the parts needed to resume it and to store it.

    `canary` is the environment of the canary; None for a run without one. `telemetry` is the available
    telemetry of GPUs and CPUs at the beginning of the run (see `telemetry_body`); None if it was not checked.
    `dispatch` are the differing operators and kernels of an upgrade, case by case (see
    `CaseDifference.to_body`); `fingerprints`: whether they are taken, for an upgrade before measuring, else
    afterwards. `step` is the script whose step is compared (see `StepScript.to_body`); None for cases.
    """

    run: str
    suite: str
    started_at: str
    command: str
    machine: Mapping[str, Any]
    environments: tuple[Mapping[str, Any], ...]
    preset: Mapping[str, Any]
    harness: str
    harness_path: str
    user_version: str
    timing: Mapping[str, Any]
    device: str
    budget_seconds: float
    planned: tuple[tuple[str, str, int], ...]
    notes: tuple[str, ...] = ()
    version: str = ""
    canary: Mapping[str, Any] | None = None
    telemetry: Mapping[str, Any] | None = None
    comparison: Mapping[str, Any] | None = None
    kind: RunKind = RunKind.RUN
    source: RunSource = RunSource.MEASURED
    source_format: str = ""
    dispatch: tuple[Mapping[str, Any], ...] = ()
    fingerprints: bool = True
    step: Mapping[str, Any] | None = None

    @property
    def replicates(self) -> tuple[PlannedReplicate, ...]:
        """The planned replicates."""
        return tuple(PlannedReplicate(*one) for one in self.planned)

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_body(body: Mapping[str, Any]) -> "Header":
        """The inverse of `to_body`; raises JournalError for anything else."""
        values: dict[str, Any] = dict(body)
        try:
            if "profile" in values:  # in journals of 0.1.0
                values["preset"] = values.pop("profile")
            values["environments"] = tuple(body["environments"])
            values["notes"] = tuple(body.get("notes", ()))
            values["dispatch"] = tuple(body.get("dispatch", ()))
            values["planned"] = tuple((str(c), str(e), int(r)) for c, e, r in body["planned"])
            if "kind" in body:
                values["kind"], values["source"] = RunKind(body["kind"]), RunSource(body["source"])
            else:
                # Journals of an earlier version lack both.
                values["kind"] = kind_of_old_run(body["command"], body)
                values["source"], values["source_format"] = source_of_old_run(body["run"])
            values["machine"] = dict(body["machine"])
            # Runs are sorted by it.
            if datetime.fromisoformat(body["started_at"]).tzinfo is None:
                raise ValueError("a start without a time zone")
            return Header(**values)
        except (TypeError, KeyError, ValueError) as error:
            run = body.get("run", "without a name")
            raise JournalError(f"run {run} has a header that this Pyrometer cannot read") from error

    @property
    def targets(self) -> dict[str, TargetEnvironment]:
        """The environments by fingerprint."""
        return {e["fingerprint"]: _target(e) for e in self.environments}

    @property
    def pair_comparison(self) -> Comparison | None:
        """The comparison of a run of pairs, None for any other; raises JournalError if it cannot be read."""
        if self.comparison is None:
            return None
        try:
            return Comparison.from_body(self.comparison)
        except ValueError as error:
            raise JournalError(f"run {self.run} holds {error}") from error

    @property
    def nodes(self) -> tuple[Mapping[str, Any], ...]:
        """The machines that take part besides this one (see `runner.nodes.NodeMachines.facts`)."""
        # In journals of 0.1.0 they are called neighbours.
        return tuple(self.machine.get("nodes", self.machine.get("neighbours", ())))

    @property
    def gpus(self) -> tuple[str, ...]:
        """The UUIDs of the devices in use, as PyTorch counts them; none on the CPU.

        An old PyTorch reports none. All environments of a run see the same devices: the first that reports
        all.
        """
        if not self.device.startswith("cuda"):
            return ()
        for environment in self.environments:
            uuids = [str(device.get("uuid") or "") for device in environment["facts"].get("devices", ())]
            if uuids and all(uuids):
                return tuple(uuids)
        return ()

    @property
    def one_process(self) -> str:
        """The reason why a GPU of this run accepts only one process at a time; empty if it accepts several,
        or on a CPU.
        """
        modes = sorted({str(card.get("compute_mode", "")) for card in self._cards.values()})
        exclusive = [mode for mode in modes if mode.startswith("exclusive")]
        return f"its GPU is in compute mode {exclusive[0]}: one process at a time" if exclusive else ""

    @property
    def gpu_node(self) -> int | None:
        """The NUMA node of the first GPU; None if it is unknown, or on a CPU."""
        node = self._cards.get("0", {}).get("numa_node")
        return node if isinstance(node, int) else None

    @property
    def locked_clock(self) -> int | None:
        """The locked SM clock of its GPUs in MHz; None if it is not locked."""
        clocks = [int(card[LOCKED_CLOCK]) for card in self._cards.values() if LOCKED_CLOCK in card]
        return clocks[0] if clocks else None

    @property
    def cards(self) -> tuple[str, ...]:
        """The UUIDs of its GPUs in NVML; none on the CPU."""
        return tuple(str(card["uuid"]) for card in self._cards.values())

    @property
    def _cards(self) -> Mapping[str, Mapping[str, Any]]:
        """The states of the GPUs of this run, by number (see `machine.card_states`)."""
        return self.machine.get("conditions", {}).get("gpus", {}) if self.device.startswith("cuda") else {}

    @property
    def timing_policy(self) -> Timing:
        """The timing. Raises JournalError for fields that this version does not know."""
        try:
            return Timing(**self.timing)
        except TypeError as error:
            raise JournalError(
                f"run {self.run} was begun by Pyrometer {self.version or 'of another version'}: {error}"
            ) from error

    def run_record(self, state: RunState, ended_at: str | None) -> Run:
        """The record of this run for the database."""
        hardware = Hardware(
            self.machine["hardware_fingerprint"], self.machine["hardware_label"], self.machine["hardware"]
        )
        return Run(
            id=self.run,
            suite=self.suite,
            started_at=datetime.fromisoformat(self.started_at),
            ended_at=datetime.fromisoformat(ended_at) if ended_at else None,
            state=state,
            machine=Machine(self.machine["fingerprint"], self.machine["name"], hardware),
            environments=tuple(
                Environment(
                    e["fingerprint"],
                    e["name"],
                    e["facts"].get("torch", ""),
                    e["facts"]["python"],
                    e["facts"],
                    EnvironmentKind.CANARY if e is self.canary else EnvironmentKind.MEASURED,
                )
                for e in (*self.environments, *((self.canary,) if self.canary else ()))
            ),
            preset=RunPreset(self.preset["fingerprint"], self.preset["name"], self.preset["settings"]),
            harness=self.harness,
            planned=len(self.planned),
            command=self.command,
            notes=self.notes,
            facts={
                "conditions": self.machine["conditions"],
                "timing": self.timing,
                "budget_seconds": self.budget_seconds,
                "user_version": self.user_version,
                "device": self.device,
                "pyrometer": self.version,
                **({"telemetry": self.telemetry} if self.telemetry else {}),
                **({COMPARED: self.comparison} if self.comparison else {}),
                **({DISPATCH: self.dispatch} if self.dispatch else {}),
                **({STEP: self.step} if self.step else {}),
                **({"nodes": self.nodes} if self.nodes else {}),
            },
            kind=self.kind,
            source=self.source,
            source_format=self.source_format,
        )


def _target(environment: Mapping[str, Any]) -> TargetEnvironment:
    facts = environment["facts"]
    build = torch_build(facts.get("torch", ""), facts.get("torch_git"))
    return TargetEnvironment(environment["name"], environment["python"], environment["fingerprint"], build)


def machine_body(machine: MachineFacts, nodes: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A machine as plain JSON values, with the facts of the other `nodes` if there are any."""
    return asdict(machine) | ({"nodes": list(nodes)} if nodes else {})


def telemetry_body(gpus: Probe, cpu: Iterable[Capability]) -> dict[str, Any]:
    """The telemetry capabilities of this machine's GPUs and CPUs, as plain JSON values."""
    return {"gpu": gpus.to_body(), "cpu": [asdict(each) for each in cpu]}


def environment_body(environment: MeasuredEnvironment) -> dict[str, Any]:
    """An environment as plain JSON values, without the list of cases."""
    return {
        "name": environment.name,
        "python": environment.python,
        "fingerprint": environment.fingerprint,
        "facts": dict(environment.facts),
    }


def preset_body(preset: MachinePreset) -> dict[str, Any]:
    """A preset as plain JSON values."""
    return {
        "name": preset.name,
        "fingerprint": preset.fingerprint,
        "settings": preset.settings,
        "variables": dict(preset.variables),
        "cpus": list(preset.cpus),
        "housekeeping": list(preset.housekeeping),
        "threads": preset.threads,
    }
