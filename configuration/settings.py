"""The settings: one `pyrometer.toml`, each scalar field overridable by a `PYROMETER_...` variable."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from .dashboard import resolve_dashboard
from .database_url import absolute, anchor_url
from .environments import EnvironmentSettings, resolve_environment
from .error_messages import complain
from .errors import Origin, UnknownKey, WrongValue
from .fields import ConfigTable
from .overrides import overlaid, overrides
from .reading import FILE_NAME, find_file, label_of, read_file, with_secrets
from .schedules import resolve_schedules
from .schema import BASES, POLICY, PolicySettings, PresetSettings, SettingsFile
from .suggestions import unknown

DEFAULT_ENVIRONMENT = "default"
#: What `default` is built of outside a project folder: a release of the `worker` extra in pyproject.toml.
DEFAULT_TORCH = "2.13.0"
#: What makes a folder a project folder even without settings.
_DATA_DIR, _DATABASE = ".pyrometer", "pyrometer.db"
_PLACES = frozenset(("data_dir", "database_url"))


class Settings(SettingsFile):
    """The whole file with every default filled in and every path absolute.

    `file` is what was read, None for none. `in_project` says whether data lies in the folder of that file, or
    the current one; outside a project it lies in the user's folders. `explicit` names the top-level fields
    that file or variables gave, `by_variable` those that variables did. `presets` and `schedules` hold the
    built-in ones too, the latter named in `built_in_schedules`; `environments` and `policies` always hold
    `default`; `suites` holds only what was written, for the runner knows its own. `database_url` may hold a
    password: it is not in the repr.
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
    """The settings of this place: variables over the file over the defaults.

    The file is `path`, else PYROMETER_CONFIG, else `pyrometer.toml` in `cwd` (default: the current folder).
    Relative paths in the file count from the file's folder, those in variables from `cwd`. Without a file,
    and without a place that a variable names, a folder with neither `.pyrometer` nor `pyrometer.db` is no
    project: runs and database go to the user's state folder, environments to the cache folder. The
    database's URL may also lie in a file of its own, see `with_secrets`. With `content` the file at `path` is
    taken to hold that, whether it is there or not. Raises ConfigurationError with one sentence for a file
    that cannot be read, an unknown key or a wrong value.
    """
    environ = os.environ if environ is None else environ
    cwd = absolute(cwd or Path.cwd(), Path.cwd())
    file = absolute(path, cwd) if path and content is not None else find_file(path, cwd, environ)
    label = label_of(file, cwd) if file else FILE_NAME
    environ = with_secrets(environ, cwd)
    values = read_file(file, label, content) if file else {}
    origin = Origin(label, overrides(environ, values))
    try:
        wanted = SettingsFile.model_validate(overlaid(values, origin.variables, environ))
    except ValidationError as error:
        # Not chained: pydantic repeats the input, and the input may hold a password.
        raise complain(error, origin) from None
    return _resolve_settings(wanted, file, cwd, origin, environ)


