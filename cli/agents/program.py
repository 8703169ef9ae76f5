"""The commands of this program as an agent's tools call them: their JSON, or the sentence that refuses."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError

from common.text import has_credentials, printable
from scheduled_jobs.scheduler.child_process import OURSELVES

#: Exit codes that come with an answer: go, no-go, unclear.
_ANSWERED = (0, 1, 3)


def answer(*words: str, given: Sequence[str] = ()) -> Any:
    """The value that a command prints with `--json`; raises ToolError with its sentence.

    `given` are arguments of the agent's, none of which is read as an option.
    """
    return json.loads(say(*words, "--json", given=given))


def say(*words: str, given: Sequence[str] = ()) -> str:
    """What a command prints; raises ToolError with its sentence. `given`: see `answer`."""
    command = [*words, *(["--", *given] if given else [])]
    _refuse_credentials(command)
    done = subprocess.run([*OURSELVES, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode not in _ANSWERED or (done.returncode and not done.stdout.strip()):
        said = done.stderr.strip().splitlines()
        sentence = printable(said[-1]) if said else f"exit code {done.returncode}"
        raise ToolError(sentence)
    return done.stdout.strip()


def begin(words: Sequence[str], log: Path) -> None:
    """Begin a command that goes on when this program ends; what it says goes to the file `log`.

    Raises ToolError before anything is begun or written.
    """
    _refuse_credentials(words)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        subprocess.Popen(
            [*OURSELVES, *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def _refuse_credentials(words: Sequence[str]) -> None:
    """Raise ToolError for an address with a password: every user of a machine sees its command lines."""
    if any(map(has_credentials, words)):
        raise ToolError("an address is given without user and password: keep them in ~/.netrc")
