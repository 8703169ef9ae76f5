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
    """The two nights whose environments a session compares: one surely before the change, and the newest.

    Runs are ids, `old` and `new` fingerprints. `level_run` is the first night of the level that was left;
    empty where it is not known.
    """

    old_run: str = ""
    old: str = ""
    new_run: str = ""
    new: str = ""
    level_run: str = ""


@dataclass(frozen=True, slots=True)
class Detection:
    """What detection saw in `nights` nights: the values `before` and `after` in the unit of the metric.

    `strength` counts standard errors of the change; `noise` is the standard deviation from night to night
    and `smallest` the smallest change it could see (log ratios), which `factor` made larger. `control`: the
    pinned baseline moved likewise. `relative`: the change was seen in the ratio to that baseline.
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
    """A confirmed change that went on until the night of `night`, `change` in all (a log ratio).

    `further` is how far nights moved since the change was confirmed; where a later `finding` (id) measured
    that with pairs, it is None. `run` is the newest run; `night` and `noted_at` are ISO 8601 with an offset.
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
    `unit`. `left_out` says why pairs do not count. None and empty: not known.
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
    """The operator tables of two runs subtracted, new less old, in microseconds a step.

    `total_us` is by kind of operator; `rows` have the largest differences, and so many `more` are left out.
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
    """What a session says of a finding: why it decided so, in run `run`, and what else it measured.

    `compared` are the old and the new environment; `rebuilt`: one of them was built anew, so that other
    packages may be installed with its PyTorch. `reproduce` and `bisect` are commands, empty for none.
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

    `changes` differ between the runs before and after, of which `new_run` is the second. `waits` says why a
    candidate is not measured, after so many `tries`. `first_as` is the state it had first. `repeated` is when
    (ISO 8601) a refuted one was put up for a second session. `began_as` is the finding (id) that a drift
    continues and `confirmed_before` the part of it that was confirmed then (a log ratio). `other` has what an
    earlier version stored under names that are not used any more.
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
    """The evidence in what `evidence_body` made of it, also by an earlier version."""
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
    """Evidence as JSON values, without what is not known."""
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
#: Parts of the evidence whose name is their key; those of its confirmation follow.
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
    """The fields of a record that a body has; None without a body."""
    if not body:
        return None
    return kind(**{name: body[name] for name in _names_of(kind) if name in body})


@cache
def _names_of(kind: type[Any]) -> tuple[str, ...]:
    """The names of a record's fields; a page of findings asks for thousands."""
    return tuple(each.name for each in fields(kind))


def _records(kind: type[Record], bodies: Iterable[Facts] | None) -> tuple[Record, ...]:
    found = (_record(kind, body) for body in bodies or ())
    return tuple(each for each in found if each is not None)


def _values(value: Any) -> Any:
    """A record, or what holds records, as JSON values."""
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {name: _values(each) for name, each in value.items()}
    return [_values(each) for each in value] if isinstance(value, list | tuple) else value
