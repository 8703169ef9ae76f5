"""Scripts of `benchmarks/`, whose folders are no packages, as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def script(name: str) -> ModuleType:
    """One script by its path in `benchmarks/`, such as `museum/run`; each is loaded once."""
    unique = f"benchmarks_{name.replace('/', '_')}"
    if unique not in sys.modules:
        spec = importlib.util.spec_from_file_location(unique, BENCHMARKS / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[unique] = module
        spec.loader.exec_module(module)
    return sys.modules[unique]
