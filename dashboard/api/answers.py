"""Answers of the API: JSON, or CSV on request, with an ETag and the address of the next page."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interchange.exporters.tables import cell

Record = TypeVar("Record")

_CSV = "text/csv"


class HeadAnswers:
    """Answers HEAD as GET, without the content (RFC 9110, 9.3.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"}, receive, send_head)


def rows(
    request: Request, model: type[BaseModel], records: Iterable[object], following: str = ""
) -> Response:
    """The records as rows of `model`; `following` is the address of the next page, empty on the last one."""
    each = [model.model_validate(one) for one in records]
    link = {"link": f'<{following}>; rel="next"'} if following else {}
    if _prefers_csv(request):
        return _etag_response(request, _csv(model, each), _CSV, link)
    # A number that JSON lacks (infinity, NaN) becomes null.
    text = ",".join(one.model_dump_json() for one in each)
    return _etag_response(request, f"[{text}]".encode(), "application/json", link)


def body(request: Request, result: object) -> Response:
    """One object as JSON."""
    return _etag_response(request, json.dumps(result, allow_nan=False).encode(), "application/json", {})


def page(
    request: Request, records: Sequence[Record], limit: int, offset: int, before: int = 0
) -> tuple[Sequence[Record], str]:
    """Of `limit` + 1 records those of this page, and the address of the next one, empty on the last.

    `before` is the number of records before the requested `newest` ones: the next page counts from the first
    record of all, because a new record shifts the newest ones.
    """
    return _page(request, records, limit, offset=before + offset + limit)


def page_after(
    request: Request, records: Sequence[Record], limit: int, id_of: Callable[[Record], object]
) -> tuple[Sequence[Record], str]:
    """The same for a list whose newest rows come first: the next page begins after the last row of this one.

    If it were counted from the first row, new rows would make it repeat some.
    """
    return _page(request, records, limit, after=id_of(records[limit - 1]) if len(records) > limit else "")


def _page(
    request: Request, records: Sequence[Record], limit: int, **following: object
) -> tuple[Sequence[Record], str]:
    if len(records) <= limit:
        return records, ""
    address = request.url.remove_query_params(["newest", "offset"])
    address = address.include_query_params(limit=limit, **following)
    # A relative address, because a proxy in front may have another name.
    return records[:limit], f"{address.path}?{address.query}"


def _prefers_csv(request: Request) -> bool:
    accept_header = request.headers.get("accept", "")
    return _CSV in accept_header and "application/json" not in accept_header


def _csv(model: type[BaseModel], each: Sequence[BaseModel]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(model.model_fields)
    writer.writerow(names)
    writer.writerows([_cell(getattr(one, name)) for name in names] for one in each)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    """Lists and tables are JSON in their cell."""
    if isinstance(value, Mapping | tuple):
        return cell(json.dumps(value, separators=(",", ":")))
    return cell(value)


def _etag_response(request: Request, content: bytes, media_type: str, headers: Mapping[str, str]) -> Response:
    """200 with the content, or 304 for a client that has it already."""
    # The address of the next page is included, so that a client that cached the last page sees that more
    # follow.
    whole = content + headers.get("link", "").encode()
    tag = f'"{sha256(whole).hexdigest()[:32]}"'
    headers = {**headers, "etag": tag, "cache-control": "no-cache", "vary": "accept"}
    tags = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if tag in tags:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)
