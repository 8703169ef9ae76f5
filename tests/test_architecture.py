"""The rules of the house that no other tool keeps, each as one test over the files as they lie."""

import ast
import collections
import functools
import gc
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["uv"]["build-backend"]["module-name"]
BIN = Path(sys.executable).parent

MODULE_LINES = 600
FUNCTION_LINES = 60
FOLDER_MODULES = 15


#: What travels to the measured environment.
TRAVELLING = ("runner.worker", "runner.cases")

#: Run by their hosts (Streamlit, Alembic) under names of their own; to import one is to run it.
SCRIPTS = ("dashboard.app_pages", "db.migrations")

#: Words that hide what a name means; a name is a noun of the field.
VAGUE = re.compile(
    r"told|whoever|nobody|somebody|anybody|lonely|hungry|forsaken|_asked|beside|together|(^|_)here(_|$)"
    r"|(^|_)fire(s|d)?(?!_time)(_|$)|(^|_)rungs?(_|$)|settled|forgettable|troubles",
    re.I,
)
#: What was done is no name for what does it: `read_settings` or `settings`, never `loaded`.
PARTICIPLE = re.compile(
    r"_?(?!(need|speed|seed|feed|embed|exceed)$)[A-Za-z][a-z]*ed"
    r"|_?([Kk]nown|[Ss]hown|[Ss]aid|[Ss]een|[Hh]eld|[Kk]ept|[Ff]ound|[Mm]ade|[Ll]ost|[Ll]eft|[Tt]aken|[Bb]uilt)"
)
#: Messages are called by the names of their classes.
MESSAGES = "runner/worker/messages.py"
#: A script whose bytes identify what it measures.
UNCHANGED = ("runner/execution/canaries/canary.py",)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def files(*folders: str) -> list[Path]:
    """All Python files below these folders of the checkout."""
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def relative(file: Path) -> str:
    """The file's path as people write it."""
    return file.relative_to(ROOT).as_posix()


def module_of(file: Path) -> str:
    """The dotted name of a file; a package for its `__init__.py`."""
    return relative(file).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@functools.cache
def parse(file: Path) -> ast.Module:
    """The file's syntax tree, which several rules look at and none changes."""
    return ast.parse(file.read_text(), str(file))


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Of all files they are millions of objects: collected while they grow, or kept, they slow all tests."""
    gc.disable()
    yield
    parse.cache_clear()
    gc.enable()


def is_type_checking(test: ast.expr) -> bool:
    """Whether an `if` asks for TYPE_CHECKING, by either spelling."""
    return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"


def import_statements(node: ast.AST, *, at_run_time: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports below `node`, in functions too; without TYPE_CHECKING blocks when `at_run_time`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif at_run_time and isinstance(child, ast.If) and is_type_checking(child.test):
            otherwise = ast.Module(child.orelse, [])
            yield from import_statements(otherwise, at_run_time=True)
        else:
            yield from import_statements(child, at_run_time=at_run_time)


def package_of(file: Path) -> list[str]:
    """The parts of the package that relative imports in `file` count from."""
    parts = module_of(file).split(".")
    return parts if file.name == "__init__.py" else parts[:-1]


def names_in(statement: ast.Import | ast.ImportFrom, package: list[str]) -> list[str]:
    """Absolute dotted names that a statement imports; `from a import b` gives `a` and `a.b`."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    base = package[: len(package) - statement.level + 1] if statement.level else []
    source = ".".join([*base, *([statement.module] if statement.module else [])])
    return [source, *(f"{source}.{alias.name}" for alias in statement.names)]


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The ended process of a command, without the caller's PYTHON... variables."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)


