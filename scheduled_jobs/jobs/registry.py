"""The functions of the jobs."""

from ..scheduler.worker_pool import Registry
from .confirm import confirm
from .detect import detect
from .digest import health_check, send_digest
from .discover import discover
from .measure import measure
from .prune import prune_rows
from .upgrade import upgrade

JOBS: Registry = {
    "measure": measure,
    "upgrade": upgrade,
    "confirm": confirm,
    "discover": discover,
    "detect": detect,
    "digest": send_digest,
    "prune": prune_rows,
    "check": health_check,
}
