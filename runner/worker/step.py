"""A step script in the worker: its body runs once and sets up, one of its functions is measured."""

import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Callable
from typing import Any

from .prepared_case import UnknownCase, UnsupportedCase

_MODULE = "step_script"


def load_step(file: str, function: str, text: str) -> Callable[[], object]:
    """The function that does a step, after the script's body was run.

    `file` is the script's name, which its tracebacks show. Raises UnknownCase where the script leaves nothing
    by that name that can be called without arguments, UnsupportedCase where it needs a package that is not
    there, and whatever the script raises.
    """
    sys.argv = [file]
    loader = _Loader(file, text)
    spec = importlib.machinery.ModuleSpec(_MODULE, loader, origin=file)
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    try:
        loader.exec_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or "torch").split(".")[0]
        if package == "torch":
            raise
        raise UnsupportedCase(
            f"{file} needs {package}, which this environment lacks: --package NAME installs a package"
        ) from error
    found: Any = getattr(module, function, None)
    if not callable(found):
        raise UnknownCase(f"{file} defines no function {function}")
    if needed := _required_parameter(found):
        raise UnknownCase(
            f"{file}: {function} takes an argument ({needed}), and a step is called without any"
        )
    return found


def _required_parameter(function: Callable[..., Any]) -> str:
    """The first parameter without a default; empty where there is none, or it is not known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ""
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one for one in parameters if one.default is one.empty and one.kind not in optional]
    return needed[0].name if needed else ""


class _Loader(importlib.abc.SourceLoader):
    """Loads a script from its text; tracebacks and `inspect` find the lines through it."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._text = text

    def get_filename(self, fullname: str) -> str:
        """The name of the script."""
        return self._file

    def get_data(self, path: str | bytes) -> bytes:
        """The script; raises OSError for any other file, such as its compiled one."""
        if path != self._file:
            raise OSError(f"{path!r} is not the script")
        return self._text.encode()
