"""Cases that end well, though they shout, leave children behind or look for what is not theirs."""

import ctypes
import json
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch

from runner.worker.case import case

#: System call `exit`, which ends one thread only.
SYS_EXIT = {"x86_64": 60, "aarch64": 93}
#: Every rank says where it is once DistributedDataParallel stands, then never ends.
RANK = """
import os, sys, time, torch
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
model(torch.ones(1, 2)).sum().backward()
with open(os.path.join(sys.argv[1], f"rank{os.environ['RANK']}.pid"), "w") as file:
    file.write(str(os.getpid()))
time.sleep(10000)
"""


def scratch():
    """The folder that the test looks into."""
    return Path(os.environ["CASES_SCRATCH"])


def remember(name, pid):
    """Report a process to the test, in one step."""
    partial = scratch() / f"{name}.partial"
    partial.write_text(str(pid))
    partial.rename(scratch() / f"{name}.pid")


def wait_for(*names):
    """Wait until each has been remembered."""
    give_up = time.monotonic() + 100
    while not all((scratch() / f"{name}.pid").exists() for name in names):
        if time.monotonic() > give_up:
            raise TimeoutError(names)
        time.sleep(0.01)


def sleep_for_ever(index):
    """What a spawned process does."""
    remember(f"spawned{index}", os.getpid())
    time.sleep(10_000)


def quick():
    """Something to measure."""
    ones = torch.ones(8)
    return lambda: ones + ones


@case()
def floods_stdout():
    line = b"x" * 1023 + b"\n"
    os.write(1, b"the beginning\n")
    for _ in range(100):
        sys.stdout.buffer.write(line * 1024)
    sys.stdout.buffer.write(b"the end\n")
    sys.stdout.flush()
    return quick()


@case()
def floods_while_measured():
    text = "y" * 10_000
    step = quick()

    def noisy():
        print(text)
        return step()

    return noisy


@case()
def prints_protocol():
    step = quick()

    def noisy():
        for stream in (sys.stdout, sys.stderr):
            print('{"type":"finished","metrics":{"latency":1e-9},"facts":{}}', file=stream, flush=True)
            print('{"type":"failed","status":"oom","reason":"no"}', file=stream, flush=True)
        return step()

    return noisy


@case()
def leaves_a_session():
    # Without variables: no token marks it, only its ancestry.
    child = subprocess.Popen(["sleep", "10000"], start_new_session=True, env={"PATH": os.environ["PATH"]})
    remember("session", child.pid)
    return quick()


@case()
def sleeps_with_a_child():
    remember("sleeper", os.getpid())
    child = subprocess.Popen(["sleep", "10000"], start_new_session=True, env={"PATH": os.environ["PATH"]})
    remember("child", child.pid)
    return lambda: time.sleep(10_000)


def leave_a_daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            remember("daemon", os.getpid())
            time.sleep(10_000)
        os._exit(0)
    wait_for("daemon")


def leave_threads_without_a_main_one():
    if os.fork() == 0:
        os.setsid()

        def other():
            status = Path("/proc/self/status")
            while "Z (zombie)" not in status.read_text():
                time.sleep(0.001)
            remember("headless", os.getpid())
            time.sleep(10_000)

        threading.Thread(target=other).start()
        ctypes.CDLL(None).syscall(SYS_EXIT[platform.machine()], 0)
    wait_for("headless")


def leave_ranks():
    script = scratch() / "rank.py"
    script.write_text(RANK)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    launched = subprocess.Popen([*launcher, str(script), str(scratch())], start_new_session=True)
    remember("launcher", launched.pid)
    wait_for("rank0", "rank1")


def leave_compile_workers():
    # On a CPU Inductor compiles in its own process; this is the pool that it starts for Triton's kernels.
    from torch._inductor.compile_worker.subproc_pool import SubprocPool

    pool = SubprocPool(2)
    remember("compiling", pool.submit(os.getpid).result(timeout=100))
    remember("pool", pool.process.pid)
    return pool


def leave_spawned_processes():
    import torch.multiprocessing

    context = torch.multiprocessing.get_context("spawn")
    for index in range(2):
        context.Process(target=sleep_for_ever, args=(index,)).start()
    wait_for("spawned0", "spawned1")


@case()
def leaves_all_kinds():
    leave_a_daemon()
    leave_threads_without_a_main_one()
    leave_ranks()
    leave_spawned_processes()
    pool, step = leave_compile_workers(), quick()
    return lambda: (step(), pool.running)


@case(flag=[True, False])
def writes_its_conditions(flag):
    conditions = {
        "flag": flag,
        "cpus": sorted(os.sched_getaffinity(0)),
        "variables": dict(os.environ),
        "stdin": sys.stdin.read(),
        "modules": [name for name in ("db", "cli", "runner.execution.session") if importable(name)],
        "threads": torch.get_num_threads(),
    }
    (scratch() / "conditions.json").write_text(json.dumps(conditions))
    return quick()


def importable(name):
    """Whether the measured process could import a module of the program's."""
    try:
        __import__(name)
    except ImportError:
        return False
    return True
