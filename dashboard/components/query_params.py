"""One choice of an address: what it names if that exists, else what the page shows and a complaint."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from configuration.suggestions import unknown
from dashboard.components import links


@dataclass(frozen=True, slots=True)
class View:
    """Base of every page's selection, a frozen dataclass each. The address is the only place it lives.

    `context` are its parameters that are remembered for other views (see `page_context`), `home` is the
    address of the view where nothing is chosen, empty for one that has no permanent link. `fingerprints` are
    the fields of which an address has the beginning. `resets` are, by field, those that are emptied when
    another value of it is chosen: what they named may not exist any more.
    """

    context: ClassVar[tuple[str, ...]] = ()
    home: ClassVar[str] = ""
    fingerprints: ClassVar[tuple[str, ...]] = ()
    resets: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def query(self) -> dict[str, list[str]]:
        """The whole selection as a URL's query; a field that is empty is left for the page to choose."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values |= {name: links.short(values[name]) for name in self.fingerprints}
        return {name: [value] for name, value in values.items() if value}

    def after(self, name: str, value: Any) -> Self:
        """The view with another `value` of the field `name`."""
        empty = {field: type(getattr(self, field))() for field in self.resets.get(name, ())}
        return replace(self, **{name: value, **empty})

    @property
    def address(self) -> str:
        """The view's own address."""
        return links.view(self.home, self.query())

    def case_address(self, case: str) -> str:
        """The address of the view with the panel of a case."""
        return links.view(self.home, {**self.query(), links.DETAIL: [case]})


#: The URL's query: every value of every name.
Query = Mapping[str, Sequence[str]]

#: What follows the plus in a version where it says what device a build is for.
_DEVICE = re.compile(r"(cpu|cu\d+|rocm[\d.]+|xpu)(\.cxx11\.abi)?")
#: Characters of a fingerprint that set apart what has one label.
_SHORT = 8
#: An address may ask for thousands of things: so many values of each name count.
_VALUES = 200


class SharedLabel(Exception):
    """An address names by a `label` what several things are called: the page asks which one is meant.

    `name` is the parameter, `fingerprints` are those of the label.
    """

    def __init__(self, name: str, label: str, fingerprints: Sequence[str]) -> None:
        super().__init__(ambiguous(name, label, fingerprints))
        self.name, self.label, self.fingerprints = name, label, tuple(fingerprints)


def sanitise_query(query: Query) -> Query:
    """What counts of an address; no name has a NUL in it, and Postgres takes no text with one."""
    return {name: [value.replace("\0", "") for value in query[name][:_VALUES]] for name in query}


def last(query: Query, name: str) -> str | None:
    """The value of `name` in the URL; the last one counts."""
    values = query.get(name) or (None,)
    return values[-1]


def pick(query: Query, name: str, valid: Sequence[str], default: str, complaints: list[str]) -> str:
    """The value of `name`, one of `valid`; `default` where there is none, or another (with a complaint)."""
    value = last(query, name)
    if value is None or value in valid:
        return default if value is None else value
    complaints.append(unknown_value(name, value, valid))
    return default


def pick_version(
    query: Query, name: str, versions: Sequence[str], default: str, complaints: list[str]
) -> str:
    """As `pick`, of PyTorch versions: `2.13.0` means the first of those with a local part (`2.13.0+cpu`)."""
    value = last(query, name)
    if value and value not in versions:
        local = [version for version in versions if public(version) == value]
        if local:
            return local[0]
    return pick(query, name, versions, default, complaints)


def public(torch_version: str) -> str:
    """A version without its local part, which says what device it was built for."""
    return torch_version.partition("+")[0]


def strip_device(torch_version: str) -> str:
    """A version without the device it was built for: `2.13.0` of `2.13.0+cu130`.

    What else follows a plus, such as a commit, makes another PyTorch of it.
    """
    version, _, local = torch_version.partition("+")
    return version if _DEVICE.fullmatch(local) else torch_version


