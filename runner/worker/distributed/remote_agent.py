"""The mate: on a neighbour, it starts the leader's members there, tells how they end, and what time it is.

Lent by `pyrometer lend`, which knows nothing of gangs. While the members compute, it sleeps.
"""

import os
import select
import time
from dataclasses import replace

from .cpu_partition import NoRoom
from .local_channel import Line, welcomed
from .local_node import MemberFailed, Order, OwnNode, used
from .tcp_channel import call, host_and_port, interface_to

#: The key by which a neighbour's processes prove themselves to the leader. Children of torchrun inherit it.
KEY_VARIABLE = "PYROMETER_GANG_KEY"
#: How long members may take to leave when asked to.
LEAVE_SECONDS = 10.0


def join_from_afar(leader: str, node: int, rank: int) -> Line:
    """The end of a member on a neighbour, number `node`: as `gang_line.join`, by the network."""
    return welcomed(_call(leader, node), rank)


def serve(leader: str, node: int) -> None:
    """Start what the leader orders, and stand by it until told to leave, or until the leader is gone."""
    line = _call(leader, node)
    line.say({"mate": os.getpid()})
    ordered = line.hear()
    if ordered is None:
        return
    order = Order(**ordered["order"])
    try:
        order = replace(order, interface=interface_to(host_and_port(leader)[0]))
        own = OwnNode(order)
    except (NoRoom, OSError) as error:
        status = "unsupported" if isinstance(error, NoRoom) else "lost"
        line.say({"failed": {"status": status, "reason": f"{order.where}: {error}"}})
        return
    try:
        about = {"shares": own.shares, "pinned_by": own.pinned_by, "interface": used(order.interface)}
        line.say({"started": about})
        _stand_by(line, own)
    finally:
        own.kill()


def _stand_by(line: Line, own: OwnNode) -> None:
    """Answer the leader, and tell of each member that ends."""
    watched = {os.pidfd_open(process.pid): number for number, process in enumerate(own.processes)}
    poller = select.poll()
    poller.register(line, select.POLLIN)
    for descriptor in watched:
        poller.register(descriptor, select.POLLIN)
    while True:
        for descriptor, _ in poller.poll():
            if descriptor in watched:
                poller.unregister(descriptor)
                number, how = _end_of(own, watched[descriptor])
                line.say({"ended": number, "status": how.status, "reason": str(how)})
                continue
            heard = line.hear()
            if heard is None:
                return
            if "leave" in heard:
                own.wait(time.monotonic() + LEAVE_SECONDS)
                return
            line.say({"pong": time.monotonic_ns()})


def _end_of(own: OwnNode, process: int) -> tuple[int | None, MemberFailed]:
    """The member whose process ended, and how; of torchrun, which had them all, none in particular."""
    if own.order.torchrun:
        sentence = f"torchrun{own.order.at} ended before every rank was done; its report is in the log"
        return None, MemberFailed("crashed", sentence)
    number = own.order.first + process
    return number, own.death(number)


def _call(leader: str, node: int) -> Line:
    key = bytes.fromhex(os.environ[KEY_VARIABLE])
    return call(host_and_port(leader), str(node), key).line
