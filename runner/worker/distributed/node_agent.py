"""What runs on each node of a case: torchrun for the ranks there, and the word of how they ended."""

import fcntl
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..variables import relevant_variables
from .cpu_partition import Share, TooFewCpus, own_cpus, share_out
from .members import GLOO_INTERFACE, GroupSpec, describe_exit, oom_kills, threads_of

_BEAT_SECONDS = 1.0
#: Prefix of Pyrometer's settings, and the one variable that marks what is measured.
_OURS, TOKEN = "PYROMETER_", "PYROMETER_TOKEN"
#: Which GPUs of a node are given to a case is decided there, and not part of what is measured.
_CHOOSES_GPUS = "CUDA_VISIBLE_DEVICES"


def serve(text: str) -> None:
    """Run the ranks of this node as `text` orders (JSON of the leader), until they have left."""
    order: dict[str, Any] = json.loads(text)
    take_variables(order["variables"])
    refused = ""
    try:
        if order["cpus"]:
            os.sched_setaffinity(0, order["cpus"])
    except OSError:
        refused = f"the kernel refuses CPUs {order['cpus']} of the preset"
    # After the affinity: torch counts the CPUs it may use when it is imported.
    from .channels import StoreSender, client, end_with_input

    end_with_input()
    store = client(order["host"], order["store"])
    speaker, lock = StoreSender(store, "node", order["node"]), threading.Lock()

    def send(**body: Any) -> None:
        with lock:
            speaker.send(body)

    shares: tuple[Share, ...] = ()
    if not refused:
        try:
            shares = share_out(own_cpus(), order["count"], order["word"], order["each"])
        except TooFewCpus as error:
            refused = str(error)
    if refused:
        send(ended={"unsupported": refused})
        return
    interface = "lo" if order["nodes"] == 1 else interface_to(order["host"])
    send(started={"shares": shares, "interface": os.environ.get(GLOO_INTERFACE, interface)})

    def beat() -> None:
        while True:
            time.sleep(_BEAT_SECONDS)
            send(alive=True)

    if order["nodes"] > 1:
        threading.Thread(target=beat, daemon=True).start()
    send(ended=_run(order, shares, interface))


def take_variables(given: Mapping[str, str]) -> None:
    """Leave to ranks what changes a measurement as the leader has it, and none of Pyrometer's settings.

    The engine starts this process with the variables of its node, which no run knows.
    """
    own = [*relevant_variables(os.environ), *(name for name in os.environ if name.startswith(_OURS))]
    for name in own:
        if name not in (_CHOOSES_GPUS, TOKEN):
            del os.environ[name]
    os.environ.update(given)


def _run(order: dict[str, Any], shares: tuple[Share, ...], interface: str) -> dict[str, Any]:
    """torchrun to its end; answers how each rank that failed did, and what else went wrong."""
    import torch.distributed.run as torchrun
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    spec = GroupSpec(order["word"], order["count"], order["each"], order["threads"])
    os.environ.update(threads_of(spec, shares))
    # By interface: the name that a machine has on a network need not resolve. NCCL takes it for the beginning
    # of a name, but for the sign.
    if interface:
        os.environ.setdefault(GLOO_INTERFACE, interface)
        if order["nodes"] > 1:
            os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")
    before = oom_kills()
    cpus = ";".join(",".join(map(str, share)) for share in shares)
    member = (sys.executable, "-I", sys.argv[0], "member", "--store", f"{order['host']}:{order['store']}")
    try:
        torchrun.main([*_rendezvous(order), "--no-python", *member, "--shares", cpus])
    except ChildFailedError as error:
        killed = oom_kills() > before
        # Of several the first is the cause; torchrun ends the others by SIGTERM.
        first = min(error.failures.items(), key=lambda failure: failure[1].timestamp)
        failures = [first, *(each for each in error.failures.items() if each[0] != first[0])]
        return {"ranks": {rank: describe_exit(one.exitcode, out_of_memory=killed) for rank, one in failures}}
    except BaseException as error:
        first_line = next(iter(str(error).splitlines()), "")
        return {"ranks": {}, "reason": f"{type(error).__name__}: {first_line}"}
    return {"ranks": {}, "reason": "every rank has left"}


def _rendezvous(order: dict[str, Any]) -> tuple[str, ...]:
    """Where torchrun's agents meet, by addresses; ranks are numbered by node, so that none moves."""
    many = ("--nproc-per-node", str(order["count"]), "--max-restarts", "0")
    if order["nodes"] == 1:
        return *many, "--standalone", "--local-addr", order["host"]
    nodes = ("--nnodes", str(order["nodes"]), "--node-rank", str(order["node"]))
    return *many, *nodes, "--master-addr", order["host"], "--master-port", str(order["port"])


def interface_to(host: str) -> str:
    """The name of the network interface by which `host` is reached; empty where it is not known."""
    family, _, _, _, address = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: connecting a datagram socket chooses the route.
        probe.connect(address)
        ours = probe.getsockname()[0].partition("%")[0]
    named = _of_ipv6 if family == socket.AF_INET6 else _of_ipv4
    return next((name for _, name in socket.if_nameindex() if named(name, ours)), "")


def _of_ipv4(name: str, address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # netdevice(7): SIOCGIFADDR.
            answer = fcntl.ioctl(probe, 0x8915, struct.pack("256s", name.encode()))
        except OSError:
            return False
    return socket.inet_ntoa(answer[20:24]) == address


def _of_ipv6(name: str, address: str) -> bool:
    packed = socket.inet_pton(socket.AF_INET6, address).hex()
    lines = Path("/proc/net/if_inet6").read_text().splitlines()
    return any(line.startswith(packed) and line.split()[-1] == name for line in lines)
