"""Which function does which job."""

from ..scheduler.worker_slot import Registry
from .confirm import confirm
from .detect import detect
from .digest import check, tell_digest
from .discover import discover
from .measure import measure
from .prune import tidy
from .upgrade import upgrade

JOBS: Registry = {
    "measure": measure,
    "upgrade": upgrade,
    "confirm": confirm,
    "discover": discover,
    "detect": detect,
    "digest": tell_digest,
    "prune": tidy,
    "check": check,
}
