"""All runs, the machines, and their schedules."""

from dashboard.components import parts
from dashboard.machines import page as machines
from dashboard.runs import page as runs

parts.views(
    "runs", {"runs": runs.show, "machines": machines.show_machines, "schedule": machines.show_schedule}
)
