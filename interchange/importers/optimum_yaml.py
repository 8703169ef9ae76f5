"""The YAML in which optimum-benchmark writes its settings: a mapping of scalars, as they are written."""

from dataclasses import dataclass

import yaml

from ..errors import BadFile, SourcePlace
from ..source_file import Value
from .optimum_settings import MOST_LEVELS

#: How YAML writes that there is nothing.
_NULL = ("null", "~", "")
#: Settings are never so large, and reading as much YAML takes ten seconds.
_MOST = 1 << 20


@dataclass(slots=True)
class _Collection:
    """A mapping or a list that is being read: its path, the key whose value comes next, its length so far."""

    path: str
    mapping: bool
    key: str | None = None
    length: int = 0

    def next_path(self) -> str:
        """The path of the value that comes next."""
        if not self.mapping:
            self.length += 1
            return f"{self.path}[{self.length - 1}]"
        key, self.key = self.key or "", None
        return f"{self.path}.{key}" if self.path else key


def yaml_settings(text: str, name: str) -> dict[str, Value]:
    """The scalars of a YAML mapping by path, `a.b` or `a.b[0]`, as they are written; null is left out.

    Raises BadFile for malformed YAML, more than one document, an alias or a tag, a key that is given twice, a
    key that is no text, and nesting deeper than `MOST_LEVELS`.
    """
    if len(text) > _MOST:
        raise BadFile(SourcePlace(name), f"is YAML of more than {_MOST >> 20} MiB")
    try:
        return _scalars(text, name)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise BadFile(SourcePlace(name, line), f"is not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise BadFile(SourcePlace(name), f"is not YAML: {' '.join(str(error).split())}") from None


def _scalars(text: str, name: str) -> dict[str, Value]:
    found: dict[str, Value] = {}
    keys: set[str] = set()
    stack: list[_Collection] = []
    documents = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        place = SourcePlace(name, event.start_mark.line + 1)
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise BadFile(place, "is a second document")
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
        elif isinstance(event, yaml.NodeEvent):
            if stack and stack[-1].mapping and stack[-1].key is None:
                stack[-1].key = _key(event, place)
                continue
            path = stack[-1].next_path() if stack else ""
            place = SourcePlace(name, place.line, path)
            if path in keys:
                raise BadFile(place, "is there twice")
            keys.add(path)
            _check(event, stack, place)
            if not isinstance(event, yaml.ScalarEvent):
                stack.append(_Collection(path, isinstance(event, yaml.MappingStartEvent)))
            elif event.style or event.value not in _NULL:
                found[path] = Value(event.value, place)
    return found


def _key(event: yaml.NodeEvent, place: SourcePlace) -> str:
    if not isinstance(event, yaml.ScalarEvent):
        raise BadFile(place, "has a key that is no text")
    return event.value


def _check(event: yaml.NodeEvent, stack: list[_Collection], place: SourcePlace) -> None:
    """Raise BadFile for a node that settings do not have."""
    if isinstance(event, yaml.AliasEvent) or event.anchor or getattr(event, "tag", None):
        raise BadFile(place, "has an alias or a tag")
    if not stack and not isinstance(event, yaml.MappingStartEvent):
        raise BadFile(place, "is no mapping")
    if len(stack) >= MOST_LEVELS and isinstance(event, yaml.CollectionStartEvent):
        raise BadFile(place, "is nested too deep")
