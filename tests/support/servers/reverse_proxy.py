"""A reverse proxy as a process: names the reader in a header of its own, and passes WebSockets on."""

import asyncio
import os
import ssl
import sys
from collections.abc import Sequence

#: The variable with the file of a certificate and its key: with it browsers come by https.
CERTIFICATE = "PROXY_CERTIFICATE"


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except OSError:
        # Gone, or closed in a way that TLS complains about.
        pass
    finally:
        writer.close()


def _head(head: bytes, header: str, names: Sequence[str]) -> bytes:
    """The head of a request with what the browser said of itself replaced, one request to a connection."""
    first, *lines = head.rstrip(b"\r\n").split(b"\r\n")
    fields = [line.split(b":", 1) for line in lines]
    upgraded = any(name.lower() == b"upgrade" for name, _ in fields)
    taken_out = {header.lower().encode(), *([] if upgraded else [b"connection"])}
    kept = [name + b":" + value for name, value in fields if name.lower() not in taken_out]
    kept += [f"{header}: {name}".encode() for name in names]
    kept += [] if upgraded else [b"Connection: close"]
    return b"\r\n".join([first, *kept, b"", b""])


def _tls() -> ssl.SSLContext | None:
    file = os.environ.get(CERTIFICATE)
    if file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


async def main(port: int, source: str, header: str, *names: str) -> None:
    """Listen on a free port and print it; pass on to `port` from the address `source`, as `names`."""

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        back.write(_head(head, header, names))
        await asyncio.gather(_copied(reader, back), _copied(there, writer))

    server = await asyncio.start_server(passed_on, "127.0.0.1", 0, ssl=_tls())
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
