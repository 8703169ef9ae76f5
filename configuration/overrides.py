"""Environment variables over the file: `PYROMETER_PRESET`, `PYROMETER_SUITES__SMOKE__REPLICATES`."""

import copy
import difflib
import re
from collections.abc import Mapping
from typing import Any, cast

from .errors import KeyPath, UnknownKey
from .schema import BASES, POLICY, SCALARS, SECTIONS, TABLES
from .suggestions import unknown

PREFIX = "PYROMETER_"

#: Names the file itself, so it cannot be a key of the file.
CONFIG = "PYROMETER_CONFIG"

#: The one setting that holds a password, and the variable that names a file with it instead.
DATABASE_URL = "PYROMETER_DATABASE_URL"
DATABASE_URL_FILE = "PYROMETER_DATABASE_URL_FILE"

#: Variables of the test suite, which are ignored.
_TESTS = "PYROMETER_TEST_"

#: Built-in names, so that `AS_IT_COMES` finds `as-it-comes`.
_BUILT_IN: Mapping[str, tuple[str, ...]] = {
    "presets": BASES,
    "environments": ("default",),
    "policies": (POLICY,),
}

#: Tables whose values are lists or tables, which a single variable cannot express.
COMPOSED = frozenset(
    (
        *("cases", "matrix", "include", "exclude", "environment", "find_links", "packages"),
        *("thresholds", "worst", "weights", "must_not_regress", "may_break", "targets"),
        *("compile_time", "peak_memory"),
        *("environments", "machines", "watch", "case_files", "waive"),
        *("viewers", "triagers", "trusted_proxies"),
        "arguments",
        "per_hour",
    )
)


def overrides(environ: Mapping[str, str], values: Mapping[str, Any]) -> dict[KeyPath, str]:
    """The variables that set something: key path -> variable. `values` is the file, for the names it defines.

    An empty variable is ignored, except inside a preset's `environment`, where empty is a value. Raises
    UnknownKey for an unknown variable with a double underscore or a name similar to a known one. Other
    unknown variables are ignored, because hosts may set them (Kubernetes gives every container
    `PYROMETER_PORT` when a service is called pyrometer).
    """
    found: dict[KeyPath, str] = {}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable == CONFIG or variable.startswith(_TESTS):
            continue
        path = _key_path(variable, values)
        if path and (text or len(path) == 4):
            found[path] = variable
    return found


def overlaid(
    values: Mapping[str, Any], found: Mapping[KeyPath, str], environ: Mapping[str, str]
) -> dict[str, Any]:
    """A copy of `values` with the variables' texts laid over it."""
    merged = copy.deepcopy(dict(values))
    for path, variable in found.items():
        _lay(merged, path, environ[variable])
    return merged


def _lay(table: dict[str, Any], path: KeyPath, text: str) -> None:
    if len(path) == 1:
        table[path[0]] = text
        return
    below = table.setdefault(path[0], {})
    # If the file has another type in place of the table, validation reports it.
    if isinstance(below, dict):
        _lay(cast(dict[str, Any], below), path[1:], text)


def _key_path(variable: str, values: Mapping[str, Any]) -> KeyPath | None:
    """The key path of the variable; None for an unknown one."""
    parts = variable.removeprefix(PREFIX).split("__")
    head = parts[0].lower()
    if variable == DATABASE_URL_FILE:
        return ("database_url",)
    if len(parts) == 1 and head in SCALARS:
        return (head,)
    if head in SECTIONS and len(parts) == 2:
        return (head, parts[1].lower())
    if head in TABLES and len(parts) == 3:
        return (head, _name(head, parts[1], values), parts[2].lower())
    if head == "presets" and len(parts) >= 4 and parts[2] == "ENVIRONMENT":
        return (head, _name(head, parts[1], values), "environment", "__".join(parts[3:]))
    ours = [CONFIG, *(PREFIX + name.upper() for name in SCALARS)]
    if len(parts) > 1:
        ours = [
            f"{PREFIX}{table.upper()}__NAME__{key.upper()}" for table in TABLES for key in _scalars(table)
        ]
        ours += [f"{PREFIX}{table.upper()}__{key.upper()}" for table in SECTIONS for key in _scalars(table)]
        ours.append(f"{PREFIX}PRESETS__NAME__ENVIRONMENT__VARIABLE")
    elif not difflib.get_close_matches(variable, ours, n=1, cutoff=0.87):
        return None
    raise UnknownKey(unknown("variable", variable, ours))


def _scalars(table: str) -> list[str]:
    return [key for key in {**TABLES, **SECTIONS}[table].model_fields if key not in COMPOSED]


def _name(table: str, part: str, values: Mapping[str, Any]) -> str:
    """The defined name whose upper-case form, with `_` for other signs, is `part`; else `part` in lower
    case.
    """
    written = values.get(table)
    names = [*(cast(dict[str, Any], written) if isinstance(written, dict) else ()), *_BUILT_IN.get(table, ())]
    spelled = {re.sub(r"[^A-Za-z0-9]", "_", name).upper(): name for name in reversed(names)}
    return spelled.get(part.upper(), part.lower())
