"""Run on another node as a run begins: `python -m runner.node_facts ORDER` writes JSON about it."""

import json
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from . import environment, machine
from .errors import RunnerError
from .execution.harness import Harness
from .preset import MachinePreset


def main() -> None:
    """Answer the order in the first argument (see `nodes.inspect`)."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    values = order["preset"]
    cpus, housekeeping = tuple(values["cpus"]), tuple(values["housekeeping"])
    preset = MachinePreset(values["name"], values["variables"], cpus, housekeeping, values["threads"])
    harness = Harness(Path(order["harness"]), "", "", ())
    try:
        described = environment.describe("of this run", Path(order["python"]), harness, preset)
    except RunnerError as error:
        json.dump({"failed": str(error)}, sys.stdout)
        return
    gpus = described.gpus if order["gpus"] else []
    facts = {
        "version": version("pyrometer"),
        "machine": asdict(machine.describe(gpus)),
        "environment": dict(described.facts),
    }
    json.dump(facts, sys.stdout)


if __name__ == "__main__":
    main()
