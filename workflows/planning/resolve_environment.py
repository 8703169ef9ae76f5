"""Resolve an environment argument to an interpreter: find it, or build it."""

import hashlib
import re
import shlex
import threading
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.atomic_file import write_whole
from configuration.data_dirs import environments_folder
from configuration.environments import EnvironmentSettings
from configuration.errors import ConfigurationError
from configuration.reading import FILE_NAME
from configuration.settings import DEFAULT_ENVIRONMENT, Settings, load_settings
from configuration.suggestions import unknown
from runner import environment as environment_room
from runner.environment import MeasuredEnvironment
from runner.environments.building import BuildContext, build_all, check_offered
from runner.environments.recipe import NIGHTLY, Recipe
from runner.environments.spec import EnvironmentSpec, parse_spec, which_torch
from runner.environments.store import Store, StoredEnvironment
from runner.errors import BadSpec, BuildFailed
from runner.execution import harness
from runner.execution.machine_lock import exclusive

from ..app_context import AppContext, Reporter
from ..errors import UsageError
from .select_cases import choose_preset


@dataclass(frozen=True, slots=True)
class ReadyEnvironment:
    """An environment that can be measured, with its displayed name.

    `asked` is the spec that means the same one on another day and in another folder.
    """

    name: str
    python: Path
    asked: str = ""


def store_of(app: AppContext) -> Store:
    """The store of built environments."""
    return Store(environments_folder(app.settings, app.places.data_dir))


def declared_environments(settings: Settings) -> dict[str, EnvironmentSpec]:
    """The declared environments, and `default`."""
    return {name: _declared_environment(name, each) for name, each in settings.environments.items()}


def _declared_environment(name: str, written: EnvironmentSettings) -> EnvironmentSpec:
    if written.python is not None:
        return EnvironmentSpec(name, python=written.python)
    recipe = Recipe(
        torch=which_torch(written.torch) if written.torch else "",
        wheel=written.wheel or "",
        index=written.index or "",
        find_links=written.find_links,
        packages=written.packages,
        usual=written.usual_packages,
        base_python=str(written.base_python or ""),
        device=written.device,
    )
    return EnvironmentSpec(name, recipe=recipe)


def parse_environment(settings: Settings, text: str, defaults: Recipe | None = None) -> EnvironmentSpec:
    """The environment that `text` means, a declared name or a spec; raises UsageError."""
    declared = declared_environments(settings)
    try:
        return parse_spec(text, declared, defaults)
    except BadSpec as error:
        if not error.word:
            raise UsageError(str(error)) from None
        others = 'or a version such as 2.13.0, "nightly", the path of a wheel or of an interpreter'
        raise UsageError(f"{unknown('environment', text, declared)}, {others}") from None


def with_packages(one: EnvironmentSpec, packages: Sequence[str]) -> EnvironmentSpec:
    """The same with more packages; raises UsageError for an interpreter, which is not built."""
    if not packages:
        return one
    if one.recipe is None:
        raise UsageError(
            f"--package is for environments that Pyrometer builds, but {one.name} is an interpreter: install "
            f"the package there with {one.python} -m pip install {shlex.join(packages)}"
        )
    return replace(one, recipe=replace(one.recipe, packages=(*one.recipe.packages, *packages)))


def choose_environment(
    app: AppContext, name: str | None, python: Path | None = None, *, may_build: bool = True
) -> tuple[str, Path]:
    """Name and interpreter of one environment, built if missing; the caller must hold the machine lock.

    Raises UsageError for an unknown one, for a name given with an interpreter, and for one that is not built
    if `may_build` is false.
    """
    refuse_two(name, python)
    if python is not None:
        # Not resolved: a virtual environment is identified by the link, not by its target.
        absolute = python.absolute()
        return (absolute.parent.parent.name or "python"), absolute
    text = DEFAULT_ENVIRONMENT if name is None else name
    if not may_build:
        one = parse_environment(app.settings, text)
        found = existing_interpreter(store_of(app), one)
        if found is None:
            raise UsageError(f"environment {text} is not built: `pyrometer environments build '{text}'`")
        return one.name, found
    (ready,) = make_ready(app, [text])
    return ready.name, ready.python