def test_the_import_contracts_are_kept() -> None:
    result = run(BIN / "lint-imports", "--no-cache", cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_tool_looks_at_the_same_packages() -> None:
    folders = sorted(file.parent.name for file in ROOT.glob("*/__init__.py"))
    assert folders == PACKAGES
    assert PROJECT["tool"]["importlinter"]["root_packages"] == PACKAGES
    assert PROJECT["tool"]["pyright"]["include"] == PACKAGES


def test_what_travels_imports_the_standard_library_torch_and_itself_relatively() -> None:
    # Relatively, for an absolute import could find an installed package instead of the one in the harness.
    travelling = tuple(f"{package}." for package in TRAVELLING)
    foreign: list[str] = []
    for file in files(*(package.replace(".", "/") for package in TRAVELLING)):
        for statement in import_statements(parse(file), at_run_time=False):
            names = names_in(statement, package_of(file))
            if isinstance(statement, ast.ImportFrom) and statement.level:
                allowed = all(name == "runner" or f"{name}.".startswith(travelling) for name in names)
            else:
                allowed = {name.split(".")[0] for name in names} <= sys.stdlib_module_names | {"torch"}
            if not allowed:
                foreign.append(f"{relative(file)}:{statement.lineno} imports {', '.join(names)}")
    assert foreign == []


def test_the_packages_that_travel_have_empty_beginnings() -> None:
    beginnings = [file for file in files("runner") if file.name == "__init__.py"]
    assert {module_of(file) for file in beginnings} >= {"runner", *TRAVELLING}
    assert [relative(file) for file in beginnings if file.stat().st_size] == []


def test_tests_are_no_packages() -> None:
    # tests/db/__init__.py would make `import db` find the tests.
    assert [relative(file) for file in files("tests") if file.name == "__init__.py"] == []


def test_nothing_in_the_dashboard_shadows_a_module() -> None:
    # Streamlit puts a script's folder first on sys.path: a dashboard/db.py would hide the package `db`.
    names = {file: file.stem for file in files("dashboard")}
    names |= {file.parent: file.parent.name for file in names if file.parent != ROOT / "dashboard"}
    taken = {*PACKAGES, *sys.stdlib_module_names}
    assert sorted(relative(path) for path, name in names.items() if name in taken) == []


def test_modules_are_short() -> None:
    lengths = {file: len(file.read_text().splitlines()) for file in files(*PACKAGES, "tests", "benchmarks")}
    assert {relative(file): n for file, n in lengths.items() if n > MODULE_LINES} == {}


def test_functions_are_short() -> None:
    long: dict[str, int] = {}
    for file in files(*PACKAGES, "benchmarks"):
        for node in ast.walk(parse(file)):
            if isinstance(node, Function) and node.end_lineno:
                lines = node.end_lineno - node.lineno + 1
                if lines > FUNCTION_LINES:
                    long[f"{relative(file)}:{node.lineno} {node.name}"] = lines
    assert long == {}


def test_folders_are_small() -> None:
    modules = collections.Counter(
        relative(file.parent) for file in files(*PACKAGES) if file.name != "__init__.py"
    )
    # Scripts of a host are counted by it: one a page, one a migration.
    scripts = tuple(package.replace(".", "/") for package in SCRIPTS)
    assert {
        folder: n for folder, n in modules.items() if n > FOLDER_MODULES and not folder.startswith(scripts)
    } == {}


def test_public_classes_have_names_of_their_own() -> None:
    defined: dict[str, set[str]] = collections.defaultdict(set)
    for file in files(*PACKAGES):
        for node in parse(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].add(relative(file))
    assert {name: where for name, where in defined.items() if len(where) > 1} == {}


def names_defined(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines: functions, classes, parameters, variables, attributes, aliases."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.alias(asname=str(name)):
                yield name
            case _:
                pass


def test_names_say_what_they_mean() -> None:
    vague = {
        f"{relative(file)}: {name}"
        for file in files(*PACKAGES, "tests", "benchmarks")
        if not relative(file).startswith(UNCHANGED)
        for name in (file.stem, *names_defined(parse(file)))
        if VAGUE.search(name)
    }
    assert sorted(vague) == []


def test_functions_and_classes_are_named_by_verbs_and_nouns() -> None:
    """What answers yes or no may be an adjective; a command and a case have the names that users type."""
    named: list[str] = []
    for file in files(*PACKAGES):
        for node in ast.walk(parse(file)):
            if not isinstance(node, Function | ast.ClassDef) or not PARTICIPLE.fullmatch(node.name):
                continue
            if isinstance(node, Function):
                decorators = " ".join(map(ast.unparse, node.decorator_list))
                answer = ast.unparse(node.returns) if node.returns else ""
                if answer == "bool" or "command" in decorators or "case(" in decorators:
                    continue
            named.append(f"{relative(file)}:{node.lineno} {node.name}")
    assert [each for each in named if not each.startswith((MESSAGES, "db/migrations"))] == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        relative(file)
        for file in files(*PACKAGES, "tests", "benchmarks")
        if file.stat().st_size and not ast.get_docstring(parse(file))
    ]
    assert silent == []


def test_no_module_imports_itself_through_others() -> None:
    modules = {module_of(file): file for file in files(*PACKAGES)}
    graph = {
        name: {
            target
            for statement in import_statements(parse(file), at_run_time=True)
            for target in names_in(statement, package_of(file))
            if target in modules and target != name
        }
        for name, file in modules.items()
    }
    # `from package import module` names the package too, which imports nothing as long as it is empty.
    empty = {name for name, file in modules.items() if file.name == "__init__.py" and not file.stat().st_size}
    cycle: list[str] = []
    try:
        graphlib.TopologicalSorter({name: targets - empty for name, targets in graph.items()}).prepare()
    except graphlib.CycleError as error:
        cycle = error.args[1]
    assert cycle == []


def is_there(path: str) -> bool:
    """Whether a documented path exists; one that ends with a slash must be a folder."""
    return (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).exists()


def test_documented_paths_exist() -> None:
    # Decisions are left out: they are history, and they name what was turned down.
    pages = [page for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")) if page.name != "CHANGELOG.md"]
    mentioned = {
        (relative(page), path)
        for page in pages
        for path in re.findall(r"`([\w.-]+/[\w./-]*)`", page.read_text())
        if path.split("/")[0] in (*PACKAGES, "docs", "tests", "benchmarks", ".ci") and path != "fleet/token"
    }
    assert sorted(f"{page}: {path}" for page, path in mentioned if not is_there(path)) == []


def test_the_command_is_ours_in_a_folder_with_namesakes(tmp_path: Path) -> None:
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f'raise SystemExit("decoy {name}")\n')
    # The decoys are imported where the current folder is on the path ...
    assert "decoy db" in run(sys.executable, "-c", "import db", cwd=tmp_path).stderr
    # ... and the installed command has not.
    command = run(BIN / "pyrometer", "--help", cwd=tmp_path)
    assert "decoy" not in command.stdout + command.stderr
    assert command.returncode == 0, command.stderr


def test_the_program_runs_without_torch(tmp_path: Path) -> None:
    modules = [
        module_of(file)
        for file in files(*PACKAGES)
        if not module_of(file).startswith((*TRAVELLING, *SCRIPTS)) and file.name != "__main__.py"
    ]
    code = (
        "import importlib, importlib.util, sys\n"
        "assert importlib.util.find_spec('torch') is None, 'torch is installed beside the program'\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
    )
    result = run(sys.executable, "-P", "-c", code, *modules, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
