"""The modules of benchmarks/gpu, whose folder is no package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks/gpu"


def acceptance_module(name: str) -> ModuleType:
    """One module of the acceptance, under a name of its own."""
    unique = f"acceptance_{name}"
    if unique not in sys.modules:
        spec = importlib.util.spec_from_file_location(unique, FOLDER / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[unique] = module
        spec.loader.exec_module(module)
    return sys.modules[unique]
