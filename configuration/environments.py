"""`[environments.NAME]`: an interpreter with a PyTorch, or the source to build one from."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, Field

from .database_url import absolute
from .errors import Origin, WrongValue
from .fields import Address, ConfigTable, PathText, Texts, Wheel


def _torch(text: str) -> str:
    kind, _, day = text.partition(" ")
    try:
        if kind != "nightly":
            Version(text)
        elif day:
            date.fromisoformat(day)
    except InvalidVersion:
        raise ValueError("not a version") from None
    return text


class EnvironmentSettings(ConfigTable):
    """`[environments.NAME]`: an interpreter with the PyTorch to measure, or the source to build one from.

    Exactly one of `python`, `torch` and `wheel` is given; the other keys are for the latter two. `index`
    replaces the package index that pip is configured with, `find_links` adds to it; `packages` are installed
    besides torch and the `usual_packages`; `base_python` makes the virtual environment.
    """

    python: PathText | None = Field(default=None, description="the path of a Python interpreter")
    torch: Annotated[str, AfterValidator(_torch)] | None = Field(
        default=None, description='a version such as "2.13.0", "nightly", or "nightly 2026-11-20"'
    )
    wheel: Wheel | None = Field(default=None, description="the path or URL of a torch wheel (.whl)")
    index: Address | None = Field(default=None, description="the URL of a package index")
    find_links: Texts = Field(default=(), description="a list of folders or pages with wheels")
    packages: Texts = Field(default=(), description='a list of requirements such as "torchao==0.15"')
    usual_packages: bool = Field(default=True, description="true or false")
    base_python: PathText | None = Field(
        default=None, description="the path of the Python interpreter to build it with"
    )
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description='"auto", "cpu" or "cuda"')


#: The keys that name the source of the PyTorch; exactly one of them is required.
_SOURCES = ("python", "torch", "wheel")


def resolve_environment(
    name: str, written: EnvironmentSettings, base_of: Callable[..., Path], origin: Origin
) -> EnvironmentSettings:
    """The settings of environment `name`; `base_of` says from which folder a key's relative paths count.

    Raises WrongValue without a source, with several, and for an interpreter with keys for building.
    """
    given = [key for key in _SOURCES if getattr(written, key) is not None]
    if len(given) != 1:
        place = origin.table(("environments", name, given[-1] if given else "python"))
        what = f"{' and '.join(given)} are given" if given else "nothing says which PyTorch"
        raise WrongValue(f"{place}: {what}; expected one of {', '.join(_SOURCES)}")
    if given == ["python"] and (others := sorted(written.model_fields_set - {"python"})):
        where = origin.table(("environments", name, others[0]))
        raise WrongValue(
            f"{where}: {others[0]} is for building an environment, but python names an existing interpreter"
        )

    def path(key: str, value: Path | None) -> Path | None:
        return None if value is None else absolute(value, base_of("environments", name, key))

    def place_of(key: str, text: str, *, always: bool = True) -> str:
        a_path = "://" not in text and (always or text.startswith((".", "/", "~")) or text.endswith(".whl"))
        return str(absolute(text, base_of("environments", name, key))) if a_path else text

    return written.model_copy(
        update={
            "python": path("python", written.python),
            "base_python": path("base_python", written.base_python),
            "wheel": place_of("wheel", written.wheel) if written.wheel else None,
            "find_links": tuple(place_of("find_links", text) for text in written.find_links),
            "packages": tuple(place_of("packages", text, always=False) for text in written.packages),
        }
    )
