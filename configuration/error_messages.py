"""From pydantic's errors to the one sentence that people read."""

import json
from typing import Any

from pydantic import ValidationError

from common.text import has_credentials, without_credentials

from .dashboard import SECRETS
from .errors import ConfigurationError, KeyPath, Origin, UnknownKey, WrongValue
from .schema import SCALARS, SECTIONS, TABLES, SettingsFile
from .suggestions import unknown

#: Pydantic's mark for "the key itself is wrong", at the end of a location.
_KEY = "[key]"

#: May hold a password, so it is never repeated.
_SECRETS: tuple[KeyPath, ...] = (
    *(("database_url",), ("alerts",), ("alerts", "targets"), ("dashboard",)),
    *(("dashboard", name) for name in SECRETS),
)
#: So may what is in these.
_SECRET_LISTS: tuple[KeyPath, ...] = (("alerts", "targets"),)


def complain(error: ValidationError, origin: Origin) -> ConfigurationError:
    """The first problem as a sentence, and how many more there are. Unknown keys come first: a
    misspelt key is often why another one is missing."""
    problems = sorted(
        error.errors(include_url=False, include_context=False), key=lambda e: e["type"] != "extra_forbidden"
    )
    first = problems[0]
    kind = UnknownKey if first["type"] == "extra_forbidden" else WrongValue
    sentence = _sentence(first["type"], tuple(str(part) for part in first["loc"]), first["input"], origin)
    if more := len(problems) - 1:
        sentence += f"; and {more} more problem{'s' if more > 1 else ''}"
    return kind(sentence)


def _sentence(kind: str, path: KeyPath, given: object, origin: Origin) -> str:
    if kind == "extra_forbidden":
        return f"{origin.table(path)}: {unknown('key', path[-1], _keys(path[:-1]))}"
    if kind == "missing":
        return f'{origin.table(path)}: "{path[-1]}" is missing, expected {_field_description(path)}'
    if path[-1] == _KEY:
        *table, name, _ = path
        what = "a variable's name" if len(table) > 1 else "a name of letters, digits and . _ + -"
        name = without_credentials(name)
        return f'{origin.table((*table, name))}: "{name}" is not {what}'
    # An address of packages may hold a password; a version, which does not, is worth repeating.
    address = (path[0] == "environments" and "@" in str(given)) or has_credentials(str(given))
    secret = address or path in _SECRETS or path[:-1] in _SECRET_LISTS
    shown = "not usable" if secret and isinstance(given, str | int | float) else _format_value(given)
    return f"{origin.of(path)} is {shown}, expected {_field_description(path)}"


def _keys(table: KeyPath) -> list[str]:
    return list(({**TABLES, **SECTIONS}[table[0]] if table else SettingsFile).model_fields)


def _field_description(path: KeyPath) -> str:
    """What a field takes, from its description in the schema."""
    if path[0] in SCALARS or len(path) == 1:
        return str(SettingsFile.model_fields[path[0]].description)
    if path[0] in SECTIONS:
        return str(SECTIONS[path[0]].model_fields[path[1]].description)
    if len(path) == 2:
        return f"a table [{'.'.join(path)}]"
    table, _, field, *below = path
    if field == "environment" and below:
        return "a text in quotes"
    if field == "matrix" and len(below) > 1:
        return "a text in quotes" if below[1] == "why" else "a list of texts in quotes"
    return str(TABLES[table].model_fields[field].description)


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
