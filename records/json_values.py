"""Reading of JSON values field by field, with errors that name the field, and shortening of long texts."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, Self, TypeVar, cast, overload

T = TypeVar("T")

#: A JSON object, by name.
Facts = Mapping[str, Any]

#: Longer texts in an error are cut.
SHOWN = 60
#: The most characters of a sentence, which is shown in tables, and of a text of several lines.
LONGEST_SENTENCE, LONGEST_TEXT = 2_000, 20_000
#: Where the whole text of a shortened one is stored.
WHERE_WHOLE = "the run's journal, or the file it was imported from, has all of it"
#: Counts fit into the smallest integer of a database.
_COUNT = 2**31


class JsonPlace(Protocol):
    """The position of a value in a document, and the error for a wrong value there."""

    def at(self, field: str) -> "JsonPlace":
        """The place of a field within this one; `[3]` is an element."""
        ...

    def error(self, sentence: str) -> Exception:
        """The error to raise about this place."""
        ...


class BodyError(TypeError):
    """A body is invalid; the text names the field and the reason."""


@dataclass(frozen=True, slots=True)
class BodyPlace:
    """A field of a body, as `metrics.latency`; empty for the body."""

    field: str = ""

    def at(self, field: str) -> "BodyPlace":
        """The place of a field within this one."""
        dot = "." if self.field and not field.startswith("[") else ""
        return BodyPlace(f"{self.field}{dot}{field}")

    def error(self, sentence: str) -> BodyError:
        """The error to raise about this place."""
        return BodyError(f"{self.field}: {sentence}" if self.field else sentence)


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A value out of a JSON document with its place; reading it as another type raises the place's error."""

    value: Any
    place: JsonPlace

    def object(self) -> dict[str, Self]:
        """The members of an object."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        members = cast("dict[str, Any]", self.value)
        return {name: type(self)(value, self.place.at(name)) for name, value in members.items()}

    def list(self) -> Sequence[Self]:
        """The elements of a list, each made when it is read: a small file holds millions."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return _Elements(self, cast("list[Any]", self.value))

    def get(self, name: str) -> Self | None:
        """A member of an object; None where it is missing or null."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        value = cast("dict[str, Any]", self.value).get(name)
        return None if value is None else type(self)(value, self.place.at(name))

    def need(self, name: str) -> Self:
        """A member of an object that has to be there."""
        member = self.get(name)
        if member is None:
            raise self.place.at(name).error("is missing")
        return member

    def text(self) -> str:
        """A text that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            raise self.wrong("a text")
        return self.value

    def number(self, *, finite: bool = True) -> float:
        """A number, which must be finite unless `finite` is False; true and false are not numbers."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong("a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if finite and not math.isfinite(number):
            raise self.wrong("a finite number")
        return number

    def as_written(self, *, finite: bool = True) -> float:
        """As `number`, keeping the type so that it can be written back unchanged: 45 is not 45.0."""
        number = self.number(finite=finite)
        return self.value if self.value == number else number

    def wrong(self, expected: str) -> Exception:
        """The error for a value other than the `expected` one."""
        text = json.dumps(self.value, default=str) if not isinstance(self.value, dict | list) else ""
        found = text or ("an object" if isinstance(self.value, dict) else "a list")
        found = found if len(found) <= SHOWN else f"{found[:SHOWN]}..."
        return self.place.error(f"expected {expected}, found {found}")


V = TypeVar("V", bound=JsonValue)


@dataclass(frozen=True, slots=True)
class _Elements(Sequence[V]):
    """The elements of a list with their places."""

    whole: V
    values: list[Any]

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> V: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[V]: ...
    def __getitem__(self, index: int | slice) -> V | Sequence[V]:
        numbers = range(len(self.values))[index]
        if isinstance(numbers, range):
            return [self[number] for number in numbers]
        return type(self.whole)(self.values[numbers], self.whole.place.at(f"[{numbers}]"))


def integers(at: JsonValue, low: int, high: int) -> tuple[int, ...]:
    """Many integers in `low` <= i < `high`, checked together; one by one only to find a wrong one."""
    if isinstance(at.value, list):
        values: list[Any] = at.value
        if all(type(value) is int and low <= value < high for value in values):
            return tuple(values)
    for each in at.list():
        if type(each.value) is not int or not low <= each.value < high:
            raise each.wrong(f"an integer from {low} to {high - 1}")
    return ()


def name_of(at: JsonValue, name: str) -> str:
    """A required text that is not empty."""
    return at.need(name).text()


def text_of(at: JsonValue, name: str) -> str:
    """A required text, which may be empty."""
    member = at.need(name)
    return member.value if member.value == "" else member.text()


def texts_of(at: JsonValue, name: str) -> tuple[str, ...]:
    """A list of texts, each of which may be empty."""
    member = at.need(name)
    values: list[Any] = member.value if isinstance(member.value, list) else []
    if values and all(type(value) is str for value in values):
        return tuple(values)
    return tuple(each.value if each.value == "" else each.text() for each in member.list())


def table_of(at: JsonValue, name: str) -> dict[str, Any]:
    """An object as it is."""
    member = at.need(name)
    if not isinstance(member.value, dict):
        raise member.wrong("an object")
    return dict(cast("dict[str, Any]", member.value))


def count_of(at: JsonValue, name: str) -> int:
    """An integer from 0 on that fits into 31 bits."""
    return integers(JsonValue([at.need(name).value], at.place.at(name)), 0, _COUNT)[0]


def one_of(at: JsonValue, name: str, choices: tuple[str, ...]) -> str:
    """One of some words."""
    member = at.need(name)
    if member.value not in choices:
        raise member.wrong(f"one of {', '.join(choices)}")
    return member.value


def name_in(at: JsonValue, name: str, old: str) -> str:
    """The name of a member: `name`, or `old` if only that exists, as in files of 0.1.0."""
    return old if at.get(name) is None and at.get(old) is not None else name


def maybe(at: V, name: str, read: Callable[[V], T]) -> T | None:
    """A member as it is read, None where it is missing or null."""
    member = at.get(name)
    return None if member is None else read(member)


def moment_of(at: JsonValue) -> datetime:
    """A time with its zone, in UTC."""
    expected = "a time with its zone, as 2026-11-21T20:15:00.000001+00:00"
    try:
        moment = datetime.fromisoformat(at.text())
        if moment.tzinfo is None:
            raise at.wrong(expected)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise at.wrong(expected) from None


def bounded_text(text: str, most: int, where: str) -> str:
    """A text of at most `most` characters: a longer one is shortened to its beginning and end with a mark
    between them.

    The mark gives the number of characters left out and says `where` the whole text is. Shortening twice
    gives the same text.
    """
    if len(text) <= most:
        return text
    # The length of the mark depends on its digits: reserve room for the longest one.
    room = most - len(_mark(len(text), where))
    end = room // 2
    return text[: room - end] + _mark(len(text) - room, where) + text[len(text) - end :]


def bounded_facts(facts: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Facts with every text in them, names included, of at most `LONGEST_TEXT` characters."""
    return cast("dict[str, Any]", _shorten_value(facts, where))


def finite(value: Any) -> Any:
    """A JSON value in which every number that is not finite, at any depth, is replaced by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: finite(each) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in cast("list[Any]", value)]
    return value


def _mark(left_out: int, where: str) -> str:
    return f" [... {left_out:,} characters are left out here; {where} ...] "


def _shorten_value(value: Any, where: str) -> Any:
    if isinstance(value, str):
        return bounded_text(value, LONGEST_TEXT, where)
    if isinstance(value, Mapping):
        inner = cast("Mapping[Any, Any]", value).items()
        return {_shorten_value(name, where): _shorten_value(each, where) for name, each in inner}
    if isinstance(value, list | tuple):
        return [_shorten_value(each, where) for each in cast("list[Any]", value)]
    return value
