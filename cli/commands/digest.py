"""`pyrometer digest` and `pyrometer alerts`: the digest of a night, and a test of its delivery."""

import json
from datetime import UTC, datetime
from datetime import date as date_of_day
from pathlib import Path
from typing import Annotated

import typer

from common.atomic_file import write_whole
from common.text import printable_lines
from configuration.settings import Settings
from db.connection.engine import Database, open_database
from db.queue.queries import shared_time
from records.findings import Delivery, DeliveryState, Notice
from reports.text.markdown import text
from scheduled_jobs.jobs.digest import as_notice, save_digest
from scheduled_jobs.notifications.collect import collect_digest_data, night_of, stored_digest, usual_span
from scheduled_jobs.notifications.delivery import MOST_TRIES, DigestMessage, deliver, post, targets
from scheduled_jobs.notifications.digest import digest as digest_of
from scheduled_jobs.notifications.render import stored_digest_json
from workflows.errors import UsageError

from ..context import FAILED, context, in_one_sentence, say
from ..options import Json

alerts = typer.Typer(help="Test the notification targets.", no_args_is_help=True)

#: The first night with a digest; near the beginning of the calendar there is no previous night.
_FIRST_NIGHT = date_of_day(1970, 1, 1)

DIGEST_HELP = """Print or send the digest of a night: changes, missing results, verdicts, runs.

\b
pyrometer digest                              of this night, from the present results
pyrometer digest --date 2026-11-21            of an earlier night, as it was sent then
pyrometer digest --markdown night.md          for an issue on GitHub
pyrometer digest --send                       store it, and send it to targets that do not have it

The scheduler stores and sends one every morning (`pyrometer schedule list` shows when). Each target
receives each digest once. Exit code: 0 success, 1 a target does not have it, 2 wrong usage.
"""


def digest(
    date: Annotated[
        str | None,
        typer.Option(metavar="YYYY-MM-DD", help="the local date on which the night ended [default: today]"),
    ] = None,
    send: Annotated[
        bool, typer.Option("--send", help="send it to each target that does not have it")
    ] = False,
    markdown: Annotated[Path | None, typer.Option(help="write it to this file, as Markdown")] = None,
    as_json: Json = False,
) -> None:
    """Print or send the digest of a night (the help text is a constant, which keeps its layout)."""
    with in_one_sentence():
        app_context = context(reading=not send)
        with open_database(app_context.places.database_url, create=False) as database:
            now = datetime.now(UTC)
            notice = _load_digest(database, app_context.settings, date, now, store=send)
            if markdown is not None:
                write_whole(markdown, f"## {text(notice.title)}\n\n{notice.body}")
            if as_json:
                states = {target: was.state for target, was in notice.deliveries.items()}
                facts = stored_digest_json(notice.facts)
                del facts["text"]
                typer.echo(json.dumps({**facts, "targets": states}))
            elif markdown is None:
                typer.echo(printable_lines(f"{notice.title}\n\n{notice.facts['text']}"), nl=False)
            arrived = not send or _send(database, app_context.settings, notice)
    if not arrived:
        raise typer.Exit(FAILED)


def _load_digest(
    database: Database, settings: Settings, day: str | None, now: datetime, *, store: bool
) -> Notice:
    """The stored digest of a night, or else one made from the present results."""
    today = night_of(now, settings.timezone)
    try:
        night = datetime.strptime(day, "%Y-%m-%d").date() if day is not None else today
    except ValueError:
        raise UsageError(f"{day or 'nothing'} is not a date; write it as {today}") from None
    if night > today:
        raise UsageError(f"there is no digest of {night} yet; today is {today} ({settings.timezone})")
    if night < _FIRST_NIGHT:
        raise UsageError(f"there is no digest of {night}; the first night is {_FIRST_NIGHT}")
    stored = stored_digest(database, night)
    if night == today and store:
        return stored or save_digest(database, settings, night, now, shared=shared_time(database, now))
    since, until = (None, now) if night == today else usual_span(night, settings.timezone)
    shared = shared_time(database, now) if night == today else None
    if stored is None and store:
        raise UsageError(
            f"no digest of {night} was stored, and a past digest cannot be sent; leave out --send"
        )
    return stored or as_notice(
        digest_of(collect_digest_data(database, settings, night, since, until, shared)), settings, now
    )


def _send(database: Database, settings: Settings, notice: Notice) -> bool:
    """Send a stored digest and report each delivery; whether every target has it."""
    to = targets(settings.alerts)
    if not to:
        raise UsageError(_NO_TARGETS)
    before = notice.deliveries
    tried = dict(deliver(database, notice, to, lambda: datetime.now(UTC)))
    for target in to:
        if target.name in tried:
            after = tried[target.name]
            failed = after.state == DeliveryState.FAILED
            say(f"{target.name}: {f'not sent: {after.why}' if failed else 'sent'}")
        else:
            say(f"{target.name}: {_skip_reason(before.get(target.name))}")
    deliveries = {**before, **tried}
    return all(
        target.name in deliveries and deliveries[target.name].state == DeliveryState.DELIVERED
        for target in to
    )


def _skip_reason(was: Delivery | None) -> str:
    """The reason why delivery to a target was not tried now."""
    if was is not None and was.state == DeliveryState.DELIVERED:
        return "had it already"
    if was is not None and was.state == DeliveryState.FAILED and was.tries >= MOST_TRIES:
        return f"given up after {was.tries} tries: {was.why}"
    return "not yet tried again"


_NO_TARGETS = (
    "no notification targets: write targets = [...] or targets_file = ... into [alerts] of pyrometer.toml"
)


@alerts.command("test")
def test() -> None:
    """Send a test message to every target and report each delivery; nothing is stored.

    Exit code: 0 each target was reached, 1 one was not, 2 there are no targets.
    """
    words = "This is a test of Pyrometer's alerts. If you read it, digests will arrive here too."
    failed = False
    with in_one_sentence():
        to = targets(context(reading=True).settings.alerts)
        if not to:
            raise UsageError(_NO_TARGETS)
        for target in to:
            why = post(target, DigestMessage("Pyrometer: test of alerts", words, words))
            failed = failed or bool(why)
            typer.echo(f"{target.name}: {f'not sent: {why}' if why else 'sent'}")
    if failed:
        raise typer.Exit(FAILED)
