"""A controller to be killed: measures one case in the folder it is given, and says what its run is called."""

import sys
from pathlib import Path

from support.measuring import CASE_FILES, conditions, measure

if __name__ == "__main__":
    folder, case = sys.argv[1:]
    shared = conditions(Path(folder), CASE_FILES / "noisy.py")
    Path(folder, "run.partial").write_text(shared.run)
    Path(folder, "run.partial").rename(Path(folder, "run.name"))
    measure(shared, [[case]])
