"""`pyrometer digest` and `pyrometer alerts test`: what is printed, written and sent, and the exit codes."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.registry import app
from db.connection.engine import open_database
from db.findings import notices
from db.findings.notices import replace_delivery
from db.queue import commands as queue
from records.findings import Notice
from records.tasks import SchedulerSeen
from scheduled_jobs.notifications.delivery import MOST_TRIES
from support.servers.loopback import served
from support.servers.notification_servers import WebSink
from support.sqlite_files import sqlite_with_tables


def undated(text: str) -> str:
    """The text without the day on which the test runs."""
    return re.sub(r"\d{4}-\d\d-\d\d", "DAY", text)


class Typed:
    """The command line in a folder of its own, with a webhook as target."""

    def __init__(self, folder: Path, web: WebSink) -> None:
        self.folder, self.web = folder, web
        self.database = sqlite_with_tables(folder / "pyrometer.db")

    def settings(self, *urls: str) -> None:
        (self.folder / "pyrometer.toml").write_text(f"[alerts]\ntargets = {json.dumps(urls)}\n")

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def typed(bare_folder: Path) -> Iterator[Typed]:
    web = WebSink()
    with served(web):
        found = Typed(bare_folder, web)
        found.settings(web.url)
        yield found


@pytest.fixture
def silent(typed: Typed) -> Typed:
    """A machine was last seen two hours ago."""
    with open_database(typed.database) as database:
        at = datetime.now(UTC) - timedelta(hours=2, minutes=1)
        queue.seen_all(database, [SchedulerSeen("o", "a<10>", (), at, at, 1, "0.1.0")])
    return typed


def test_it_prints_what_would_be_reported_and_stores_and_sends_nothing(silent: Typed) -> None:
    said = silent("digest")
    assert (said.exit_code, said.stderr) == (0, "")
    sentence = "machine a‹10› is silent: no scheduler was seen there for 2 hours"
    assert undated(said.stdout.splitlines()[0]) == f"Pyrometer DAY: {sentence}"
    assert silent.web.posts == []
    with open_database(silent.database) as database:
        assert notices.notices(database) == []


def test_send_tells_each_target_once_and_says_so(silent: Typed) -> None:
    name = f"json://127.0.0.1:{silent.web.server_port}"
    said = silent("digest", "--send")
    assert (said.exit_code, said.stderr) == (0, f"{name}: sent\n")
    said = silent("digest", "--send", "--json")
    assert said.stderr == f"{name}: had it already\n" and len(silent.web.posts) == 1
    body = json.loads(said.stdout)
    assert body["targets"] == {name: "delivered"} and body["problems"][0]["kind"] == "silent"


def test_a_target_that_refuses_is_exit_code_1(silent: Typed) -> None:
    silent.web.status = 403
    said = silent("digest", "--send")
    assert said.exit_code == 1 and ": not sent: " in said.stderr
    assert "hunter" not in said.output and "T0PSECRET" not in said.output
    said = silent("digest", "--send")
    assert said.exit_code == 1 and said.stderr.endswith(": not yet tried again\n")


def test_a_target_that_was_given_up_has_no_digest(silent: Typed) -> None:
    silent.web.status = 403
    silent("digest", "--send")
    with open_database(silent.database) as database:
        (notice,) = notices.notices(database)
        ((name, was),) = notice.deliveries.items()
        last = replace(was, tries=MOST_TRIES)
        assert replace_delivery(database, notice.kind, notice.key, name, was, last)
    said = silent("digest", "--send")
    assert said.exit_code == 1
    assert said.stderr == f"{name}: given up after 4 tries: {was.why}\n"


def test_markdown_goes_to_a_file_whole(silent: Typed) -> None:
    said = silent("digest", "--markdown", "night.md")
    assert (said.exit_code, said.stdout) == (0, "")
    text = (silent.folder / "night.md").read_text()
    assert undated(text).startswith("## Pyrometer DAY: machine a‹10› is silent")
    assert "\n### Problems\n\n- machine a&#60;10&#62; is silent" in text
    assert [file.name for file in silent.folder.glob("night*")] == ["night.md"]


def test_an_earlier_night_is_printed_as_it_was(typed: Typed) -> None:
    with open_database(typed.database) as database:
        until = datetime(2026, 1, 2, 8, tzinfo=UTC)
        about = {"text": "then\n", "night": "2026-01-02", "until": until.isoformat()}
        facts = {**about, "ids": [], "coverage": []}
        stored = Notice("digest", "2026-01-02", until, "as it was", "b", facts)
        notices.save_notice(database, stored)
    assert typed("digest", "--date", "2026-01-02").stdout == "as it was\n\nthen\n"
    said = typed("digest", "--date", "2026-01-03")
    assert said.stdout.splitlines()[0] == "Pyrometer 2026-01-03: nothing was due"
    assert "Period: Fri 2026-01-02 12:00 to Sat 2026-01-03 12:00, UTC" in said.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--date", ""), "nothing is not a date; write it as "),
        (("--date", "yesterday"), "yesterday is not a date; write it as "),
        (("--date", "0001-01-01"), "there is no digest of 0001-01-01; the first night"),
        (("--date", "1969-12-31"), "there is no digest of 1969-12-31; the first night"),
        (("--date", "2999-01-01"), "there is no digest of 2999-01-01 yet"),
        (("--date", "2026-01-01", "--send"), "no digest of 2026-01-01 was stored"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(typed: Typed, arguments: tuple[str, ...], sentence: str) -> None:
    said = typed("digest", *arguments)
    assert said.exit_code == 2 and said.stderr.startswith(f"pyrometer: {sentence}")
    assert said.stderr.count("\n") == 1


def test_the_first_night_is_reported(typed: Typed) -> None:
    said = typed("digest", "--date", "1970-01-01")
    assert said.exit_code == 0 and said.stdout.startswith("Pyrometer 1970-01-01: nothing was due")


def test_without_a_database_there_is_nothing_to_tell_of(typed: Typed) -> None:
    (typed.folder / "pyrometer.db").unlink()
    said = typed("digest")
    assert said.exit_code == 2 and said.stderr.startswith("pyrometer: There is no database")
    assert not (typed.folder / "pyrometer.db").exists()


def test_a_test_message_reaches_each_target_and_says_which_it_did_not(typed: Typed) -> None:
    said = typed("alerts", "test")
    assert (said.exit_code, said.stdout) == (0, f"json://127.0.0.1:{typed.web.server_port}: sent\n")
    assert typed.web.posts[0]["title"] == "Pyrometer: test of alerts"
    typed.settings(typed.web.url, "json://user:hunter2@127.0.0.1:1/T0PSECRET", "bogus://hunter2")
    said = typed("alerts", "test")
    assert said.exit_code == 1 and len(typed.web.posts) == 2
    assert "bogus: unusable: not sent: Apprise cannot use this URL\n" in said.stdout
    assert "json://127.0.0.1:1: not sent: " in said.stdout
    assert "hunter2" not in said.output and "T0PSECRET" not in said.output


def test_missing_targets_are_reported_with_the_remedy(typed: Typed) -> None:
    typed.settings()
    for arguments in (("alerts", "test"), ("digest", "--send")):
        said = typed(*arguments)
        assert (
            said.exit_code == 2
            and "no notification targets: write targets = [...] or targets_file" in said.stderr
        )
