"""Recording the census of a program: it runs in its own interpreter, with our dispatch mode around it."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .census import BadCensus, Census, from_raw

#: Runs in the interpreter of the program, which has nothing of ours.
RECORDER = Path(__file__).parents[1] / "worker" / "census_recorder.py"
#: Options of Python that may stand before the program.
_FLAGS = ("-u", "-O", "-OO", "-B", "-E", "-s", "-S", "-I", "-P", "-q", "-v")


@dataclass(frozen=True, slots=True)
class CensusRecording:
    """A census, and the exit code of the program: 0 also where it was ended after its steps.

    `left_out` names operators with an argument that cannot be made again.
    """

    census: Census
    code: int
    left_out: tuple[str, ...]


def record_program(command: Sequence[str], steps: int, skip: int) -> CensusRecording:
    """Run `python [flags] SCRIPT|-m MODULE ...` until `steps` steps after `skip` are recorded.

    The program has this process's folder, input and output. Raises BadCensus for a command that is no call of
    Python, and where nothing was recorded.
    """
    python, flags, program = _split(command)
    with tempfile.TemporaryDirectory(prefix="pyrometer-census-") as folder:
        raw = Path(folder) / "raw.json"
        options = ["--raw", str(raw), "--steps", str(steps), "--skip", str(skip)]
        done = subprocess.run([python, *flags, str(RECORDER), *options, *program], check=False)
        if not raw.exists():
            raise BadCensus(
                f"the program ended with {done.returncode} before anything was recorded: its interpreter "
                "needs PyTorch 2.1 or newer"
            )
        body: dict[str, Any] = json.loads(raw.read_text(encoding="utf-8"))
        return CensusRecording(from_raw(body), done.returncode, tuple(body["left_out"]))


def _split(command: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Interpreter, its flags, and the program with its arguments."""
    if not command:
        raise BadCensus("name the program: pyrometer record -- python train.py")
    python = shutil.which(command[0])
    if python is None:
        raise BadCensus(f"there is no program {command[0]}")
    if "python" not in Path(command[0]).name:
        raise BadCensus(f"{command[0]} is no Python: a census records `python SCRIPT` or `python -m MODULE`")
    flags: list[str] = []
    rest = list(command[1:])
    while rest and rest[0] in _FLAGS:
        flags.append(rest.pop(0))
    if not rest or (rest[0].startswith("-") and (rest[0] != "-m" or len(rest) < 2)):
        raise BadCensus("after the interpreter comes a script, or -m and a module")
    if rest[0] != "-m" and not Path(rest[0]).is_file():
        raise BadCensus(f"there is no script {rest[0]}")
    return python, flags, rest
