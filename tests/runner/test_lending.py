"""A machine that lends itself: to whom, on which terms, and that nobody is left when any of them is gone."""

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from measuring import alive, wait_until

from runner import machine
from runner.environment import Environment
from runner.errors import NeighbourFailed
from runner.execution.harness import Harness
from runner.multi_node.client import Neighbours
from runner.multi_node.handshake import Terms, difference
from runner.multi_node.remote_ranks import Offer
from runner.multi_node.server import Lender
from runner.profile import Profile
from runner.worker.distributed.tcp_channel import Call, call, listen

SECRET = b"0123456789abcdef"
CASE = "blocks/train/batch=4/nodes=2,parallel=ddp,ranks=2"

#: In place of a harness: starts a process in a session of its own, and waits for ever or ends at once.
MATE = """
import os, subprocess, sys, time
from pathlib import Path
folder = Path(__file__).parent
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print("hello from the mate", flush=True)
for name, pid in (("mate", os.getpid()), ("child", child.pid)):
    (folder / f".{name}").write_text(str(pid))
    (folder / f".{name}").rename(folder / f"{name}.pid")
(folder / "leader").write_text(" ".join(sys.argv[1:]))
if (folder / "ends").exists():
    sys.exit(3)
time.sleep(1000)
"""

TORCH = {"torch": "2.13.0", "torch_git": "abc"}
ENVIRONMENT = {"fingerprint": "f", **TORCH, "python": "3.11", "packages": ["a==1"], "devices": []}


class Lending:
    """A lender in a thread, with a mate of no torch; what it tells."""

    def __init__(self, folder: Path, profile: Profile | None = None) -> None:
        self.folder = folder
        (folder / "mate.py").write_text(MATE)
        environment = Environment("default", sys.executable, ENVIRONMENT, (), {})
        harness = Harness(folder / "mate.py", "h1", "", ())
        profile = profile or Profile("quiet", {"OMP_X": "1"})
        self.offer = Offer("1.0", environment, harness, profile, folder / "lent")
        self.told: list[dict[str, Any]] = []
        self._stop = threading.Event()
        self._listener = listen(("127.0.0.1", 0))
        host, port = self._listener.getsockname()
        self.address = f"{host}:{port}"
        lender = Lender(self.offer, SECRET, self._tell)
        self._thread = threading.Thread(target=lender.serve, args=(self._listener, self._stop.is_set))
        self._thread.start()

    def _tell(self, event: str, **about: Any) -> None:
        self.told.append({"event": event, **about})

    def terms(self, **changed: Any) -> Terms:
        """What fits this lender, but for what is changed."""
        return replace(self.offer.terms, **{"run": "run-1", "machine": "first", **changed})

    def borrow(self, secret: bytes = SECRET, **changed: Any) -> Neighbours:
        """Have it lent."""
        return Neighbours([self.address], secret, self.terms(**changed))

    def events(self, event: str) -> list[dict[str, Any]]:
        """What was told of one kind."""
        return [one for one in self.told if one["event"] == event]

    def pids(self) -> list[int]:
        """The mate and its child, once both are there."""
        files = [self.folder / f"{name}.pid" for name in ("mate", "child")]
        wait_until(lambda: all(file.exists() for file in files), "the mate starts")
        return [int(file.read_text()) for file in files]

    def stop(self) -> None:
        """Have it end, and wait until it has."""
        self._stop.set()
        self._thread.join()
        self._listener.close()


@pytest.fixture
def lending(tmp_path: Path) -> Iterator[Lending]:
    """Ends with the test."""
    one = Lending(tmp_path)
    yield one
    one.stop()


def start(neighbours: Neighbours, case: str = CASE) -> tuple[Call, dict[str, Any]]:
    """As a leader does: a line by the loan, and what is answered to an order."""
    (lent,) = neighbours.lent()
    host, _, port = lent["address"].rpartition(":")
    called = call((host, int(port)), lent["loan"], bytes.fromhex(lent["key"]))
    called.line.say({"start": {"case": case, "node": 1, "port": 4711}})
    return called, called.line.hear() or {}


def gone(pids: list[int]) -> Callable[[], bool]:
    """Whether none of them lives."""
    return lambda: not any(alive(pid) for pid in pids)


