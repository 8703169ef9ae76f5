"""Every run, the machines that measure, and the schedules that they serve."""

from dashboard.components import parts
from dashboard.machines import page as machines
from dashboard.runs import page as runs

parts.views(
    "runs", {"runs": runs.show, "machines": machines.show_machines, "schedule": machines.show_schedule}
)
