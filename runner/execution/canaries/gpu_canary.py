"""Measures the GPU itself: two fixed pieces of work by CUDA's driver alone, standard library only.

FROZEN, as `canary.py` is: other work needs other case names (see `GPU_CASES` in canary_runner.py) and another
hash in its test.

* `canary_gpu_compute`: bf16 products of 16x16 by 16x8 on the tensor cores, from registers to registers,
* `canary_gpu_bandwidth`: a copy of 512 MiB to another place in the device's memory.

No PyTorch and no library of CUDA takes part, so no release of theirs changes what is measured.

Prints one line of JSON: of each case the nanoseconds of each repetition, by events of the device, and the
work of one in FLOP or bytes; or the status and the reason of a case without any.
"""

import ctypes
import json
import os
import time
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from itertools import pairwise
from typing import Any

_REPETITIONS = 64
#: Untimed before the first repetition: so long, then so many more in the queue of the timed ones.
_LEAD_IN_SECONDS, _LEAD_IN = 0.1, 32
_COPY_BYTES = 512 << 20
#: Warps of a block and blocks of a multiprocessor; chains of products in a warp, rounds of them in a launch.
_WARPS, _BLOCKS, _CHAINS, _ROUNDS = 8, 2, 8, 4096
_FLOP_OF_A_PRODUCT = 2 * 16 * 8 * 16
#: Of cuda.h: attributes of a device, and the code of an allocation that fails.
_MULTIPROCESSORS, _CAPABILITY_MAJOR, _OUT_OF_MEMORY = 16, 75, 2
#: Four results in each of 32 threads.
_ACCUMULATORS = [[f"%f{4 * chain + place}" for place in range(4)] for chain in range(_CHAINS)]


class DriverError(Exception):
    """A call that the driver refused; `code` is its CUresult."""

    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"{call} failed: {text} ({code})")
        self.code = code


