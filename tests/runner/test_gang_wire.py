"""Lines between machines: who is let in, what a stranger learns, and what clocks are worth."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.worker.distributed import tcp_channel
from runner.worker.distributed.clock import offset
from runner.worker.distributed.tcp_channel import (
    Call,
    Refused,
    WireError,
    answer,
    call,
    host_and_port,
    interface_to,
    listen,
)

SECRET, OTHER = b"0123456789abcdef", b"fedcba9876543210"


class Listening:
    """Somebody who knows SECRET as `first`, and lets in whoever proves to know it too."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.refused: list[str] = []
        self._socket = listen(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._socket.getsockname()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        try:
            self.calls.append(answer(connection, {"first": SECRET}.get))
        except Refused as error:
            self.refused.append(str(error))

    def done(self) -> None:
        """Wait until somebody was let in, or was not."""
        self._thread.join()
        self._socket.close()


@pytest.fixture
def there() -> Iterator[Listening]:
    """Listens for one call."""
    listening = Listening()
    yield listening
    listening.done()
    for each in listening.calls:
        each.line.close()


def test_who_knows_the_secret_shares_a_key_that_was_never_sent(there: Listening) -> None:
    ours = call(there.address, "first", SECRET)
    there.done()
    (theirs,) = there.calls
    assert ours.key == theirs.key
    assert len(ours.key) == 32
    theirs.line.say({"hello": 1})
    assert ours.line.hear() == {"hello": 1}
    assert ours.line.ends == ("127.0.0.1", "127.0.0.1")
    theirs.line.close()
    assert ours.line.hear() is None
    assert (ours.line.closed, ours.line.broken) == (True, "")
    ours.line.close()


def test_each_line_has_a_key_of_its_own() -> None:
    keys: set[bytes] = set()
    for _ in range(3):
        there = Listening()
        called = call(there.address, "first", SECRET)
        there.done()
        called.line.close()
        there.calls[0].line.close()
        keys.add(called.key)
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("name", "key", "why"),
    [
        ("first", OTHER, "it has another secret"),
        ("second", SECRET, "it names what is not known any more"),
    ],
)
def test_who_does_not_know_it_is_refused(there: Listening, name: str, key: bytes, why: str) -> None:
    with pytest.raises(Refused, match="or has another secret"):
        call(there.address, name, key)
    there.done()
    assert (there.calls, there.refused) == ([], [why])


def test_a_stranger_that_says_a_byte_now_and_then_does_not_stay(
    there: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_channel, "_REACH_SECONDS", 0.3)
    gone = threading.Event()
    with socket.create_connection(there.address) as stranger:

        def drip() -> None:
            with contextlib.suppress(OSError):
                while not gone.wait(0.05):
                    stranger.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            there.done()
        finally:
            gone.set()
            thread.join()
    assert there.calls == []
    assert len(there.refused) == 1


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\n\n", b"[1]\n", b"{}\n", b"[" * 4096 + b"\n", b"x" * 9000])
def test_a_stranger_is_refused_whatever_it_says(there: Listening, said: bytes) -> None:
    with socket.create_connection(there.address) as stranger:
        stranger.sendall(said)
        # Whoever says too much may have been hung up on by now.
        with contextlib.suppress(OSError):
            stranger.shutdown(socket.SHUT_WR)
        there.done()
    assert there.calls == []
    assert len(there.refused) == 1


def test_one_that_cannot_prove_itself_is_not_believed() -> None:
    # It lets everybody in: the caller has to be the one that refuses.
    def pretend() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rwb") as file:
            file.write(b'{"pyrometer": 1, "nonce": "00"}\n')
            file.flush()
            file.readline()
            file.write(b'{"proof": "00"}\n')

    with listen(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(Refused, match="has another secret"):
            call(server.getsockname(), "first", SECRET)
        thread.join()


def test_nobody_there_is_said_in_a_sentence() -> None:
    with listen(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(WireError, match=f"^127.0.0.1:{address[1]} cannot be reached: Connection refused$"):
        call(address, "first", SECRET)


def test_the_interface_is_the_one_of_the_route() -> None:
    assert interface_to("127.0.0.1") == "lo"
    assert interface_to("::1") == "lo"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("gpu-b:7391", ("gpu-b", 7391)),
        ("10.0.0.2:1", ("10.0.0.2", 1)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_an_address_is_host_and_port(text: str, parts: tuple[str, int]) -> None:
    assert host_and_port(text) == parts


@pytest.mark.parametrize("text", ["gpu-b", "gpu-b:", ":7391", "gpu-b:0", "gpu-b:65536", "gpu-b:x", ""])
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        host_and_port(text)


trips = st.tuples(st.integers(0, 10**7), st.integers(0, 10**7))


@given(st.integers(-(10**15), 10**15), st.lists(trips, min_size=1, max_size=20))
def test_a_clock_is_never_further_off_than_is_said(apart: int, there_and_back: list[tuple[int, int]]) -> None:
    now, pings = 10**15, list[tuple[int, int, int]]()
    for there, back in there_and_back:
        pings.append((now, now + there + apart, now + there + back))
        now += there + back + 1
    found = offset(pings)
    assert abs(found.ns - apart) <= found.error_ns
    assert found.ours(found.theirs(now)) == now
    assert found.error_ns <= min(there + back for there, back in there_and_back) // 2 + 1
