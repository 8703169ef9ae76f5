"""What the first visitor would wait for otherwise: seconds of imports."""

import gc
import importlib
import pkgutil
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import dashboard


@asynccontextmanager
async def while_serving(_app: Any) -> AsyncGenerator[None]:
    """Warm up beside the server: it answers at once, and whoever comes meanwhile waits for the rest only."""
    # No daemon: an import that the end of the process cuts short may crash it.
    ended = threading.Event()
    thread = threading.Thread(target=up, args=(ended,), name="warm-up")
    thread.start()
    try:
        yield
    finally:
        # Whoever stops a server that has just begun need not wait for what nobody will use.
        ended.set()


def up(ended: threading.Event) -> None:
    """Import all that pages import, and spare the collector of garbage all of that; stop once it `ended`."""
    for module in pkgutil.walk_packages(dashboard.__path__, "dashboard."):
        if ended.is_set():
            return
        # That is the script itself.
        if module.name != "dashboard.app":
            importlib.import_module(module.name)
    # None of the hundreds of thousands of objects of pandas, SciPy and the others ever becomes garbage, and
    # whoever comes while Python looks at them all waits for a tenth of a second.
    gc.collect()
    gc.freeze()
