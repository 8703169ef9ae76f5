"""Slurm through its commands: options and formats that all of its versions have."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: How long a command of Slurm may take, with its own retries while the controller is slow.
_SECONDS = 30.0
#: Errors of a command after which it is worth repeating.
_TEMPORARY = re.compile(
    r"unable to contact|timed out|zero bytes|standby|temporarily|connection (refused|failure)|munge|"
    r"authentication (error|plugin)|transport endpoint|try again|"
    # Too many jobs of this user are in the queue.
    r"(max|grp)submitjob",
    re.IGNORECASE,
)
#: Variables that would change the output of these commands.
_OPTIONS = re.compile(r"(SBATCH|SINFO|SQUEUE|SCANCEL|SLURM_TIME)_")
#: States in which a node takes jobs, now or once it is free; flags follow them.
_TAKES_JOBS = frozenset(("idle", "mixed", "allocated", "completing", "planned", "reserved"))
#: Flags: does not answer; powering down; about to reboot.
_LEAVING = "*%@^"


class SlurmAway(Exception):
    """Slurm does not answer; the text is one sentence."""


class SlurmRefused(Exception):
    """Slurm rejects a job for good; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node in the output of sinfo; `features` and `resources` are comma lists, `reason` says why down."""

    name: str
    state: str
    features: str
    resources: str
    reason: str

    @property
    def is_online(self) -> bool:
        """Whether it takes jobs, now or once it is free."""
        base = re.match(r"[a-z]*", self.state.lower())
        flags = self.state[base.end() if base else 0 :]
        return base is not None and base[0] in _TAKES_JOBS and not set(flags) & set(_LEAVING)

    @property
    def is_free(self) -> bool:
        """Whether a job for the whole node could start now."""
        return self.is_online and self.state.lower().startswith("idle")

    @property
    def labels(self) -> tuple[str, ...]:
        """Its labels: its features, and for each resource `gpu:h200`, `h200` and `gpu`."""
        found = [] if self.features == "(null)" else self.features.split(",")
        for resource in re.sub(r"\([^)]*\)", "", self.resources).split(","):
            name, *kinds = [part for part in resource.split(":") if not part.isdigit()]
            found += [":".join((name, *kinds)), *kinds, name] if name else []
        return tuple(dict.fromkeys(label for label in found if label))


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in the output of squeue: number, state, allocated node, name, and why it waits."""

    number: str
    state: str
    node: str
    name: str
    reason: str


class Slurm:
    """Slurm's commands. Each raises SlurmAway where Slurm does not answer, SlurmRefused where it refuses."""

    def __init__(self, partition: str | None = None) -> None:
        self._partition = partition

    def nodes(self) -> list[NodeRow]:
        """The nodes of the partition, in order of their names."""
        partition = () if self._partition is None else (f"--partition={self._partition}",)
        # The reason comes last: it is free text.
        lines = _call("sinfo", "--noheader", "--Node", *partition, "--format=%N|%T|%f|%G|%E").splitlines()
        rows = [NodeRow(*line.split("|", 4)) for line in lines if line.count("|") >= 4]
        # A node in several partitions is listed once for each.
        return sorted({row.name: row for row in rows}.values(), key=lambda row: row.name)

    def jobs(self) -> list[JobRow]:
        """This user's jobs, and those that ended a short while ago."""
        options = ("--noheader", "--states=all", f"--user={os.geteuid()}", "--format=%i|%T|%N|%j|%r")
        lines = _call("squeue", *options).splitlines()
        return [JobRow(*line.split("|", 4)) for line in lines if line.count("|") >= 4]

    def submit(self, script: str, options: Sequence[str], variables: Mapping[str, str]) -> str:
        """Submit a job and return its number. `variables` are its whole environment."""
        output = _call("sbatch", "--parsable", "--export=ALL", *options, text=script, variables=variables)
        return output.strip().partition(";")[0]

    def terminate(self, number: str) -> None:
        """Send SIGTERM to the script of a job, which stores its results; one that waits is cancelled."""
        _call("scancel", "--state=PENDING", number)
        _call("scancel", "--state=RUNNING", "--batch", "--signal=TERM", number)

    def cancel(self, number: str) -> None:
        """Kill all processes of a job."""
        _call("scancel", number)


def _call(program: str, *arguments: str, text: str = "", variables: Mapping[str, str] | None = None) -> str:
    if variables is None:
        variables = {name: value for name, value in os.environ.items() if not _OPTIONS.match(name)}
    try:
        done = subprocess.run(
            [program, *arguments],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            env=dict(variables),
            start_new_session=True,
        )
    except FileNotFoundError:
        raise SlurmAway(
            f"there is no {program} on PATH: install Slurm's commands on this machine, or set [fleet] engine"
        ) from None
    except subprocess.TimeoutExpired:
        raise SlurmAway(f"{program} did not answer within {_SECONDS:g} s") from None
    if done.returncode == 0:
        return done.stdout
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    is_temporary = any(map(_TEMPORARY.search, lines))
    if program == "scancel" and not is_temporary:
        # The job has ended, or is not in the state that was named.
        return ""
    why = re.sub(rf"^{program}: (error: )?", "", lines[-1]) if lines else f"it ended with {done.returncode}"
    # Only a submission can be rejected for good.
    kind = SlurmRefused if program == "sbatch" and not is_temporary else SlurmAway
    raise kind(f"{program}: {why}")
