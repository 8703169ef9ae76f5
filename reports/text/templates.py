"""The HTML templates of the reports, and their escaping functions."""

import re
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from common.text import printable


def escape_text(content: str) -> Markup:
    """Text as HTML without control characters; Markup unchanged."""
    return content if isinstance(content, Markup) else escape(printable(content))


def breakable(content: str) -> Markup:
    """Text with possible line breaks after the separators of a case key."""
    return Markup(re.sub(r"([/,=_])(?=[^/,=_])", r"\1<wbr>", str(escape_text(content))))


def code(content: str) -> Markup:
    """A case key, a command or a name."""
    return Markup("<code>{}</code>").format(breakable(content))


def case(key: str) -> Markup:
    """A case key with its name in bold."""
    name, slash, rest = key.partition("/")
    return Markup('<span class="py-case"><strong>{}</strong>{}<wbr>{}</span>').format(
        breakable(name), slash, breakable(rest)
    )


def chip(tone: str, sign: str, word: str) -> Markup:
    """A word with its sign, in its colour."""
    return Markup('<span class="py-chip py-{}"><span aria-hidden="true">{}</span> {}</span>').format(
        tone, sign, escape_text(word)
    )


def _finalize_value(value: Any) -> Any:
    """Text in a template as HTML; a number and its % sign stay on one line."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return Markup(escape_text(value).replace(" %", Markup("&nbsp;%")))


@cache
def _environment() -> Environment:
    folder = resources.files("reports").joinpath("templates")
    environment = Environment(
        loader=FileSystemLoader(str(folder)),
        autoescape=True,
        finalize=_finalize_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"verbatim": escape_text, "breakable": breakable, "code": code, "case": case}
    return environment


def render(name: str, **values: Any) -> Markup:
    """A template of `reports/templates` with these values; text in them is escaped."""
    return Markup(_environment().get_template(name).render(values, chip=chip))
