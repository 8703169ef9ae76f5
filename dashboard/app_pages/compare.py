"""Two sides compared: PyTorch versions on one machine, or machines."""

from dashboard.components import page_views
from dashboard.hardware import page as hardware
from dashboard.upgrades import page as upgrades

page_views.show("compare", {"upgrade": upgrades.show, "hardware": hardware.show})
