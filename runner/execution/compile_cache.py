"""Where a case's compile cache lies, and whether it is warm; names of cases as names of files."""

import contextlib
import hashlib
import shutil
from pathlib import Path

from runner.worker.case_key import CaseKey

#: Not imported from worker/compiling.py, which imports torch.
_HEADERS = "precompiled_headers"
_FILLED = ".filled"
#: File systems allow 255 bytes; a suffix and a temporary name's decoration must fit as well.
_FILE_NAME_BYTES = 180


def prepare_cache(folder: Path, *, cold: bool = False) -> str:
    """Whether the compile cache in `folder` was filled by an earlier process; empties it if not.

    Only a process that ended well leaves the mark, so a half-filled cache never passes for a warm one. Where
    it is to be `cold`, a filled one is emptied too.
    """
    if not cold and (folder / _FILLED).exists():
        return "warm"
    shutil.rmtree(folder, ignore_errors=True)
    # Inductor's precompiled headers lie next to it (see worker/compiling.py) and are part of what is cold.
    shutil.rmtree(folder.parent / _HEADERS, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return "cold"


def mark_filled(folder: Path) -> None:
    """Mark the cache of a process that ended well; where the disk is full, the next one compiles anew."""
    with contextlib.suppress(OSError):
        (folder / _FILLED).touch()


def compiles(key: CaseKey) -> bool:
    """Whether the case compiles anything, and so has a cache."""
    return key.axis("compile") != "none"


def caches_of(run: Path) -> Path:
    """Where the caches of a run lie in its folder: a folder for each environment, by its fingerprint."""
    return run / "cache"


def cache_folder(caches: Path, key: CaseKey) -> Path | None:
    """The case's compile cache among those of an environment; None for a case that compiles nothing."""
    return caches / file_name(str(key)) if compiles(key) else None


def emptied_cache(caches: Path, key: CaseKey) -> dict[str, str]:
    """The variables of a case of the user's that compiles, if anything, by itself: each process begins cold.

    In PyTorch's own folder its first call would be a cold one in one process, and in no later one of any run.
    """
    folder = caches / "own" / file_name(str(key))
    shutil.rmtree(folder, ignore_errors=True)
    return inductor_cache(folder)


def inductor_cache(folder: Path) -> dict[str, str]:
    """The variables that have Inductor and Triton keep what they compile in `folder`."""
    return {"TORCHINDUCTOR_CACHE_DIR": str(folder), "TRITON_CACHE_DIR": str(folder / "triton")}


def cuda_caches(folder: Path) -> dict[str, str]:
    """The variables that have the driver and PyTorch keep kernels they compile from PTX in `folder`.

    In the user's own they would be found from one run to the next, and a cold start would be one only once.
    """
    return {
        "CUDA_CACHE_PATH": str(folder / "driver"),
        "PYTORCH_KERNEL_CACHE_PATH": str(folder / "jiterator"),
    }


def file_name(case: str) -> str:
    """A case key as the name of a file or folder; a very long one ends in its hash instead."""
    name = case.replace("/", "__")
    if len(name.encode()) <= _FILE_NAME_BYTES:
        return name
    prefix = name.encode()[: _FILE_NAME_BYTES - 13].decode(errors="ignore")
    return f"{prefix}-{hashlib.sha256(case.encode()).hexdigest()[:12]}"