def pick_fingerprint(
    query: Query, name: str, labels: Mapping[str, str], default: str, complaints: list[str]
) -> str:
    """By fingerprint, by its beginning, or by label: links are made with the first, people type the last.

    Raises SharedLabel for a label of several.
    """
    value = last(query, name)
    if value is None:
        return default
    if several := sharing_label(query, name, labels):
        raise SharedLabel(name, value, several)
    if found := find_fingerprint(value, labels):
        return found
    complaints.append(unknown_value(name, value, labels.values()))
    return default


def sharing_label(query: Query, name: str, labels: Mapping[str, str]) -> list[str]:
    """The fingerprints that the value of `name` may mean; empty unless it is the label of several."""
    several = label_fingerprints(last(query, name) or "", labels)
    return several if len(several) > 1 else []


def label_fingerprints(label: str, labels: Mapping[str, str]) -> list[str]:
    """The fingerprints of a label: several where different things have one name."""
    return [fingerprint for fingerprint, own in labels.items() if own == label]


def ambiguous(kind: str, label: str, fingerprints: Sequence[str]) -> str:
    """The complaint about a label that several things have: which it is has to be chosen."""
    names = short_fingerprints(fingerprints)
    return f'The {kind} "{label}" exists {len(fingerprints)} times ({names}): choose which one is meant.'


def short_fingerprints(fingerprints: Iterable[str]) -> str:
    """What sets things of one label apart, as `distinct` has it."""
    return ", ".join(fingerprint[:_SHORT] for fingerprint in fingerprints)


def find_fingerprint(text: str, labels: Mapping[str, str]) -> str | None:
    """The fingerprint that a text stands for: whole, its beginning, or its label; None for no such."""
    ways: tuple[Callable[[str], bool], ...] = (
        lambda fingerprint: fingerprint == text,
        lambda fingerprint: links.short(fingerprint) == text,
        lambda fingerprint: fingerprint.startswith(text),
        lambda fingerprint: labels[fingerprint] == text,
    )
    for fits in ways:
        if found := [fingerprint for fingerprint in labels if text and fits(fingerprint)]:
            return found[0]
    return None


#: In an address: nothing is left out.
ALL = "all"


def encode_name(name: str) -> str:
    """How an address has the name of one thing, apart from `ALL`: `=all` where it is called so itself."""
    return f"={name}" if name.lstrip("=") == ALL else name


def decode_name(value: str) -> str:
    """The name that `encode_name` wrote; empty for `ALL`."""
    if value == ALL:
        return ""
    return value[1:] if value.lstrip("=") == ALL else value


def choice_labels(everything: str, names: Iterable[str]) -> dict[str, str]:
    """What can be chosen of a list, as an address has it and as it is called."""
    return {ALL: everything, **{encode_name(name): name for name in names}}


def unknown_value(kind: str, value: str, valid: Iterable[str]) -> str:
    """The complaint about an unknown value; names the nearest known one."""
    text = unknown(kind, value, valid)
    return f"{text[0].upper()}{text[1:]}; shown is what there is."


def unknown_parameters(query: Query, parameters: Sequence[str]) -> list[str]:
    """A complaint about each name in an address that a page with these `parameters` does not read."""
    names = list(query)[:_VALUES]
    found = [unknown("parameter", name, parameters) for name in names if name not in parameters]
    return [f"{text[0].upper()}{text[1:]}; it is ignored." for text in found]


def distinct(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Labels that two fingerprints share get the beginning of theirs."""
    shared = {label for label, many in Counter(labels.values()).items() if many > 1}
    return {f: with_fingerprint(label, f) if label in shared else label for f, label in labels.items()}


def with_fingerprint(label: str, fingerprint: str) -> str:
    """A label that several things have, with what sets this one apart."""
    return f"{label} ({fingerprint[:_SHORT]})"
