"""`pyrometer environments`: lists and builds the environments that can be measured."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from common.interrupts import interruptible
from common.text import has_credentials, printable_lines, utc, without_credentials
from runner.environments import package_index
from runner.environments.interpreter import installed_torch, look_at
from runner.environments.recipe import Device, Recipe
from runner.environments.store import FREEZE, StoredEnvironment
from runner.environments.versions import date_of, is_it, parse
from runner.errors import BrokenEnvironment
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.planning.resolve_environment import (
    add_table,
    built_alone,
    built_of,
    declared_environments,
    describer,
    existing_interpreter,
    parse_environment,
    store_of,
)

from ..context import INTERRUPTED, context, in_one_sentence, say
from ..options import NO_PASSWORDS, Json, Packages
from ..output.console import report_console, table

app = typer.Typer(help="List and build the environments that can be measured.", no_args_is_help=True)

Index = Annotated[str | None, typer.Option(help="package index to use instead of the configured one")]
FindLinks = Annotated[
    list[str] | None, typer.Option("--find-links", help="a folder or page of wheels (repeatable)")
]
Bare = Annotated[bool, typer.Option("--bare", help="without numpy, setuptools and ONNX's packages")]
BasePython = Annotated[Path | None, typer.Option(help="the Python that creates the virtual environment")]
WantedDevice = Annotated[Device, typer.Option(help="cuda: refuse a PyTorch that sees no GPU")]


def _recipe(
    index: str | None,
    find_links: list[str] | None,
    packages: list[str] | None = None,
    bare: bool = False,
    base_python: Path | None = None,
    device: Device = "auto",
) -> Recipe:
    if any(map(has_credentials, (index or "", *(find_links or ())))):
        raise UsageError(NO_PASSWORDS)
    links = [link if "://" in link else str(Path(link).expanduser().absolute()) for link in find_links or ()]
    base = str(base_python.expanduser().absolute()) if base_python else ""
    return Recipe("", "", index or "", tuple(links), tuple(packages or ()), not bare, base, device)


@app.command("list")
def list_environments(as_json: Json = False) -> None:
    """List every environment: first the declared ones, then others that were built.

    PyTorch is not imported: `pyrometer doctor` reports whether each can be imported.
    """
    with in_one_sentence():
        rows = _rows(context())
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    listed = table("environment", "torch", "CUDA", "Python", "size", "last used", "state", "from")
    for row in rows:
        size = f"{row['size_mib'] / 1024:.1f} GiB" if row.get("size_mib") else "-"
        used = utc(datetime.fromtimestamp(row["used_at"], UTC)) if row.get("used_at") else "-"
        state = row.get("broken") or row["state"]
        facts = [row.get(key) or "-" for key in ("torch", "cuda", "python_version")]
        listed.add_row(row["name"], *facts, size, used, state, row["from"])
    report_console().print(listed)


def _rows(app_context: AppContext) -> list[dict[str, Any]]:
    store, rows, declared = store_of(app_context), list[dict[str, Any]](), set[str]()
    for name, one in declared_environments(app_context.settings).items():
        built = built_of(store, one.recipe) if one.recipe else None
        row: dict[str, Any] = {
            "name": name,
            "python": str(existing_interpreter(store, one) or ""),
            "state": "ready",
        }
        if built:
            declared.add(built.name)
            row |= _built_row(built)
        elif one.recipe:
            row |= {"state": "not built", "from": one.recipe.torch or without_credentials(one.recipe.wheel)}
        else:
            assert one.python is not None
            row["from"] = row["python"]
            try:
                row |= _facts(installed_torch(name, one.python))
            except BrokenEnvironment as error:
                row |= {"state": "broken", "broken": str(error)}
        rows.append(row)
    undeclared = [built for built in store.all() if built.name not in declared]
    return rows + [{"name": built.label, "state": "ready", **_built_row(built)} for built in undeclared]


def _built_row(built: StoredEnvironment) -> dict[str, Any]:
    row = {
        "python": str(built.python),
        "folder": built.name,
        "size_mib": built.size_mib,
        "built_at": built.built_at,
        "used_at": built.used_at,
        "from": str(built.recipe["torch"] or built.recipe["wheel"]),
    }
    if not built.python.exists():
        row |= {
            "state": "broken",
            "broken": "the Python that created it was removed: remove the environment and build it again",
        }
    elif built.replaced:
        row |= {
            "state": "broken",
            "broken": "the Python that created it has another version now: build it again",
        }
    return {**row, **_facts(dict(built.facts))}


def _facts(facts: dict[str, Any]) -> dict[str, Any]:
    chosen = {key: facts.get(key) for key in ("torch", "cuda", "fingerprint", "torch_git")}
    return {**chosen, "python_version": facts.get("python")}


@app.command("available")
def list_available(
    pre: Annotated[bool, typer.Option("--pre", help="also release candidates and nightlies")] = False,
    index: Index = None,
    find_links: FindLinks = None,
    base_python: BasePython = None,
    as_json: Json = False,
) -> None:
    """List the versions that the package index offers for this machine, newest first."""
    with in_one_sentence():
        app_context = context()
        recipe = _recipe(index, find_links, base_python=base_python)
        base = look_at(recipe.base_python)
        versions = package_index.list_versions(recipe, base, pre=pre)
        # Versions offered by another index or for another Python do not show which ones are new here.
        query = json.dumps([recipe.index, recipe.find_links, base.version.rpartition(".")[0], pre])
        digest = hashlib.sha256(query.encode()).hexdigest()[:8]
        fresh = package_index.news(store_of(app_context).folder / f"offered-{digest}.json", versions)
        built = {str(row["name"]): str(row["torch"]) for row in _rows(app_context) if row.get("torch")}
    rows: list[dict[str, Any]] = [
        {
            "version": text,
            "kind": _kind(text),
            "new": text in (fresh or ()),
            "built": [name for name, torch in built.items() if is_it(text, torch)],
        }
        for text in reversed(versions)
    ]
    if as_json:
        body = {"python": base.version, "first_time": fresh is None, "versions": rows}
        typer.echo(json.dumps(body, indent=2))
        return
    listed = table("torch", "", "here as", "")
    for row in rows:
        listed.add_row(
            row["version"], row["kind"], ", ".join(row["built"]) or "-", "new" if row["new"] else ""
        )
    report_console().print(listed)
    if pre and not any(row["kind"] == "nightly" for row in rows):
        typer.echo(
            f"this index offers no nightlies: `--index {package_index.NIGHTLIES}/cpu` has those for the CPU"
        )
    if fresh is None:
        typer.echo("this is the first query; later queries report new versions")
    else:
        typer.echo(f"new since last time: {', '.join(fresh) or 'nothing'}")


def _kind(text: str) -> str:
    version = parse(text)
    if version is None or not version.is_prerelease:
        return "release"
    return "nightly" if date_of(version) else "candidate"


@app.command("build")
def build_environments(
    what: Annotated[
        list[str], typer.Argument(help="names, or specs: 2.13.0, nightly, 'nightly 2026-11-20', a wheel")
    ],
    index: Index = None,
    find_links: FindLinks = None,
    package: Packages = None,
    bare: Bare = False,
    base_python: BasePython = None,
    device: WantedDevice = "auto",
) -> None:
    """Build missing environments in parallel. The options apply to specs; a declared name has its own."""
    with in_one_sentence(), interruptible():
        app_context = context()
        recipe = _recipe(index, find_links, package, bare, base_python, device)
        for text in what:
            if parse_environment(app_context.settings, text, recipe).recipe is None:
                raise UsageError(f"environment {text} is an existing interpreter: there is nothing to build")
        try:
            for ready in built_alone(app_context, what, recipe):
                typer.echo(f"{ready.name}  {ready.python}")
        except KeyboardInterrupt:
            say("interrupted: unfinished builds were removed")
            raise typer.Exit(INTERRUPTED) from None


@app.command("add")
def add_environment(
    name: str,
    spec: Annotated[str, typer.Argument(help="a version, nightly, a wheel, or an interpreter's path")],
    index: Index = None,
    find_links: FindLinks = None,
    package: Packages = None,
    bare: Bare = False,
    base_python: BasePython = None,
    device: WantedDevice = "auto",
) -> None:
    """Declare an environment in pyrometer.toml; it is built when it is first needed."""
    with in_one_sentence():
        settings = context().settings
        one = parse_environment(
            settings, spec, _recipe(index, find_links, package, bare, base_python, device)
        )
        file = add_table(settings, name, one)
    typer.echo(f"{file}: [environments.{name}]")


@app.command("remove")
def remove_environments(names: list[str]) -> None:
    """Delete built environments, by name, version or folder; declared interpreters are not touched."""
    with in_one_sentence():
        app_context = context()
        for built in {
            each.name: each for each in (_find_environment(app_context, name) for name in names)
        }.values():
            store_of(app_context).remove(built)
            typer.echo(f"removed {built.name}, {built.size_mib / 1024:.1f} GiB")


@app.command("show")
def show_environment(name: str, as_json: Json = False) -> None:
    """Show one environment: its source, its PyTorch build, its installed packages."""
    with in_one_sentence():
        app_context = context()
        one = declared_environments(app_context.settings).get(name)
        if one and one.python:
            body: dict[str, Any] = {"name": name, **describer(app_context)(name, one.python).facts}
        else:
            built = _find_environment(app_context, name)
            freeze = built.folder / FREEZE
            body = {"name": name, **_built_row(built), "recipe": dict(built.recipe), "freeze": str(freeze)}
            body |= {"seconds": built.seconds, **{k: v for k, v in built.facts.items() if k not in body}}
    if as_json:
        typer.echo(json.dumps(body, indent=2))
        return
    for key, value in body.items():
        text_of_value = ", ".join(map(str, value)) if isinstance(value, list) else value
        typer.echo(printable_lines(f"{key:15} {str(text_of_value).strip()}"))


def _find_environment(app_context: AppContext, text: str) -> StoredEnvironment:
    """The built environment that `text` names; raises UsageError if there is none or more than one."""
    store, names = store_of(app_context), declared_environments(app_context.settings)
    # A declared name means its own recipe, not another environment of the same version.
    found = [] if text in names else store.find_by_name(text)
    if not found:
        one = parse_environment(app_context.settings, text)
        if one.recipe is None:
            raise UsageError(
                f"environment {text} is the interpreter {one.python}: Pyrometer did not build it"
            )
        if exact := built_of(store, one.recipe):
            return exact
        # A wheel does not mean another environment of its version either; a version means every environment
        # built of it.
        found = [] if text in names or one.recipe.wheel else store.find_by_name(one.recipe.label)
    if len(found) > 1:
        raise UsageError(f'"{text}" matches several: {", ".join(each.name for each in found)}')
    if not found:
        raise UsageError(f"environment {text} is not built")
    return found[0]
