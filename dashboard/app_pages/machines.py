"""Machines, what runs and what waits, schedules, freshness, environments, what each machine can measure."""

from datetime import UTC, datetime

import streamlit as st

from dashboard.components import parts
from dashboard.machines import load, sections
from dashboard.machines.load import chosen
from dashboard.machines.machines import machines
from dashboard.overview.load import morning
from dashboard.server.settings import ServerSettings

url = ServerSettings.from_environment().database_url
now = datetime.now(UTC)
parts.title("Fleet")
known, tasks = morning(url), load.open_tasks(url)
found = machines(known, load.newest_runs(url), tasks.running, now, load.without_task(url))
if not found and not tasks.every and not known.parts:
    sections.nothing_yet(url)

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
