"""The formats that can be imported, and how a file's format is found."""

from pathlib import Path
from typing import Protocol

from records.kinds import RunSource

from .errors import UnknownFormat
from .importers import (
    action_benchmark,
    asv,
    dynamo_csv,
    optimum,
    oss_v3,
    pyrometer,
    pytest_benchmark,
    timm_csv,
    torchbench,
)
from .runs import ImportBatch


class Importer(Protocol):
    """A module that reads one format.

    `NAME` is what `--format` takes, `TITLE` a phrase for people. `knows` says whether a file or folder looks
    like one of it and never raises; `read_runs` raises BadFile.
    """

    @property
    def NAME(self) -> str:
        """Its word for `--format`."""
        ...

    @property
    def TITLE(self) -> str:
        """Its title for users."""
        ...

    def knows(self, path: Path, /) -> bool:
        """Whether the file looks like one of this format."""
        ...

    def read_runs(self, path: Path, /) -> ImportBatch:
        """The runs of the file; raises BadFile."""
        ...


#: In the order in which they are tried: formats recognised by content come before those recognised by name.
FORMATS: tuple[Importer, ...] = (
    pyrometer,
    oss_v3,
    torchbench,
    pytest_benchmark,
    action_benchmark,
    asv,
    optimum,
    dynamo_csv,
    timm_csv,
)


def chosen(name: str | None) -> tuple[Importer, ...]:
    """The importer called `name`, or all; raises UnknownFormat."""
    found = FORMATS if name is None else tuple(each for each in FORMATS if name == each.NAME)
    if not found:
        raise UnknownFormat(f"there is no format {name}: the formats are {_names()}")
    return found


def reader(path: Path, name: str | None = None) -> Importer:
    """The importer called `name`, or the first that recognises the file; raises UnknownFormat."""
    found = chosen(name)
    if name is not None:
        return found[0]
    importer = next((each for each in found if each.knows(path)), None)
    if importer is None:
        raise UnknownFormat(f"{path.name} is in none of the formats {_names()}")
    return importer


def is_one(folder: Path, name: str | None = None) -> bool:
    """Whether a folder is imported as a whole: it holds no file of another format."""
    owner = next((each for each in chosen(name) if each.knows(folder)), None)
    if owner is None or name is not None:
        return owner is not None
    inside = (path for path in folder.rglob("*") if path.is_file())
    others = [each for each in FORMATS if each is not owner]
    return not any(other.knows(path) for path in inside for other in others)


class SourceFields(Protocol):
    """A run or a row of a list of runs, with its source and the name of its format."""

    @property
    def source(self) -> RunSource: ...

    @property
    def source_format(self) -> str: ...


def came_from(run: SourceFields) -> str:
    """The source of a run as a phrase; empty for one that Pyrometer measured."""
    if run.source == RunSource.MEASURED:
        return ""
    return "submitted by a script" if run.source == RunSource.SUBMITTED else f"imported from {title(run)}"


def title(run: SourceFields) -> str:
    """The phrase for the format of an imported run."""
    return next((each.TITLE for each in FORMATS if run.source_format == each.NAME), run.source_format)


def _names() -> str:
    return ", ".join(each.NAME for each in FORMATS)
