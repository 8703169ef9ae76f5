"""An environment as it was written, with every path absolute, and one source of its PyTorch."""

from collections.abc import Callable
from pathlib import Path

from ..database_url import absolute
from ..error_messages import Origin
from ..errors import WrongValue
from ..schema import EnvironmentSettings

#: What says where the PyTorch is from; one of them is wanted.
_SOURCES = ("python", "torch", "wheel")


def settled_environment(
    name: str, written: EnvironmentSettings, base_of: Callable[..., Path], origin: Origin
) -> EnvironmentSettings:
    """The settings of environment `name`; `base_of` says from which folder a key's relative paths count.

    Raises WrongValue where no source is given, or several, or an interpreter with what is for building.
    """
    given = [key for key in _SOURCES if getattr(written, key) is not None]
    if len(given) != 1:
        place = origin.table(("environments", name, given[-1] if given else "python"))
        what = f"{' and '.join(given)} are given" if given else "nothing says which PyTorch"
        raise WrongValue(f"{place}: {what}; expected one of {', '.join(_SOURCES)}")
    if given == ["python"] and (others := sorted(written.model_fields_set - {"python"})):
        where = origin.table(("environments", name, others[0]))
        raise WrongValue(f"{where}: {others[0]} is for building, but python names an interpreter that exists")

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
