"""The supervisor alone, over small programs of the system: how they end, and that no process is left."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.processes import SupervisedProcess, descendants
from common.supervisor import BoundedLog
from runner.execution.contender import explain
from support.processes import alive
from support.site import PATIENCE_SECONDS
from support.waiting import until

SUPERVISOR = (sys.executable, "-m", "common.supervisor")


class Supervised:
    """A supervisor over a shell script, with our ends of its pipes."""

    def __init__(
        self, folder: Path, script: str, *, deadline: float = PATIENCE_SECONDS, **options: str
    ) -> None:
        self.log = folder / "log"
        lifeline, self._lifeline = os.pipe()
        self._report, report = os.pipe()
        more = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        self.process = subprocess.Popen(
            [
                *SUPERVISOR,
                *("--lifeline", str(lifeline), "--report", str(report), "--log", str(self.log)),
                *("--sample", "--deadline", str(deadline), *more, "--", "/bin/sh", "-c", script),
            ],
            pass_fds=(lifeline, report),
        )
        os.close(lifeline)
        os.close(report)

    def order(self, order: bytes) -> None:
        """Write to the lifeline, and return once it is read."""
        os.write(self._lifeline, order)
        until(lambda: not any(fcntl.ioctl(self._lifeline, termios.FIONREAD, bytes(4))), "it is read")

    def let_go(self) -> None:
        """Close the lifeline, as a dying controller would."""
        os.close(self._lifeline)
        self._lifeline = -1

    def report(self) -> dict[str, Any]:
        """Wait for the end."""
        text = b""
        while part := os.read(self._report, 1 << 16):
            text += part
        assert self.process.wait() == 0
        return json.loads(text)

    def close(self) -> None:
        """For the fixture."""
        self.process.kill()
        self.process.wait()
        for descriptor in (self._report, self._lifeline):
            if descriptor >= 0:
                os.close(descriptor)


Supervise = Callable[..., Supervised]


@pytest.fixture
def supervise(tmp_path: Path) -> Any:
    """Starts supervisors in the test's folder."""
    started: list[Supervised] = []

    def start(script: str, **options: Any) -> Supervised:
        started.append(Supervised(tmp_path, script, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()


def written(path: Path) -> int:
    """The process id that a script writes to `path`."""
    until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path} is written")
    return int(path.read_text())


def test_the_exit_code_is_reported(supervise: Supervise) -> None:
    report = supervise("exit 7").report()
    assert (report["exit_code"], report["signal"], report["killed_by"]) == (7, None, "")
    assert explain(report, "build") == ("crashed", "exited with code 7 in build, before it was done")


def test_the_signal_is_reported(supervise: Supervise) -> None:
    report = supervise("kill -BUS $$").report()
    assert (report["exit_code"], report["signal"]) == (None, signal.SIGBUS)
    assert explain(report, "build") == ("crashed", "killed by SIGBUS in build (bus error)")


def test_the_deadline_kills(supervise: Supervise, tmp_path: Path) -> None:
    supervised = supervise(f"echo $$ > {tmp_path}/pid; sleep 600; true", deadline=1.0)
    report = supervised.report()
    assert report["killed_by"] == "deadline"
    assert explain(report, "measure") == ("timeout", "killed at the deadline in measure")
    assert not alive(written(tmp_path / "pid"))


@pytest.mark.parametrize("way", ["order", "lifeline", "signal"])
def test_every_process_dies_for_every_reason_to_stop(supervise: Supervise, tmp_path: Path, way: str) -> None:
    script = f"setsid sh -c 'echo $$ > {tmp_path}/child; sleep 600; true' & echo $$ > {tmp_path}/pid; wait"
    supervised = supervise(script)
    pids = [written(tmp_path / "pid"), written(tmp_path / "child")]
    if way == "order":
        supervised.order(b"qqk")
    elif way == "lifeline":
        supervised.let_go()
    else:
        supervised.process.send_signal(signal.SIGTERM)
    report = supervised.report()
    assert report["killed_by"] == ("controller gone" if way == "lifeline" else "asked")
    assert report["signal"] == signal.SIGKILL
    assert not any(alive(pid) for pid in pids)
    # By what name depends on the moment: between fork and exec a `sleep` is still called `sh`.
    assert report["strays"]
    assert report["left_over"] == []


def test_a_killed_supervisor_takes_the_worker_with_it(supervise: Supervise, tmp_path: Path) -> None:
    supervised = supervise(f"echo $$ > {tmp_path}/pid; exec sleep 600")
    worker = written(tmp_path / "pid")
    supervised.process.kill()
    until(lambda: not alive(worker), "the worker is gone")


def test_an_interrupt_from_the_keyboard_is_the_controllers_business(
    supervise: Supervise, tmp_path: Path
) -> None:
    supervised = supervise(f"echo $$ > {tmp_path}/pid; sleep 1; exit 3")
    written(tmp_path / "pid")
    supervised.process.send_signal(signal.SIGINT)
    assert supervised.report()["exit_code"] == 3


def test_forking_without_end_ends(supervise: Supervise, tmp_path: Path) -> None:
    forking = "(while :; do setsid sleep 600 & sleep 0.01; done) &"
    supervised = supervise(f"{forking} {forking} {forking} echo $$ > {tmp_path}/pid; wait")
    written(tmp_path / "pid")
    time.sleep(0.5)
    supervised.order(b"k")
    report = supervised.report()
    assert report["left_over"] == []
    assert list(descendants(supervised.process.pid)) == []


#: Takes 80 MiB, says so, and keeps them until it may go.
TAKES = """
import os, sys, time
taken = bytearray(80 << 20)
open(sys.argv[1], "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
"""


def test_the_memory_of_the_tree_counts_children(supervise: Supervise, tmp_path: Path) -> None:
    (tmp_path / "takes.py").write_text(TAKES)
    program = f"{sys.executable} -S takes.py"
    supervised = supervise(f"cd {tmp_path}; {program} one & {program} other & wait")
    until(lambda: all((tmp_path / name).exists() for name in ("one", "other")), "both have their memory")
    # A sample is due, and has been taken when the second of two orders that mean nothing is read.
    time.sleep(0.3)
    for _ in range(2):
        supervised.order(b".")
    (tmp_path / "go").touch()
    report = supervised.report()
    assert 160 < report["peak_tree_mib"] < 400
    assert 80 < report["peak_child_mib"] < 200


def test_a_quiet_supervisor_samples_no_more(supervise: Supervise, tmp_path: Path) -> None:
    program = f"{sys.executable} -S -c 'import time; b = bytearray(300 << 20); time.sleep(1.5)'"
    os.mkfifo(tmp_path / "go")
    supervised = supervise(f"echo $$ > {tmp_path}/pid; read line < {tmp_path}/go; {program}")
    written(tmp_path / "pid")
    supervised.order(b"q")
    (tmp_path / "go").write_text("on\n")
    assert supervised.report()["peak_tree_mib"] < 100


def test_a_program_that_does_not_exist_fails_in_a_sentence(tmp_path: Path) -> None:
    lifeline, ours = os.pipe()
    read, report = os.pipe()
    options = ("--lifeline", str(lifeline), "--report", str(report), "--log", str(tmp_path / "log"))
    subprocess.run(
        [*SUPERVISOR, *options, "--deadline", "60", "--", "/no/such/program"],
        pass_fds=(lifeline, report),
        check=True,
    )
    failed = json.loads(os.read(read, 4096))
    for descriptor in (lifeline, ours, read, report):
        os.close(descriptor)
    assert explain(failed, "import") == ("lost", "cannot start /no/such/program: No such file or directory")


def test_affinity_is_the_workers_and_the_supervisors_own(supervise: Supervise, tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    script = f"grep Cpus_allowed_list /proc/$$/status /proc/$PPID/status > {tmp_path}/seen"
    report = supervise(script, cpus=str(cpu), own_cpus=str(cpu)).report()
    assert report["exit_code"] == 0
    allowed = [line.split()[-1] for line in (tmp_path / "seen").read_text().splitlines()]
    assert allowed == [str(cpu)] * 2


def test_output_in_small_pieces_keeps_its_order(supervise: Supervise) -> None:
    supervised = supervise("for i in 1 2 3; do echo out $i; echo err $i >&2; done")
    supervised.report()
    assert supervised.log.read_text() == "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"


def test_a_closed_stdout_is_not_an_end(supervise: Supervise) -> None:
    assert supervise("exec >&- 2>&-; sleep 0.5; exit 5").report()["exit_code"] == 5


def test_the_log_keeps_the_head_and_the_tail_and_counts_the_rest(tmp_path: Path) -> None:
    log = BoundedLog(str(tmp_path / "log"))
    stream = b"".join(b"%015d\n" % number for number in range(1 << 18))
    for at in range(0, len(stream), 1000):
        log.write(stream[at : at + 1000])
    log.close()
    kept = (tmp_path / "log").read_bytes()
    head, _, rest = kept.partition(b"\n... ")
    dropped, _, tail = rest.partition(b" bytes left out ...\n")
    assert head == stream[: 1 << 20]
    assert stream.endswith(tail)
    assert (1 << 18) <= len(tail) < (1 << 18) + 1000
    assert len(head) + int(dropped) + len(tail) == len(stream)


def test_a_short_stream_is_kept_whole(tmp_path: Path) -> None:
    log = BoundedLog(str(tmp_path / "log"))
    stream = bytes(range(256)) * ((1 << 20) // 256) + b"and a little more"
    log.write(stream)
    log.close()
    assert (tmp_path / "log").read_bytes() == stream


@pytest.mark.parametrize(
    ("report", "wanted"),
    [
        ({"signal": 9, "oom_killed": True}, ("oom", "killed by the kernel in warm_up: out of memory")),
        (
            {"signal": 11, "oom_killed": True},
            ("crashed", "killed by SIGSEGV in warm_up (segmentation fault)"),
        ),
        ({"signal": 15}, ("crashed", "killed by SIGTERM in warm_up")),
        ({"signal": 40}, ("crashed", "killed by signal 40 in warm_up")),
        ({"failed": "no room"}, ("lost", "no room")),
    ],
)
def test_an_end_is_explained(report: dict[str, Any], wanted: tuple[str, str]) -> None:
    assert explain(report, "warm_up") == wanted


def test_a_supervisor_that_is_stopped_ends_with_its_command(tmp_path: Path) -> None:
    process = SupervisedProcess(["sleep", "600"], tmp_path / "log")
    until(lambda: [name for _, name in descendants(process.pid)] == ["sleep"], "it runs")
    ((command, _),) = descendants(process.pid)
    os.kill(process.pid, signal.SIGSTOP)
    process.kill()
    assert process.end(0.5) == {"failed": "the supervisor was killed"}
    until(lambda: not alive(command), "it has ended")
