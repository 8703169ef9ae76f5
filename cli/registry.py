"""The command people type: `pyrometer ...`, and where each of its commands lies.

What a command needs takes a second to import for some of them: only the module of the one that was typed is,
and none for the help that lists them.
"""

from importlib import import_module
from importlib.metadata import version as installed
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from configuration.suggestions import unknown


class _Place(NamedTuple):
    """Where a command lies, `module:name`, and the first sentence of its help."""

    where: str
    help: str


#: In the order of the help.
_PLACES = {
    "run": _Place("run:run", "Measure a suite of cases on this machine and store every result."),
    "upgrade": _Place(
        "upgrade:upgrade", "Measure two environments together and decide whether to move from OLD to NEW."
    ),
    "bisect": _Place(
        "upgrade:bisect",
        "Find the first version between GOOD and BAD in which a case is slower or fails.",
    ),
    "dashboard": _Place(
        "dashboard:dashboard", "Serve the dashboard of this machine's results; Ctrl-C stops it."
    ),
    "demo": _Place("dashboard:demo", "Serve the dashboard of a small made-up history; every page says so."),
    "mcp": _Place(
        "dashboard:mcp", "Serve the tools of an agent (Model Context Protocol) on stdin and stdout."
    ),
    "report": _Place("report:report", "Print the report of a stored run or upgrade again."),
    "reproduce": _Place(
        "report:reproduce", "Print what made the numbers of a run or of one case, or measure it again."
    ),
    "regressions": _Place(
        "regressions:app",
        "List and triage the changes that detection found: candidates, regressions, improvements.",
    ),
    "digest": _Place(
        "digest:digest", "Print or send the digest of a night: changes, missing results, verdicts, runs."
    ),
    "profile": _Place(
        "profile:app",
        "Trace one case with torch.profiler (`profile CASE`), or compare two traces (`profile diff A B`).",
    ),
    "record": _Place(
        "profile:record", "Record the operators that a program calls, with their share of the time."
    ),
    "fingerprint": _Place(
        "fingerprint:app",
        "Record which operators and kernels a case runs, and compare two environments.",
    ),
    "doctor": _Place(
        "doctor:doctor", "Report what this machine can measure, what it cannot measure, and why."
    ),
    "init": _Place("doctor:init", "Write a commented pyrometer.toml for this machine."),
    "cases": _Place("suites:cases", "List the cases that can be measured."),
    "suites": _Place("suites:app", "List the suites: curated lists of cases with a time budget."),
    "environments": _Place("environments:app", "List and build the environments that can be measured."),
    "schedule": _Place("schedule:app", "List the schedules, or trigger one now."),
    "tasks": _Place("schedule:tasks_app", "List, show and cancel the tasks of the scheduler."),
    "scheduler": _Place(
        "schedule:scheduler",
        "Run the schedules of pyrometer.toml ([schedules.NAME]).",
    ),
    "serve": _Place(
        "dashboard:serve", "Run the scheduler and the dashboard together, until Ctrl-C or SIGTERM."
    ),
    "alerts": _Place("digest:alerts", "Test the notification targets."),
    "fleet": _Place("fleet:app", "Measure on several machines for one head."),
    "export": _Place(
        "transfer:export", "Write runs to a file: complete, for `pyrometer import`, or as tables."
    ),
    "import": _Place(
        "transfer:import_files",
        "Import results of other tools and machines; importing a file twice changes nothing.",
    ),
    "submit": _Place(
        "transfer:submit_file", "Add the results of your own script on this machine to the database."
    ),
    "db": _Place("database:app", "Upgrade, check, back up and prune the database."),
}


class _Later(TyperGroup):
    """Commands that are imported when they are called, as click's documentation does it (lazy loading)."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*_PLACES, *self.commands.keys() - _PLACES.keys()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in _PLACES and cmd_name not in self.commands:
            self.commands[cmd_name] = _load_command(ctx, cmd_name)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Refuse what is no command here: the base class would want all of them to name a similar one."""
        names = self.list_commands(ctx)
        if args and args[0] not in names:
            ctx.fail(unknown("command", args[0], names))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands without importing them."""
        helps = {name: place.help for name, place in _PLACES.items()}
        helps |= {name: own.get_short_help_str(200) for name, own in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, helps[name]) for name in self.list_commands(ctx)])


def _load_command(ctx: Any, name: str) -> Any:
    """A group of commands, or a function, with its help in `FUNCTION_HELP` where the layout matters."""
    place, attribute = _PLACES[name].where.split(":")
    module = import_module(f"{__package__}.commands.{place}")
    found = getattr(module, attribute)
    holder = typer.Typer(callback=_holds, add_completion=False, rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name, help=getattr(module, f"{attribute.upper()}_HELP", None))(found)
    group: Any = typer.main.get_command(holder)
    return group.get_command(ctx, name)


def _holds() -> None:
    """With a callback a Typer application is a group, even of one command."""


app = typer.Typer(
    cls=_Later,
    name="pyrometer",
    help="Measure the performance of PyTorch on your own machines, and decide about upgrades.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # A mistake on the command line gets a sentence, not a box.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("version")
def version() -> None:
    """Print the version of Pyrometer."""
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
    """The options before a command (the help is the program's own)."""
