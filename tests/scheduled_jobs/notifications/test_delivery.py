"""Sending, to real servers: each target once, failures tried again, and no secret anywhere."""

import io
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from configuration.schema import AlertSettings
from db.connection.engine import Database, open_database
from db.findings.notices import notice, save_notice
from records.findings import Delivery, DeliveryState, Notice
from scheduled_jobs.notifications.delivery import (
    MOST_TRIES,
    WAITS,
    DigestMessage,
    Target,
    deliver,
    due,
    given_up_at,
    post,
    targets,
)
from support.builders.notifications import MORNING
from support.servers.databases import on_both
from support.servers.notification_servers import MailSink, WebSink
from workflows.errors import TargetsUnreadable

MINUTE = timedelta(minutes=1)
SECRETS = ("hunter2", "hunter3", "T0PSECRET")
MESSAGE = DigestMessage("3 regressions", "plain\n  line", "### Regressions\n\n- a &#64;b `c`", "failure")


def at(moment: datetime) -> Callable[[], datetime]:
    """A clock that stands still."""
    return lambda: moment


def only(url: str) -> Target:
    """The one target of a URL."""
    (target,) = targets(AlertSettings(targets=(url,)))
    return target


def a_notice(database: Database, key: str = "2026-11-22") -> Notice:
    """A digest that is stored and not sent yet."""
    facts = {"text": "plain", "tone": "warning"}
    save_notice(database, Notice("digest", key, MORNING, "a title", "marked", facts))
    return again(database, key)


def again(database: Database, key: str = "2026-11-22") -> Notice:
    """The digest as it is stored now."""
    found = notice(database, "digest", key)
    assert found is not None
    return found


def test_a_mail_arrives_with_subject_and_both_forms(mail: MailSink) -> None:
    assert post(only(mail.url), MESSAGE) == ""
    (letter,) = mail.letters
    assert (letter["Subject"], letter["To"]) == ("3 regressions", "team@example.org")
    parts = {part.get_content_type(): part.get_payload(decode=True) for part in letter.walk()}
    html = parts["text/html"]
    assert isinstance(html, bytes)
    assert b"<h3>Regressions</h3>" in html and b"<code>c</code>" in html
    # Nothing is fetched from elsewhere when the mail is read.
    assert b"http" not in html.replace(b"http://www.w3.org", b"")


def test_a_webhook_gets_the_plain_text(web: WebSink) -> None:
    assert post(only(web.url), MESSAGE) == ""
    (body,) = web.posts
    assert (body["title"], body["message"], body["type"]) == ("3 regressions", "plain\n  line", "failure")


def test_a_long_message_is_cut_at_a_line_and_says_so(web: WebSink) -> None:
    text = "\n".join(f"line {n}" for n in range(10_000))
    assert post(only(web.url), DigestMessage("t", text, "m")) == ""
    lines = web.posts[0]["message"].splitlines()
    assert lines[-1] == "(cut: `pyrometer digest` has all of it)"
    assert lines[:-1] == text.splitlines()[: len(lines) - 1] and len(lines) > 2000


def test_a_target_is_named_without_its_secrets_wherever_they_stand(mail: MailSink, web: WebSink) -> None:
    port, mail_port = web.server_port, mail.server_address[1]
    assert only(web.url).name == f"json://127.0.0.1:{port}"
    assert only(mail.url).name == f"mailto://127.0.0.1:{mail_port}"
    # A token stands where others have their host, or behind a dot.
    for url, name in {
        "slack://hunter2AAAA/BBBBBBBBB/cccccccccccccccccccccccc": "slack",
        "ntfy://hunter2-topic": "ntfys",
        "discord://4174216298/hunter2": "discord",
        "gotify://gotify.example.org/hunter2": "gotify://gotify.example.org",
        "bogus://hunter2": "bogus: unusable",
        "hunter2hunter2hunter2://x": "unusable",
    }.items():
        assert only(url).name == name
        assert "hunter2" not in repr(only(url))


def test_alike_targets_are_distinguished_whatever_their_order() -> None:
    urls = [f"json://hooks.example.org/{n}" for n in "abc"]
    forward, backward = (targets(AlertSettings(targets=tuple(each))) for each in (urls, urls[::-1]))
    assert forward == backward
    assert [one.name for one in forward] == [f"json://hooks.example.org{n}" for n in ("", " #2", " #3")]


def test_targets_stand_in_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "alerts"
    file.write_text("# ours\n\n  json://a.example.org/x \njson://b.example.org\r\n")
    alerts = AlertSettings(targets=("json://b.example.org",), targets_file=file)
    assert [one.name for one in targets(alerts)] == ["json://a.example.org", "json://b.example.org"]
    file.unlink()
    with pytest.raises(TargetsUnreadable, match="cannot be read: No such file"):
        targets(alerts)
    file.write_bytes(b"json://user:hunter2\xff@h")
    with pytest.raises(TargetsUnreadable, match="not UTF-8") as caught:
        targets(alerts)
    assert caught.value.__cause__ is None and "hunter2" not in str(caught.value)