def state_folder(environ: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/pyrometer`, by default `~/.local/state/pyrometer`: runs and the database."""
    return _user_folder(environ, "XDG_STATE_HOME", ".local/state")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """`$XDG_CACHE_HOME/pyrometer`, by default `~/.cache/pyrometer`: what can be built again."""
    return _user_folder(environ, "XDG_CACHE_HOME", ".cache")


def _user_folder(environ: Mapping[str, str], variable: str, default: str) -> Path:
    chosen = Path(environ.get(variable, ""))
    # The XDG Base Directory Specification has relative paths ignored.
    base = chosen if chosen.is_absolute() else Path(environ.get("HOME") or Path.home()) / default
    return base / "pyrometer"


@dataclass(frozen=True, slots=True)
class _Places:
    """Where data lies, and what environment `default` is there."""

    in_project: bool
    data_dir: Path
    environments_dir: Path
    database_url: str
    default: EnvironmentSettings


def _places(
    wanted: SettingsFile,
    file: Path | None,
    cwd: Path,
    base_of: Callable[..., Path],
    environ: Mapping[str, str],
) -> _Places:
    chosen = not _PLACES.isdisjoint(wanted.model_fields_set)
    if file or chosen or any(os.path.lexists(cwd / name) for name in (_DATA_DIR, _DATABASE)):
        data_dir = absolute(wanted.data_dir, base_of("data_dir"))
        environments_dir = data_dir / "environments"
        python = environments_dir / DEFAULT_ENVIRONMENT / "bin" / "python"
        url = anchor_url(wanted.database_url, base_of("database_url"))
        return _Places(True, data_dir, environments_dir, url, EnvironmentSettings(python=python))
    data_dir, environments_dir = state_folder(environ), cache_folder(environ) / "environments"
    url = anchor_url(wanted.database_url, data_dir)
    return _Places(False, data_dir, environments_dir, url, EnvironmentSettings(torch=DEFAULT_TORCH))


def _resolve_settings(
    wanted: SettingsFile, file: Path | None, cwd: Path, origin: Origin, environ: Mapping[str, str]
) -> Settings:
    folder = file.parent if file else cwd

    def base_of(*path: str) -> Path:
        return cwd if path in origin.variables else folder

    places = _places(wanted, file, cwd, base_of, environ)
    environments = {DEFAULT_ENVIRONMENT: places.default}
    for name, environment in wanted.environments.items():
        environments[name] = resolve_environment(name, environment, base_of, origin)
    presets = _presets(wanted.presets, origin)
    if wanted.preset not in presets:
        sentence = unknown("preset", wanted.preset, presets)
        raise UnknownKey(f"{origin.table(('preset',))}: {sentence}")
    policies = {POLICY: PolicySettings()} | dict(wanted.policies)
    if wanted.policy not in policies:
        sentence = unknown("policy", wanted.policy, policies)
        raise UnknownKey(f"{origin.table(('policy',))}: {sentence}")
    if wanted.fleet.engine == "ray" and wanted.fleet.address is None:
        raise WrongValue(f'{origin.table(("fleet", "address"))}: "address" is missing: engine "ray" needs it')
    schedules, built_in = resolve_schedules(wanted.schedules, policies, origin)
    resolved = {
        "file": file,
        "in_project": places.in_project,
        "explicit": frozenset(wanted.model_fields_set),
        "by_variable": frozenset(path[0] for path in origin.variables if len(path) == 1),
        "data_dir": places.data_dir,
        "environments_dir": places.environments_dir,
        "database_url": places.database_url,
        "presets": presets,
        "environments": environments,
        "policies": policies,
        "schedules": schedules,
        "built_in_schedules": built_in,
        "alerts": _with_path(wanted.alerts, "alerts", "targets_file", base_of),
        "dashboard": resolve_dashboard(wanted.dashboard, base_of, origin),
        "fleet": _with_path(wanted.fleet, "fleet", "token_file", base_of),
        "slurm": _with_path(wanted.slurm, "slurm", "folder", base_of),
    }
    return Settings.model_validate({**dict(wanted), **resolved})


def _with_path(written: ConfigTable, section: str, key: str, base_of: Callable[..., Path]) -> ConfigTable:
    """A section whose path `key` is absolute, where one is given."""
    path: Path | None = getattr(written, key)
    if path is None:
        return written
    return written.model_copy(update={key: absolute(path, base_of(section, key))})


def _presets(written: Mapping[str, PresetSettings], origin: Origin) -> dict[str, PresetSettings]:
    """The built-in presets and the written ones, each with its base."""
    presets = {base: PresetSettings(base=base) for base in BASES} | dict(written)
    for base in BASES:
        if "base" not in presets[base].model_fields_set:
            presets[base] = presets[base].model_copy(update={"base": base})
        elif presets[base].base != base:
            where = origin.of(("presets", base, "base"))
            other = presets[base].base
            raise WrongValue(f'{where} is "{other}", expected "{base}": a built-in preset extends itself')
    return presets