def test_what_is_started_calls_the_leader_and_knows_its_key(lending: Lending) -> None:
    with lending.borrow() as neighbours:
        called, answered = start(neighbours)
        mate, _ = lending.pids()
        assert answered == {"started": True}
        variables = Path(f"/proc/{mate}/environ").read_bytes().split(b"\0")
        assert f"PYROMETER_GANG_KEY={called.key.hex()}".encode() in variables
        assert b"PYROMETER_TOKEN=lent:run-1:1:" in variables
        arguments = (lending.folder / "leader").read_text()
        assert arguments == "mate --leader 127.0.0.1:4711 --neighbour 1"
        called.line.close()
        wait_until(lambda: bool(lending.events("ended")), "it is buried")


@pytest.mark.parametrize("what", ["the leader's line", "the run's line", "the lender"])
def test_with_either_of_them_the_whole_tree_is_gone(lending: Lending, what: str) -> None:
    neighbours = lending.borrow()
    called, _ = start(neighbours)
    pids = lending.pids()
    if what == "the leader's line":
        called.line.close()
    elif what == "the run's line":
        neighbours.close()
    else:
        lending.stop()
    wait_until(gone(pids), f"nobody lives without {what}")
    wait_until(lambda: bool(lending.events("ended")), "it is told")
    (ended,) = lending.events("ended")
    assert (ended["reason"], ended["left_over"]) == ("ended by the lender", [])
    called.line.close()
    neighbours.close()


def test_how_the_mate_ended_is_told_with_what_it_printed(lending: Lending) -> None:
    (lending.folder / "ends").touch()
    with lending.borrow() as neighbours:
        called, _ = start(neighbours)
        ended = (called.line.hear() or {})["ended"]
        called.line.close()
    assert (ended["status"], ended["reason"]) == ("crashed", "what starts its members exited with code 3")
    assert ended["log"] == "hello from the mate"
    assert gone(lending.pids())()


def test_what_cannot_be_started_is_refused(lending: Lending) -> None:
    with lending.borrow() as neighbours:
        for case in ("no case at all", "blocks/train/batch=4/allocator=jemalloc"):
            called, answered = start(neighbours, case)
            called.line.close()
            if "refused" in answered:
                assert "\n" not in answered["refused"]
            else:
                assert case.endswith("jemalloc"), "where jemalloc is installed it can be had"


def test_one_run_has_it_at_a_time(lending: Lending) -> None:
    with lending.borrow():
        refused = f"^neighbour {lending.address}: it is lent to run run-1 of first$"
        with pytest.raises(NeighbourFailed, match=refused):
            lending.borrow(run="run-2")
    wait_until(lambda: bool(lending.events("returned")), "it is given back")
    lending.borrow(run="run-2").close()
    wait_until(lambda: len(lending.events("returned")) == 2, "it is given back again")
    assert [one["run"] for one in lending.events("lent")] == ["run-1", "run-2"]


def test_a_run_that_lost_its_line_gets_it_again(lending: Lending) -> None:
    with lending.borrow() as before:
        (lost,) = before.lent()
        called, _ = start(before)
        pids = lending.pids()
        with lending.borrow() as after:
            wait_until(gone(pids), "what hung on the lost line is gone")
            assert after.lent()[0]["loan"] != lost["loan"]
            ended = (called.line.hear() or {})["ended"]
            assert (ended["status"], ended["reason"]) == ("lost", "ended by the lender")
        called.line.close()
        wait_until(lambda: len(lending.events("returned")) == 2, "both are given back")
        # Whoever had the old line asks anew.
        (again,) = before.lent()
    assert again["loan"] != lost["loan"]
    assert {**again, "loan": "", "key": ""} == {**lost, "loan": "", "key": ""}


def test_one_machine_is_no_two_neighbours(lending: Lending) -> None:
    port = lending.address.rpartition(":")[2]
    with pytest.raises(NeighbourFailed, match=r"are one and the same$"):
        Neighbours([lending.address, f"localhost:{port}"], SECRET, lending.terms())


