"""Webhook servers, and nothing else that Apprise might call."""

from collections.abc import Iterator

import pytest

from support.servers.loopback import served
from support.servers.notification_servers import MailSink, WebSink


@pytest.fixture
def mail() -> Iterator[MailSink]:
    """An SMTP server."""
    sink = MailSink()
    with served(sink):
        yield sink


@pytest.fixture
def web() -> Iterator[WebSink]:
    """An HTTP server."""
    sink = WebSink()
    with served(sink):
        yield sink