def test_a_failure_is_a_sentence_without_secrets_and_is_written_nowhere_else(
    mail: MailSink, web: WebSink, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    log = io.StringIO()
    monkeypatch.setattr(logging.root, "handlers", [logging.StreamHandler(log)])
    web.status, mail.refuse = 403, 550
    said = [post(only(url), MESSAGE) for url in (web.url, mail.url, "bogus://hunter2")]
    said.append(post(only("json://hunter2:hunter3@127.0.0.1:1/T0PSECRET"), MESSAGE))
    assert "403" in said[0] and all(said) and all("\n" not in sentence for sentence in said)
    written = "".join([*said, log.getvalue(), *capfd.readouterr()])
    assert not [secret for secret in SECRETS if secret in written]


class Refusal(list[Any]):
    """What Apprise answers where a service refused: false, with the entries that it logged."""

    def __bool__(self) -> bool:
        return False

    def logs(self) -> list[Any]:
        return [
            SimpleNamespace(message="no hunter2:hunter3 at /T0PSECRET,\n nor a%20secret: example.org: 403.")
        ]


def test_no_secret_of_a_target_is_in_what_a_service_says(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = Refusal()
    refusal.append(refusal)
    monkeypatch.setattr("apprise.Apprise.notify", lambda *_, **__: refusal)
    url = "json://hunter2:hunter3@example.org/T0PSECRET?key=a%20secret"
    assert post(only(url), MESSAGE) == "no ***:*** at /***, nor ***: example.org: 403"


@on_both
def test_each_target_has_a_notice_once(database: Database, mail: MailSink, web: WebSink) -> None:
    to = [only(mail.url), only(web.url)]
    first = deliver(database, a_notice(database), to, at(MORNING))
    assert [(target, after.state) for target, after in first] == [(one.name, "delivered") for one in to]
    assert deliver(database, again(database), to, at(MORNING + 10 * MINUTE)) == []
    assert (len(mail.letters), len(web.posts)) == (1, 1)


def test_a_target_that_fails_is_tried_again_three_times_and_the_others_are_not(
    database: Database, mail: MailSink, web: WebSink
) -> None:
    web.status = 500
    to, now = [only(mail.url), only(web.url)], MORNING
    deliver(database, a_notice(database), to, at(now))
    for tries, wait in enumerate(WAITS, 2):
        assert deliver(database, again(database), to, at(now + wait - MINUTE)) == []
        now += wait
        ((target, after),) = deliver(database, again(database), to, at(now))
        assert (target, after.state, after.tries) == (to[1].name, "failed", tries)
    assert deliver(database, again(database), to, at(now + timedelta(days=1))) == []
    assert again(database).deliveries[to[1].name].tries == MOST_TRIES
    assert len(mail.letters) == 1
    assert not [secret for secret in SECRETS if secret in str(again(database))]


def test_what_failed_once_may_arrive_later(database: Database, web: WebSink) -> None:
    to, web.status = [only(web.url)], 500
    deliver(database, a_notice(database), to, at(MORNING))
    web.status = 200
    ((_, after),) = deliver(database, again(database), to, at(MORNING + WAITS[0]))
    assert (after.state, len(web.posts)) == ("delivered", 1)


def test_a_redirect_is_no_message_that_arrived(web: WebSink) -> None:
    web.status = 301
    assert "301" in post(only(web.url), MESSAGE)


def test_behind_targets_that_hang_each_is_taken_at_its_own_time(database: Database, web: WebSink) -> None:
    to, web.status = [only(web.url), only("json://127.0.0.1:1/x")], 500
    clock = iter(MORNING + minutes * MINUTE for minutes in (0, 8, 8, 16))
    tried = deliver(database, a_notice(database), to, lambda: next(clock))
    assert [after.at - MORNING for _, after in tried] == [8 * MINUTE, 16 * MINUTE]


def test_a_delivery_that_was_claimed_and_dropped_is_tried_again() -> None:
    taken = Delivery(DeliveryState.TRYING, MORNING, 1)
    assert not due(taken, MORNING + 9 * MINUTE) and due(taken, MORNING + 10 * MINUTE)
    assert not due(Delivery(DeliveryState.TRYING, MORNING, MOST_TRIES), MORNING + timedelta(days=1))


def test_a_delivery_whose_sender_ended_in_the_last_try_is_given_up() -> None:
    last = Delivery(DeliveryState.TRYING, MORNING, MOST_TRIES)
    assert given_up_at(last) == MORNING + 10 * MINUTE
    assert given_up_at(replace(last, state=DeliveryState.FAILED)) == MORNING
    assert given_up_at(replace(last, tries=1)) is None
    assert given_up_at(Delivery(DeliveryState.DELIVERED, MORNING)) is None


@on_both
def test_of_many_senders_at_once_one_sends(url: str, web: WebSink) -> None:
    to = [only(web.url)]
    with open_database(url, timeout=30) as database:
        stored = a_notice(database)
    start = threading.Barrier(6)
    counts: list[int] = []

    def send() -> None:
        with open_database(url, timeout=30) as own:
            start.wait()
            counts.append(len(deliver(own, stored, to, at(MORNING))))

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == [0, 0, 0, 0, 0, 1]
    assert len(web.posts) == 1
