"""What an environment is built from: one record, whose hash names the folder it is built in."""

import hashlib
import json
import re
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from common.text import without_credentials

from .versions import parse

Device = Literal["auto", "cpu", "cuda"]

#: Installed with torch unless a recipe does without: what `make setup` puts into the default environment,
#: so that an old PyTorch is not compared with a new one that alone has ONNX Runtime.
USUAL = ("numpy", "setuptools", "onnx", "onnxscript", "onnxruntime")
#: What older releases than these need instead. Built against NumPy 1, they warn on import and do without
#: NumPy 2; their `torch.compile` imports `pkg_resources`, which newer setuptools no longer have.
_OLDER = (("2.3.0", "numpy", "numpy<2"), ("2.2.0", "setuptools", "setuptools<81"))
NIGHTLY = "nightly"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to build one environment.

    `torch` is a version (`2.13.0`), `nightly` or `nightly 2026-11-20`; or else `wheel` is the path or URL of
    a wheel. `index` replaces the package index that pip is configured with, `find_links` adds folders or
    pages of wheels. `packages` are installed with torch, and the USUAL ones where `usual`. `base_python`
    makes the virtual environment, the program's own Python for an empty one. `device` "cuda" wants a PyTorch
    that sees a GPU.
    """

    torch: str = ""
    wheel: str = ""
    index: str = ""
    find_links: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    usual: bool = True
    base_python: str = ""
    device: Device = "auto"

    @property
    def dated(self) -> bool:
        """Whether it means the same torch tomorrow."""
        return self.torch != NIGHTLY

    @property
    def requirements(self) -> tuple[str, ...]:
        """What pip installs besides torch; an address may hold a password."""
        return (*self._usual(), *self.packages)

    @property
    def label(self) -> str:
        """What it is, in short: `2.13.0`, `nightly-2026-11-20`, `wheel-2.13.0+cpu`."""
        if not self.wheel:
            return self.torch.replace(" ", "-")
        try:
            return f"wheel-{parse_wheel_filename(self.wheel.rsplit('/', 1)[-1])[1]}"
        except InvalidWheelFilename:
            return NO_VERSION

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits over all of it, and over the content of wheels that lie on this machine.

        Where no other Python makes it, the program's own counts by its minor version: after an upgrade of
        that, a new environment must not be compared with one of the old Python. Another Python counts by its
        path alone, without running it; `StoredEnvironment.replaced` sees when its version is no longer the
        same. A password does not count.
        """
        files = {part: _content(part) for part in (self.wheel, *self.packages) if part and is_file(part)}
        python = self.base_python or f"{sys.version_info.major}.{sys.version_info.minor}"
        packages = tuple(map(without_credentials, self.requirements))
        identity = {**self.to_body(), "packages": packages, "python": python, "files": files}
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def folder(self) -> str:
        """The name of the folder it is built in."""
        return f"{re.sub(r'[^A-Za-z0-9.+-]', '-', self.label)}-{self.digest}"

    def to_body(self) -> dict[str, Any]:
        """For JSON and for people: addresses without their passwords."""
        safe = replace(
            self,
            wheel=without_credentials(self.wheel),
            index=without_credentials(self.index),
            find_links=tuple(map(without_credentials, self.find_links)),
            packages=tuple(map(without_credentials, self.packages)),
        )
        return asdict(safe)

    def _usual(self) -> tuple[str, ...]:
        if not self.usual:
            return ()
        version = parse(self.torch)
        older = {
            name: requirement
            for release, name, requirement in _OLDER
            if version and (first := parse(release)) and version < first
        }
        return tuple(older.get(name, name) for name in USUAL)


#: The label of a wheel whose name says no version.
NO_VERSION = "wheel"


def is_file(text: str) -> bool:
    """Whether a requirement is a file of this machine rather than a name or an address."""
    return text.startswith("/") and Path(text).is_file()


def _content(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
