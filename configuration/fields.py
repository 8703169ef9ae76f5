"""Field types of the tables of `pyrometer.toml`: texts, numbers and paths, without surprising conversions."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints


def no_bool(value: object) -> object:
    """Raise ValueError for a truth value in place of a number."""
    # Python takes `true` for the number 1; in the file it is a mistake.
    if isinstance(value, bool):
        raise ValueError("not a number")
    return value


def a_path(value: object) -> object:
    """Raise ValueError for a text that cannot be a path."""
    # An empty path would silently mean the current folder. An address may contain a password, which messages
    # about the path would repeat.
    if isinstance(value, str) and (not value or "\0" in value or "://" in value):
        raise ValueError("not a path")
    return value


def word(value: object) -> object:
    """A whole number as a text."""
    # `ranks = [1, 2]` reads better than quoted numbers.
    return str(value) if type(value) is int else value


#: Names become folders, URLs and parts of variables.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Text = Annotated[str, StringConstraints(min_length=1)]
Count = Annotated[int, BeforeValidator(no_bool), Field(ge=1)]
Seconds = Annotated[float, BeforeValidator(no_bool), Field(gt=0, allow_inf_nan=False)]
PathText = Annotated[Path, BeforeValidator(a_path)]
Texts = tuple[Text, ...]
Wheel = Annotated[str, StringConstraints(pattern=r"\.whl(#.*)?$")]
Address = Annotated[str, StringConstraints(pattern=r"^[a-z+]+://")]
Words = Annotated[tuple[Annotated[Text, BeforeValidator(word)], ...], Field(min_length=1)]

Share = Annotated[float, BeforeValidator(no_bool), Field(ge=0, le=1)]
SomeSeconds = Annotated[float, BeforeValidator(no_bool), Field(ge=0, allow_inf_nan=False)]

Positive = Annotated[float, BeforeValidator(no_bool), Field(gt=0, allow_inf_nan=False)]
Rate = Annotated[float, BeforeValidator(no_bool), Field(gt=0, lt=0.5)]
Change = Annotated[float, BeforeValidator(no_bool), Field(gt=-1, allow_inf_nan=False)]

COUNT = "a whole number, 1 or more"
SHARE = "a share from 0 to 1"
SECONDS = "a number of seconds above 0"


class ConfigTable(BaseModel):
    """Base of all tables: unknown keys are refused, nothing changes afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid")