class CudaDriver:
    """The driver with the primary context of the first visible device."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._device = c_int()
        context = c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", byref(self._device), 0)
        self.call("cuDevicePrimaryCtxRetain", byref(context), self._device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; raises DriverError."""
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, byref(text))
            raise DriverError(name, code, (text.value or b"unknown error").decode(errors="replace"))

    def attribute(self, number: int) -> int:
        """An attribute of the device."""
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), number, self._device)
        return value.value

    def memory(self, size: int) -> c_uint64:
        """The address of so many bytes of the device, each of them 1."""
        address = c_uint64()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(size))
        self.call("cuMemsetD32_v2", address, c_uint(0x01010101), c_size_t(size // 4))
        return address

    def samples(self, queue: Callable[[], None]) -> list[int]:
        """Nanoseconds of each repetition of what `queue` queues, by events between them."""
        until = time.monotonic() + _LEAD_IN_SECONDS
        while time.monotonic() < until:
            for _ in range(_LEAD_IN):
                queue()
            self.call("cuCtxSynchronize")
        events = [c_void_p() for _ in range(_REPETITIONS + 1)]
        for event in events:
            self.call("cuEventCreate", byref(event), 0)
        for _ in range(_LEAD_IN):
            queue()
        self.call("cuEventRecord", events[0], None)
        for event in events[1:]:
            queue()
            self.call("cuEventRecord", event, None)
        self.call("cuCtxSynchronize")
        return [self._nanoseconds(*pair) for pair in pairwise(events)]

    def _nanoseconds(self, start: c_void_p, end: c_void_p) -> int:
        milliseconds = c_float()
        self.call("cuEventElapsedTime", byref(milliseconds), start, end)
        return round(milliseconds.value * 1e6)


def program() -> str:
    """The kernel in PTX: each warp multiplies ones, and each thread stores the sum of its results."""
    registers = [name for chain in _ACCUMULATORS for name in chain]
    # Chains that began alike would be one to an optimizer.
    begin = [
        f"mov.f32 {name}, 0f{number.hex()};"
        for chain, names in enumerate(_ACCUMULATORS)
        for number in [_single(chain)]
        for name in names
    ]
    products = [
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        f"{{{', '.join(names)}}}, {{%r1, %r1, %r1, %r1}}, {{%r1, %r1}}, {{{', '.join(names)}}};"
        for names in _ACCUMULATORS
    ]
    sums = [f"add.f32 %f0, %f0, {name};" for name in registers[1:]]
    lines = [
        ".version 7.0",
        ".target sm_80",
        ".address_size 64",
        ".visible .entry products(.param .u64 answers, .param .u32 rounds) {",
        ".reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>;",
        f".reg .f32 %f<{len(registers)}>;",
        "ld.param.u64 %rd1, [answers];",
        "ld.param.u32 %r2, [rounds];",
        # Two ones in bf16.
        "mov.b32 %r1, 0x3F803F80;",
        *begin,
        "again:",
        *products,
        "sub.u32 %r2, %r2, 1;",
        "setp.ne.u32 %p, %r2, 0;",
        "@%p bra again;",
        *sums,
        "mov.u32 %r3, %ctaid.x;",
        "mov.u32 %r4, %ntid.x;",
        "mov.u32 %r5, %tid.x;",
        "mad.lo.u32 %r6, %r3, %r4, %r5;",
        "cvta.to.global.u64 %rd1, %rd1;",
        "mul.wide.u32 %rd2, %r6, 4;",
        "add.u64 %rd3, %rd1, %rd2;",
        "st.global.f32 [%rd3], %f0;",
        "ret;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _single(value: int) -> bytes:
    """A number in single precision, the highest byte first."""
    return bytes(c_float(value))[::-1]


def compute(driver: CudaDriver) -> dict[str, Any]:
    """The products; `wrong` where a thread's answer is not theirs."""
    if driver.attribute(_CAPABILITY_MAJOR) < 8:
        return {"status": "unsupported", "reason": "bf16 products need compute capability 8.0 or above"}
    module, function = c_void_p(), c_void_p()
    driver.call("cuModuleLoadData", byref(module), program().encode())
    driver.call("cuModuleGetFunction", byref(function), module, b"products")
    blocks, threads = _BLOCKS * driver.attribute(_MULTIPROCESSORS), 32 * _WARPS
    answers, rounds = driver.memory(4 * blocks * threads), c_uint(_ROUNDS)
    parameters = (c_void_p * 2)(*(ctypes.addressof(each) for each in (answers, rounds)))

    def queue() -> None:
        driver.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, parameters, None)

    samples = driver.samples(queue)
    found = (c_float * (blocks * threads))()
    driver.call("cuMemcpyDtoH_v2", found, answers, c_size_t(4 * blocks * threads))
    # Each product adds 16 to each of the four results of a thread in each chain; chain c began with c.
    expected = 4.0 * (_CHAINS * 16 * _ROUNDS + sum(range(_CHAINS)))
    if any(each != expected for each in found):
        return {"status": "wrong", "reason": f"the products are not {expected:g}"}
    return {"samples_ns": samples, "work": _FLOP_OF_A_PRODUCT * _CHAINS * _ROUNDS * _WARPS * blocks}


def bandwidth(driver: CudaDriver) -> dict[str, Any]:
    """The copy, which reads and writes its bytes once."""
    source, target = driver.memory(_COPY_BYTES), driver.memory(_COPY_BYTES)

    def queue() -> None:
        driver.call("cuMemcpyDtoDAsync_v2", target, source, c_size_t(_COPY_BYTES), None)

    return {"samples_ns": driver.samples(queue), "work": 2 * _COPY_BYTES}


def main() -> None:
    """Work and print; what the driver refuses costs its own case alone."""
    driver = CudaDriver()
    found: dict[str, dict[str, Any]] = {}
    for name, work in (("canary_gpu_compute", compute), ("canary_gpu_bandwidth", bandwidth)):
        try:
            found[name] = work(driver)
        except DriverError as error:
            status = "oom" if error.code == _OUT_OF_MEMORY else "crashed"
            found[name] = {"status": status, "reason": str(error)}
    os.write(1, json.dumps(found).encode() + b"\n")


if __name__ == "__main__":
    main()