def refuse_two(name: str | None, python: Path | None) -> None:
    """Raise UsageError if an environment is given twice: one of them would be ignored."""
    if name is not None and python is not None:
        raise UsageError("give only one of --environment and --python")


def existing_interpreter(store: Store, one: EnvironmentSpec) -> Path | None:
    """The interpreter of an environment; None if it is not built yet."""
    if one.recipe is None:
        return one.python
    built = built_of(store, one.recipe)
    return built.python if built else None


def built_of(store: Store, recipe: Recipe) -> StoredEnvironment | None:
    """The environment built from a recipe; for a nightly without a day the newest one."""
    if recipe.dated:
        return store.find(recipe)
    days = sorted((b for b in store.all() if b.label.startswith(f"{NIGHTLY}-")), key=lambda b: b.label)
    same = [b for b in days if replace(recipe, torch=str(b.recipe["torch"])).folder == b.name]
    return next((b for b in reversed(same) if not b.replaced), None)


def make_ready(
    app: AppContext, texts: Sequence[str], defaults: Recipe | None = None, packages: Sequence[str] = ()
) -> list[ReadyEnvironment]:
    """The environments that `texts` mean, in their order; missing ones are built in parallel.

    `packages` are installed into each in addition to its own. The machine must not be measured meanwhile:
    hold the lock, or use `built_alone`. Progress is reported. Raises UsageError, or BuildFailed with one
    sentence for the first that cannot be built.
    """
    meant = _distinct(
        [with_packages(parse_environment(app.settings, text, defaults), packages) for text in texts]
    )
    recipes = {one.name: one.recipe for one in meant if one.recipe}
    _check_offered(app, recipes)
    built = _build(app, recipes) if recipes else {}
    failures = [made for made in built.values() if isinstance(made, BuildFailed)]
    for failure in failures[1:]:
        app.reporter.report_error(str(failure))
    if failures:
        raise failures[0]
    found = {name: made for name, made in built.items() if isinstance(made, StoredEnvironment)}
    declared = declared_environments(app.settings)
    return [_ready(text, one, found, declared) for text, one in zip(texts, meant, strict=True)]


def _check_offered(app: AppContext, recipes: Mapping[str, Recipe]) -> None:
    """Raise BuildFailed for the first that the package index does not offer, before others are built.

    If only one is to be built, its build raises the error as soon.
    """
    store = store_of(app)
    missing = [one for one in recipes.values() if not (one.dated and store.find(one))]
    if len(recipes) > 1:
        for recipe in missing:
            check_offered(recipe)


def built_alone(
    app: AppContext, texts: Sequence[str], defaults: Recipe | None = None
) -> list[ReadyEnvironment]:
    """`make_ready` while nothing is measured, because unpacking gigabytes would disturb measurements."""
    store = store_of(app)
    meant = [parse_environment(app.settings, text, defaults) for text in texts]
    if all(one.recipe is None or (one.recipe.dated and store.find(one.recipe)) for one in meant):
        return make_ready(app, texts, defaults)
    with exclusive(lambda: app.reporter.report_wait("a run or another build uses this machine")):
        return make_ready(app, texts, defaults)


def describer(app: AppContext) -> Callable[[str, Path], MeasuredEnvironment]:
    """A function that describes an interpreter, under the configured preset."""
    built, preset = harness.build(app.places.data_dir / "harness"), choose_preset(app.settings, None)
    return lambda name, python: environment_room.describe(name, python, built, preset)


def named_folders(settings: Settings, store: Store) -> set[str]:
    """The folders of declared environments, which a quota does not remove."""
    found = [built_of(store, one.recipe) for one in declared_environments(settings).values() if one.recipe]
    return {built.name for built in found if built}


def _distinct(meant: Sequence[EnvironmentSpec]) -> list[EnvironmentSpec]:
    """The same with unique names: two wheels, or two `.venv`, may have the same name."""
    alike = {one.name for one in meant for other in meant if one.name == other.name and one != other}

    def distinguished_spec(one: EnvironmentSpec) -> EnvironmentSpec:
        what = one.recipe.folder if one.recipe else str(one.python)
        return replace(one, name=f"{one.name}-{hashlib.sha256(what.encode()).hexdigest()[:4]}")

    return [distinguished_spec(one) if one.name in alike else one for one in meant]


