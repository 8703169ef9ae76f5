"""The user's folders for state and caches, by the XDG Base Directory Specification."""

from collections.abc import Mapping
from pathlib import Path


def state_folder(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/pyrometer`, by default `~/.local/state/pyrometer`: runs and the database."""
    return _folder(environ, "XDG_STATE_HOME", ".local/state")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/pyrometer`, by default `~/.cache/pyrometer`: what can be built again."""
    return _folder(environ, "XDG_CACHE_HOME", ".cache")


def _folder(environ: Mapping[str, str], variable: str, default: str) -> Path:
    chosen = Path(environ.get(variable, ""))
    # The specification has relative paths ignored.
    base = chosen if chosen.is_absolute() else Path(environ.get("HOME") or Path.home()) / default
    return base / "pyrometer"
