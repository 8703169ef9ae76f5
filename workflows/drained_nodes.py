"""Drained nodes, which get no new task: a file for each in the head's data folder."""

from pathlib import Path
from urllib.parse import quote, unquote


def drained_nodes(data_dir: Path) -> frozenset[str]:
    """The names of the drained nodes, online or not."""
    try:
        return frozenset(unquote(each.name) for each in _folder(data_dir).iterdir())
    except FileNotFoundError:
        return frozenset()


def drain(data_dir: Path, node: str) -> bool:
    """Give a node no new task; it finishes the one that it has. Returns false if it was drained before."""
    folder = _folder(data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    fresh = node not in drained_nodes(data_dir)
    (folder / _name(node)).touch()
    return fresh


def undrain(data_dir: Path, node: str) -> bool:
    """Give a node tasks again; returns whether it was drained."""
    try:
        (_folder(data_dir) / _name(node)).unlink()
    except FileNotFoundError:
        return False
    return True


def _folder(data_dir: Path) -> Path:
    return data_dir / "fleet" / "drained"


def _name(node: str) -> str:
    # A node's name may hold characters that the name of a file cannot.
    return quote(node, safe="").replace(".", "%2E") if node.startswith(".") else quote(node, safe="")
