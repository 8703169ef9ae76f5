"""uv's settings of package indexes as variables of pip, for use where pip has none of its own."""

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

#: What pip's own configuration calls the settings that say where packages are.
_PIP_SAYS = ("index-url", "extra-index-url", "find-links", "no-index")


def taken_over(environ: Mapping[str, str], pip_config: Callable[[], str]) -> tuple[dict[str, str], str]:
    """Variables for pip that hold uv's indexes, and a sentence on where they are from; both empty for none.

    `pip_config` answers what `pip config list` prints, and is called where uv has an index. Where pip
    has one of its own, nothing is taken over.
    uv's variables go before its files, as in uv; a project's `[tool.uv]` is not looked at, for a measured
    environment belongs to no project. The names are those of uv's documentation, "Configuration files" and
    "Environment variables".
    """
    found, origin = _from_variables(environ), "uv's variables"
    if not found and environ.get("UV_NO_CONFIG", "").lower() not in ("1", "true"):
        for file in _files(environ):
            if found := _from_file(file):
                origin = str(file)
                break
    keys = [
        line.partition("=")[0].rpartition(".")[2] for line in (pip_config() if found else "").splitlines()
    ]
    if not found or any(key in _PIP_SAYS for key in keys):
        return {}, ""
    named = {name: " ".join(values) for name, values in found.items()}
    return named, f"pip has no package index configured: those of {origin} are taken"


def _from_variables(environ: Mapping[str, str]) -> dict[str, list[str]]:
    def words(*names: str, separator: str | None = None) -> list[str]:
        texts = [environ[name] for name in names if environ.get(name)]
        return [word.strip() for text in texts for word in text.split(separator)]

    found = {
        "PIP_INDEX_URL": words("UV_DEFAULT_INDEX", "UV_INDEX_URL")[:1],
        "PIP_EXTRA_INDEX_URL": words("UV_INDEX", "UV_EXTRA_INDEX_URL"),
        "PIP_FIND_LINKS": words("UV_FIND_LINKS", separator=","),
    }
    return {name: [_address(word) for word in values] for name, values in found.items() if values}


def _from_file(file: Path) -> dict[str, list[str]]:
    try:
        whole = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    # The keys stand at the top or under [pip]; there they are meant for `uv pip` alone, and win.
    table: dict[str, Any] = {**whole, **cast(dict[str, Any], whole.get("pip") or {})}
    indexes = [entry for entry in table.get("index") or () if not entry.get("explicit")]
    default = [str(entry["url"]) for entry in indexes if entry.get("default") and "url" in entry]
    default += [str(table["index-url"])] if "index-url" in table else []
    links = [str(link) for link in table.get("find-links") or ()]
    found = {
        "PIP_INDEX_URL": default[:1],
        "PIP_EXTRA_INDEX_URL": [
            *(str(entry["url"]) for entry in indexes if not entry.get("default") and "url" in entry),
            *map(str, table.get("extra-index-url") or ()),
        ],
        "PIP_FIND_LINKS": [link if "://" in link else str(file.parent / link) for link in links],
        "PIP_NO_INDEX": ["1"] if table.get("no-index") else [],
    }
    return {name: values for name, values in found.items() if values}


def _files(environ: Mapping[str, str]) -> list[Path]:
    """uv's files in the order of their weight: the user's, then the system's."""
    if chosen := environ.get("UV_CONFIG_FILE"):
        return [Path(chosen)]
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    system = [Path(part) for part in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep) if part]
    return [Path(home) / "uv/uv.toml", *(folder / "uv/uv.toml" for folder in system), Path("/etc/uv/uv.toml")]


def _address(word: str) -> str:
    """An index without the name that uv allows before it: `company=https://...`."""
    name, equals, address = word.partition("=")
    return address if equals and "://" not in name and "://" in address else word
