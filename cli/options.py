"""Options that several commands have."""

from math import isfinite
from pathlib import Path
from typing import Annotated, Literal

import typer


def finite(value: float | None) -> float | None:
    """`value`, unless it is `inf` or `nan`, which are numbers to Python and pass every smallest value."""
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is no number of seconds")
    return value


Device = Annotated[
    Literal["auto", "cpu"] | None,
    typer.Option(help="cpu: measure the CPU even where a GPU is [default: as the suite says]"),
]

Cases = Annotated[
    list[str] | None,
    typer.Option(
        "--case", help="only cases that match: key, whole parts of its beginning, or glob (repeatable)"
    ),
]
CaseFiles = Annotated[
    list[Path] | None, typer.Option("--cases", help="a Python file with cases of your own (repeatable)")
]
