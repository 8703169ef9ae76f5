"""Two sides compared: PyTorch versions on one machine, machines, or runs."""

from dashboard.components import parts
from dashboard.hardware import page as hardware
from dashboard.run_pairs import page as run_pairs
from dashboard.upgrades import page as upgrades

parts.views("compare", {"upgrade": upgrades.show, "hardware": hardware.show, "runs": run_pairs.show})
