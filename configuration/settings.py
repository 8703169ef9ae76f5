"""The settings: one `pyrometer.toml`, whose scalar fields can be overridden by `PYROMETER_...` variables."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from common.text import has_credentials, without_credentials

from .dashboard import SECRETS, resolve_dashboard
from .database_url import absolute, anchor_url
from .environments import EnvironmentSettings, resolve_environment
from .errors import ConfigurationError, KeyPath, Origin, UnknownKey, WrongValue
from .fields import ConfigTable
from .overrides import overlaid, overrides
from .reading import FILE_NAME, find_file, label_of, read_file, with_secrets
from .schedules import resolve_schedules
from .schema import BASES, POLICY, SCALARS, SECTIONS, TABLES, PolicySettings, PresetSettings, SettingsFile
from .suggestions import unknown

DEFAULT_ENVIRONMENT = "default"
#: The release from which `default` is built outside a project folder; the `worker` extra in pyproject.toml
#: allows it.
DEFAULT_TORCH = "2.13.0"
#: Files that make a folder a project folder even without settings.
_DATA_DIR, _DATABASE = ".pyrometer", "pyrometer.db"
_PLACES = frozenset(("data_dir", "database_url"))


class Settings(SettingsFile):
    """The whole file with every default filled in and every path absolute.

    `file` is the file that was read, None without one. `in_project` is whether data is stored in the folder
    of that file, or the current one; outside a project it is stored in the user's folders. `explicit` names
    the top-level fields that file or variables gave, `by_variable` those that variables did. `presets` and
    `schedules` hold the built-in ones too, the latter named in `built_in_schedules`; `environments` and
    `policies` always hold `default`; `suites` holds only configured suites; the built-in ones are in the
    runner. `database_url` may hold a password: it is not in the repr.
    """

    file: Path | None
    in_project: bool
    explicit: frozenset[str]
    by_variable: frozenset[str]
    environments_dir: Path
    built_in_schedules: frozenset[str]


def load_settings(
    path: Path | None = None,
    *,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    content: bytes | None = None,
) -> Settings:
    """The settings in effect: variables override the file, which overrides the defaults.

    The file is `path`, else PYROMETER_CONFIG, else `pyrometer.toml` in `cwd` (default: the current folder).
    Relative paths in the file count from the file's folder, those in variables from `cwd`. Without a file,
    and without a place that a variable names, a folder with neither `.pyrometer` nor `pyrometer.db` is no
    project: runs and database go to the user's state folder, environments to the cache folder. The database's
    URL may also lie in a file of its own, see `with_secrets`. With `content` the file at `path` is not read:
    it is taken to contain that text. Raises ConfigurationError with one sentence for a file that cannot be
    read, an unknown key or a wrong value.
    """
    environ = os.environ if environ is None else environ
    cwd = absolute(cwd or Path.cwd(), Path.cwd())
    file = absolute(path, cwd) if path and content is not None else find_file(path, cwd, environ)
    label = label_of(file, cwd) if file else FILE_NAME
    environ = with_secrets(environ, cwd)
    values = read_file(file, label, content) if file else {}
    origin = Origin(label, overrides(environ, values))
    try:
        file_settings = SettingsFile.model_validate(overlaid(values, origin.variables, environ))
    except ValidationError as error:
        # Not chained: pydantic repeats the input, and the input may hold a password.
        raise _complain(error, origin) from None
    return _resolve_settings(file_settings, file, cwd, origin, environ)


def state_folder(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/pyrometer`, by default `~/.local/state/pyrometer`: runs and the database."""
    return _user_folder(environ, "XDG_STATE_HOME", ".local/state")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/pyrometer`, by default `~/.cache/pyrometer`: data that can be built again."""
    return _user_folder(environ, "XDG_CACHE_HOME", ".cache")


def _user_folder(environ: Mapping[str, str], variable: str, default: str) -> Path:
    chosen = Path(environ.get(variable, ""))
    # The XDG Base Directory Specification has relative paths ignored.
    base = chosen if chosen.is_absolute() else Path(environ.get("HOME") or Path.home()) / default
    return base / "pyrometer"


@dataclass(frozen=True, slots=True)
class _Places:
    """The folder for data, and the environment `default` there."""

    in_project: bool
    data_dir: Path
    environments_dir: Path
    database_url: str
    default: EnvironmentSettings


def _places(
    file_settings: SettingsFile,
    file: Path | None,
    cwd: Path,
    base_of: Callable[..., Path],
    environ: Mapping[str, str],
) -> _Places:
    chosen = not _PLACES.isdisjoint(file_settings.model_fields_set)
    if file or chosen or any(os.path.lexists(cwd / name) for name in (_DATA_DIR, _DATABASE)):
        data_dir = absolute(file_settings.data_dir, base_of("data_dir"))
        environments_dir = data_dir / "environments"
        python = environments_dir / DEFAULT_ENVIRONMENT / "bin" / "python"
        url = anchor_url(file_settings.database_url, base_of("database_url"))
        return _Places(True, data_dir, environments_dir, url, EnvironmentSettings(python=python))
    data_dir, environments_dir = state_folder(environ), cache_folder(environ) / "environments"
    url = anchor_url(file_settings.database_url, data_dir)
    return _Places(False, data_dir, environments_dir, url, EnvironmentSettings(torch=DEFAULT_TORCH))


def _resolve_settings(
    file_settings: SettingsFile, file: Path | None, cwd: Path, origin: Origin, environ: Mapping[str, str]
) -> Settings:
    folder = file.parent if file else cwd

    def base_of(*path: str) -> Path:
        return cwd if path in origin.variables else folder

    places = _places(file_settings, file, cwd, base_of, environ)
    environments = {DEFAULT_ENVIRONMENT: places.default}
    for name, environment in file_settings.environments.items():
        environments[name] = resolve_environment(name, environment, base_of, origin)
    presets = _presets(file_settings.presets, origin)
    if file_settings.preset not in presets:
        sentence = unknown("preset", file_settings.preset, presets)
        raise UnknownKey(f"{origin.table(('preset',))}: {sentence}")
    policies = {POLICY: PolicySettings()} | dict(file_settings.policies)
    if file_settings.policy not in policies:
        sentence = unknown("policy", file_settings.policy, policies)
        raise UnknownKey(f"{origin.table(('policy',))}: {sentence}")
    if file_settings.fleet.engine == "ray" and file_settings.fleet.address is None:
        raise WrongValue(f'{origin.table(("fleet", "address"))}: "address" is missing: engine "ray" needs it')
    schedules, built_in = resolve_schedules(file_settings.schedules, policies, origin)
    resolved = {
        "file": file,
        "in_project": places.in_project,
        "explicit": frozenset(file_settings.model_fields_set),
        "by_variable": frozenset(path[0] for path in origin.variables if len(path) == 1),
        "data_dir": places.data_dir,
        "environments_dir": places.environments_dir,
        "database_url": places.database_url,
        "presets": presets,
        "environments": environments,
        "policies": policies,
        "schedules": schedules,
        "built_in_schedules": built_in,
        "alerts": _with_path(file_settings.alerts, "alerts", "targets_file", base_of),
        "dashboard": resolve_dashboard(file_settings.dashboard, base_of, origin),
        "fleet": _with_path(file_settings.fleet, "fleet", "token_file", base_of),
        "slurm": _with_path(file_settings.slurm, "slurm", "folder", base_of),
    }
    return Settings.model_validate({**dict(file_settings), **resolved})


def _with_path(written: ConfigTable, section: str, key: str, base_of: Callable[..., Path]) -> ConfigTable:
    """A section with the path `key`, if given, made absolute."""
    path: Path | None = getattr(written, key)
    if path is None:
        return written
    return written.model_copy(update={key: absolute(path, base_of(section, key))})


def _presets(written: Mapping[str, PresetSettings], origin: Origin) -> dict[str, PresetSettings]:
    """The built-in and the configured presets, each merged with its base."""
    presets = {base: PresetSettings(base=base) for base in BASES} | dict(written)
    for base in BASES:
        if "base" not in presets[base].model_fields_set:
            presets[base] = presets[base].model_copy(update={"base": base})
        elif presets[base].base != base:
            where = origin.of(("presets", base, "base"))
            other = presets[base].base
            raise WrongValue(f'{where} is "{other}", expected "{base}": a built-in preset extends itself')
    return presets


#: Pydantic's mark for "the key itself is wrong", at the end of a location.
_KEY = "[key]"

#: May hold a password, so it is never repeated.
_SECRETS: tuple[KeyPath, ...] = (
    *(("database_url",), ("alerts",), ("alerts", "targets"), ("dashboard",)),
    *(("dashboard", name) for name in SECRETS),
)
#: Tables whose values may hold a password too.
_SECRET_LISTS: tuple[KeyPath, ...] = (("alerts", "targets"),)


def _complain(error: ValidationError, origin: Origin) -> ConfigurationError:
    """The first problem as a sentence, and the number of the others. Unknown keys come first: a misspelt key
    is often why another one is missing.
    """
    problems = sorted(
        error.errors(include_url=False, include_context=False), key=lambda e: e["type"] != "extra_forbidden"
    )
    first = problems[0]
    kind = UnknownKey if first["type"] == "extra_forbidden" else WrongValue
    sentence = _sentence(first["type"], tuple(str(part) for part in first["loc"]), first["input"], origin)
    if more := len(problems) - 1:
        sentence += f"; and {more} more problem{'s' if more > 1 else ''}"
    return kind(sentence)


def _sentence(kind: str, path: KeyPath, given: object, origin: Origin) -> str:
    if kind == "extra_forbidden":
        return f"{origin.table(path)}: {unknown('key', path[-1], _keys(path[:-1]))}"
    if kind == "missing":
        return f'{origin.table(path)}: "{path[-1]}" is missing, expected {_field_description(path)}'
    if path[-1] == _KEY:
        *table, name, _ = path
        what = "a variable's name" if len(table) > 1 else "a name of letters, digits and . _ + -"
        name = without_credentials(name)
        return f'{origin.table((*table, name))}: "{name}" is not {what}'
    # An address of packages may hold a password and is not repeated; a version is.
    address = (path[0] == "environments" and "@" in str(given)) or has_credentials(str(given))
    secret = address or path in _SECRETS or path[:-1] in _SECRET_LISTS
    value = "not usable" if secret and isinstance(given, str | int | float) else _format_value(given)
    return f"{origin.of(path)} is {value}, expected {_field_description(path)}"


def _keys(table: KeyPath) -> list[str]:
    return list(({**TABLES, **SECTIONS}[table[0]] if table else SettingsFile).model_fields)


def _field_description(path: KeyPath) -> str:
    """The expected value of a field, from its description in the schema."""
    if path[0] in SCALARS or len(path) == 1:
        return str(SettingsFile.model_fields[path[0]].description)
    if path[0] in SECTIONS:
        return str(SECTIONS[path[0]].model_fields[path[1]].description)
    if len(path) == 2:
        return f"a table [{'.'.join(path)}]"
    table, _, field, *below = path
    if field == "environment" and below:
        return "a text in quotes"
    if field == "matrix" and len(below) > 1:
        return "a text in quotes" if below[1] == "why" else "a list of texts in quotes"
    return str(TABLES[table].model_fields[field].description)


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
