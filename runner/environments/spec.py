"""What people write for an environment: a name, a version, a nightly, a wheel, an interpreter."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from common.text import has_credentials

from ..errors import BadSpec
from .recipe import NIGHTLY, Recipe
from .versions import date_of, parse

_DAY_OF = re.compile(r"(.+?)[ :@=-]+(\d{4}-\d{2}-\d{2})")
_NIGHTLY = re.compile(rf"{NIGHTLY}(?:[ :@=-]+(\S+))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """One environment that is wanted: an interpreter that exists, or else a recipe. `name` is for people."""

    name: str
    python: Path | None = None
    recipe: Recipe | None = None


def parse_spec(
    text: str, declared: Mapping[str, EnvironmentSpec], defaults: Recipe | None = None
) -> EnvironmentSpec:
    """What `text` means. A declared name comes first, so that `nightly` can be one.

    A declared nightly has all its days: `NAME 2026-11-20` is the one of that day, from the same index and
    with the same packages. `defaults` is a recipe that a version, a nightly or a wheel completes. Paths may
    begin with `~`, and count from the current folder. Raises BadSpec with one sentence, for an address with
    a password too: a spec stands on command lines, in journals and in the database.
    """
    if has_credentials(text):
        raise BadSpec(
            "an environment is named without user and password: keep them in ~/.netrc, or write the whole "
            "address into pyrometer.toml, as `wheel` of [environments.NAME]"
        )
    if text in declared:
        return declared[text]
    if of_day := _of_day(text, declared):
        return of_day
    recipe = defaults or Recipe()
    if _is_wheel(text):
        wheel = _address(text)
        return EnvironmentSpec(Path(text).name, recipe=replace(recipe, wheel=wheel))
    if os.sep in text or text.startswith("~"):
        return _interpreter(text)
    if not _NIGHTLY.fullmatch(text) and parse(text.removeprefix("torch==")) is None:
        raise BadSpec(
            f'"{text}" is no environment: neither one that is declared, nor a version such as 2.13.0, nor '
            '"nightly", nor the path of a wheel or of an interpreter',
            word=text,
        )
    torch = which_torch(text)
    return EnvironmentSpec(torch, recipe=replace(recipe, torch=torch))


def _of_day(text: str, declared: Mapping[str, EnvironmentSpec]) -> EnvironmentSpec | None:
    """The nightly of some day where `text` names a declared one and a day."""
    named = _DAY_OF.fullmatch(text.strip())
    recipe = declared[named[1]].recipe if named and named[1] in declared else None
    if named is None or recipe is None or recipe.torch != NIGHTLY:
        return None
    torch = which_torch(f"{NIGHTLY} {named[2]}")
    return EnvironmentSpec(torch.replace(NIGHTLY, named[1], 1), recipe=replace(recipe, torch=torch))


def which_torch(text: str) -> str:
    """A version or a nightly in its only spelling: `2.13` is `2.13.0`, `2.16.0.dev20261120` a nightly too.

    Raises BadSpec.
    """
    if nightly := _NIGHTLY.fullmatch(text.strip()):
        if nightly[1] is None:
            return NIGHTLY
        try:
            return f"{NIGHTLY} {date.fromisoformat(nightly[1])}"
        except ValueError:
            raise BadSpec(f'"{text}": a nightly is named by its day, such as "nightly 2026-11-20"') from None
    version = parse(text.strip().removeprefix("torch=="))
    if version is None:
        raise BadSpec(f'"{text}" is no version: 2.13.0 is one, and "nightly", and "nightly 2026-11-20"')
    if len(version.release) > 2 or date_of(version):
        return str(version)
    padded = ".".join(map(str, (*version.release, 0, 0)[:3]))
    return str(version).replace(".".join(map(str, version.release)), padded, 1)


def _is_wheel(text: str) -> bool:
    return text.partition("#")[0].endswith(".whl")


def _address(text: str) -> str:
    """A wheel's URL as it came, or its path made absolute; raises BadSpec where there is no such file."""
    if "://" in text:
        return text
    path = Path(os.path.abspath(os.path.expanduser(text)))
    if not path.is_file():
        raise BadSpec(f"there is no wheel at {path}")
    return str(path)


def _interpreter(text: str) -> EnvironmentSpec:
    """The interpreter at a path; a folder means the virtual environment in it."""
    if "://" in text:
        # Not repeated: it may have a password.
        raise BadSpec("an interpreter is given by its path; an address names a wheel and ends with .whl")
    # Not resolved: a virtual environment is known by the link, not by what it points to.
    path = Path(os.path.abspath(os.path.expanduser(text)))
    if (path / "bin" / "python").exists():
        path = path / "bin" / "python"
    if path.is_dir():
        raise BadSpec(f"{path} is a folder without an interpreter at bin/python")
    if not path.exists():
        raise BadSpec(f"there is no interpreter at {path}")
    return EnvironmentSpec(path.parent.parent.name or "python", python=path)