def _ready(
    text: str, one: EnvironmentSpec, built: Mapping[str, StoredEnvironment], declared: Collection[str]
) -> ReadyEnvironment:
    if one.recipe is None:
        assert one.python is not None
        asked = text if text in declared else str(one.python).removesuffix("/bin/python")
        return ReadyEnvironment(one.name, one.python, asked)
    made = built[one.name]
    asked = one.recipe.wheel if one.recipe.wheel and text not in declared else text
    if not one.recipe.dated:
        # `nightly`, or the name of a declared one, followed by its day.
        asked = f"{text} {str(made.recipe['torch']).removeprefix(NIGHTLY).strip()}"
    return ReadyEnvironment(made.label if one.name == NIGHTLY else one.name, made.python, asked)


def _build(app: AppContext, recipes: Mapping[str, Recipe]) -> dict[str, StoredEnvironment | BuildFailed]:
    store = store_of(app)
    for name in store.sweep():
        app.reporter.note(f"environment {name} is the incomplete result of a killed build; it is removed")
    there = {
        name: built for name, recipe in recipes.items() if recipe.dated and (built := store.find(recipe))
    }
    missing = {name: recipe for name, recipe in recipes.items() if name not in there}
    made: dict[str, StoredEnvironment | BuildFailed] = {}
    if missing:
        context = BuildContext(store, describer(app), threading.Event())
        made = build_all(context, missing, _Progress(app.reporter))
        _report(app.reporter, made.values())
        in_use = {
            built.name for built in (*there.values(), *made.values()) if isinstance(built, StoredEnvironment)
        }
        keep = in_use | named_folders(app.settings, store)
        for sentence in store.make_room(app.settings.environments_gib, keep):
            app.reporter.note(sentence)
    return {**there, **made}


def _report(reporter: Reporter, made: Iterable[StoredEnvironment | BuildFailed]) -> None:
    for each in made:
        if isinstance(each, StoredEnvironment):
            facts = each.facts
            reporter.progress(
                f"{each.name}: torch {facts['torch']}, Python {facts['python']}, "
                f"{each.size_mib / 1024:.1f} GiB, built in {each.seconds:.0f} s"
            )


class _Progress:
    """Report a line for each step, from several builds at once."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._lock = threading.Lock()
        self._last: dict[str, str] = {}

    def __call__(self, name: str, phrase: str) -> None:
        with self._lock:
            if self._last.get(name) != phrase:
                self._last[name] = phrase
                self._reporter.progress(f"{name}: {phrase}")


def add_table(settings: Settings, name: str, spec: EnvironmentSpec) -> Path:
    """Append `[environments.NAME]` to the settings file, which is created if missing; returns its path.

    The rest of the file is unchanged, including comments, line ends and a byte order mark. Raises UsageError
    for a name that exists or is not allowed, and OSError if the file cannot be written; then it is unchanged.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise UsageError(f'"{name}" is not a name: use letters, digits and . _ + -')
    # Imported here, because only this function needs it.
    import tomlkit

    file = settings.file or Path.cwd() / FILE_NAME
    before = file.read_bytes() if file.exists() else b""
    if name in tomllib.loads(before.decode("utf-8-sig")).get("environments", {}):
        raise UsageError(f"environment {name} is already declared in {file}")
    end = "\r\n" if b"\r\n" in before else "\n"
    gap = end if before.endswith(b"\n") else end + end if before else ""
    # A table can be appended to any TOML file; writing the parsed document again could change its line ends.
    after = before + (gap + tomlkit.dumps({"environments": {name: _table(spec)}}).replace("\n", end)).encode()
    try:
        load_settings(file, content=after)
    except ConfigurationError as error:
        raise UsageError(f"{file} would become invalid: {error}") from None
    write_whole(file, after)
    return file


def _table(spec: EnvironmentSpec) -> Mapping[str, Any]:
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
