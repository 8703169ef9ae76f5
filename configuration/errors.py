"""Errors of the settings, and where a value came from.

* ConfigurationError * UnreadableFile the file is missing, may not be read, or is not TOML * UnknownKey an
  unknown key or variable, or an undefined name * WrongValue a known key with a value it cannot take *
  UnwritablePlace a folder for data cannot be written
"""

from collections.abc import Mapping
from dataclasses import dataclass

#: Keys from the root of the file.
KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of values: the displayed name of the file, and the variables that override it."""

    file: str
    variables: Mapping[KeyPath, str]

    def of(self, path: KeyPath) -> str:
        """The name of one value: its variable, or file and dotted key."""
        return self.variables.get(path) or f"{self.file}: {'.'.join(path)}"

    def table(self, path: KeyPath) -> str:
        """The name of the table that contains `path`, for a message about the key itself."""
        if path in self.variables:
            return self.variables[path]
        return ": ".join(part for part in (self.file, ".".join(path[:-1])) if part)


class ConfigurationError(Exception):
    """Base of all errors of this folder; the text is one sentence for users."""


class UnreadableFile(ConfigurationError):
    """The settings file is missing, may not be read, or is not TOML."""


class UnknownKey(ConfigurationError):
    """An unknown key or variable, or an undefined name."""


class WrongValue(ConfigurationError):
    """A known key with a value it cannot take."""


class UnwritablePlace(ConfigurationError):
    """A folder for data cannot be written."""
