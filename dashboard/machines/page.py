"""The machines with their telemetry, and the schedules with running and waiting tasks."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from html import escape
from itertools import islice

import streamlit as st

from dashboard.components import links, markup, parts, wording
from dashboard.components import load as common
from dashboard.components.frames import NEWEST_NIGHTLIES
from dashboard.machines import load, machines, timetable
from dashboard.machines.load import ROWS, Able, OpenTasks, chosen
from dashboard.machines.machines import MachineStatus
from dashboard.runs import capabilities
from dashboard.server.database import present_time
from dashboard.server.settings import ServerSettings
from dashboard.today.load import TodayData, morning

#: The most machines whose telemetry is listed.
_ABLE = 8


def show_machines() -> None:
    """Show the machine that the address names, else all of them."""
    parts.title("Machines")
    url = ServerSettings.from_environment().database_url
    now = present_time(url)
    schedules, tasks, statuses = _state(url, now)
    view, complaints = chosen(parts.query(), [one.name for one in statuses])
    parts.complain(complaints)
    names = {"": "All machines", **{name: name for name in sorted(one.name for one in statuses)}}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parts.select("Machine", "machine", names, view)
    machine = next((one for one in statuses if one.name == view.machine), None)
    if machine is None:
        _every_machine(url, schedules, statuses, tasks, now)
    else:
        parts.link(links.MACHINES, "← All machines")
        _one_machine(url, machine, schedules, now)


def show_schedule() -> None:
    """Show the schedules, their next and last runs, and running and waiting tasks."""
    parts.title("Schedule")
    url = ServerSettings.from_environment().database_url
    now = present_time(url)
    schedules, tasks, statuses = _state(url, now)
    _schedule(url, schedules, statuses, tasks, now)


def _state(url: str, now: datetime) -> tuple[TodayData, OpenTasks, Sequence[MachineStatus]]:
    """The schedules, the open tasks and the machines; stops the page if there are none."""
    schedules, tasks = morning(url), load.open_tasks(url)
    statuses = machines.machines(schedules, load.newest_runs(url), tasks.running, now, load.without_task(url))
    if not statuses and not tasks.every and not schedules.parts:
        _nothing_yet(url)
    return schedules, tasks, statuses


def _every_machine(
    url: str, morning: TodayData, statuses: Sequence[MachineStatus], tasks: OpenTasks, now: datetime
) -> None:
    """Show all machines, their environments and their telemetry."""
    parts.html(machines.cards(statuses, tasks, timetable.next_fire_time(morning.plan, now), now))
    parts.table_section("Machines", machines.table(statuses, now), "machines.csv")
    _environments(url, now)
    _abilities(url, statuses)


def _schedule(
    url: str, morning: TodayData, statuses: Sequence[MachineStatus], tasks: OpenTasks, now: datetime
) -> None:
    """Show the schedules, running and waiting tasks, and the age of the results of each track."""
    _schedules(url, morning, now)
    coming = timetable.week(morning.plan, now)
    if coming.rows:
        parts.heading("The next seven days")
        parts.caption("In UTC; each schedule's next runs as its scheduler announced.")
        parts.table(coming)
    _open(url, morning, tasks, statuses, now)
    parts.table_section("Freshness", timetable.freshness(morning.parts, now), "freshness.csv")


def _one_machine(url: str, one: MachineStatus, morning: TodayData, now: datetime) -> None:
    """Show one machine: its facts, its telemetry, its running and waiting tasks."""
    stored_run = common.run(url, one.run.id) if one.run else None
    about = {**stored_run[0].machine.hardware.facts, **stored_run[0].machine.facts} if stored_run else {}
    conditions = dict(stored_run[0].facts.get("conditions") or {}) if stored_run else {}
    parts.heading(parts.plain(one.name), machines.table([one], now), "machine.csv")
    parts.html(machines.facts(one, about, conditions, now))
    tasks = load.open_tasks(url, one.labels)
    own = {task.id for task in (*one.doing, *filter(one.can_run, tasks.waiting))}
    _open(url, morning, tasks, [one], now, own)
    if stored_run and one.run and (tables_html := capabilities.tables(stored_run[0])):
        able = load.able(url, one.run.id)
        pairs = [(one, able)] if able else []
        parts.heading("What it can measure", lambda: machines.abilities_frame(pairs), "capabilities.csv")
        parts.html(tables_html)


def _open(
    url: str,
    morning: TodayData,
    tasks: OpenTasks,
    machine_list: Sequence[MachineStatus],
    now: datetime,
    own: Collection[int] | None = None,
) -> None:
    """Show tasks, with `own` only those of these ids; the reason why one waits depends on the others."""
    explained_tasks = timetable.explain_tasks(tasks.every, morning, load.wait_reasons(url), now)
    explained_tasks = [each for each in explained_tasks if own is None or each.task.id in own]
    items = timetable.open_tasks(explained_tasks, now, "those" if tasks.newer else "all")
    parts.heading("Running and waiting tasks", items, "open-tasks.csv")
    by_hand = [
        f"{one.run.id} runs on {one.name}, started by hand {wording.ago(one.run.started_at, now)}"
        for one in machine_list
        if one.by_hand and one.run
    ]
    sentences = [
        *([] if explained_tasks else ["No task of a schedule is running or waiting"]),
        *by_hand[:ROWS],
    ]
    if sentences:
        parts.caption(parts.plain(f"{'; '.join(sentences)}."))
    if not explained_tasks:
        return
    if tasks.newer:
        many = wording.plural(tasks.newer, "newer task")
        parts.caption(f"Only the {len(tasks.waiting):,} oldest waiting tasks are listed, without {many}.")
    parts.table(items)


def _schedules(url: str, morning: TodayData, now: datetime) -> None:
    rows = timetable.rows(morning.plan, load.last_scheduled_runs(url))
    items = timetable.schedules(rows, now)
    parts.heading("Schedules", items, "schedules.csv")
    if not rows:
        parts.caption(r"No scheduler has run yet. It carries out \[schedules\] of pyrometer.toml:")
        parts.code("pyrometer scheduler")
        return
    if not any(row.served for row in rows):
        parts.caption("No scheduler is running, so the next runs are not known.")
    parts.table(items)


def _environments(url: str, now: datetime) -> None:
    environments = load.environments(url)
    if not environments:
        return
    parts.heading("Environments", timetable.environments(environments, now), "environments.csv")
    parts.caption(f"Of the newest {load.RUNS:,} runs, last used first.")
    older = [one for one in environments if wording.is_nightly(one.torch_version)][NEWEST_NIGHTLIES:]
    parts.table(timetable.environments([one for one in environments if one not in older], now))
    if older:
        title = wording.plural(len(older), "earlier nightly", "earlier nightlies")
        with parts.expander(title):
            parts.table(replace(timetable.environments(older, now), label="Earlier nightlies"))


def _abilities(url: str, statuses: Sequence[MachineStatus]) -> None:
    ran = [one for one in statuses if one.run is not None]
    # Each machine takes a query: the page makes few of them, and only the file makes all.
    rows = list(islice(_able(url, ran[:ROWS]), _ABLE))
    if not rows:
        return
    runs_read = ran.index(rows[-1][0]) + 1 if len(rows) == _ABLE else ROWS
    parts.heading(
        "What machines can measure",
        lambda: machines.abilities_frame(_able(url, ran)),
        "capabilities.csv",
    )
    parts.caption("From the newest runs; open a machine to see each source.")
    parts.table(machines.abilities(rows, max(0, len(ran) - runs_read)))


def _able(url: str, ran: Iterable[MachineStatus]) -> Iterator[tuple[MachineStatus, Able]]:
    """The machines with known telemetry."""
    for one in ran:
        able = load.able(url, one.run.id) if one.run else None
        if able and (able.present or able.absent):
            yield one, able


def _nothing_yet(url: str) -> None:
    """The page without a scheduler and without a run of an own machine."""
    foreign = load.foreign_runs(url)
    if not foreign:
        parts.nothing_measured()
        st.stop()
    parts.html(f"<p>{escape(_foreign(foreign))}</p>")
    parts.html(f"<p>{markup.link(links.RUNS, 'All runs →')} {markup.link(links.HISTORY, 'History →')}</p>")
    parts.caption("A machine is listed once it has a scheduler or a run:")
    parts.code("pyrometer run --suite smoke")
    st.stop()


def _foreign(runs: Mapping[str, int]) -> str:
    """`No machine has a run yet. There are 3 runs: 2 imported from TorchBench, 1 submitted by a script.`"""
    in_order = sorted(runs.items(), key=lambda each: (-each[1], each[0]))
    count_text = ", ".join(f"{many:,} {phrase}" for phrase, many in in_order)
    many = sum(runs.values())
    verb = "is" if many == 1 else "are"
    return f"No machine has a run yet. There {verb} {wording.plural(many, 'run')}: {count_text}."
