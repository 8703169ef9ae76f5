"""Delivers notices to their targets by Apprise, once to each target, without exposing secrets."""

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from configuration.schema import AlertSettings
from db.connection.engine import Database
from db.findings.notices import replace_delivery
from records.findings import Delivery, DeliveryState, Notice
from workflows.errors import TargetsUnreadable

if TYPE_CHECKING:
    from apprise import AppriseAsset, NotifyBase

#: The level of a message, which services colour.
Tone = Literal["info", "success", "warning", "failure"]

#: The delays before a failed target is tried again.
WAITS = (timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=2))
MOST_TRIES = 1 + len(WAITS)

#: A sender that claimed a notice and stored no result within this time is dead.
_ABANDONED = timedelta(minutes=10)
#: Seconds that Apprise waits for one target; its URL sets shorter socket timeouts (`cto`, `rto`).
_PATIENCE = 90

#: Texts that are certainly host names, not tokens that some services have in their place.
_HOST = re.compile(r"localhost|[a-z0-9-]+(\.[a-z0-9-]+)+", re.IGNORECASE)
#: The part of an invalid URL that may be displayed; the rest could be a token.
_SCHEME = re.compile(r"[a-z]{1,12}")


@dataclass(frozen=True, slots=True)
class Target:
    """A target of notices: `name` stands for `url`, which may hold a password, in pages and database."""

    name: str
    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DigestMessage:
    """The message to a target: `text` is plain, `markdown` is for targets that render it."""

    title: str
    text: str
    markdown: str
    tone: Tone = "info"


def targets(alerts: AlertSettings) -> tuple[Target, ...]:
    """The targets of the settings; raises TargetsUnreadable if the file of targets cannot be read.

    Targets with equal names are numbered in the order of their URLs, not of the settings.
    """
    urls = sorted({*alerts.targets, *_lines(alerts)})
    names: dict[str, int] = {}
    found: list[Target] = []
    for url in urls:
        name = _name(url)
        names[name] = names.get(name, 0) + 1
        found.append(Target(name if names[name] == 1 else f"{name} #{names[name]}", url))
    return tuple(found)


def _lines(alerts: AlertSettings) -> list[str]:
    if alerts.targets_file is None:
        return []
    try:
        text = alerts.targets_file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TargetsUnreadable(
            f"{alerts.targets_file} (targets_file) cannot be read: {error.strerror}"
        ) from error
    except ValueError:
        # Not chained: a decoder's error holds what it could not decode.
        raise TargetsUnreadable(f"{alerts.targets_file} (targets_file) is not UTF-8") from None
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def post(target: Target, message: DigestMessage) -> str:
    """Send a message to a target; returns an empty text, or the reason of the failure as a sentence without
    secrets.
    """
    from apprise import Apprise, NotifyFormat, NotifyType

    service = _service(target.url)
    if service is None:
        return "Apprise cannot use this URL"
    formats = service.notify_format if isinstance(service.notify_format, tuple) else (service.notify_format,)
    # Mail clients render HTML. Each chat has its own markup dialect, and plain text is readable in all.
    rich = formats[0] == NotifyFormat.HTML and NotifyFormat.MARKDOWN not in formats
    sender = Apprise(asset=_asset())
    sender.add(service)
    room = service.body_maxlen or len(message.markdown) + len(message.text)
    if not service.title_maxlen:
        # The title precedes the body and counts toward its length.
        room -= len(message.title) + 2
    if formats[0] == NotifyFormat.HTML and not rich:
        # Some characters are longer there.
        room = room * 2 // 3
    done = sender.notify(
        body=_shorten_text(message.markdown if rich else message.text, room),
        title=message.title[: service.title_maxlen or None],
        notify_type=NotifyType(message.tone),
        body_format=NotifyFormat.MARKDOWN if rich else NotifyFormat.TEXT,
        timeout=_PATIENCE,
    )
    if done:
        return ""
    messages = [entry.message for result in done for entry in result.logs()]
    return _without_secrets(messages[-1] if messages else "it did not answer in time", target)


