"""The machines with what each can measure, and the schedules with what runs and waits."""

from collections.abc import Sequence
from datetime import datetime

import streamlit as st

from dashboard.components import parts
from dashboard.machines import load, sections
from dashboard.machines.load import OpenTasks, chosen
from dashboard.machines.machines import MachineStatus, machines
from dashboard.server.database import present_time
from dashboard.server.settings import ServerSettings
from dashboard.today.load import TodayData, morning


def show_machines() -> None:
    """The machine that the address names, else all of them."""
    parts.title("Machines")
    url = ServerSettings.from_environment().database_url
    now = present_time(url)
    known, tasks, found = _state(url, now)
    view, complaints = chosen(parts.query(), [one.name for one in found])
    parts.complain(complaints)
    names = {"": "All machines", **{name: name for name in sorted(one.name for one in found)}}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parts.select("Machine", "machine", names, view)
    opened = next((one for one in found if one.name == view.machine), None)
    if opened is None:
        sections.every_machine(url, known, found, tasks, now)
    else:
        sections.back()
        sections.one_machine(url, opened, known, now)


def show_schedule() -> None:
    """The schedules, their next and last runs, and what runs and waits."""
    parts.title("Schedule")
    url = ServerSettings.from_environment().database_url
    now = present_time(url)
    known, tasks, found = _state(url, now)
    sections.schedule(url, known, found, tasks, now)


def _state(url: str, now: datetime) -> tuple[TodayData, OpenTasks, Sequence[MachineStatus]]:
    """The schedules, the open tasks and the machines; stops the page where there is none of all three."""
    known, tasks = morning(url), load.open_tasks(url)
    found = machines(known, load.newest_runs(url), tasks.running, now, load.without_task(url))
    if not found and not tasks.every and not known.parts:
        sections.nothing_yet(url)
    return known, tasks, found
