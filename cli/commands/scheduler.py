"""`pyrometer scheduler`: the service that does by itself what the timetable says."""

import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from common.interrupts import Interrupts, interruptible
from configuration.errors import ConfigurationError
from configuration.settings import Settings, load_settings
from db.errors import DatabaseUnavailable
from fleet.hosts import FleetPlaces
from fleet.slurm.hosts import SlurmPlaces
from fleet.status import engine_of
from scheduled_jobs.jobs.context import CONTROL_JOBS
from scheduled_jobs.jobs.detect import unwatchable_reason
from scheduled_jobs.jobs.environment_aliases import LATEST
from scheduled_jobs.scheduler.log import Form, Log
from scheduled_jobs.scheduler.process_identity import machine_name
from scheduled_jobs.scheduler.scheduler import SchedulerConfig, Service
from scheduled_jobs.scheduler.worker_slot import WorkerSlot
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.fleet_status import MEASURING
from workflows.planning.resolve_environment import wanted
from workflows.planning.select_cases import choose_profile, choose_suite

from ..context import INTERRUPTED, context, in_one_sentence, say

HELP = """Do by itself, night by night, what the timetable in pyrometer.toml says ([schedules.NAME]).

\b
pyrometer scheduler                  until Ctrl-C or SIGTERM
pyrometer scheduler --once           what is due now, and no longer
pyrometer scheduler --no-measuring   only plan and think: what is measured is left to other machines

Several may share a database: what is due is done once, whoever comes first, each machine for the labels it
has (machine_labels, and its own name). What is measured runs as a child of its own; stopped, it keeps what
it has, and the next scheduler of this machine goes on with it. `pyrometer schedule list` shows what comes.
"""

#: How often is looked whether the settings were changed.
LOOK_SECONDS = 5.0
#: Who does only what is due now waits so long until it is known who is there to do it.
FLEET_SECONDS = 120.0

LogForm = Annotated[
    Form | None,
    typer.Option("--log", help="how events are written [default: plain on a terminal, else json]"),
]
Measuring = Annotated[bool, typer.Option("--measuring/--no-measuring", help="measure on this machine")]


def scheduler(
    once: Annotated[bool, typer.Option("--once", help="do what is due, and end")] = False,
    measuring: Measuring = True,
    log: LogForm = None,
) -> None:
    """Run the service (the help text is above, where its layout survives)."""
    with in_one_sentence(), interruptible() as interrupts:
        service = serving_of(context(), log, measuring=measuring, settled=once)
        live(service, interrupts, once=once)


def live(
    service: Service,
    interrupts: Interrupts,
    *,
    once: bool = False,
    asked: Callable[[], bool] = lambda: False,
) -> None:
    """Run a service until a signal, or `asked`, ends it; a second signal ends it at once."""
    before = signal.set_wakeup_fd(service.waker, warn_on_full_buffer=False)
    try:
        with interrupts.deferred():
            service.run(lambda: interrupts.asked() or asked(), once=once)
    except KeyboardInterrupt:
        say("stopped at once; the next scheduler of this machine goes on with what ran")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        signal.set_wakeup_fd(before)


def serving_of(here: AppContext, form: Form | None, *, measuring: bool, settled: bool = False) -> Service:
    """The service of this place; with `settled` the machines of its fleet are known before it begins.

    Raises UsageError for a schedule that cannot be done, JobError for a fleet, and DatabaseError.
    """
    # What tells of nights knows some hundred services; no other command should wait for that.
    from scheduled_jobs.jobs.registry import JOBS

    check_schedules(here.settings)
    # One that is away may come; one that is too old, or no database at all, is said at once.
    with suppress(DatabaseUnavailable):
        here.open_database().close()

    def now() -> datetime:
        return datetime.now(UTC)

    log = Log(form or ("plain" if sys.stdout.isatty() else "json"), now)
    machine = machine_name()
    around = SchedulerConfig(
        settings=Reread(here.settings, log),
        data_dir=here.places.data_dir,
        open_database=here.open_database,
        machine=machine,
        labels=tuple(dict.fromkeys((machine, *here.settings.machine_labels))),
        jobs=JOBS,
        log=log,
        now=now,
        version=version("pyrometer"),
    )
    slots = [WorkerSlot("measuring", MEASURING)] if measuring else []
    return Service(
        around, [*slots, WorkerSlot("thinking", CONTROL_JOBS)], fleet_of(here, log, settled=settled)
    )


def fleet_of(here: AppContext, log: Log, *, settled: bool) -> FleetPlaces | None:
    """The machines that measure for this one, where pyrometer.toml wants a fleet; raises JobError."""
    if here.settings.fleet.engine == "none":
        return None
    engine, data_dir = engine_of(here), here.places.data_dir
    kind = SlurmPlaces if here.settings.fleet.engine == "slurm" else FleetPlaces
    hosts = kind(engine, data_dir, here.open_database, lambda sentence: log("fleet", sentence))
    if settled and not hosts.settle(FLEET_SECONDS):
        log("fleet", f"it is not all there after {FLEET_SECONDS:g} s", level="warning")
    return hosts


def check_schedules(settings: Settings) -> None:
    """Raise UsageError for the first schedule whose suite, profile, environments or metrics there are not."""
    for name, schedule in settings.schedules.items():
        environments = [schedule.old, schedule.new] if schedule.job == "upgrade" else schedule.environments
        try:
            choose_profile(settings, schedule.profile)
            choose_suite(settings, schedule.suite, list(schedule.cases or ()), bool(schedule.case_files))
            for text in environments:
                if text and text != LATEST:
                    wanted(settings, text)
        except UsageError as error:
            raise UsageError(f"schedule {name}: {error}") from None
        if why := unwatchable_reason(schedule.watch or ()):
            raise UsageError(f"schedule {name} {why}")


class Reread:
    """The settings as the file has them now; one that makes no sense is said once, and the old ones stay."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings, self._log = settings, log
        self._state = _state(settings.file)
        self._looked = time.monotonic()

    def __call__(self) -> Settings:
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return self._settings
        self._looked = time.monotonic()
        state = _state(self._settings.file)
        if state == self._state:
            return self._settings
        self._state = state
        try:
            settings = load_settings(self._settings.file)
            check_schedules(settings)
        except (ConfigurationError, UsageError) as error:
            self._log("settings refused", f"{error}; the old ones stay", level="warning")
        else:
            self._settings = settings
            self._log("settings read again")
        return self._settings


def _state(file: Path | None) -> tuple[int, int] | None:
    """What differs after a file was written."""
    try:
        found = file.stat() if file is not None else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found is not None else None