def deliver(
    database: Database, notice: Notice, to: Iterable[Target], now: Callable[[], datetime]
) -> list[tuple[str, Delivery]]:
    """Send a notice to the targets that lack it and are due; returns the delivery of each target tried.

    Senders on several machines do not send twice: one of them takes each target. `now` is called for each
    target, since one that hangs may take minutes and a target just taken must not look abandoned.
    """
    message = DigestMessage(notice.title, str(notice.facts["text"]), notice.body, notice.facts["tone"])
    tried: list[tuple[str, Delivery]] = []
    for target in to:
        was = notice.deliveries.get(target.name)
        taken_at = now()
        if not due(was, taken_at):
            continue
        taken = Delivery(DeliveryState.TRYING, taken_at, 1 + (was.tries if was else 0))
        if not replace_delivery(database, notice.kind, notice.key, target.name, was, taken):
            continue
        why = post(target, message)
        failed, delivered = DeliveryState.FAILED, DeliveryState.DELIVERED
        after = Delivery(failed, now(), taken.tries, why) if why else Delivery(delivered, now())
        replace_delivery(database, notice.kind, notice.key, target.name, taken, after)
        tried.append((target.name, after))
    return tried


def due(was: Delivery | None, now: datetime) -> bool:
    """Whether a notice is due for a target, by the state of its delivery."""
    if was is None:
        return True
    if was.state == DeliveryState.TRYING:
        return was.tries < MOST_TRIES and now - was.at >= _ABANDONED
    return (
        was.state == DeliveryState.FAILED and was.tries < MOST_TRIES and now - was.at >= WAITS[was.tries - 1]
    )


def given_up_at(was: Delivery) -> datetime | None:
    """The time at which a delivery was given up; None for one that is done, or is still tried."""
    if was.tries < MOST_TRIES or was.state == DeliveryState.DELIVERED:
        return None
    return was.at + _ABANDONED if was.state == DeliveryState.TRYING else was.at


def _service(url: str) -> "NotifyBase | None":
    """The service behind a URL; None for one that Apprise cannot use."""
    from apprise import Apprise

    # It would write to stderr, and its message about an invalid URL may contain the URL.
    logger = logging.getLogger("apprise")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return Apprise.instantiate(url, asset=_asset(), suppress_exceptions=True)


def _asset() -> "AppriseAsset":
    from apprise import AppriseAsset

    # No external pictures, no advertisement, and no conversion of ":bug:" in a case's text. After a redirect
    # the client sends GET instead of POST, and the message is lost although it seems delivered.
    return AppriseAsset(
        app_id="Pyrometer",
        app_desc="Pyrometer",
        app_url="",
        image_url_mask="",
        image_url_logo="",
        interpret_emojis=False,
        interpret_escapes=False,
        http_redirects=False,
    )


def _name(url: str) -> str:
    """The public part of a target's URL: its service, and its host if that is certainly a host."""
    service = _service(url)
    if service is None:
        scheme = url.partition("://")[0]
        return f"{scheme}: unusable" if _SCHEME.fullmatch(scheme) else "unusable"
    scheme = str(service.url(privacy=True)).partition("://")[0]
    host = str(getattr(service, "host", "") or "")
    is_a_host = any("{host}" in template for template in service.templates) and _HOST.fullmatch(host)
    if not is_a_host:
        return scheme
    port = getattr(service, "port", None)
    return f"{scheme}://{host}:{port}" if port else f"{scheme}://{host}"


def _without_secrets(sentence: str, target: Target) -> str:
    """The message of Apprise, without any part of the URL that is not in the name."""
    text = " ".join(sentence.split())
    pieces = set(re.split(r"[/?&=@:#,\s]+", target.url)) | set(
        re.split(r"[/?&=@:#,\s]+", unquote(target.url))
    )
    for piece in sorted(pieces, key=len, reverse=True):
        for spelled in {piece, unquote(piece)}:
            if len(spelled) > 2 and spelled.lower() not in target.name.lower():
                text = text.replace(spelled, "***")
    return text[:300].rstrip(".")


def _shorten_text(text: str, most: int) -> str:
    """The text with at most the given characters, cut at a line end, with a note."""
    if len(text) <= most:
        return text
    last = "(shortened: `pyrometer digest` prints the whole digest)"
    head = text[: max(0, most - len(last) - 1)]
    return f"{head[: head.rfind(chr(10)) + 1]}{last}"[:most]
