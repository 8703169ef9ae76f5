"""Findings: the result of detection, the decision of the confirming session, and the triage."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    RowMapping,
    and_,
    case,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.orm import aliased

from common.text import utc
from records.evidence import ComparedRuns, Confirmation, Evidence, evidence_body, evidence_of
from records.findings import (
    Finding,
    FindingGroup,
    FindingState,
    FindingTriage,
    NewFinding,
    TriageEntry,
    group_of,
)
from records.series import SeriesKey, Track

from ..connection.engine import Database
from ..connection.statements import AnyRow, AnySelect, Place, insert_for, later_in_list
from ..errors import DatabaseUnavailable, ReadOnly
from ..runs.series_queries import identity, series_key, series_names
from ..schema import core_tables as tables
from ..schema import finding_tables
from ..schema.finding_tables import ACTIONS, FINDING_DIRECTIONS

Values = dict[str, Any]

_FINDING, _TRIAGE = finding_tables.FindingRow, finding_tables.TriageRow

#: The columns of an entry in the triage log.
_ENTRY = (_TRIAGE.finding_id, _TRIAGE.at, _TRIAGE.who, _TRIAGE.action, _TRIAGE.text)

#: The identity of a finding; without the last but one column, the identity of its series and border.
_KEY = ("series_id", "schedule", "track", "label", "at_run", "direction")

_WHERE = ("series_id", "schedule", "track", "label", "direction")

#: States before a confirming session: the newest detection replaces their numbers.
_OPEN_STATES = (FindingState.CANDIDATE, FindingState.NO_LONGER)

#: State changes that a later detection may make: from the first state to the second, after which the finding
#: is measured.
_LATER = (FindingState.MACHINE, FindingState.CANDIDATE)

#: States after a confirming session: no later detection changes them.
_DECIDED = (FindingState.CONFIRMED, FindingState.REFUTED)

#: States after a session in which a second session may be requested.
REPEATABLE = (FindingState.REFUTED, FindingState.UNCLEAR)

#: The triage that an action sets; the other actions leave it unchanged.
_BECOMES = {
    "acknowledge": FindingTriage.ACKNOWLEDGED,
    "expected": FindingTriage.EXPECTED,
    "fixed": FindingTriage.FIXED,
}

#: Fields of the record that are converted; the others are read from the column of the same name.
_CONVERTED = ("id", "key", "at_run", "before_run", "evidence")
_ALIKE = tuple(each.name for each in fields(Finding) if each.name not in _CONVERTED)


def save_findings(database: Database, new: Sequence[NewFinding], now: datetime) -> list[Finding]:
    """Store findings and return them with their present state, in the same order.

    A finding is identified by series, track, label, first run after the change, and direction. A stored
    candidate takes the new numbers; a finding in another state is unchanged. Two states become `candidate`
    again: `no longer`, and `machine` if the new finding is a candidate. A finding is muted if its series is
    muted for its track and direction.

    Raises ValueError for a series, a run or an environment that is not stored.
    """
    if not new:
        return []
    with database.writing() as connection:
        rows = _rows(connection, new, now)
        muted = _mute_ends(connection, rows, now)
        for row in rows:
            row["muted_until"] = muted.get(_where(row))
        # Sorted, so that two writers of the same rows wait for each other in turn and never in a circle.
        connection.execute(_upsert(connection.dialect.name), sorted(rows, key=_key))
        query = _query().where(_FINDING.series_id.in_({row["series_id"] for row in rows}))
        found = connection.execute(query).all()
        stored = {tuple(getattr(row, name) for name in _KEY): _finding(row) for row in found}
    return [stored[_key(row)] for row in rows]


def decide(
    database: Database,
    finding_id: int,
    state: FindingState,
    change: float,
    low: float | None,
    high: float | None,
    confirmation: Confirmation,
    now: datetime,
) -> Finding | None:
    """Store the decision of a session about a finding; None if there is no finding of that id.

    A confirmed finding is recorded as the return of one of the same series, track and direction that was
    marked fixed. A repeated decision keeps the time of the first.
    """
    with database.writing() as connection:
        about = select(_FINDING).where(_FINDING.id == finding_id).with_for_update()
        found = connection.execute(about).mappings().first()
        if found is None:
            return None
        values: Values = {
            "state": state,
            "change": change,
            "low": low,
            "high": high,
            "evidence": evidence_body(
                replace(evidence_of(found["evidence"]), confirmation=confirmation, waits="")
            ),
            "decided_at": found["decided_at"] if found["state"] == state else now,
        }
        if state == FindingState.CONFIRMED:
            values["returns_of"] = _fixed_before(connection, found)
        connection.execute(update(_FINDING).where(_FINDING.id == finding_id).values(values))
        return _one(connection, finding_id)


def revise_evidence(database: Database, revisions: Mapping[int, Callable[[Evidence], Evidence]]) -> None:
    """Store revised evidence of findings, by id, and change nothing else; an unknown id is ignored."""
    if not revisions:
        return
    with database.writing() as connection:
        for row in _lock_findings(connection, _FINDING.id.in_(list(revisions))):
            evidence = evidence_body(revisions[row.id](evidence_of(row.evidence)))
            connection.execute(update(_FINDING).where(_FINDING.id == row.id).values(evidence=evidence))


def defer(database: Database, ids: Collection[int], reason: str, attempts: int = 1) -> None:
    """Make findings candidates again that could not be measured, with the reason, and add `attempts` to their
    count: more than one if a further attempt would fail for the same reason.

    Findings that were confirmed or refuted meanwhile are unchanged.
    """
    with database.writing() as connection:
        for row in _lock_findings(connection, _FINDING.id.in_(list(ids)) & _FINDING.state.not_in(_DECIDED)):
            before = evidence_of(row.evidence)
            evidence = evidence_body(replace(before, waits=reason, tries=before.tries + attempts))
            values: Values = {"state": FindingState.CANDIDATE, "evidence": evidence}
            connection.execute(update(_FINDING).where(_FINDING.id == row.id).values(values))


def _lock_findings(connection: Connection, which: ColumnElement[bool]) -> Sequence[AnyRow]:
    """Id and evidence of some findings, locked in order, so that two writers of the same rows do not
    deadlock.
    """
    about = select(_FINDING.id, _FINDING.evidence).where(which).order_by(_FINDING.id)
    return connection.execute(about.with_for_update()).all()


@dataclass(frozen=True, slots=True)
class RepeatRequest:
    """A refuted or unclear finding that will be measured again, with other `sides`.

    `change` (a log ratio) is the movement of its nights; `reason` is the reason for the second session.
    """

    change: float
    sides: ComparedRuns
    reason: str


def reopen(database: Database, again: Mapping[int, RepeatRequest], now: datetime) -> None:
    """Make refuted and unclear findings candidates again, by id; others are unchanged."""
    if not again:
        return
    with database.writing() as connection:
        for row in _lock_findings(connection, _FINDING.id.in_(list(again)) & _FINDING.state.in_(REPEATABLE)):
            one, before = again[row.id], evidence_of(row.evidence)
            evidence = replace(
                before,
                sides=one.sides,
                repeated=now.isoformat(),
                tries=0,
                waits=one.reason,
                confirmation=replace(before.confirmation, reason=""),
            )
            values: Values = {
                "state": FindingState.CANDIDATE,
                "change": one.change,
                "low": None,
                "high": None,
                "decided_at": None,
                "evidence": evidence_body(evidence),
            }
            connection.execute(update(_FINDING).where(_FINDING.id == row.id).values(values))


def set_state(database: Database, ids: Collection[int], state: FindingState) -> None:
    """Set a state that needs no numbers: confirming, candidate, no longer, machine.

    Findings that were confirmed or refuted meanwhile are unchanged.
    """
    movable = _FINDING.id.in_(ids) & _FINDING.state.not_in(_DECIDED)
    with database.writing() as connection:
        connection.execute(update(_FINDING).where(movable).values(state=state))


def triage(
    database: Database,
    finding_id: int,
    action: str,
    who: str,
    text: str,
    until: datetime | None,
    now: datetime,
) -> Finding | None:
    """Record a person's action on a finding and apply it; None if there is no finding of that id.

    acknowledge, expected and fixed set its triage. mute hides it from reports before `until` (None ends
    that). link sets its link to `text`. note is only recorded. Raises ValueError for another action.
    """
    if action not in ACTIONS:
        raise ValueError(f"{action!r} is not an action on a finding; expected one of {', '.join(ACTIONS)}")
    if action == "mute":
        text = "; ".join(filter(None, (_until(until), text)))
    values = (now, who, action, text)
    # Only these columns, because a role with read access may write no others.
    changes: Values = {"mute": {"muted_until": until}, "link": {"link": text}}.get(action, {})
    if action in _BECOMES:
        changes = {"triage": _BECOMES[action]}
    with database.writing() as connection:
        if changes:
            connection.execute(update(_FINDING).where(_FINDING.id == finding_id).values(changes))
        # Nothing is inserted for an unknown finding.
        given = (literal(each, column.type) for column, each in zip(_ENTRY[1:], values, strict=True))
        entry = select(_FINDING.id, *given).where(_FINDING.id == finding_id)
        connection.execute(insert(_TRIAGE).from_select([column.key for column in _ENTRY], entry))
        return _one(connection, finding_id)


def findings(
    database: Database,
    *,
    states: Collection[FindingState] | None = None,
    triage: Collection[FindingTriage] | None = None,
    schedule: str | None = None,
    track: Track | None = None,
    direction: str | None = None,
    since: datetime | None = None,
    group: tuple[FindingGroup, datetime] | None = None,
    newest: int = 200,
    offset: int = 0,
    after: Place | None = None,
) -> list[Finding]:
    """The newest findings after the first `offset`, newest first: all, or those with given states, triages,
    schedule or track.

    `direction`: only worse or only better ones. `since`: only those found or decided at this time or later.
    `group`: only those in the group at a moment. `after`: only those after this position, which is `found_at`
    and `id` of another finding.
    """
    query = _query().where(*later_in_list(after, _FINDING.found_at, _FINDING.id))
    query = query.order_by(_FINDING.found_at.desc(), _FINDING.id.desc())
    query = query.limit(newest).offset(offset)
    if states is not None:
        query = query.where(_FINDING.state.in_(states))
    if triage is not None:
        query = query.where(_FINDING.triage.in_(triage))
    if schedule is not None:
        query = query.where(_FINDING.schedule == schedule)
    if track is not None:
        where = [_FINDING.schedule == track.schedule, _FINDING.track == track.track]
        query = query.where(*where, _FINDING.label == track.label)
    if direction is not None:
        query = query.where(_FINDING.direction == direction)
    if since is not None:
        query = query.where(or_(_FINDING.found_at >= since, _FINDING.decided_at >= since))
    if group is not None:
        query = query.where(_in_group(*group))
    with database.reading() as connection:
        return [_finding(row) for row in connection.execute(query)]


def silenced_at(now: datetime) -> ColumnElement[bool]:
    """`Finding.silenced` as a condition."""
    muted = _FINDING.muted_until.is_not(None) & (_FINDING.muted_until > now)
    return or_(_FINDING.triage != FindingTriage.OPEN, muted)


def _in_group(group: FindingGroup, now: datetime) -> ColumnElement[bool]:
    """The condition that a finding is in a group at a moment, for each value of `group_of`."""
    conditions: list[ColumnElement[bool]] = []
    for silenced, condition in ((True, silenced_at(now)), (False, ~silenced_at(now))):
        for direction in FINDING_DIRECTIONS:
            states = [each for each in FindingState if group_of(each, direction, silenced=silenced) is group]
            conditions.append(and_(_FINDING.state.in_(states), _FINDING.direction == direction, condition))
    return or_(*conditions)


def findings_of_series(database: Database, keys: Collection[SeriesKey]) -> list[Finding]:
    """Every finding of some series, oldest change first."""
    identities = {identity(key) for key in keys}
    query = _query().where(
        tables.BenchmarkCaseRow.key.in_({key.case for key in keys}),
        tables.SeriesRow.metric.in_({key.metric for key in keys}),
        tables.HardwareRow.fingerprint.in_({key.hardware for key in keys}),
        tables.PresetRow.fingerprint.in_({key.preset for key in keys}),
    )
    with database.reading() as connection:
        found = [_finding(row) for row in connection.execute(query)]
    matching = [one for one in found if identity(one.key) in identities]
    return sorted(matching, key=lambda one: (one.at, one.id))


def finding(database: Database, finding_id: int) -> Finding | None:
    """One finding; None if there is none of that id."""
    with database.reading() as connection:
        return _one(connection, finding_id)


def triage_log(database: Database, finding_id: int) -> list[TriageEntry]:
    """The triage actions on a finding, oldest first."""
    query = select(*_ENTRY).where(_TRIAGE.finding_id == finding_id).order_by(_TRIAGE.id)
    with database.reading() as connection:
        return [TriageEntry(*row) for row in connection.execute(query)]


def _key(values: Values) -> tuple[Any, ...]:
    return tuple(values[name] for name in _KEY)


def _where(values: Values) -> tuple[Any, ...]:
    return tuple(values[name] for name in _WHERE)


def _until(until: datetime | None) -> str:
    return f"until {utc(until)}" if until else "no longer"


def _rows(connection: Connection, new: Sequence[NewFinding], now: datetime) -> list[Values]:
    """The rows of new findings, with the ids of the rows that they refer to."""
    run, environment = tables.RunRow, tables.EnvironmentRow
    names = series_names().where(
        tables.BenchmarkCaseRow.key.in_({each.key.case for each in new}),
        tables.SeriesRow.metric.in_({each.key.metric for each in new}),
    )
    series = {identity(series_key(row)): row.id for row in connection.execute(names)}
    run_names = {name for each in new for name in (each.at_run, each.before_run)}
    environment_names = {name for each in new for name in (each.old_environment, each.new_environment)}
    runs = _by_name(connection, select(run.id, run.number).where(run.id.in_(run_names)))
    environments = _by_name(
        connection,
        select(environment.fingerprint, environment.id).where(environment.fingerprint.in_(environment_names)),
    )
    try:
        return [
            {
                "series_id": series[identity(each.key)],
                "schedule": each.schedule,
                "track": each.track,
                "label": each.label,
                "direction": each.direction,
                "shape": each.shape,
                "at_run": runs[each.at_run],
                "before_run": runs[each.before_run],
                "old_environment_id": environments[each.old_environment],
                "new_environment_id": environments[each.new_environment],
                "change": each.change,
                "low": each.low,
                "high": each.high,
                "state": each.state,
                "found_at": now,
                "evidence": evidence_body(each.evidence),
                "group_key": each.group_key,
                "triage": FindingTriage.OPEN,
                "link": "",
            }
            for each in new
        ]
    except KeyError as error:
        raise ValueError(f"a finding refers to {error.args[0]!r}, which is not stored") from error


def _by_name(connection: Connection, query: AnySelect) -> dict[str, int]:
    return {name: number for name, number in connection.execute(query)}


def _mute_ends(
    connection: Connection, rows: Sequence[Values], now: datetime
) -> dict[tuple[Any, ...], datetime]:
    """By series, track and direction, until when their findings are muted."""
    columns = [getattr(_FINDING, name) for name in _WHERE]
    query = (
        select(*columns, func.max(_FINDING.muted_until).label("until"))
        .where(_FINDING.series_id.in_({row["series_id"] for row in rows}), _FINDING.muted_until > now)
        .group_by(*columns)
    )
    return {tuple(where): until for *where, until in connection.execute(query)}


@cache
def _upsert(dialect: str) -> Insert:
    """An insert that replaces findings with the same key that have not been measured again."""
    statement = insert_for(dialect, _FINDING)
    fixed_columns = {*_KEY, "id", "found_at", "decided_at", "triage", "muted_until", "link", "returns_of"}
    newer = sorted(set(_FINDING.__table__.columns.keys()) - fixed_columns)
    return statement.on_conflict_do_update(
        index_elements=_KEY,
        set_={name: statement.excluded[name] for name in newer},
        # Not IN, which cannot be in a statement that is executed for many rows at once.
        where=or_(
            *(_FINDING.state == state for state in _OPEN_STATES),
            (_FINDING.state == _LATER[0]) & (statement.excluded.state == _LATER[1]),
        ),
    )


def _fixed_before(connection: Connection, found: RowMapping) -> int | None:
    """The newest confirmed finding of the same series, track and direction that was marked fixed."""
    same = [getattr(_FINDING, name) == found[name] for name in _WHERE]
    query = (
        select(_FINDING.id)
        .where(
            *same,
            _FINDING.id != found["id"],
            _FINDING.state == FindingState.CONFIRMED,
            _FINDING.triage == FindingTriage.FIXED,
            _FINDING.found_at <= found["found_at"],
        )
        .order_by(_FINDING.found_at.desc(), _FINDING.id.desc())
        .limit(1)
    )
    return connection.execute(query).scalar()


def _one(connection: Connection, finding_id: int) -> Finding | None:
    row = connection.execute(_query().where(_FINDING.id == finding_id)).first()
    return None if row is None else _finding(row)


@cache
def _query() -> AnySelect:
    """Findings joined with the rows they refer to; the columns begin with those of `series_names`."""
    first, last = aliased(tables.RunRow), aliased(tables.RunRow)
    old, new = aliased(tables.EnvironmentRow), aliased(tables.EnvironmentRow)
    columns = [column for column in _FINDING.__table__.columns if column.name != "id"]
    acknowledged_by = (
        select(_TRIAGE.who)
        .where(_TRIAGE.finding_id == _FINDING.id, _TRIAGE.action == "acknowledge")
        .order_by(_TRIAGE.id.desc())
        .limit(1)
        .correlate(_FINDING)
        .scalar_subquery()
    )
    is_acknowledged = _FINDING.triage == FindingTriage.ACKNOWLEDGED
    return (
        series_names()
        .add_columns(
            *columns,
            _FINDING.id.label("finding_id"),
            first.id.label("at_run_id"),
            first.started_at.label("at"),
            last.id.label("before_run_id"),
            last.started_at.label("before"),
            tables.MachineRow.name.label("machine"),
            old.fingerprint.label("old_environment"),
            old.torch_version.label("old_torch_version"),
            new.fingerprint.label("new_environment"),
            new.torch_version.label("new_torch_version"),
            case((is_acknowledged, func.coalesce(acknowledged_by, "")), else_="").label("owner"),
        )
        .join(_FINDING, _FINDING.series_id == tables.SeriesRow.id)
        .join(first, first.number == _FINDING.at_run)
        .join(last, last.number == _FINDING.before_run)
        .join(tables.MachineRow, tables.MachineRow.id == first.machine_id)
        .join(old, old.id == _FINDING.old_environment_id)
        .join(new, new.id == _FINDING.new_environment_id)
    )


def _finding(row: AnyRow) -> Finding:
    """The finding in a row of `_query`."""
    return Finding(
        id=row.finding_id,
        key=series_key(row),
        at_run=row.at_run_id,
        before_run=row.before_run_id,
        evidence=evidence_of(row.evidence),
        **{name: getattr(row, name) for name in _ALIKE},
    )


def group_counts(
    database: Database, now: datetime, schedule: str | None = None
) -> Mapping[FindingGroup, int]:
    """The number of findings in each group at a moment, of all schedules or of one; groups without a finding
    have 0.
    """
    silenced = case((silenced_at(now), 1), else_=0)
    query = select(_FINDING.state, _FINDING.direction, silenced, func.count()).group_by(
        _FINDING.state, _FINDING.direction, silenced
    )
    if schedule is not None:
        query = query.where(_FINDING.schedule == schedule)
    found = dict.fromkeys(FindingGroup, 0)
    with database.reading() as connection:
        for state, direction, is_silenced, count in connection.execute(query):
            found[group_of(state, direction, silenced=bool(is_silenced))] += count
    return found


def open_regressions(database: Database, now: datetime) -> int:
    """The number of regressions that are confirmed, open and not muted at a moment."""
    return group_counts(database, now)[FindingGroup.OPEN]


def schedules_with_findings(database: Database) -> list[str]:
    """The schedules with at least one finding, by name."""
    with database.reading() as connection:
        # Sorted here: the collation differs between databases.
        return sorted(connection.execute(select(_FINDING.schedule).distinct()).scalars())


def triage_refusal(database: Database) -> str:
    """The reason why this account cannot triage, as a sentence; empty if it can. Nothing is changed."""
    nothing = select(_FINDING.id, _FINDING.found_at, literal(""), literal("note"), literal("")).where(
        _FINDING.id < 0
    )
    try:
        with database.writing() as connection:
            # Permissions are checked before rows are read, so that no row has to exist.
            connection.execute(
                update(_FINDING)
                .where(_FINDING.id < 0)
                .values(link="", triage=FindingTriage.OPEN, muted_until=None)
            )
            connection.execute(insert(_TRIAGE).from_select([column.key for column in _ENTRY], nothing))
    except ReadOnly as refusal:
        return str(refusal)
    except DatabaseUnavailable:
        # Locked for a moment: a later triage then sees the new state.
        return ""
    return ""
