"""Browser tabs as the server sees them: websockets that speak Streamlit's protocol; many readers at once."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase, digits
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

SEED = 20261122
#: Runs after which a browser gives up a message that it kept; Streamlit's default.
_KEPT_FOR = 2
_PATIENCE_SECONDS = 120.0
_LAST = (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_WITH_COMPILE_ERROR)


@dataclass(frozen=True, slots=True)
class Visit:
    """What the server sent for one address: `seconds` until its last message, `size` in bytes.

    `points` are the rows of every chart's largest set of data, all panels together; `wrong` is what a page
    must never show.
    """

    seconds: float
    size: int
    points: tuple[int, ...]
    wrong: tuple[str, ...]


class Tab:
    """A tab of a browser; it keeps large messages as browsers do, so that they are not sent again."""

    def __init__(self, socket: ClientConnection, url: str) -> None:
        self._socket = socket
        self._url = url
        self._visits = 0
        self._kept: dict[str, int] = {}
        self._scripts: dict[str, str] = {}
        #: The titles of the pages in the navigation by their paths, once one was visited.
        self.pages: dict[str, str] = {}

    @staticmethod
    async def opened(url: str) -> "Tab":
        """A new tab at a dashboard's `url`; nothing was asked of it yet."""
        parts = urlsplit(url)
        socket = await connect(
            f"ws://{parts.netloc}/_stcore/stream",
            origin=url,  # pyright: ignore[reportArgumentType]
            subprotocols=["streamlit"],  # pyright: ignore[reportArgumentType]
            max_size=None,
        )
        return Tab(socket, url)

    async def closed(self) -> None:
        """Close it."""
        await self._socket.close()

    async def forget(self) -> None:
        """Make the server forget all answers and charts that it keeps."""
        await self._socket.send(BackMsg(clear_cache=True).SerializeToString())

    async def visit(self, address: str) -> Visit:
        """Go to an address, path and query, and wait for all of it."""
        parts = urlsplit(address)
        path = parts.path.strip("/")
        message = BackMsg()
        state = message.rerun_script
        state.query_string = parts.query
        # A tab that is new knows the paths only.
        state.page_script_hash = self._scripts.get(path, "")
        state.page_name = "" if state.page_script_hash else path
        state.cached_message_hashes.extend(self._kept)
        state.context_info.timezone = "UTC"
        state.context_info.locale = "en-GB"
        state.context_info.url = self._url + address
        state.context_info.color_scheme = "light"
        self._visits += 1
        started = time.perf_counter()
        await self._socket.send(message.SerializeToString())
        async with asyncio.timeout(_PATIENCE_SECONDS):
            messages = await self._answer()
        seconds = time.perf_counter() - started
        return self._visit(seconds, messages)

    async def _answer(self) -> list[bytes]:
        """Every message of one run of the script."""
        messages: list[bytes] = []
        while True:
            received = await self._socket.recv(decode=False)
            messages.append(received)
            # Those that end a run are tiny; the others are read when the clock has stopped.
            if len(received) < 300:
                message = ForwardMsg.FromString(received)
                if message.WhichOneof("type") == "script_finished" and message.script_finished in _LAST:
                    return messages

    def _visit(self, seconds: float, messages: list[bytes]) -> Visit:
        points: list[int] = []
        wrong: list[str] = []
        for message in map(ForwardMsg.FromString, messages):
            self._keep(message)
            match message.WhichOneof("type"):
                case "navigation":
                    pages = message.navigation.app_pages
                    self.pages = {_path(page): page.page_name for page in pages}
                    self._scripts = {_path(page): page.page_script_hash for page in pages}
                case "page_not_found":
                    wrong.append("page not found")
                case "delta":
                    element = message.delta.new_element
                    if element.WhichOneof("type") == "vega_lite_chart":
                        points.append(_points(element.vega_lite_chart))
                    elif element.WhichOneof("type") == "exception":
                        wrong.append(element.exception.type)
        return Visit(seconds, sum(map(len, messages)), tuple(points), tuple(wrong))

    def _keep(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if kind == "ref_hash":
            self._kept[message.ref_hash] = self._visits
        elif message.metadata.cacheable:
            self._kept[message.hash] = self._visits
        elif kind == "script_finished":
            oldest = self._visits - _KEPT_FOR
            self._kept = {name: visit for name, visit in self._kept.items() if visit >= oldest}


def _path(page: Any) -> str:
    return "" if page.is_default else str(page.url_pathname)


def _points(chart: Any) -> int:
    rows: Counter[str] = Counter()
    for each in chart.datasets:
        # Panels have a set of data each: of points called by a letter, of lines by a number.
        rows[each.name.rstrip(ascii_uppercase + digits)] += (
            pa.ipc.open_stream(each.data.data).read_all().num_rows
        )
    return max([*rows.values(), _inside(json.loads(chart.spec))])


def _inside(spec: object) -> int:
    """The length of the longest list of values that stands in a specification itself."""
    if isinstance(spec, list):
        return max(map(_inside, spec), default=0)
    if not isinstance(spec, dict):
        return 0
    lengths = [len(each) for name, each in spec.items() if name == "values" and isinstance(each, list)]
    return max([*lengths, *map(_inside, spec.values())], default=0)


@dataclass(frozen=True, slots=True)
class PageView:
    """A page that some reader looked at: its address, how long it took, what it should not have shown.

    One that does not count was seen while readers were still coming.
    """

    address: str
    seconds: float
    wrong: tuple[str, ...]
    counts: bool


async def crowd(
    url: str, addresses: Sequence[str], many: int, think: float, seconds: float
) -> list[PageView]:
    """What `many` readers saw within `seconds`, thinking `think` seconds on average between two pages.

    They come one after the other while each would think once: what they see by then does not count.
    """
    starts_at = time.perf_counter() + think
    views: list[PageView] = []
    readers = [
        _reader(url, addresses, random.Random(SEED + each), think, starts_at, starts_at + seconds, views)
        for each in range(many)
    ]
    await asyncio.gather(*readers)
    return views


async def _reader(
    url: str,
    addresses: Sequence[str],
    luck: random.Random,
    think: float,
    starts_at: float,
    ends_at: float,
    views: list[PageView],
) -> None:
    await asyncio.sleep(luck.uniform(0.0, think))
    tab = await Tab.opened(url)
    while (begun := time.perf_counter()) < ends_at:
        address = luck.choice(addresses)
        visit = await tab.visit(address)
        views.append(PageView(address, visit.seconds, visit.wrong, begun >= starts_at))
        pause = luck.uniform(0.5, 1.5) * think
        await asyncio.sleep(min(pause, max(0.0, ends_at - time.perf_counter())))
    await tab.closed()
