"""Evidence of a finding: what detection saw, what a session measured, and what later nights added."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any, TypeVar

from .json_values import Facts
from .runs import RunChange

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """The two nights whose environments a session compares: one that is certainly before the change, and the
    newest.

    Runs are ids, `old` and `new` fingerprints. `level_run` is the first night of the level before the change;
    empty if it is not known.
    """

    old_run: str = ""
    old: str = ""
    new_run: str = ""
    new: str = ""
    level_run: str = ""


@dataclass(frozen=True, slots=True)
class Detection:
    """What detection saw in `nights` nights: the values `before` and `after` in the unit of the metric.

    `strength` counts standard errors of the change; `noise` is the standard deviation from night to night,
    `smallest` the smallest change that could be detected (log ratios), already multiplied by `factor`.
    `control`: the pinned baseline moved likewise. `relative`: the change was seen in the ratio to that
    baseline.
    """

    nights: int = 0
    strength: float | None = None
    noise: float | None = None
    smallest: float | None = None
    factor: float = 1.0
    before: float | None = None
    after: float | None = None
    control: bool = False
    relative: bool = False


@dataclass(frozen=True, slots=True)
class Continuation:
    """A confirmed change that continued until the night of `night`; `change` is the total (a log ratio).

    `further` is the movement since the change was confirmed; None if a later `finding` (id) measured it with
    pairs. `run` is the newest run; `night` and `noted_at` are ISO 8601 with an offset.
    """

    change: float
    night: str
    noted_at: str
    run: str = ""
    further: float | None = None
    finding: int | None = None


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """The verdict of a session's pairs about one metric of one case; `word` is that of `Verdict`.

    `change`, `low`, `high`, `smallest` and `threshold` are log ratios of new to old, `old` and `new` are in
    `unit`. `left_out` gives the reasons why pairs do not count. None and empty mean not known.
    """

    metric: str = ""
    unit: str = ""
    word: str = ""
    reason: str = ""
    pairs: int | None = None
    needed: int | None = None
    left_out: tuple[str, ...] = ()
    old: float | None = None
    new: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    p: float | None = None
    smallest: float | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class RelatedVerdict:
    """The verdict about another case of the same session."""

    case: str
    verdict: PairVerdict


@dataclass(frozen=True, slots=True)
class RelatedFinding:
    """Another finding (id) of the same machine and nights; `change` is a log ratio."""

    finding: int
    case: str = ""
    metric: str = ""
    direction: str = ""
    change: float = 0.0
    state: str = ""


@dataclass(frozen=True, slots=True)
class OperatorDifference:
    """The difference of the operator tables of two runs, new minus old, in microseconds per step.

    `total_us` is by kind of operator; `rows` are the rows with the largest differences, `more` is the number
    of rows left out.
    """

    old_run: str = ""
    new_run: str = ""
    total_us: Mapping[str, float] = field(default_factory=dict[str, float])
    on_device: bool = False
    rows: tuple[Facts, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class SessionEnvironment:
    """An environment of a session: its name and the version of its PyTorch."""

    name: str
    torch: str | None = None


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The result of a session for a finding: the reason for its decision, its `run`, and its other
    measurements.

    `compared` are the old and the new environment; `rebuilt`: one of them was rebuilt and may have other
    versions of the packages besides PyTorch. `reproduce` and `bisect` are commands, empty for none.
    `dispatch` is what runs differently in the case (see `CaseDifference.to_body`), empty if not looked at.
    """

    reason: str = ""
    run: str = ""
    verdict: PairVerdict | None = None
    compared: tuple[SessionEnvironment, ...] = ()
    rebuilt: bool = False
    reproduce: str = ""
    bisect: str = ""
    related: tuple[RelatedVerdict, ...] = ()
    moved_with: tuple[RelatedFinding, ...] = ()
    operators: OperatorDifference | None = None
    dispatch: Facts = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Evidence:
    """All evidence of a finding; each part is empty until it is known.

    `changes` differ between the runs before and after, of which `new_run` is the second. `waits` is the
    reason why a candidate is not measured yet, `tries` the number of attempts. `first_as` is its first state.
    `repeated` is the time (ISO 8601) at which a refuted finding was queued for a second session. `began_as`
    is the finding (id) that a drift continues and `confirmed_before` the part of it that was confirmed then
    (a log ratio). `other` holds values that an earlier version stored under names no longer in use.
    """

    detected: Detection | None = None
    sides: ComparedRuns | None = None
    new_run: str = ""
    changes: tuple[RunChange, ...] = ()
    waits: str = ""
    tries: int = 0
    first_as: str = ""
    repeated: str = ""
    began_as: int | None = None
    confirmed_before: float | None = None
    goes_on: Continuation | None = None
    confirmation: Confirmation = Confirmation()
    other: Facts = field(default_factory=dict[str, Any])


