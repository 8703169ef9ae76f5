"""Allocators as a process can be given them from outside: by variables, or preloaded."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from runner.preset import QUIET_MALLOC, with_huge_pages

#: Libraries by what can be asked for, the best first, and the Debian package that has one.
_LIBRARIES = {
    "tcmalloc": (("libtcmalloc_minimal.so.4", "libtcmalloc.so.4"), "libtcmalloc-minimal4"),
    "jemalloc": (("libjemalloc.so.2",), "libjemalloc2"),
}
_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64", "/lib", "/lib64")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
#: glibc.malloc.hugetlb exists from this version on.
_HUGETLB_SINCE = (2, 35)
_MALLOC_TUNABLES = "glibc.malloc."


class NoAllocator(Exception):
    """This machine cannot give a process that allocator; the text says why, and what would help."""


def variables_for(allocator: str, variables: Mapping[str, str]) -> dict[str, str]:
    """`variables` with what they say about malloc replaced by `allocator`; raises NoAllocator.

    `allocator` is a value of the axis, `preset` excepted.
    """
    plain = _without_malloc(variables)
    if allocator == "quiet":
        return with_huge_pages(plain | QUIET_MALLOC)
    if allocator == "hugetlb":
        if problem := no_huge_pages():
            raise NoAllocator(problem)
        return with_huge_pages(plain)
    if allocator in _LIBRARIES:
        preloads = (library(allocator), plain.get("LD_PRELOAD"))
        return plain | {"LD_PRELOAD": ":".join(filter(None, preloads))}
    return plain


@cache
def library(allocator: str) -> str:
    """The path of tcmalloc's or jemalloc's library; raises NoAllocator where there is none."""
    names, package = _LIBRARIES[allocator]
    for name in names:
        if path := _in_cache(name) or _in_folders(name):
            return path
    raise NoAllocator(f"lib{allocator} is not installed; Debian: apt-get install {package}")


def no_huge_pages(setting: Path = _HUGE_PAGES, libc: str | None = None) -> str:
    """Why glibc's malloc cannot take huge pages here; empty when it can. `libc`: "glibc 2.36"."""
    name, _, version = (libc or os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    if name != "glibc" or tuple(map(int, version.split(".")[:2])) < _HUGETLB_SINCE:
        return (
            f"glibc.malloc.hugetlb needs glibc 2.35 or newer, here is {name or 'another C library'} {version}"
        )
    try:
        chosen = setting.read_text().partition("[")[2].partition("]")[0]
    except OSError:
        chosen = ""
    if chosen not in ("always", "madvise"):
        return f"transparent huge pages are {chosen or 'not offered by this kernel'} in {setting}"
    return ""


def _without_malloc(variables: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in variables.items() if not name.startswith("MALLOC_")}
    tunables = (t for t in kept.pop("GLIBC_TUNABLES", "").split(":") if not t.startswith(_MALLOC_TUNABLES))
    preloads = kept.pop("LD_PRELOAD", "").replace(":", " ").split()
    others = (p for p in preloads if not any(f"lib{name}" in p for name in _LIBRARIES))
    left = {"GLIBC_TUNABLES": ":".join(filter(None, tunables)), "LD_PRELOAD": ":".join(others)}
    return kept | {name: value for name, value in left.items() if value}


def _in_cache(name: str) -> str:
    # Not on the PATH of every user.
    ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if ldconfig is None:
        return ""
    listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        # "libx.so.1 (libc6,x86-64) => /path"; the 32-bit one of the same name stands there as (libc6).
        found, _, path = line.strip().partition(" => ")
        if found.startswith(f"{name} (") and "64" in found.removeprefix(name) and path:
            return path
    return ""


def _in_folders(name: str) -> str:
    for folder in _FOLDERS:
        for path in (Path(folder) / name, *Path(folder).glob(f"*-linux-gnu*/{name}")):
            if path.exists():
                return str(path)
    return ""
