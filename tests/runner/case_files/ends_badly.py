"""Cases that end badly, each in a way of its own, and a good one."""

import ctypes
import fcntl
import gc
import mmap
import os
import platform
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import torch

from runner.worker.case import Workload, case

# One undefined instruction; one jump to itself.
ILLEGAL = {"x86_64": b"\x0f\x0b", "aarch64": b"\x00\x00\x00\x00"}
SPIN = {"x86_64": b"\xeb\xfe", "aarch64": b"\x00\x00\x00\x14"}


def machine_code(code):
    """A function of these bytes that is called without giving the GIL up."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code[platform.machine()])
    function = ctypes.PYFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    function.page = page
    return function


def little_memory():
    """Allow this process 256 MiB more than it has."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (now + (256 << 20), resource.RLIM_INFINITY))


def protocol_pipe():
    """The descriptor on which the worker speaks to the controller: of its own pipes the one it writes to."""
    (found,) = [
        descriptor
        for descriptor in map(int, os.listdir("/proc/self/fd"))
        if descriptor > 2 and is_written_pipe(descriptor)
    ]
    return found


def is_written_pipe(descriptor):
    try:
        way = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        return way == os.O_WRONLY and stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        # That of the listing itself.
        return False


@case()
def good():
    """Goes well."""
    ones = torch.ones(8)
    return lambda: ones + ones


@case()
def meets_a_gpu_that_failed():
    """What CUDA raises once the device's memory is broken."""

    def step():
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")

    return step


@case(side=["old", "new"])
def fits_alone(side):
    """Memory that only one process at a time can have; it goes back when the process ends."""
    room = os.open(Path(os.environ["CASES_SCRATCH"], "room"), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(room, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MemoryError("the room is taken") from None
    ones = torch.ones(8)
    return lambda: ones + ones


@case()
def raises_in_build():
    raise ValueError("the weights are missing")


@case()
def raises_in_step():
    def step():
        raise RuntimeError("shapes do not fit\nsecond line")

    return step


@case()
def raises_at_length():
    def step():
        raise ValueError("the batch: " + "x" * 1_000_000)

    return step


@case()
def exits_at_length():
    sys.exit("y" * 1_000_000)


@case()
def raises_in_third_block():
    # The collector is off within a block and runs once before each.
    seen = {"collections": 0, "last": -1, "blocks": 0}

    def count(phase, info):
        seen["collections"] += 1

    gc.callbacks.append(count)

    def step():
        if not gc.isenabled() and seen["collections"] != seen["last"]:
            seen["last"] = seen["collections"]
            seen["blocks"] += 1
            if seen["blocks"] == 3:
                raise ArithmeticError("enough")

    return step


@case()
def python_runs_out_of_memory():
    little_memory()
    return lambda: bytearray(1 << 33)


@case()
def torch_runs_out_of_memory():
    little_memory()
    return lambda: torch.zeros(1 << 33, dtype=torch.uint8)


@case()
def small_objects_fill_the_memory():
    little_memory()

    def step():
        kept = []
        while True:
            kept.append(str(len(kept)) * 20)

    return step


@case()
def system_says_no_memory():
    def step():
        raise OSError(12, os.strerror(12))

    return step


@case()
def exits_0():
    sys.exit(0)


@case()
def exits_3():
    return lambda: sys.exit(3)


@case()
def exits_at_once():
    return lambda: os._exit(0)


@case()
def is_killed():
    return lambda: subprocess.run(["sh", "-c", f"kill -9 {os.getpid()}"], check=True) and time.sleep(600)


#: The models that this process has made.
MADE = []


@case()
def is_killed_by_its_reference():
    """The second model of a process is the reference of its answer's check."""
    MADE.append(1)
    if len(MADE) > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return Workload(torch.nn.Identity(), (torch.ones(1),), items=1)


@case()
def exits_in_its_reference():
    MADE.append(1)
    if len(MADE) > 1:
        sys.exit(3)
    return Workload(torch.nn.Identity(), (torch.ones(1),), items=1)


@case()
def is_killed_by_its_report():
    """The report of a case is asked for after the last block."""
    return Workload(
        torch.nn.Identity(), (torch.ones(1),), items=1, report=lambda: os.kill(os.getpid(), signal.SIGKILL)
    )


class Uncompiled(torch.nn.Module):
    """What torch.compile leaves to Python."""

    def __init__(self):
        super().__init__()
        self.forward = torch.compiler.disable(self.forward)

    def forward(self, rows):
        return rows + 1


@case()
def runs_eager_and_is_killed_by_its_report():
    return Workload(
        Uncompiled(), (torch.ones(1),), items=1, report=lambda: os.kill(os.getpid(), signal.SIGKILL)
    )


@case()
def is_signalled():
    return lambda: os.kill(os.getpid(), signal.SIGRTMIN + 5)


@case()
def segfaults():
    return lambda: ctypes.string_at(0)


@case()
def executes_nonsense():
    return machine_code(ILLEGAL)


@case()
def aborts():
    return os.abort


@case()
def sleeps_for_ever():
    time.sleep(10_000)


@case()
def spins_for_ever():
    return machine_code(SPIN)


@case()
def closes_everything():
    return lambda: os.closerange(3, 100)


@case()
def hangs_up():
    def step():
        os.close(protocol_pipe())
        time.sleep(10_000)

    return step


@case()
def writes_garbage():
    def step():
        os.write(protocol_pipe(), b"\xff\xfe garbage\n")

    return step


@case()
def speaks_out_of_turn():
    def step():
        os.write(protocol_pipe(), b'{"type":"finished","metrics":{"latency":0.001},"facts":{}}\n')

    return step


@case()
def speaks_nonsense():
    def step():
        os.write(protocol_pipe(), b'{"type":"ready","first_call_ns":"soon","step_ns":[]}\n')

    return step


@case()
def kills_its_supervisor():
    def step():
        orphan = subprocess.Popen(["sleep", "10000"], start_new_session=True)
        Path(os.environ["CASES_SCRATCH"], "orphan.pid").write_text(str(orphan.pid))
        Path(os.environ["CASES_SCRATCH"], "worker.pid").write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(10_000)

    return step


@case()
def fills_its_control_group():
    Path(os.environ["CASES_CGROUP"], "cgroup.procs").write_text(str(os.getpid()))
    return lambda: bytearray(b"\1") * (1 << 31)


@case()
def counts_strangely():
    return Workload(torch.nn.Identity(), (torch.ones(1),), items="many")
