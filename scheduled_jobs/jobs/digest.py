"""Jobs `digest`, once a night, and `check`, every few minutes for problems that cannot wait until then."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from analysis.staleness import Outage, recovered
from configuration.settings import Settings
from db.connection.engine import Database
from db.findings.notices import notice, notices, save_notice
from db.queue.queries import schedulers
from records.findings import Delivery, DeliveryState, Notice
from records.tasks import Task
from reports.text import markdown
from reports.text.staleness_text import in_words, silence
from workflows.fleet_status import recent_nights

from ..notifications.collect import DIGEST, collect_digest_data, night_of, outages
from ..notifications.delivery import MOST_TRIES, Target, deliver, targets
from ..notifications.digest import Digest, digest
from ..notifications.render import digest_json, digest_markdown, digest_text, escape_mentions, subject, tone
from .context import JobContext, JobResult

#: Kinds of notices besides digests: outages, and their ends.
SILENCE, RETURN = "silence", "return"

#: The time during which a notice is sent; an older one is dropped.
_SENT_FOR = {DIGEST: timedelta(days=3), SILENCE: timedelta(hours=6), RETURN: timedelta(hours=6)}
#: The number of notices that are read: more than the digests of those days, and two outages of a thousand
#: machines.
_DIGESTS, _OUTAGES = 20, 4000


def send_digest(task: Task, context: JobContext) -> JobResult:
    """Make the digest of this night, unless this task already did; send it to each target that lacks it."""
    now = context.now()
    night = night_of(now, context.settings.timezone)
    with context.open_database() as database:
        shared = context.shared_time(database, now)
        made = save_digest(database, context.settings, night, now, task.due_at, shared=shared)
        result = _send_notices(database, context, [made])
    return JobResult(result={"night": night.isoformat(), "subject": made.title, **result})


def health_check(task: Task, context: JobContext) -> JobResult:
    """Report outages and their ends at once; repeat failed deliveries."""
    now = context.now()
    with context.open_database() as database:
        silent = outages(database, context.settings, context.shared_time(database, now))
        digests = notices(database, _DIGESTS, kinds=(DIGEST,))
        earlier = notices(database, _OUTAGES, kinds=(SILENCE, RETURN))
        new = [*new_silences(silent, earlier, now), *returns(database, silent, earlier, now)]
        stored = [one for one in new if save_notice(database, one)]
        # Oldest first: the end of an outage is not reported before the outage.
        recent = [one for one in (*digests, *earlier) if _is_recent(one, now)]
        pending = [*sorted(recent, key=lambda one: one.made_at), *stored]
        result = _send_notices(database, context, pending)
    sentences = [*map(silence, silent)]
    return JobResult(result={"silent": sentences, "notified": [one.title for one in stored], **result})


def _is_recent(one: Notice, now: datetime) -> bool:
    return now - one.made_at <= _SENT_FOR[one.kind]


def save_digest(
    database: Database,
    settings: Settings,
    night: date,
    now: datetime,
    due_at: datetime | None = None,
    *,
    shared: datetime | None = None,
) -> Notice:
    """The stored digest of a night that was due at `due_at`; made and stored now if there is none.

    A second digest that is due on the same date reports what came after the first. Without `due_at` the first
    one is returned. `shared` is `now` by the clock that all machines share (None: the same).
    """
    due = due_at.isoformat() if due_at else ""
    first, own = night.isoformat(), f"{night.isoformat()} {due}"
    shared = shared or now
    there = notice(database, DIGEST, first) or _create_notice(database, settings, first, due, now, shared)
    if not due or there.facts["due"] == due:
        return there
    return notice(database, DIGEST, own) or _create_notice(database, settings, own, due, now, shared)


def _create_notice(
    database: Database, settings: Settings, key: str, due: str, now: datetime, shared: datetime
) -> Notice:
    night = night_of(now, settings.timezone)
    data = collect_digest_data(database, settings, night, None, now, shared)
    made = as_notice(digest(data), settings, now, key, due)
    # If another scheduler was faster, its digest is used.
    return made if save_notice(database, made) else notice(database, DIGEST, key) or made


def as_notice(one: Digest, settings: Settings, now: datetime, key: str = "", due: str = "") -> Notice:
    """A digest as it is stored and sent; a quiet one may be marked as not to be sent."""
    url = settings.alerts.dashboard_url
    facts = {
        **digest_json(one),
        "text": digest_text(one, url),
        "tone": tone(one),
        "skipped": one.quiet and settings.alerts.quiet == "skip",
        "due": due,
    }
    return Notice(DIGEST, key or one.night.isoformat(), now, subject(one), digest_markdown(one, url), facts)


def new_silences(silent: Iterable[Outage], newest: Iterable[Notice], now: datetime) -> list[Notice]:
    """Notices of outages that were not reported yet, `newest` being the existing notices."""
    reported = {one.key for one in newest if one.kind == SILENCE}
    return [
        _note(
            SILENCE,
            one.key,
            now,
            silence(one),
            "failure",
            {"of": one.kind, "name": one.name, "since": one.since.isoformat()},
        )
        for one in silent
        if one.key not in reported
    ]


def returns(
    database: Database, silent: Collection[Outage], newest: Iterable[Notice], now: datetime
) -> list[Notice]:
    """Notices of outages that are over; of a forgotten machine there is none."""
    last: dict[tuple[str, str], Notice] = {}
    for one in newest:
        last.setdefault((one.facts["of"], one.facts["name"]), one)
    still = {(one.kind, one.name) for one in silent}
    over = {about: one for about, one in last.items() if one.kind == SILENCE and about not in still}
    if not over:
        return []
    workers, measuring = schedulers(database), recent_nights(database, now)
    found: list[Notice] = []
    for (kind, name), one in over.items():
        since = datetime.fromisoformat(one.facts["since"])
        if recovered(kind, name, since, workers, measuring):
            length = in_words(now - since)
            sentence = (
                f"machine {name} is back, {length} after it was last seen"
                if kind == "machine"
                else f"{name} has begun, {length} after it was due"
            )
            found.append(_note(RETURN, one.key, now, sentence, "success", dict(one.facts)))
    return found


def _note(kind: str, key: str, now: datetime, sentence: str, loud: str, about: Mapping[str, Any]) -> Notice:
    plain = escape_mentions(sentence)
    facts = {**about, "text": plain, "tone": loud, "skipped": False}
    return Notice(kind, key, now, f"Pyrometer: {plain}", markdown.text(sentence), facts)


def _send_notices(database: Database, context: JobContext, pending: Iterable[Notice]) -> dict[str, Any]:
    """Send notices, and return the delivery of each target as part of a job's result."""
    to: tuple[Target, ...] = targets(context.settings.alerts)
    tried: list[tuple[str, Delivery]] = []
    for one in pending:
        context.check_stopped()
        if not one.facts["skipped"]:
            tried += deliver(database, one, to, context.now)
    for target, after in tried:
        if after.state == DeliveryState.FAILED:
            context.say(f"{target} was not notified: {after.why}")
    if not to:
        return {"summary": "no targets: [alerts] on this machine has none", "targets": {}}
    return {"summary": _summary(tried), "targets": {target: _became(after) for target, after in tried}}


def _summary(tried: Sequence[tuple[str, Delivery]]) -> str:
    if not tried:
        return "nothing to send"
    had = sum(after.state == DeliveryState.DELIVERED for _, after in tried)
    failed = [f"{target}: {_became(after)}" for target, after in tried if after.state == DeliveryState.FAILED]
    return "; ".join([f"{had} sent", *failed])


def _became(after: Delivery) -> str:
    if after.state == DeliveryState.DELIVERED:
        return "delivered"
    again = "is tried again" if after.tries < MOST_TRIES else "is given up"
    return f"try {after.tries} failed, {again}: {after.why}"
