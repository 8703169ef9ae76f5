"""What one gang has on a machine that lends itself: the mate under a supervisor, and the members below it."""

import json
import os
import select
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..environment import Environment
from ..execution.harness import Harness
from ..execution.launch.launch import allowed_cpus, start_of, usable_numactl
from ..execution.launch.topology import read
from ..execution.process import TOKEN_VARIABLE, inherited_variables, listed, sweep
from ..execution.supervised_popen import start_held
from ..profile import Profile
from ..worker.case_key import CaseKey
from ..worker.distributed.remote_agent import KEY_VARIABLE
from .handshake import Terms, terms_of

_SUPERVISOR = Path(__file__).parents[1] / "execution" / "supervisor.py"
#: The leader ends what it had started. This is for one that is alive and forgot.
_LONGEST_SECONDS = 7 * 86400
#: How long killed processes may take to be gone, their supervisor's patience included.
_BURIAL_SECONDS = 30.0
_LOG_TAIL_BYTES = 4000


@dataclass(frozen=True, slots=True)
class Offer:
    """What is lent: this machine with one environment, under one profile. `folder` takes the logs."""

    version: str
    environment: Environment
    harness: Harness
    profile: Profile
    folder: Path

    @property
    def terms(self) -> Terms:
        """The lender's side of a loan."""
        gpus = len(self.environment.gpus)
        return terms_of(self.version, self.harness, self.environment, self.profile, gpus)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a leader asks for: the mate of a case's node, which calls the leader at `host` and `port`."""

    case: str
    node: int
    host: str
    port: int

    @staticmethod
    def from_body(body: Any, host: str) -> "Asked":
        """From JSON values of a leader that calls from `host`; raises ValueError."""
        try:
            return Asked(str(body["case"]), int(body["node"]), host, int(body["port"]))
        except (KeyError, TypeError) as error:
            raise ValueError("that is no order of this Pyrometer") from error


@dataclass(frozen=True, slots=True)
class End:
    """How it ended, as an outcome would say it, and the end of what was printed."""

    status: str
    reason: str
    left_over: tuple[str, ...]
    log: str


class LentGang:
    """Live from the start on; raises CannotLaunch, CaseKeyError, OSError. Has to be buried."""

    def __init__(self, asked: Asked, offer: Offer, key: bytes, token: str, log: Path) -> None:
        profile = offer.profile
        # As the leader's own machine starts its worker: axes that need another start need it here too.
        start = start_of(CaseKey.parse(asked.case), profile, read(allowed_cpus(profile)), usable_numactl)
        self._token = token
        self._log = offer.folder / log
        self._log.parent.mkdir(parents=True, exist_ok=True)
        harness, python = offer.harness.path, offer.environment.python
        own = {TOKEN_VARIABLE: token, KEY_VARIABLE: key.hex()}

        def supervised(held: int, reporter: int) -> list[str]:
            return [
                *(sys.executable, "-I", "-S", str(_SUPERVISOR)),
                *("--lifeline", str(held), "--report", str(reporter), "--log", str(self._log)),
                *("--deadline", str(_LONGEST_SECONDS), "--cpus", listed(start.cpus)),
                *("--own-cpus", listed(profile.housekeeping), "--"),
                *(*start.prefix, python, "-I", str(harness), "mate"),
                *("--leader", f"{asked.host}:{asked.port}", "--neighbour", str(asked.node)),
            ]

        variables = {**inherited_variables(), **start.variables, **own}
        self._supervisor, self._reader, self._lifeline = start_held(supervised, variables)
        # Blocks are timed here without our knowing when: the supervisor samples nothing.
        os.write(self._lifeline, b"q")

    def fileno(self) -> int:
        """Readable when it has ended."""
        return self._reader

    def bury(self) -> End:
        """End what still lives, and answer how it ended."""
        os.close(self._lifeline)
        ready, _, _ = select.select([self._reader], [], [], _BURIAL_SECONDS)
        text = os.read(self._reader, 1 << 16) if ready else b""
        os.close(self._reader)
        if not text:
            self._supervisor.kill()
        self._supervisor.wait()
        # What outlived a supervisor that was itself killed.
        sweep(self._token)
        report: dict[str, Any] = json.loads(text) if text else {"failed": "its supervisor was killed"}
        return End(*_explained(report), tuple(report.get("left_over", ())), self._tail())

    def _tail(self) -> str:
        try:
            return self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()
        except OSError:
            return ""


def _explained(report: Mapping[str, Any]) -> tuple[str, str]:
    """Status and reason from the supervisor's report on a mate."""
    if report.get("failed"):
        return "lost", str(report["failed"])
    if report.get("killed_by"):
        return "lost", "ended by the lender"
    number = report.get("signal")
    if number is None:
        code = report.get("exit_code")
        return "crashed", f"what starts its members {f'exited with code {code}' if code else 'has left'}"
    if report.get("oom_killed") and number == signal.SIGKILL:
        return "oom", "what starts its members was killed by the kernel: out of memory"
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    return "crashed", f"what starts its members was killed by {name}"
