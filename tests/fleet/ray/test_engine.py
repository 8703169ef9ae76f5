"""The head's side of the driver process, with a stand-in for it: answers in any order, deaths, hangs."""

import importlib.util
import json
import os
import resource
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import pytest

from fleet.engine import EngineAway, EngineError, NodeLost, NodeRefused, NodeSilent
from fleet.ray import engine as ray_engine
from fleet.ray.engine import RayEngine
from fleet.ray.processes import RayUnusable, make_token
from support.waiting import until

#: Answers as the driver would; `dance` is a method of a node.
STAND_IN = """#!{python}
import json, os, random, signal, sys, threading
from pathlib import Path

folder = Path({folder!r})
with (folder / "lives").open("a") as lives:
    lives.write(f"{{os.getpid()}} {{sys.argv}}\\n")
if (folder / "failing").exists():
    sys.stderr.write((folder / "failing").read_text())
    print(json.dumps({{"failed": "no head takes us"}}), flush=True)
    sys.exit(1)
print(json.dumps({{"failed": ""}}), flush=True)
lock = threading.Lock()

def answer(order):
    out = {{"ok": order}}
    if order["do"] == "nodes":
        out = {{"ok": [{{"id": "1", "name": "one", "labels": {{"kind": "a"}}}}]}}
    elif order["method"] in ("NodeLost", "NodeSilent", "NodeRefused", "EngineAway"):
        out = {{"error": order["method"], "sentence": f"{{order['method']}} it is"}}
    elif order["method"] == "die":
        os._exit(3)
    elif order["method"] == "hang":
        # This thread may continue for a moment until all are stopped.
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    elif order["method"] == "never":
        return
    with lock:
        print(json.dumps({{"id": order["id"], **out}}), flush=True)
        if order.get("method") == "last":
            print(json.dumps({{"id": order["id"], **out}}), flush=True)
            os._exit(4)

for line in sys.stdin:
    threading.Timer(random.random() / 20, answer, [json.loads(line)]).start()
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RayEngine]:
    """An engine whose driver is the stand-in."""
    program = tmp_path / "stand_in"
    program.write_text(STAND_IN.format(python=sys.executable, folder=str(tmp_path)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    make_token(tmp_path / "token")
    monkeypatch.setattr(ray_engine, "_LATE_SECONDS", 0.5)
    monkeypatch.setattr(ray_engine, "_RESTART_SECONDS", 0.2)
    monkeypatch.setattr(sys, "executable", str(program))
    made = RayEngine("127.0.0.1:6379", tmp_path / "token", tmp_path / "fleet")
    yield made
    made.close()


def lives(folder: Path) -> list[int]:
    """The process ids of the drivers so far."""
    return [int(line.split()[0]) for line in (folder / "lives").read_text().splitlines()]


def dance(engine: RayEngine, step: object = 1) -> object:
    """The argument of the call, as the stand-in received it."""
    return engine.call("1", "dance", {"step": step}, 5.0)["arguments"]["step"]


def test_many_ask_at_once_and_each_gets_its_own_answer(engine: RayEngine) -> None:
    (node,) = engine.nodes()
    assert (node.id, node.name, node.labels) == ("1", "one", {"kind": "a"})
    found: dict[int, object] = {}

    def ask(number: int) -> None:
        found[number] = dance(engine, number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number for number in range(100)}
    # Longer than a pipe holds, both ways.
    assert dance(engine, "x" * 3_000_000) == "x" * 3_000_000


@pytest.mark.parametrize(
    "kind",
    [NodeLost, NodeSilent, NodeRefused, EngineAway],
)
def test_each_error_has_a_class(engine: RayEngine, kind: type[EngineError]) -> None:
    with pytest.raises(kind, match=f"^{kind.__name__} it is$"):
        engine.call("1", kind.__name__, {}, 5.0)


def test_calls_under_way_fail_when_the_driver_dies_and_another_one_serves(
    engine: RayEngine, tmp_path: Path
) -> None:
    raised: list[EngineError] = []

    def ask() -> None:
        try:
            engine.call("1", "never", {}, 60.0)
        except EngineError as error:
            raised.append(error)

    assert dance(engine) == 1
    waits = threading.Thread(target=ask)
    waits.start()
    with pytest.raises(EngineAway, match="ended with 3"):
        engine.call("1", "die", {}, 5.0)
    waits.join()
    assert [type(error) for error in raised] == [EngineAway]
    assert until(lambda: again(engine), "another one serves") == 2
    assert len(lives(tmp_path)) == 2
    os.kill(engine.process or 0, signal.SIGKILL)
    assert until(lambda: again(engine), "and another one") == 2


def test_a_driver_that_hangs_is_ended(engine: RayEngine, tmp_path: Path) -> None:
    assert dance(engine) == 1
    with pytest.raises(EngineAway, match="hung"):
        engine.call("1", "hang", {}, 0.2)
    assert until(lambda: again(engine), "another one serves") == 2
    hung, _ = lives(tmp_path)
    until(lambda: not psutil.pid_exists(hung), "the one that hung is gone")


def test_an_answer_that_comes_twice_before_a_death_is_one(engine: RayEngine) -> None:
    died: list[object] = []
    threading.excepthook, before = lambda raised: died.append(raised.exc_value), threading.excepthook
    try:
        assert dance(engine) == 1
        # Answered, and not yet read by the caller, when the driver dies.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ray_engine, "Future", _Slow)
            assert engine.call("1", "last", {"step": 1}, 5.0)["arguments"]["step"] == 1
        assert until(lambda: again(engine), "another one serves") == 2
    finally:
        threading.excepthook = before
    assert died == []


class _Slow(Future[Any]):
    """Its callers receive the result late."""

    def result(self, timeout: float | None = None) -> Any:
        found = super().result(timeout)
        time.sleep(0.5)
        return found


def test_descriptors_beyond_a_thousand_are_written_to(engine: RayEngine, tmp_path: Path) -> None:
    assert dance(engine) == 1
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("no process may have so many files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    other = RayEngine("127.0.0.1:6379", tmp_path / "token", tmp_path / "other")
    try:
        assert dance(other) == 1
    finally:
        other.close()
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_reason_is_reported_while_the_engine_is_away(engine: RayEngine, tmp_path: Path) -> None:
    assert dance(engine) == 1
    (tmp_path / "failing").write_text("nothing special\n")
    os.kill(engine.process or 0, signal.SIGKILL)
    until(lambda: "no head takes us; its log is" in why(engine), "it says why")
    (tmp_path / "failing").write_text("W gcs_client: InvalidAuthToken\n")
    until(lambda: "the head at 127.0.0.1:6379 refuses our token" in why(engine), "it says that")
    (tmp_path / "failing").unlink()
    assert until(lambda: again(engine), "it is there") == 2


def test_a_closed_engine_leaves_nothing(engine: RayEngine, tmp_path: Path) -> None:
    assert dance(engine) == 1
    engine.close()
    with pytest.raises(EngineAway, match="closed"):
        engine.nodes()
    until(lambda: not any(map(psutil.pid_exists, lives(tmp_path))), "no driver is left")


def test_only_the_head_speaks_to_it_with_its_own_token(engine: RayEngine, tmp_path: Path) -> None:
    assert dance(engine) == 1
    process = psutil.Process(engine.process or 0)
    assert process.cwd() == "/"
    environ = process.environ()
    assert environ["RAY_AUTH_TOKEN_PATH"] == str(tmp_path / "token")
    # The token itself is in no variable and on no command line.
    token = (tmp_path / "token").read_text().strip()
    assert token not in json.dumps(environ) + " ".join(process.cmdline())
    assert "'--address', '127.0.0.1:6379', '--ip', '127.0.0.1'" in (tmp_path / "lives").read_text()


def test_without_ray_or_token_there_is_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RayUnusable, match="the fleet's token cannot be read"):
        RayEngine("127.0.0.1:6379", tmp_path / "token", tmp_path)
    make_token(tmp_path / "token")
    with pytest.raises(RayUnusable, match=r"no machine is known by the name no\.such\.machine\.invalid"):
        RayEngine("no.such.machine.invalid:6379", tmp_path / "token", tmp_path)
    nothing: Callable[[str], None] = lambda name: None  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    with pytest.raises(RayUnusable, match=r"install pyrometer\[fleet\]"):
        RayEngine("127.0.0.1:6379", tmp_path / "token", tmp_path)


def again(engine: RayEngine) -> object:
    """An answer; None while the engine is away."""
    try:
        return dance(engine, 2)
    except EngineAway:
        return None


def why(engine: RayEngine) -> str:
    """Why the engine is away."""
    try:
        engine.nodes()
    except EngineAway as error:
        return str(error)
    return ""
