"""The command people type: `pyrometer ...`, and where each of its commands lies.

What a command needs takes a second to import for some of them: only the module of the one that was typed is.
"""

import gc
from importlib import import_module
from importlib.metadata import version as installed
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info, get_group_from_info
from typer.models import CommandInfo, TyperInfo

#: Where each command lies, `module:name`, in the order of the help.
_PLACES = {
    "run": "run:run",
    "upgrade": "upgrade:upgrade",
    "bisect": "bisect:bisect",
    "dashboard": "show:dashboard",
    "report": "report:report",
    "regressions": "regressions:app",
    "digest": "digest:digest",
    "profile": "profile:app",
    "doctor": "doctor:doctor",
    "cases": "catalogue:cases",
    "suites": "suites:app",
    "environments": "environments:app",
    "schedule": "schedule:app",
    "scheduler": "scheduler:scheduler",
    "serve": "serving:serve",
    "alerts": "digest:alerts",
    "fleet": "fleet:app",
    "lend": "lend:lend",
    "export": "export:export",
    "import": "imports:import_files",
    "submit": "submit:submit_file",
    "db": "database:app",
    "telemetry": "telemetry:app",
}


class _Later(TyperGroup):
    """Commands that are imported when somebody asks for them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*_PLACES, *self.commands.keys() - _PLACES.keys()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # Whoever mistypes is told of those that are alike, among all there are.
        wanted = [cmd_name] if cmd_name in _PLACES else [] if cmd_name in self.commands else [*_PLACES]
        for name in wanted:
            if name not in self.commands:
                self.commands[name] = _loaded(name)
        return self.commands.get(cmd_name)


def _loaded(name: str) -> Any:
    """A group of commands, or a function, which has its help in `HELP` where the layout is to survive."""
    place, attribute = _PLACES[name].split(":")
    # What is imported lives as long as we do: looking through it for garbage took a quarter of the time.
    gc.disable()
    try:
        module = import_module(f"{__package__}.{place}")
    finally:
        gc.freeze()
        gc.enable()
    found = getattr(module, attribute)
    if isinstance(found, typer.Typer):
        return get_group_from_info(
            TyperInfo(found, name=name),
            pretty_exceptions_short=False,
            suggest_commands=True,
            rich_markup_mode=None,
        )
    info = CommandInfo(name, callback=found, help=getattr(module, "HELP", None))
    return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)


app = typer.Typer(
    cls=_Later,
    name="pyrometer",
    help="Measures PyTorch on machines you own, keeps every number, and shows how it moves.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # A mistake on the command line gets a sentence, not a box.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("version")
def version() -> None:
    """The version of Pyrometer."""
    typer.echo(installed("pyrometer"))


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def pyrometer(
    asked: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit"),
    ] = False,
) -> None:
    """What stands before a command (the help is the program's own)."""
