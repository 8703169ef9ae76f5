"""Step scripts as they are written on the command line: found, read, and refused where nothing could run."""

import ast
import errno
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from common.bounded_files import bounded_bytes
from common.text import plural
from records.runs import StepScript

from .errors import BadStep
from .worker.case_key import CaseKey

#: The function that is meant where none is named.
DEFAULT_FUNCTION = "step"
#: A script stands in the journal, in the database and in reports. One of this size is not written by hand.
_MOST_BYTES = 256 << 10
#: So many functions of a script are named in a sentence.
_NAMED = 5

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def read_step(text: str) -> StepScript:
    """The script that `FILE.py` or `FILE.py:FUNCTION` means; nothing of it is run.

    Raises BadStep, in one sentence, for a file that is missing or not Python, and for a function that does
    not exist or cannot be called without arguments.
    """
    path, function = _split(text)
    try:
        if path.exists() and not path.is_file():
            raise BadStep(f"{path} is no file")
        content = bounded_bytes(path, _MOST_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            most = f"{_MOST_BYTES >> 10} KiB"
            raise BadStep(f"{path}: a step script has at most {most}; load its data from a file") from None
        raise BadStep(f"{path}: {error.strerror or error}") from None
    tree = _parse_script(path, content)
    _check(path, tree, function)
    return StepScript(path.name, function, content.decode())


def spelled_step(text: str) -> str:
    """The same for a command that is typed in another folder: with the absolute path and the function."""
    path, function = _split(text)
    return f"{path.expanduser().absolute()}:{function}"


def step_case(step: StepScript) -> str:
    """The key of the case that a step script is; scripts that differ in any character have different keys."""
    name = re.sub(r"[^A-Za-z0-9_.+:-]", "-", step.name)
    return str(CaseKey.of(name, "infer", {"script": f"sha256:{step.digest}"}, {}))


def _split(text: str) -> tuple[Path, str]:
    file, colon, function = text.rpartition(":")
    if not colon or Path(text).expanduser().is_file():
        return Path(text).expanduser(), DEFAULT_FUNCTION
    if not file or not function:
        raise BadStep(f'"{text}" is no step: repro.py is one, and repro.py:FUNCTION')
    return Path(file).expanduser(), function


def _parse_script(path: Path, content: bytes) -> ast.Module:
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    try:
        content.decode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(content, str(path))
    except UnicodeDecodeError:
        raise BadStep(f"{path} is not Python: it is not UTF-8 text") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
        message = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise BadStep(f"{path} is not {python}: {line}{message}") from None


def _check(path: Path, tree: ast.Module, function: str) -> None:
    """Raise BadStep for a function that cannot be a step, as far as that is known without running anything.

    What a name is bound to by other means than `def`, or changed to by a decorator, the worker finds out.
    """
    found = [node for node in _statements(tree) if function in _bound(node)]
    stars = any(isinstance(node, ast.ImportFrom) and _names(node.names) == ["*"] for node in tree.body)
    if not found and not stars:
        raise BadStep(f"{path} has no function {function}: {_others(path, tree)}")
    last = found[-1] if found else None
    if isinstance(last, ast.ClassDef):
        raise BadStep(f"{path}: {function} is a class, and a step is a function without parameters")
    if not isinstance(last, _Function) or last.decorator_list:
        return
    if isinstance(last, ast.AsyncFunctionDef) or _is_generator(last):
        kind = "a coroutine" if isinstance(last, ast.AsyncFunctionDef) else "a generator"
        raise BadStep(f"{path}: {function} is {kind}: a call of it alone runs nothing")
    if required := _required_parameters(last.args):
        raise BadStep(
            f"{path}: {function} takes {plural(len(required), 'argument')} ({', '.join(required)}), and a "
            "step is called without any"
        )


def _others(path: Path, tree: ast.Module) -> str:
    """Which functions there are instead."""
    names = dict.fromkeys(node.name for node in _statements(tree) if isinstance(node, _Function))
    if not names:
        return "it defines none"
    listed = ", ".join([*names][:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return f"it defines {listed}; name one with {path.name}:FUNCTION"


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a module in their order, with those within `if`, `try`, `with` and loops."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, _Function | ast.ClassDef | ast.expr):
            yield from _statements(child)


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement of a module binds by itself."""
    if isinstance(node, _Function | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {name.split(".")[0] for name in _names(node.names)}
    own = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr | ast.withitem)]
    return {
        inner.id
        for child in own
        for inner in ast.walk(child)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    }


def _names(aliases: list[ast.alias]) -> list[str]:
    return [alias.asname or alias.name for alias in aliases]


def _required_parameters(arguments: ast.arguments) -> list[str]:
    """The parameters without a default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    without = positional[: len(positional) - len(arguments.defaults)]
    only = [
        one
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    return [one.arg for one in (*without, *only)]


def _is_generator(function: ast.FunctionDef) -> bool:
    """Whether the function itself yields, not one that is defined in it."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, _Function | ast.ClassDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)
    return False
