"""Which function does which job."""

from ..telling.jobs import check, tell_digest
from ..watching.confirming import confirm
from ..watching.detecting import detect
from ..watching.discovering import discover
from ..watching.upgrading import upgrade
from .housekeeping import tidy
from .lane import Registry
from .measuring import measure

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
