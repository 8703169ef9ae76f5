"""pip and where it finds packages: its variables, uv's indexes for it, what an index offers, what is new."""

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, cast

from common.atomic_file import write_whole
from common.bounded_files import read_or_empty
from common.text import without_credentials

from ..errors import IndexFailed
from ..execution.process import inherited_variables
from . import build_errors
from .interpreter import BasePython
from .recipe import NIGHTLY, Recipe
from .versions import around, date_of, is_it, nightlies, of_day, parse, sort_versions

_QUERY_SECONDS = 300.0
#: Where the PyTorch project keeps its nightlies; no other index has them.
NIGHTLIES = "https://download.pytorch.org/whl/nightly"
#: What would put packages elsewhere, or have pip take others for those of the environment.
_REDIRECTING = (
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "PIP_PYTHON",
    "PIP_REQUIRE_VIRTUALENV",
    "PYTHONPATH",
    "PYTHONHOME",
)
_DRIVER = Path("/sys/module/nvidia/version")


@dataclass(frozen=True, slots=True)
class Pip:
    """How pip is called for a recipe: its variables, its options, and what people should know about them."""

    variables: Mapping[str, str]
    options: tuple[str, ...]
    note: str

    @property
    def common(self) -> tuple[str, ...]:
        """Options that every command of pip takes."""
        return ("--disable-pip-version-check", "--no-color", "--no-input")


def pip_for(recipe: Recipe, base: BasePython) -> Pip:
    """pip as its user configured it, with uv's indexes where it has none, or with the recipe's index.

    PyTorch's index of nightlies stands alone too: pip takes the highest version of a package that
    any of its indexes offers, also one that a stranger published under the same name.
    """
    variables = {k: v for k, v in inherited_variables().items() if k not in _REDIRECTING}
    indexes, note = taken_over(os.environ, lambda: _pip_configuration(base, variables))
    variables |= indexes
    if recipe.index:
        # By variable, not by option: an address may hold a password, and options are visible to all users.
        variables["PIP_INDEX_URL"] = recipe.index
    options = [f"--find-links={link}" for link in recipe.find_links if "://" not in link]
    if pages := [link for link in recipe.find_links if "://" in link]:
        variables["PIP_FIND_LINKS"] = " ".join([*variables.get("PIP_FIND_LINKS", "").split(), *pages])
    if from_nightlies(recipe):
        index = nightly_index(recipe.device, _driver())
        # Twice: only another one takes the place of an extra index in pip's own configuration.
        variables |= {"PIP_INDEX_URL": index, "PIP_EXTRA_INDEX_URL": index}
    return Pip(variables, tuple(options), note)


def list_versions(recipe: Recipe, base: BasePython, *, pre: bool = False) -> list[str]:
    """The versions of torch that the recipe's index offers to this Python and machine, the oldest first.

    `pre` has release candidates and nightlies as well. Raises IndexFailed.
    """
    if not base.pip:
        raise IndexFailed(f"{base.path} has no pip to ask the package index with")
    printed = query(pip_for(recipe, base), base, "torch", pre=pre)
    if pre and (problem := build_errors.unreachable(printed)):
        # What the others offer would pass for all there is, and an old nightly for the newest.
        raise IndexFailed(problem)
    if found := re.search(r"^Available versions: (.+)$", printed, re.MULTILINE):
        return sort_versions(found[1].split(", "))
    raise IndexFailed(build_errors.of_index(printed, base.version))


