"""Where the trace of an outcome lies, if this machine has it."""

from pathlib import Path

#: Nothing else of a run's folder is handed out.
_ENDING = ".json.gz"


def trace_file(data_dir: Path, run: str, name: object) -> Path | None:
    """The trace called `name` in the folder of `run`; None when it is not there, or would lie outside of it.

    Both come from the database, and so perhaps from a journal that somebody else wrote.
    """
    if not isinstance(name, str) or not name.endswith(_ENDING):
        return None
    try:
        runs = (data_dir / "runs").resolve()
        folder = (runs / run).resolve()
        file = (folder / name).resolve()
        inside = folder.parent == runs and file.is_relative_to(folder)
        return file if inside and file.is_file() else None
    except (OSError, ValueError):
        return None
