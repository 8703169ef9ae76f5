"""Writing one more environment into pyrometer.toml."""

import json
import re
from pathlib import Path

from common.atomic_file import write_file
from configuration.errors import ConfigurationError
from configuration.lines import lines_of
from configuration.reading import FILE_NAME
from configuration.settings import Settings, load_settings
from runner.environments.recipe import Recipe
from runner.environments.spec import Wanted

from ..context import UsageError


def add_table(settings: Settings, name: str, one: Wanted) -> Path:
    """Append `[environments.NAME]` to the settings file, which is made if there is none; answers its path.

    What stands there stays as it is, comments, line ends and a byte order mark too: a table may be added at
    the end of any TOML file. Raises UsageError for a name that is taken or cannot be one, and OSError where
    the file cannot be written, which then is what it was.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise UsageError(f'"{name}" is no name: letters, digits and . _ + - make one')
    file = settings.file or Path.cwd() / FILE_NAME
    before = file.read_bytes() if file.exists() else b""
    if ("environments", name) in lines_of(before.decode("utf-8-sig")):
        raise UsageError(f"environment {name} is declared in {file} already")
    key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
    end = "\r\n" if b"\r\n" in before else "\n"
    gap = end if before.endswith(b"\n") else end + end if before else ""
    lines = [f"[environments.{key}]", *_lines(one)]
    after = before + (gap + "".join(line + end for line in lines)).encode()
    try:
        load_settings(file, content=after)
    except ConfigurationError as error:
        raise UsageError(f"{file} would no longer be read: {error}") from None
    write_file(file, after)
    return file


def _lines(one: Wanted) -> list[str]:
    if one.recipe is None:
        return [f"python = {_text(str(one.python))}"]
    recipe = one.recipe
    texts = {"torch": recipe.torch, "wheel": recipe.wheel, "index": recipe.index}
    lines = [f"{key} = {_text(value)}" for key, value in texts.items() if value]
    for key, values in {"find_links": recipe.find_links, "packages": recipe.packages}.items():
        lines += [f"{key} = [{', '.join(map(_text, values))}]"] if values else []
    plain = Recipe()
    lines += ["usual_packages = false"] if not recipe.usual else []
    lines += [f"base_python = {_text(recipe.base_python)}"] if recipe.base_python else []
    return lines + ([f"device = {_text(recipe.device)}"] if recipe.device != plain.device else [])


def _text(value: str) -> str:
    """A text as TOML writes it; JSON's spelling is one that TOML knows."""
    return json.dumps(value, ensure_ascii=False)
