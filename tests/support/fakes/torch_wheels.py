"""Wheels named torch, made on the spot: small, installed by the real pip, imported by the real harness."""

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

#: Answers what an environment is asked about itself, and lets the built-in cases be imported: any name of any
#: module below it is a class that can be called, subclassed and decorated with. Nothing can be computed.
SOURCE = """
import importlib.abc, importlib.machinery, sys, types
from importlib.metadata import version as _version

class _AnyType(type):
    def __getattr__(cls, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made = _AnyType(name, (Any,), {{}})
        setattr(cls, name, made)
        return made
    def __call__(cls, *args, **kwargs):
        return args[0] if cls.__module__ == "torch" and len(args) == 1 and callable(args[0]) else cls
    def __or__(cls, other):
        return cls
    __ror__ = __or__
    def __getitem__(cls, key):
        return cls
    def __mul__(cls, other):
        return cls
    __rmul__ = __mul__

class Any(metaclass=_AnyType):
    pass

class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made = _AnyType(name, (Any,), {{}})
        setattr(self, name, made)
        return made

class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.startswith("torch."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec):
        return _Module(spec.name)
    def exec_module(self, module):
        pass

sys.meta_path.insert(0, _Finder())
sys.modules[__name__].__class__ = _Module
__version__ = _version("torch")
version = types.SimpleNamespace(cuda={cuda!r}, git_version="0" * 40, hip=None, debug=False)
__config__ = types.SimpleNamespace(show=lambda: "made for a test")
backends = types.SimpleNamespace(
    cpu=types.SimpleNamespace(get_cpu_capability=lambda: "DEFAULT"),
    cudnn=types.SimpleNamespace(version=lambda: None),
)
cuda = types.SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)
get_num_threads = lambda: 1
{extra}
"""


def write_wheel(
    folder: Path,
    version: str,
    *,
    project: str = "torch",
    cuda: str | None = None,
    extra: str = "",
    tag: str = "py3-none-any",
    ballast_mib: int = 0,
) -> Path:
    """A wheel of `project` in `folder`; `extra` is run on import, `ballast_mib` is what it takes unpacked."""
    source = SOURCE.format(cuda=cuda, extra=extra) if project == "torch" else extra
    info = f"{project}-{version}.dist-info"
    files = {
        f"{project}/__init__.py": source.encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    if ballast_mib:
        files[f"{project}/ballast.bin"] = bytes(ballast_mib << 20)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{project}-{version}-{tag}.whl"
    record: list[str] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
            wheel.writestr(name, content)
        wheel.writestr(f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n")
    return path


def install_only_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pip find the wheels of this folder and nothing else."""
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
