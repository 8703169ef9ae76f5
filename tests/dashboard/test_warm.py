"""What the first visitor need not wait for."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WARM_UP = """
import asyncio, gc, sys, threading
from dashboard import warm

async def serve():
    async with warm.while_serving(None):
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join()

asyncio.run(serve())
print(gc.get_freeze_count() > 100_000, "dashboard.app" in sys.modules)
print(*sorted(sys.modules))
"""
ROOT = Path(__file__).resolve().parents[2]


def test_all_that_pages_import_is_there_but_the_script_itself() -> None:
    done = subprocess.run([sys.executable, "-c", WARM_UP], capture_output=True, text=True, check=True)
    states, modules = done.stdout.splitlines()[-2:]
    assert states == "True False"
    files = [file.relative_to(ROOT) for file in (ROOT / "dashboard").rglob("*.py")]
    pages = {
        ".".join(file.with_suffix("").parts)
        for file in files
        if file.name not in ("__init__.py", "app.py") and "app_pages" not in file.parts
    }
    assert len(pages) > 30 and {*pages, "pandas", "altair"} <= set(modules.split())


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc: nothing tells what is loaded")
def test_a_server_warms_up_before_anybody_comes(serve: Callable[[str], Any], empty_url: str) -> None:
    served = serve(empty_url)
    assert served.url
    maps = Path(f"/proc/{served.process.pid}/maps")
    deadline = time.monotonic() + 60
    while "/scipy/" not in maps.read_text() or "/pandas/" not in maps.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