def evidence_of(body: Facts) -> Evidence:
    """The inverse of `evidence_body`; also reads the bodies of earlier versions."""
    values = {name: body[name] for name in _PLAIN if body.get(name) is not None}
    names = {*_NAMES, *(each.name for each in fields(Confirmation)), _RELATED_BEFORE}
    return Evidence(
        detected=_record(Detection, body.get("detected")),
        sides=_record(ComparedRuns, body.get("sides")),
        changes=_records(RunChange, body.get("changes")),
        goes_on=_record(Continuation, body.get("goes_on")),
        confirmation=_confirmation(body),
        other={name: value for name, value in body.items() if name not in names},
        **values,
    )


def evidence_body(evidence: Evidence) -> dict[str, Any]:
    """Evidence as JSON values; unknown values are left out."""
    body = {**evidence.other}
    for name in _NAMES:
        value = getattr(evidence, name)
        if value not in (None, "", 0, ()) or (name == "confirmed_before" and value is not None):
            body[name] = _values(value)
    if evidence.confirmation != Confirmation():
        body |= _confirmation_body(evidence.confirmation)
    return body


#: Parts of the evidence that are plain values.
_PLAIN = ("new_run", "waits", "tries", "first_as", "repeated", "began_as", "confirmed_before")
#: Parts of the evidence that are stored under their own name; those of the confirmation follow.
_NAMES = ("detected", "sides", "changes", "goes_on", *_PLAIN)
#: The key of related cases in 0.1.0.
_RELATED_BEFORE = "neighbours"


def _confirmation(body: Facts) -> Confirmation:
    operators = body.get("operators")
    return Confirmation(
        reason=str(body.get("reason") or ""),
        run=str(body.get("run") or ""),
        verdict=_verdict(body["verdict"]) if body.get("verdict") else None,
        compared=_records(SessionEnvironment, body.get("compared")),
        rebuilt=bool(body.get("rebuilt")),
        reproduce=str(body.get("reproduce") or ""),
        bisect=str(body.get("bisect") or ""),
        related=tuple(
            RelatedVerdict(str(row.get("case") or ""), _verdict(row))
            for row in body.get("related", body.get(_RELATED_BEFORE)) or ()
        ),
        moved_with=_records(RelatedFinding, body.get("moved_with")),
        dispatch=dict(body.get("dispatch") or {}),
        operators=_record(OperatorDifference, {**operators, "rows": tuple(operators.get("rows") or ())})
        if operators
        else None,
    )


def _confirmation_body(confirmation: Confirmation) -> dict[str, Any]:
    body = asdict(confirmation)
    rows = [{"case": each.case, **_values(each.verdict)} for each in confirmation.related]
    return _values(body | {"related": rows})


def _verdict(body: Facts) -> PairVerdict:
    found = _record(PairVerdict, {**body, "left_out": tuple(body.get("left_out") or ())})
    assert found is not None
    return found


def _record(kind: type[Record], body: Facts | None) -> Record | None:
    """The fields of a record that are present in a body; None without a body."""
    if not body:
        return None
    return kind(**{name: body[name] for name in _names_of(kind) if name in body})


@cache
def _names_of(kind: type[Any]) -> tuple[str, ...]:
    """The names of a record's fields; cached, because a page of findings asks for thousands."""
    return tuple(each.name for each in fields(kind))


def _records(kind: type[Record], bodies: Iterable[Facts] | None) -> tuple[Record, ...]:
    found = (_record(kind, body) for body in bodies or ())
    return tuple(each for each in found if each is not None)


def _values(value: Any) -> Any:
    """A record, or a container of records, as JSON values."""
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {name: _values(each) for name, each in value.items()}
    return [_values(each) for each in value] if isinstance(value, list | tuple) else value
