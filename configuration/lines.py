"""On which line of a TOML text a value stands: tomllib does not say."""

import re
from collections.abc import Sequence

#: Keys from the root, and numbers for the elements of a list, all as texts.
Where = tuple[str, ...]

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'", re.DOTALL
)
_SCALAR = re.compile(r"[^,\]}#\n]+")
_ESCAPE = re.compile(r'\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(["\\]))')


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """The line, from 1, of the value at `path`, or of the nearest table around it; None for neither.

    `text` must be valid TOML.
    """
    lines = lines_of(text)
    wanted = tuple(str(part) for part in path)
    for length in range(len(wanted), 0, -1):
        if wanted[:length] in lines:
            return lines[wanted[:length]]
    return None


def lines_of(text: str) -> dict[Where, int]:
    """The line, from 1, of every table, key and element of a list of a valid TOML text.

    A value counts where its key stands, an element of a list where it begins itself.
    """
    return _Scan(text).lines


class _Scan:
    """One walk over a text that tomllib has accepted, so that nothing needs to be refused here."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Where, int] = {}
        self._text = text
        self._at = 0
        self._counts: dict[Where, int] = {}
        table: Where = ()
        while self._skip() < len(text):
            if text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Where:
        """`[a.b]` or `[[a.b]]`: the table that what follows belongs to."""
        line, many = self._line(), self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        *above, last = self._key()
        self._skip()
        self._at += 2 if many else 1
        path = (*self._inside(tuple(above), line), last)
        if not many:
            self.lines[path] = line
            return path
        self.lines.setdefault(path, line)
        number = self._counts[path] = self._counts.get(path, -1) + 1
        self.lines[(*path, str(number))] = line
        return (*path, str(number))

    def _inside(self, keys: Where, line: int) -> Where:
        """The path that keys of a header mean: in a list of tables they mean its last one."""
        path: Where = ()
        for key in keys:
            path = (*path, key)
            self.lines.setdefault(path, line)
            if path in self._counts:
                path = (*path, str(self._counts[path]))
        return path

    def _pair(self, table: Where) -> None:
        """`a.b = value`, at the top or in an inline table."""
        line = self._line()
        path = table
        for key in self._key():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self._skip()
        self._at += 1
        self._value(path)

    def _value(self, path: Where) -> None:
        self._skip()
        opening = self._text[self._at : self._at + 1]
        if opening == "[":
            self._enclosed("]", path)
        elif opening == "{":
            self._enclosed("}", path)
        elif found := _STRING.match(self._text, self._at) or _SCALAR.match(self._text, self._at):
            self._at = found.end()

    def _enclosed(self, closing: str, path: Where) -> None:
        """A list or an inline table, up to behind its end."""
        self._at += 1
        number = 0
        while self._text[self._skip()] != closing:
            if self._text[self._at] == ",":
                self._at += 1
            elif closing == "}":
                self._pair(path)
            else:
                self.lines[(*path, str(number))] = self._line()
                self._value((*path, str(number)))
                number += 1
        self._at += 1

    def _key(self) -> Where:
        """A dotted key."""
        keys: list[str] = []
        while True:
            self._skip()
            if found := _BARE.match(self._text, self._at):
                keys.append(found[0])
            elif found := _STRING.match(self._text, self._at):
                keys.append(_unquoted(found[0]))
            self._at = found.end() if found else self._at
            if self._text[self._skip()] != ".":
                return tuple(keys)
            self._at += 1

    def _skip(self) -> int:
        """Go over white space and comments."""
        if found := _SPACE.match(self._text, self._at):
            self._at = found.end()
        return self._at

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1


def _unquoted(text: str) -> str:
    if text.startswith("'"):
        return text[1:-1]
    return _ESCAPE.sub(lambda m: m[3] or chr(int(m[1] or m[2], 16)), text[1:-1])
