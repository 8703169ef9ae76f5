"""What the first visitor need not wait for, and what nobody waits for who stops a server at once."""

import subprocess
import sys
from pathlib import Path

#: A server that nobody comes to: once it has nothing more to import, it says what it has, and stops itself.
SERVER = """
import gc, os, signal, sys, threading, time
from dashboard.server import server

def warming():
    # Those that are about to start are listed too, and cannot be waited for yet.
    return [each for each in threading.enumerate() if each.name == "warm-up" and each.is_alive()]

def look():
    while not (found := warming()):
        time.sleep(0.001)
    found[0].join()
    print(gc.get_freeze_count() > 100_000, "dashboard.app" in sys.modules)
    print(*sorted(sys.modules), flush=True)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=look).start()
server.serve("127.0.0.1", 0)
"""
#: One that is stopped as soon as it serves.
STOPPED = """
import asyncio, gc, sys, threading
from dashboard.server import warm

async def serve():
    async with warm.while_serving(None):
        pass

asyncio.run(serve())
for thread in threading.enumerate():
    if thread.name == "warm-up":
        thread.join()
print("ruptures" in sys.modules, gc.get_freeze_count())
"""
ROOT = Path(__file__).resolve().parents[2]


def test_before_anybody_comes_a_server_has_all_that_pages_import_but_the_script_itself() -> None:
    done = subprocess.run([sys.executable, "-c", SERVER], capture_output=True, text=True, check=True)
    states, modules = (line for line in done.stdout.splitlines() if not line.startswith("Dashboard: "))
    assert states == "True False"
    files = [file.relative_to(ROOT) for file in (ROOT / "dashboard").rglob("*.py")]
    pages = {
        ".".join(file.with_suffix("").parts)
        for file in files
        if file.name not in ("__init__.py", "app.py") and "app_pages" not in file.parts
    }
    assert len(pages) > 30 and {*pages, "pandas", "altair", "scipy"} <= set(modules.split())


def test_once_the_server_has_ended_nothing_more_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "0"]
