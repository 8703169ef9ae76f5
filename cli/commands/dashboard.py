"""`pyrometer dashboard` shows stored results, `demo` a made-up history; `serve` adds the scheduler."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.interrupts import interruptible
from common.processes import die_with
from configuration.dashboard import is_loopback
from configuration.errors import ConfigurationError
from configuration.settings import load_settings
from dashboard.server.settings import MADE_UP, METRICS_CASES, PRICES, Prices
from db.connection.engine import Database
from workflows.errors import UsageError
from workflows.ingest import store_then_read

from ..context import FAILED, context, in_one_sentence, say
from ..options import AllowHost, Host, LogForm, Measuring, Port

if TYPE_CHECKING:
    from dashboard.api.posts import Trigger
    from dashboard.auth.policy import AccessRules


def dashboard(
    port: Port = 8501,
    host: Host = "127.0.0.1",
    allow_host: AllowHost = None,
) -> None:
    """Serve the dashboard of this machine's results; Ctrl-C stops it."""
    # Streamlit takes seconds to import; no other command should wait for it.
    from dashboard.auth.policy import access_rules

    with in_one_sentence():
        app_context = context(reading=True)
        rules = access_rules(app_context.settings.dashboard)
        if rules.login == "none" and not is_loopback(host):
            say(
                f"note: authentication is off: anyone who can reach {host} can read and triage; "
                "see docs/dashboard.md"
            )
        store_then_read(app_context)
        places, prices = app_context.places, app_context.settings.prices
        os.environ[PRICES] = Prices(prices.currency, prices.per_hour).text
        os.environ[METRICS_CASES] = str(app_context.settings.dashboard.metrics_cases)
        trigger = _trigger_of(app_context.settings.file)
        _serve(places.database_url, places.data_dir, host, port, allow_host or (), rules, trigger)


def _trigger_of(file: Path | None) -> "Trigger":
    """What enqueues a schedule for the API, by the settings as they are then."""

    def trigger(database: Database, name: str) -> datetime:
        # The scheduler's modules take long to import: no page waits for them.
        from scheduled_jobs.scheduler.planner import trigger_schedule

        from .schedule import check_schedules

        try:
            settings = load_settings(file)
        except ConfigurationError as error:
            raise UsageError(str(error)) from error
        check_schedules(settings)
        return trigger_schedule(database, settings, name, datetime.now(UTC))

    return trigger


def mcp(
    triage: Annotated[bool, typer.Option("--triage", help="let the agent triage findings, too")] = False,
) -> None:
    """Serve the tools of an agent (Model Context Protocol) on stdin and stdout.

    The agent sees runs, verdicts, findings and what runs differently, and can start an upgrade. It deletes
    nothing. Its settings name this command: {"command": "pyrometer", "args": ["mcp"]}.
    """
    with in_one_sentence():
        app_context = context(reading=not triage)
        try:
            from cli.agent_server import create_server
        except ModuleNotFoundError as error:
            raise UsageError(f"{error.name} is missing: pip install 'pyrometer[mcp]'") from None
        store_then_read(app_context)
        create_server(app_context, triage=triage).run()


def demo(port: Port = 8501) -> None:
    """Serve the dashboard of a small made-up history; every page says so. Nothing of it is kept."""
    from workflows import demonstration

    temporary = tempfile.TemporaryDirectory(prefix="pyrometer-demo-")
    with in_one_sentence(), suppress(KeyboardInterrupt), interruptible(), temporary as folder:
        say("making up a history of three weeks")
        url = demonstration.write(Path(folder), datetime.now(UTC))
        os.environ[MADE_UP] = "1"
        os.environ[METRICS_CASES] = "100"
        _serve(url, Path(folder), "127.0.0.1", port)
    # The handlers are as they were before: a repeated Ctrl-C would end the process with a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _serve(
    database_url: str,
    data_dir: Path,
    host: str,
    port: int,
    names: Sequence[str] = (),
    rules: "AccessRules | None" = None,
    trigger: "Trigger | None" = None,
) -> None:
    """Serve the dashboard of this database until Ctrl-C or SIGTERM; raises UsageError where it cannot."""
    from dashboard.server import server
    from dashboard.server.errors import DashboardError

    # The file is resolved already; given with the URL itself it would be a contradiction.
    os.environ.pop("PYROMETER_DATABASE_URL_FILE", None)
    os.environ["PYROMETER_DATABASE_URL"] = database_url
    os.environ["PYROMETER_DATA_DIR"] = str(data_dir)
    try:
        server.serve(host, port, names, rules, trigger)
    except DashboardError as error:
        raise UsageError(str(error)) from error


SERVE_HELP = """Run the scheduler and the dashboard together, until Ctrl-C or SIGTERM.

The dashboard runs in its own process. If it dies it is restarted; measurements are not disturbed.
"""

#: A dashboard that ends sooner than this after its start is not going to live.
_STILLBORN_SECONDS = 15.0
_END_SECONDS = 10.0
_SCHEDULER_CODE = (
    "from cli.commands.dashboard import end_with_parent; end_with_parent(); from cli.app import main; main()"
)


def serve(
    port: Port = 8501,
    host: Host = "127.0.0.1",
    allow_host: AllowHost = None,
    measuring: Measuring = True,
    log: LogForm = None,
) -> None:
    """Run both (the help text is above, where its layout survives)."""
    # The dashboard needs nothing of the scheduler, and should not wait for its imports.
    from .schedule import live, serving_of

    names = [part for name in allow_host or () for part in ("--allow-host", name)]
    with in_one_sentence(), interruptible() as interrupts:
        service = serving_of(context(), log, measuring=measuring)
        dashboard = _Dashboard(["dashboard", "--port", str(port), "--host", host, *names])
        try:
            live(service, interrupts, asked=dashboard.has_failed)
        finally:
            dashboard.end()
    if dashboard.failed is not None:
        raise typer.Exit(dashboard.failed or FAILED)


class _Dashboard:
    """A dashboard that is kept alive; `failed` is the exit code of one that cannot live."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = arguments
        self.failed: int | None = None
        self._start()

    def has_failed(self) -> bool:
        """Restart the dashboard if it died; true if it cannot run, which it has reported."""
        code = self._process.poll()
        if code is None or self.failed is not None:
            return self.failed is not None
        if time.monotonic() - self._started < _STILLBORN_SECONDS:
            self.failed = code
            return True
        self._start()
        return False

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        self._started = time.monotonic()
        # In a session of its own, so that a terminal's Ctrl-C comes to the scheduler alone.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SCHEDULER_CODE, str(os.getpid()), *self._arguments],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def end_with_parent() -> None:
    """Have this process end with its parent, whose id comes first among the arguments."""
    die_with(int(sys.argv.pop(1)), signal.SIGTERM)
