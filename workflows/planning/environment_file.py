"""Writing one more environment into pyrometer.toml."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit

from common.atomic_file import write_whole
from configuration.errors import ConfigurationError
from configuration.reading import FILE_NAME
from configuration.settings import Settings, load_settings
from runner.environments.recipe import Recipe
from runner.environments.spec import Wanted

from ..errors import UsageError


def add_table(settings: Settings, name: str, spec: Wanted) -> Path:
    """Append `[environments.NAME]` to the settings file, which is created if there is none; return its path.

    The rest of the file stays as it is, with comments, line ends and a byte order mark. Raises UsageError for
    a name that is taken or not allowed, and OSError where the file cannot be written and stays unchanged.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise UsageError(f'"{name}" is no name: letters, digits and . _ + - make one')
    file = settings.file or Path.cwd() / FILE_NAME
    before = file.read_bytes() if file.exists() else b""
    if name in tomlkit.parse(before.decode("utf-8-sig")).get("environments", {}):
        raise UsageError(f"environment {name} is declared in {file} already")
    end = "\r\n" if b"\r\n" in before else "\n"
    gap = end if before.endswith(b"\n") else end + end if before else ""
    # A table may be appended to any TOML file; to write the parsed document again could change its line ends.
    after = before + (gap + tomlkit.dumps({"environments": {name: _table(spec)}}).replace("\n", end)).encode()
    try:
        load_settings(file, content=after)
    except ConfigurationError as error:
        raise UsageError(f"{file} would no longer be read: {error}") from None
    write_whole(file, after)
    return file


def _table(spec: Wanted) -> Mapping[str, Any]:
    if spec.recipe is None:
        return {"python": str(spec.python)}
    recipe, default = spec.recipe, Recipe()
    values = {
        "torch": recipe.torch,
        "wheel": recipe.wheel,
        "index": recipe.index,
        "find_links": list(recipe.find_links),
        "packages": list(recipe.packages),
        "base_python": recipe.base_python,
        "device": "" if recipe.device == default.device else recipe.device,
    }
    given: dict[str, Any] = {key: value for key, value in values.items() if value}
    return given if recipe.usual else given | {"usual_packages": False}
