"""What to type to measure a case again."""

import shlex
from itertools import pairwise

from analysis.comparison.comparison import AGAIN
from records.environments import Environment
from records.kinds import RunKind
from records.runs import Run

#: Options of the original call that decide what is measured and are stored nowhere else.
_REPEATED = ("--cases", "--python", "--deadline", "--device")


def declared_name(environment: Environment) -> str:
    """What commands call an environment, which has a second name where it was compared with itself."""
    again = environment.fingerprint.endswith(AGAIN)
    return environment.name.removesuffix(AGAIN) if again else environment.name


def reproduce_command(run: Run, case_key: str, environment: str) -> str:
    """What to type to measure one case of `run` in one environment (by name) again, under like conditions."""
    steps = dict(run.facts.get("timing") or {}).get("trace_steps")
    words = ["pyrometer", "run", "--case", case_key]
    if run.kind == RunKind.TRACE:
        words = ["pyrometer", "profile", case_key, "--steps", str(steps)]
    elif run.suite != "chosen":
        words += ["--suite", run.suite]
    repeated = _options(run.command)
    if all(option != "--python" for option, _ in repeated):
        words += ["--environment", environment]
    words += ["--preset", run.preset.name]
    return shlex.join([*words, *(part for pair in repeated for part in pair)])


def _options(command: str) -> list[tuple[str, str]]:
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    split = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    return [(option, value) for option, value in pairwise(split) if option in _REPEATED]
