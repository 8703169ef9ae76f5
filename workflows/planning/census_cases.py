"""The cases of a census: a file that registers each operator, and the weight of each in a verdict."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.census.census import read_census, summary

from ..app_context import AppContext
from ..errors import UsageError


@dataclass(frozen=True, slots=True)
class CensusCases:
    """What a run of a census measures: keys of cases, the file that registers them, and their weights."""

    keys: tuple[str, ...]
    file: Path
    weights: Mapping[str, float]


def census_cases(app: AppContext, path: Path, *others: object) -> CensusCases:
    """The cases of the census in `path`; `others` are the selections that do not go with one.

    The file of cases is kept in the data folder under a hash of its content, for a run that is resumed.
    Raises BadCensus for a file that is none, and UsageError where cases are named as well.
    """
    if any(others):
        raise UsageError("--census selects the cases: leave out --suite, --case, --cases and --step")
    census = read_census(path.expanduser())
    text = census.to_case_file()
    folder = app.places.data_dir / "census"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"census_{hashlib.sha256(text.encode()).hexdigest()[:12]}.py"
    file.write_text(text, encoding="utf-8")
    app.reporter.note(f"{path}: {summary(census)}")
    return CensusCases(tuple(census.weights), file, census.weights)
