"""Nodes that are to get nothing new: a file for each in the head's data folder, kept until it is undone."""

from pathlib import Path
from urllib.parse import quote, unquote


def drained(data_dir: Path) -> frozenset[str]:
    """The names of the nodes that are drained, whether they are there or not."""
    try:
        return frozenset(unquote(each.name) for each in _folder(data_dir).iterdir())
    except FileNotFoundError:
        return frozenset()


def drain(data_dir: Path, node: str) -> bool:
    """Have a node get no new task; what it has it finishes. Answers whether that is new."""
    folder = _folder(data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = node not in drained(data_dir)
    (folder / _name(node)).touch()
    return fresh


def undo(data_dir: Path, node: str) -> bool:
    """Have a node get tasks again; answers whether it was drained."""
    try:
        (_folder(data_dir) / _name(node)).unlink()
    except FileNotFoundError:
        return False
    return True


def _folder(data_dir: Path) -> Path:
    return data_dir / "fleet" / "drained"


def _name(node: str) -> str:
    # A name may hold anything; no file's name does.
    return quote(node, safe="").replace(".", "%2E") if node.startswith(".") else quote(node, safe="")
