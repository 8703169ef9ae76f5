"""Reading of parameters in an address: the named value if it exists, else a default and a complaint."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from configuration.suggestions import unknown
from dashboard.components import links


@dataclass(frozen=True, slots=True)
class View:
    """Base of the selection of every page, a frozen dataclass.

    Selections are stored only in the address. `context` are the parameters that are remembered for other
    views (see `page_context`), `home` is the address without a selection, empty for a view without a
    permanent link. `fingerprints` are the fields that an address abbreviates to their beginning. `resets`
    are, by field, the fields that are emptied when its value changes, because their values may no longer
    exist.
    """

    context: ClassVar[tuple[str, ...]] = ()
    home: ClassVar[str] = ""
    fingerprints: ClassVar[tuple[str, ...]] = ()
    resets: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def query(self) -> dict[str, list[str]]:
        """The whole selection as a URL's query; for an empty field the page chooses a value."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values |= {name: links.short(values[name]) for name in self.fingerprints}
        return {name: [value] for name, value in values.items() if value}

    def after(self, name: str, value: Any) -> Self:
        """The view with another `value` of the field `name`."""
        empty = {field: type(getattr(self, field))() for field in self.resets.get(name, ())}
        return replace(self, **{name: value, **empty})

    @property
    def address(self) -> str:
        """The address of the view."""
        return links.view(self.home, self.query())

    def case_address(self, case: str) -> str:
        """The address of the view with the panel of a case."""
        return links.view(self.home, {**self.query(), links.DETAIL: [case]})


#: The URL's query: every value of every name.
Query = Mapping[str, Sequence[str]]

#: The local part of a version that names the device of a build.
_DEVICE = re.compile(r"(cpu|cu\d+|rocm[\d.]+|xpu)(\.cxx11\.abi)?")
#: The number of characters of a fingerprint that distinguish things with the same label.
_SHORT = 8
#: The most values of each parameter that are used.
_VALUES = 200


class SharedLabel(Exception):
    """The `label` in an address is that of several things: the page asks which one is meant.

    `name` is the parameter, `fingerprints` are those with the label.
    """

    def __init__(self, name: str, label: str, fingerprints: Sequence[str]) -> None:
        super().__init__(ambiguous(name, label, fingerprints))
        self.name, self.label, self.fingerprints = name, label, tuple(fingerprints)


def sanitise_query(query: Query) -> Query:
    """The used values of an address; texts with NUL are dropped, because Postgres refuses them."""
    return {name: [value.replace("\0", "") for value in query[name][:_VALUES]] for name in query}


def last(query: Query, name: str) -> str | None:
    """The value of `name` in the URL; the last one counts."""
    values = query.get(name) or (None,)
    return values[-1]


def pick(query: Query, name: str, valid: Sequence[str], default: str, complaints: list[str]) -> str:
    """The value of `name` if it is in `valid`; else `default`, with a complaint about an invalid value."""
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
    """A version without its local part."""
    return torch_version.partition("+")[0]


def strip_device(torch_version: str) -> str:
    """A version without the device it was built for: `2.13.0` of `2.13.0+cu130`.

    Any other local part, such as a commit, is kept, because it makes another PyTorch.
    """
    version, _, local = torch_version.partition("+")
    return version if _DEVICE.fullmatch(local) else torch_version


def pick_fingerprint(
    query: Query, name: str, labels: Mapping[str, str], default: str, complaints: list[str]
) -> str:
    """The thing with a fingerprint, the beginning of one, or a label: links contain fingerprints, people type
    labels.

    Raises SharedLabel for a label of several.
    """
    value = last(query, name)
    if value is None:
        return default
    if several := sharing_label(query, name, labels):
        raise SharedLabel(name, value, several)
    if result := find_fingerprint(value, labels):
        return result
    complaints.append(unknown_value(name, value, labels.values()))
    return default


def sharing_label(query: Query, name: str, labels: Mapping[str, str]) -> list[str]:
    """The fingerprints that the value of `name` may mean; empty unless it is the label of several."""
    several = label_fingerprints(last(query, name) or "", labels)
    return several if len(several) > 1 else []


def label_fingerprints(label: str, labels: Mapping[str, str]) -> list[str]:
    """The fingerprints with a label, of which there may be several."""
    return [fingerprint for fingerprint, own in labels.items() if own == label]


def ambiguous(kind: str, label: str, fingerprints: Sequence[str]) -> str:
    """The complaint about a label of several things, one of which has to be chosen."""
    names = short_fingerprints(fingerprints)
    return f'The {kind} "{label}" exists {len(fingerprints)} times ({names}): choose one.'


def short_fingerprints(fingerprints: Iterable[str]) -> str:
    """The text that distinguishes things of one label, as in `distinct`."""
    return ", ".join(fingerprint[:_SHORT] for fingerprint in fingerprints)


def find_fingerprint(text: str, labels: Mapping[str, str]) -> str | None:
    """The fingerprint for a text: the whole fingerprint, its beginning, or its label; None without a
    match.
    """
    ways: tuple[Callable[[str], bool], ...] = (
        lambda fingerprint: fingerprint == text,
        lambda fingerprint: links.short(fingerprint) == text,
        lambda fingerprint: fingerprint.startswith(text),
        lambda fingerprint: labels[fingerprint] == text,
    )
    for fits in ways:
        if matches := [fingerprint for fingerprint in labels if text and fits(fingerprint)]:
            return matches[0]
    return None


#: The value of a filter in an address that selects everything.
ALL = "all"


def encode_name(name: str) -> str:
    """The form of a name in an address that differs from `ALL`: `=all` for a thing named `all`."""
    return f"={name}" if name.lstrip("=") == ALL else name


def decode_name(value: str) -> str:
    """The name that `encode_name` wrote; empty for `ALL`."""
    if value == ALL:
        return ""
    return value[1:] if value.lstrip("=") == ALL else value


def choice_labels(everything: str, names: Iterable[str]) -> dict[str, str]:
    """The options of a list, as values of an address with their labels."""
    return {ALL: everything, **{encode_name(name): name for name in names}}


def unknown_value(kind: str, value: str, valid: Iterable[str]) -> str:
    """The complaint about an unknown value; names the nearest known one."""
    text = unknown(kind, value, valid)
    return f"{text[0].upper()}{text[1:]}; the page shows a default."


def unknown_parameters(query: Query, parameters: Sequence[str]) -> list[str]:
    """A complaint about each parameter of an address that is not in `parameters`."""
    names = list(query)[:_VALUES]
    matches = [unknown("parameter", name, parameters) for name in names if name not in parameters]
    return [f"{text[0].upper()}{text[1:]}; it is ignored." for text in matches]


def distinct(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Labels shared by several fingerprints, followed by the beginning of the fingerprint."""
    duplicates = {label for label, many in Counter(labels.values()).items() if many > 1}
    return {f: with_fingerprint(label, f) if label in duplicates else label for f, label in labels.items()}


def with_fingerprint(label: str, fingerprint: str) -> str:
    """A label of several things, with the text that distinguishes this one."""
    return f"{label} ({fingerprint[:_SHORT]})"
