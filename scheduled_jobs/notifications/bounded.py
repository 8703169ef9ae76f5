"""What receivers answer, read so far and no further: a webhook that floods must not fill our memory."""

import time
from functools import cache
from io import BytesIO
from typing import Any

#: Of an answer so much is read, for so long: what a service makes of a message are a few lines.
MOST_BYTES, MOST_SECONDS = 1 << 18, 30.0
#: Looked at in pieces of so many bytes, for one may come drop by drop.
_PIECE = 256


@cache
def bound_answers() -> None:
    """Have this process read no more of an answer by `requests`, which Apprise's services ask by.

    Whoever asks for a stream gets one. There is no other way in: each service makes sessions of its own.
    """
    from requests import PreparedRequest, Response, sessions
    from requests.adapters import HTTPAdapter
    from requests.exceptions import ConnectionError as Broken
    from urllib3.exceptions import HTTPError

    class Bounded(HTTPAdapter):
        def send(
            self,
            request: PreparedRequest,
            stream: bool = False,
            timeout: Any = None,
            verify: Any = True,
            cert: Any = None,
            proxies: Any = None,
        ) -> Response:
            answer = super().send(request, stream, timeout, verify, cert, proxies)
            if not stream:
                try:
                    beginning = _beginning(answer.raw)
                except HTTPError as error:
                    raise Broken(error, request=request) from error
                answer.raw.close()
                answer.raw = BytesIO(beginning)
            return answer

    sessions.__dict__["HTTPAdapter"] = Bounded


def _beginning(raw: Any) -> bytes:
    """The first bytes of an answer, as they are meant: without its compression."""
    taken, until = bytearray(), time.monotonic() + MOST_SECONDS
    for piece in raw.stream(_PIECE, decode_content=True):
        taken += piece
        if len(taken) >= MOST_BYTES or time.monotonic() > until:
            break
    return bytes(taken[:MOST_BYTES])
