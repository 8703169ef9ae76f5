"""The built-in cases as their files declare them: read and not imported, for their imports need torch."""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..worker.case import read_docstring

_FOLDER = Path(__file__).parents[1] / "cases"


def workloads() -> tuple[Mapping[str, Any], ...]:
    """What a measured environment answers about the built-in cases (see `worker.messages.Described`).

    Raises ValueError for a case that is not declared by literals alone: `@case(batch=[1, 8])`.
    """
    return tuple(found for path in sorted(_FOLDER.rglob("*.py")) for found in _declared(path))


def _declared(path: Path) -> list[Mapping[str, Any]]:
    module = ast.parse(path.read_bytes())
    return [
        _workload(node, call, ".".join(path.relative_to(_FOLDER).with_suffix("").parts))
        for node in module.body
        if isinstance(node, ast.FunctionDef)
        for call in node.decorator_list
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "case"
    ]


def _workload(node: ast.FunctionDef, call: ast.Call, module: str) -> Mapping[str, Any]:
    given: dict[str, Any] = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    phases = given.pop("phases", ("infer",))
    family = given.pop("family", "")
    summary, guards = read_docstring(ast.get_docstring(node))
    return {
        "name": node.name,
        "phases": list(phases),
        "grid": {name: list(values) for name, values in given.items()},
        "summary": summary,
        "family": family,
        "guards": guards,
        "source": f"runner.cases.{module}",
    }
