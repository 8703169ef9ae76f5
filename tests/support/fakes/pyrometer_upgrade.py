"""A stand-in for `pyrometer upgrade`: takes its options, writes the journal of a made-up upgrade.

    pyrometer_upgrade.py DATA_DIR upgrade OLD NEW --run-id RUN --json ...

DATA_DIR/story.json says what the machine has and finds: `hardware`, and either `still` or what is `broken`;
`refuses` is a sentence with which the command ends instead. DATA_DIR/commands receives each command.
"""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from support.builders.upgrade_journals import Story, write_upgrade

_REFUSED = 2


def main(data_dir: Path, command: list[str]) -> int:
    """Carry out a command; answers the exit code."""
    with (data_dir / "commands").open("a") as file:
        file.write(json.dumps(command) + "\n")
    story = json.loads((data_dir / "story.json").read_text())
    if refuses := story.pop("refuses", ""):
        sys.stderr.write(f"pyrometer: {refuses}\n")
        return _REFUSED
    run = command[command.index("--run-id") + 1]
    write_upgrade(data_dir, Story(run=run, broken=tuple(story.pop("broken", ())), **story))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
