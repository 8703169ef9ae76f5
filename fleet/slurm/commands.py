"""What is asked of Slurm, by the commands that every version of it has, in formats that none has changed."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: How long one of Slurm's commands may take; it tries again by itself while its controller is slow.
_SECONDS = 30.0
#: What a command complains of when asking again may help.
_PASSES = re.compile(
    r"unable to contact|timed out|zero bytes|standby|temporarily|connection (refused|failure)|munge|"
    r"authentication (error|plugin)|transport endpoint|try again|"
    # So many jobs of this user are in the queue. What follows stands behind every limit.
    r"(max|grp)submitjob",
    re.IGNORECASE,
)
#: Variables that would change what these commands answer.
_OPTIONS = re.compile(r"(SBATCH|SINFO|SQUEUE|SCANCEL|SLURM_TIME)_")
#: States in which a node takes jobs, now or once it is free; more stands behind them as signs.
_TAKES_JOBS = frozenset(("idle", "mixed", "allocated", "completing", "planned", "reserved"))
#: Does not answer; is about to be switched off; is about to be rebooted.
_LEAVING = "*%@^"


class SlurmAway(Exception):
    """Slurm does not answer just now; the text is one sentence."""


class SlurmRefused(Exception):
    """Slurm does not do what it was asked, and never will; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as sinfo knows it: the state as it writes it, comma lists as they are, why it is down."""

    name: str
    state: str
    features: str
    resources: str
    reason: str

    @property
    def there(self) -> bool:
        """Whether it takes jobs, now or once it is free."""
        base = re.match(r"[a-z]*", self.state.lower())
        signs = self.state[base.end() if base else 0 :]
        return base is not None and base[0] in _TAKES_JOBS and not set(signs) & set(_LEAVING)

    @property
    def free(self) -> bool:
        """Whether a job that wants all of it could begin now."""
        return self.there and self.state.lower().startswith("idle")

    @property
    def labels(self) -> tuple[str, ...]:
        """What it can be asked by: its features, and of each resource `gpu:h200`, `h200` and `gpu`."""
        found = [] if self.features == "(null)" else self.features.split(",")
        for resource in re.sub(r"\([^)]*\)", "", self.resources).split(","):
            name, *kinds = [part for part in resource.split(":") if not part.isdigit()]
            found += [":".join((name, *kinds)), *kinds, name] if name else []
        return tuple(dict.fromkeys(label for label in found if label))


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as squeue knows it: its number, its state, the node it was given, its name, and why it waits."""

    number: str
    state: str
    node: str
    name: str
    reason: str


class Slurm:
    """Slurm's commands. Each raises SlurmAway where it did not answer, SlurmRefused where it refuses."""

    def __init__(self, partition: str | None = None) -> None:
        self._partition = partition

    def nodes(self) -> list[NodeRow]:
        """The nodes of the partition, in order of their names."""
        partition = () if self._partition is None else (f"--partition={self._partition}",)
        # The reason comes last: it is the only one that people write.
        lines = _call("sinfo", "--noheader", "--Node", *partition, "--format=%N|%T|%f|%G|%E").splitlines()
        rows = [NodeRow(*line.split("|", 4)) for line in lines if line.count("|") >= 4]
        # One that is in several partitions is listed once for each.
        return sorted({row.name: row for row in rows}.values(), key=lambda row: row.name)

    def jobs(self) -> list[JobRow]:
        """This user's jobs, and those that ended a short while ago."""
        asked = ("--noheader", "--states=all", f"--user={os.geteuid()}", "--format=%i|%T|%N|%j|%r")
        lines = _call("squeue", *asked).splitlines()
        return [JobRow(*line.split("|", 4)) for line in lines if line.count("|") >= 4]

    def submit(self, script: str, options: Sequence[str], variables: Mapping[str, str]) -> str:
        """Give a job to the queue; answers its number. `variables` are all that it finds set."""
        answer = _call("sbatch", "--parsable", "--export=ALL", *options, text=script, variables=variables)
        return answer.strip().partition(";")[0]

    def ask_to_end(self, number: str) -> None:
        """SIGTERM to the job's script alone, for it knows what to keep; one that waits is cancelled."""
        _call("scancel", "--state=PENDING", number)
        _call("scancel", "--state=RUNNING", "--batch", "--signal=TERM", number)

    def cancel(self, number: str) -> None:
        """End all of a job, whatever it does."""
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
    passes = any(map(_PASSES.search, lines))
    if program == "scancel" and not passes:
        # There is no such job any more, or it is in another state than the one that is to be ended.
        return ""
    why = re.sub(rf"^{program}: (error: )?", "", lines[-1]) if lines else f"it ended with {done.returncode}"
    # A question is never refused for good.
    kind = SlurmRefused if program == "sbatch" and not passes else SlurmAway
    raise kind(f"{program}: {why}")