def test_another_secret_is_refused_on_either_side(lending: Lending) -> None:
    with pytest.raises(NeighbourFailed, match=r"has another secret$"):
        lending.borrow(b"another secret, as long")
    wait_until(lambda: bool(lending.events("refused")), "it is told")
    assert lending.events("refused") == [
        {"event": "refused", "peer": "127.0.0.1", "reason": "it has another secret"}
    ]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"pyrometer": "2.0"}, "it has Pyrometer 1.0, and 2.0 asks: both need the same"),
        ({"harness": "h2"}, "its harness is h1, and h2 asks: both need the same Pyrometer"),
        ({"user_cases": "u"}, "its cases of your own are others: both need the same --cases"),
        ({"profile": "fast"}, "it lends itself under profile quiet, and fast asks: use --profile"),
        ({"variables": {}}, "profile quiet has another OMP_X there: both need the same"),
        ({"threads": 4}, "profile quiet has another number of threads there: both need the same"),
        ({"gpus": 2}, "its PyTorch sees 0 GPUs, and 2 are computed on here"),
    ],
)
def test_what_would_be_another_thing_is_refused(
    lending: Lending, changed: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(NeighbourFailed, match=f"^neighbour {lending.address}: {sentence}$"):
        lending.borrow(**changed)
    wait_until(lambda: bool(lending.events("refused")), "it is told")
    assert lending.events("refused")[0]["reason"] == sentence


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"torch": "2.12.0"}, "its environment has torch 2.13.0 (abc), and 2.12.0 asks"),
        ({"python": "3.12"}, "its environment has python 3.11, and 3.12 asks"),
        ({"packages": []}, "its environment has other packages (a==1 is on one side only)"),
        ({}, "its environment has another build of the same torch"),
    ],
)
def test_another_environment_is_told_by_what_differs(
    lending: Lending, changed: dict[str, Any], sentence: str
) -> None:
    ours = lending.offer.terms
    asked = replace(ours, environment={**ours.environment, "fingerprint": "g", **changed})
    assert difference(ours, asked) == sentence
    assert difference(ours, ours) == ""


def test_terms_travel_as_json_and_strangers_are_refused(lending: Lending) -> None:
    terms = lending.terms()
    assert Terms.from_body(json.loads(json.dumps(terms.to_body()))) == terms
    for changed in ({"more": 1}, {"variables": "x"}, {"run": "../run"}, {"run": ""}):
        body = {**terms.to_body(), **changed}
        with pytest.raises(ValueError, match="terms"):
            Terms.from_body(body)


def test_values_of_variables_do_not_travel(lending: Lending) -> None:
    profile = Profile("quiet", {"CUDA_SOMETHING": "hush"})
    assert "hush" not in json.dumps(replace(lending.offer, profile=profile).terms.to_body())


def test_each_machine_has_its_own_choice_of_gpus(lending: Lending) -> None:
    ours = replace(lending.offer, profile=Profile("quiet", {"OMP_X": "1"})).terms
    chosen = {"OMP_X": "1", "CUDA_VISIBLE_DEVICES": "3", "CUDA_VERSION": "12.8.1"}
    theirs = replace(lending.offer, profile=Profile("quiet", chosen)).terms
    assert difference(ours, theirs) == difference(theirs, ours) == ""


def test_machines_that_measure_as_one_are_hardware_of_their_own() -> None:
    here = machine.describe([])
    gpu = machine.describe([{"name": "GPU", "memory_mib": 8}])
    both = machine.together(here, [gpu])
    assert machine.together(here, []) == here
    # One of them leads, and alone measures what takes one machine only.
    assert machine.together(gpu, [here]).hardware_fingerprint != both.hardware_fingerprint
    two = machine.together(here, [here])
    assert two.hardware_label == f"2 x ({here.hardware_label})"
    assert len({one.hardware_fingerprint for one in (here, gpu, both, two)}) == 4
    assert both.hardware_label == f"1 x ({here.hardware_label}) + 1 x ({gpu.hardware_label})"
    assert (both.hardware["machines"], both.hardware["gpus"]) == (2, ["GPU"])
    assert both.hardware["cpus"] == 2 * here.hardware["cpus"]
    assert (both.name, both.fingerprint) == (here.name, here.fingerprint)


def test_what_is_lent_is_not_what_the_lender_keeps_to(tmp_path: Path) -> None:
    lending = Lending(tmp_path, Profile("quiet", cpus=(0, 1, 2, 3, 4), housekeeping=(5, 6)))
    try:
        with lending.borrow() as neighbours:
            (lent,) = neighbours.machines
        assert lent.hardware["cpus"] == 7
    finally:
        lending.stop()


def test_who_says_nothing_does_not_hold_the_others_up(lending: Lending) -> None:
    host, _, port = lending.address.rpartition(":")
    with socket.create_connection((host, int(port))):
        lending.borrow().close()
    assert os.getpid() not in [one.get("pid") for one in lending.told]
