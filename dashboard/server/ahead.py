"""Asks what a page is about to ask, while a browser still loads the program that shows it.

Between the file that comes first and the page's own script lies a third of a second in which a server has
nothing to do. Answers are kept for a few seconds, and the script finds them.
"""

import importlib
import logging
import threading

from dashboard.components.query_params import Query
from dashboard.server.settings import Settings
from db.errors import DatabaseError

_LOG = logging.getLogger(__name__)
#: Of many who come at once some are asked for; the others' scripts ask for themselves, as always.
_AT_ONCE = threading.BoundedSemaphore(2)


def ask(module: str, query: Query) -> None:
    """Have `asked(url, query)` of a module called beside the server; what it raises its page will say."""
    if _AT_ONCE.acquire(blocking=False):
        # No daemon: an import that the end of the process cuts short may crash it.
        threading.Thread(target=_ask, args=(module, query), name="ahead").start()


def _ask(module: str, query: Query) -> None:
    try:
        importlib.import_module(module).asked(Settings.from_environment().database_url, query)
    except DatabaseError:
        pass
    except Exception:
        # The page says it to its reader; it would have to be a defect of ours.
        _LOG.warning("asking ahead failed", exc_info=True)
    finally:
        _AT_ONCE.release()
