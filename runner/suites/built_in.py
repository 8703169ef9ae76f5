"""The suites that come with Pyrometer, one TOML file each."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from .composing import compose
from .suite import Suite

FOLDER = Path(__file__).parent

#: In the order people read them; a suite can include those before it.
NAMES = ("smoke", "cpu", "gpu", "scaling", "serving", "ops", "full")


@cache
def built_in() -> Mapping[str, Suite]:
    """The built-in suites by name."""
    suites: dict[str, Suite] = {}
    for name in NAMES:
        suites[name] = compose(name, tomllib.loads((FOLDER / f"{name}.toml").read_text()), suites)
    return MappingProxyType(suites)
