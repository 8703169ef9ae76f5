"""Cases of a census or of a project's tests, registered by a generated file of cases."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runner.census import read_census, summary

from ..app_context import AppContext
from ..errors import UsageError
from .plan_upgrade import UpgradeRequest
from .resolve_environment import parse_environment

_PYTEST = "pytest"


@dataclass(frozen=True, slots=True)
class CensusCases:
    """The cases of a census: their keys, the file that registers them, and their weights."""

    keys: tuple[str, ...]
    file: Path
    weights: Mapping[str, float]


def census_cases(app: AppContext, path: Path, *others: object) -> CensusCases:
    """The cases of the census in `path`; `others` are selections that cannot be combined with it.

    Raises BadCensus for another file, and UsageError if cases are selected as well.
    """
    if any(others):
        raise UsageError("--census selects the cases: leave out --suite, --case, --cases and --step")
    census = read_census(path.expanduser())
    file = _case_file(app, "census", census.to_case_file())
    app.reporter.note(f"{path}: {summary(census)}")
    return CensusCases(tuple(census.weights), file, census.weights)


def with_test_cases(app: AppContext, request: UpgradeRequest) -> UpgradeRequest:
    """The request with its tests as cases; unchanged without tests.

    Environments that are built get pytest. Raises UsageError for a path that does not exist, and if other
    cases are selected.
    """
    if not request.tests:
        return request
    if request.suite or request.case_files or request.census or request.step:
        raise UsageError("--pytest selects the cases: leave out --suite, --cases, --census and --step")
    paths = [_absolute(text) for text in request.tests]
    text = (
        f"# {_digest(paths)}: the tests\n"
        "from runner.worker.pytest_cases import register\n\n"
        f"register(__name__, {str(Path.cwd())!r}, {paths!r})\n"
    )
    file = _case_file(app, "pytest", text)
    sides = [parse_environment(app.settings, side) for side in (request.old, request.new)]
    built = all(side.recipe is not None for side in sides)
    packages = (*request.packages, _PYTEST) if built else request.packages
    return replace(request, case_files=(file,), packages=tuple(dict.fromkeys(packages)), tests=())


def _case_file(app: AppContext, kind: str, text: str) -> Path:
    """A file of cases with that text, stored in the data folder under its hash so that the run can be
    resumed.
    """
    folder = app.places.data_dir / kind
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{kind}_{hashlib.sha256(text.encode()).hexdigest()[:12]}.py"
    file.write_text(text, encoding="utf-8")
    return file


def _absolute(text: str) -> str:
    """A path, or a node id such as `tests/test_a.py::test_b`, in absolute form."""
    path, colons, inside = text.partition("::")
    file = Path(path).expanduser().absolute()
    if not file.exists():
        raise UsageError(f"--pytest {text}: there is no {file}")
    return f"{file}{colons}{inside}"


def _digest(paths: Sequence[str]) -> str:
    """The hash of all Python files of the tests: changed tests are different cases."""
    digest = hashlib.sha256()
    for text in paths:
        path = Path(text.partition("::")[0])
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            content = file.read_bytes()
            digest.update(f"{file}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]
