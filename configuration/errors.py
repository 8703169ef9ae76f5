"""What can be wrong with what is wanted.

* ConfigurationError
  * UnreadableFile     the file is missing, may not be read, or is not TOML
  * UnknownKey         a key or variable that nobody reads, or a name that nobody defined
  * WrongValue         a known key with a value it cannot take
  * UnwritablePlace    a folder where data should go refuses it
"""


class ConfigurationError(Exception):
    """Base of everything this folder raises; its text is one sentence for people."""


class UnreadableFile(ConfigurationError):
    """The settings file is missing, may not be read, or is not TOML."""


class UnknownKey(ConfigurationError):
    """A key or variable that nobody reads, or a name that nobody defined."""


class WrongValue(ConfigurationError):
    """A known key with a value it cannot take."""


class UnwritablePlace(ConfigurationError):
    """A folder where data should go refuses it."""
