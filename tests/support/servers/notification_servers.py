"""A real SMTP server and a real HTTP server on loopback that keep what they are sent, or refuse it."""

import json
import socketserver
from email import message_from_bytes
from email.message import Message
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.servers.loopback import Quiet


class MailSink(socketserver.ThreadingTCPServer):
    """Takes mail by SMTP (RFC 5321); `refuse` is the code with which it turns recipients away."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Mail)
        self.letters: list[Message] = []
        self.refuse = 0

    @property
    def url(self) -> str:
        """A target of this server, with a password in it."""
        where = f"127.0.0.1:{self.server_address[1]}"
        return f"mailto://{where}?from=pyrometer@example.org&to=team@example.org&pass=hunter2"


class _Mail(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server = self.server
        assert isinstance(server, MailSink)
        self._say(220, "sink")
        while line := self.rfile.readline():
            verb = line.split()[0].upper()
            if verb == b"RCPT" and server.refuse:
                self._say(server.refuse, "mailbox of hunter2 unavailable")
            elif verb == b"DATA":
                self._say(354, "go on")
                server.letters.append(message_from_bytes(self._data(), policy=default))
                self._say(250, "kept")
            elif verb == b"QUIT":
                self._say(221, "bye")
                return
            else:
                self._say(250, "fine")

    def _data(self) -> bytes:
        lines: list[bytes] = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line[1:] if line.startswith(b"..") else line)
        return b"".join(lines)

    def _say(self, code: int, text: str) -> None:
        self.wfile.write(f"{code} {text}\r\n".encode())


class WebSink(ThreadingHTTPServer):
    """Takes JSON by POST; answers `status`, which may be an error."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Web)
        self.posts: list[dict[str, Any]] = []
        self.status = 200

    @property
    def url(self) -> str:
        """A target of this server, with secrets wherever one can be."""
        return f"json://user:hunter2@127.0.0.1:{self.server_port}/hooks/T0PSECRET?+Authorization=hunter3"


class _Web(Quiet, BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, WebSink)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if server.status < 300:
            server.posts.append(body)
        self.send_response(server.status)
        if 300 <= server.status < 400:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        """Answer as a page would that is no webhook."""
        self.send_response(200)
        self.end_headers()
