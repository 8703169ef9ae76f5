"""A reader's browser tab as the server sees it: a websocket that asks for pages in Streamlit's protocol."""

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass
from string import ascii_uppercase, digits
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

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
