"""Measures the machine itself: two fixed pieces of work, a script of its own, standard library only.

FROZEN. What is timed here must stay the same for ever, or the machine would seem to have changed when we did:
other work needs other case names (see `CASES` in runner/drift.py) and another hash in its test.

* `canary_compute`: modular powers of big integers, which stay in the first-level cache,
* `canary_bandwidth`: a copy of 64 MiB to another place, by the C library's memmove.

Prints one line of JSON: nanoseconds of each repetition by case, CPU time and wall time in nanoseconds.
"""

import argparse
import ctypes
import json
import mmap
import os
import time

_POWERS = 24
_MODULUS = (1 << 2203) - 1
_EXPONENT = (1 << 521) - 1
_COPIES = 8
_COPY_BYTES = 64 << 20


def compute() -> list[int]:
    """Nanoseconds of each of 24 modular powers."""
    samples: list[int] = []
    base = pow(3, _EXPONENT, _MODULUS)
    for _ in range(_POWERS):
        started = time.perf_counter_ns()
        base = pow(base, _EXPONENT, _MODULUS)
        samples.append(time.perf_counter_ns() - started)
    return samples


def bandwidth() -> list[int]:
    """Nanoseconds of each of 8 copies, the pages of both ends already there."""
    memory = mmap.mmap(-1, 2 * _COPY_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    source = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.memset(source, 1, 2 * _COPY_BYTES)
    samples: list[int] = []
    for _ in range(_COPIES):
        started = time.perf_counter_ns()
        ctypes.memmove(source + _COPY_BYTES, source, _COPY_BYTES)
        samples.append(time.perf_counter_ns() - started)
    return samples


def main() -> None:
    """Pin, work, tell."""
    parser = argparse.ArgumentParser(prog="canary", description=__doc__)
    parser.add_argument("--cpus", default="", help="CPU numbers with commas; none: not pinned")
    cpus = {int(part) for part in parser.parse_args().cpus.split(",") if part}
    if cpus:
        os.sched_setaffinity(0, cpus)
    told: dict[str, dict[str, object]] = {}
    for name, work in (("canary_compute", compute), ("canary_bandwidth", bandwidth)):
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        samples = work()
        told[name] = {
            "samples_ns": samples,
            "wall_ns": time.perf_counter_ns() - wall,
            "cpu_ns": time.process_time_ns() - cpu,
        }
    os.write(1, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    main()
