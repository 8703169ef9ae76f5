"""A member's end of the leader's TCPStore: orders come as keys, answers go as keys, a start is waited for."""

import json
import os
import select
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch

#: The leader ends what it had started; nothing else bounds a wait for its next order.
FOREVER = timedelta(days=7)
#: How long the store may take to be reached.
_REACH = timedelta(seconds=60)


def client(host: str, port: int) -> Any:
    """One connection to the store that is served at `host` and `port`."""
    tcp = torch.distributed.TCPStore  # pyright: ignore[reportPrivateImportUsage]
    return tcp(host, port, None, False, _REACH, wait_for_workers=False)


class Speaker:
    """One that says something to the leader: a rank or a node, by its number."""

    def __init__(self, store: Any, kind: str, number: int) -> None:
        self._store = store
        self._name = f"{kind}/{number}"
        self._count = 0

    def say(self, body: Mapping[str, Any]) -> None:
        """Send one message."""
        self._store.set(f"{self._name}/{self._count}", json.dumps(body))
        self._count += 1


class StoreChannel:
    """The channel of rank `rank` of `world`."""

    def __init__(self, store: Any, rank: int, world: int) -> None:
        self._store = store
        self._speaker = Speaker(store, "rank", rank)
        self._rank, self._world = rank, world
        self._orders = self._starts = 0
        self.say({"rank": rank, "pid": os.getpid()})

    def say(self, body: Mapping[str, Any]) -> None:
        """Send one answer."""
        self._speaker.say(body)

    def hear(self) -> dict[str, Any] | None:
        """The next order, waited for; None when the leader is gone."""
        key = f"order/{self._rank}/{self._orders}"
        self._orders += 1
        try:
            self._store.wait([key], FOREVER)
            order = json.loads(self._store.get(key))
            self._store.delete_key(key)
        except RuntimeError:
            return None
        return order

    def waiting(self) -> bool:
        """Whether an order has come."""
        return bool(self._store.check([f"order/{self._rank}/{self._orders}"]))

    def meet(self) -> None:
        """Return when every rank has called it: a common start where no clock is common."""
        name = f"start/{self._starts}"
        self._starts += 1
        if self._store.add(name, 1) == self._world:
            self._store.set(f"{name}/go", "")
        self._store.wait([f"{name}/go"], FOREVER)


def end_with_input() -> None:
    """End this process when its standard input does: the leader, or the command that reached us, is gone.

    A collective that waits for a dead rank hears no order: a thread of its own has to see the leader go.
    """
    threading.Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    poller = select.poll()
    poller.register(0, select.POLLHUP)
    poller.poll()
    os._exit(1)