def query(pip: Pip, base: BasePython, project: str, *, pre: bool = False) -> str:
    """The verbose output of `pip index versions` for a package, with all its links but no password."""
    options = (*pip.common, *pip.options, *(("--pre",) if pre else ()))
    try:
        done = subprocess.run(
            [*base.pip, "-vv", "index", "versions", *options, project],
            env=dict(pip.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_QUERY_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise IndexFailed(f"the package index does not answer within {_QUERY_SECONDS:g} s") from None
    return without_credentials(done.stdout)


def lacks(recipe: Recipe, base: BasePython) -> str:
    """Why the index of a recipe does not offer its torch, in a sentence; empty where it does.

    Empty too where that cannot be known without a build: of a wheel, and of an index that gives no answer.
    """
    version = parse(recipe.torch)
    if recipe.torch.startswith(NIGHTLY):
        try:
            requirement(resolve_nightly(recipe, base), base)
        except IndexFailed as error:
            return str(error)
        return ""
    if recipe.wheel or version is None or not base.pip:
        return ""
    try:
        printed = query(pip_for(recipe, base), base, "torch", pre=version.is_prerelease)
    except IndexFailed:
        return ""
    found = re.search(r"^Available versions: (.+)$", printed, re.MULTILINE)
    versions = found[1].split(", ") if found else []
    if any(is_it(recipe.torch, each) for each in versions) or build_errors.unreachable(printed):
        return ""
    return build_errors.not_offered(f"torch=={recipe.torch}", versions, printed, recipe.torch, base.version)


def resolve_nightly(recipe: Recipe, base: BasePython) -> Recipe:
    """The recipe with `nightly` made the newest one that the index offers; any other as it is.

    Raises IndexFailed.
    """
    if recipe.dated:
        return recipe
    found = nightlies(list_versions(recipe, base, pre=True))
    day = date_of(version) if found and (version := parse(found[-1])) else None
    if day is None:
        raise IndexFailed(
            f"the package index offers no nightly: name one that does as `index`, such as {NIGHTLIES}/cu130"
        )
    return replace(recipe, torch=f"{NIGHTLY} {day}")


def requirement(recipe: Recipe, base: BasePython) -> str:
    """The requirement of torch for pip; raises IndexFailed for a day without a nightly."""
    if recipe.wheel:
        return recipe.wheel
    if not recipe.torch.startswith(NIGHTLY):
        return f"torch=={recipe.torch}"
    day = date.fromisoformat(recipe.torch.split()[1])
    found = nightlies(list_versions(recipe, base, pre=True))
    version = of_day(day, found)
    if version is None:
        near = around(f"0.dev{day:%Y%m%d}", found)
        raise IndexFailed(
            f"the package index offers no nightly of {day}"
            + (f"; the nearest are {', '.join(near)}" if near else ", nor of any other day")
        )
    return f"torch=={version}"


def news(file: Path, versions: Iterable[str]) -> list[str] | None:
    """Those of `versions` that were not offered last time, the oldest first; None at the first time.

    What is offered now is remembered in `file`.
    """
    known: list[str] | None = None
    with suppress(OSError, ValueError):
        known = [str(text) for text in json.loads(file.read_text(encoding="utf-8"))]
    now = sort_versions(versions)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(sort_versions([*(known or ()), *now])))
    return None if known is None else [text for text in now if text not in known]


def _pip_configuration(base: BasePython, variables: Mapping[str, str]) -> str:
    if not base.pip:
        return ""
    done = subprocess.run(
        [*base.pip, "config", "list"],
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_QUERY_SECONDS,
    )
    return done.stdout


def from_nightlies(recipe: Recipe) -> bool:
    """Whether torch is from PyTorch's own index of nightlies: where the recipe names no place."""
    return recipe.torch.startswith(NIGHTLY) and not (recipe.index or recipe.find_links)


def nightly_index(device: str, driver: str) -> str:
    """The index of PyTorch's nightlies for a machine with this NVIDIA driver (`580.65.06`), empty for none.

    There is one for each version of CUDA: 13.0 needs driver 580 or newer, 12.6 runs with each driver from 525
    on (docs.nvidia.com/deploy/cuda-compatibility). An environment for the CPU has those for CPUs.
    """
    if not driver or device == "cpu":
        return f"{NIGHTLIES}/cpu"
    major = driver.partition(".")[0]
    return f"{NIGHTLIES}/{'cu126' if major.isdecimal() and int(major) < 580 else 'cu130'}"


def _driver() -> str:
    """The version of the NVIDIA driver that is loaded; empty for none."""
    return read_or_empty(_DRIVER).strip()


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
