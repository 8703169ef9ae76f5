"""From the log of a failed build to the one sentence that people read."""

import platform
import re
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from .build_process import CommandResult
from .versions import around, is_it

#: So little room is none: what was being written did not fit.
FULL_BYTES = 4 << 20
_MAX_ERROR_CHARACTERS = 200

_MISSING = re.compile(
    r"Could not find a version that satisfies the requirement (\S+).*?\(from versions: (.*?)\)"
)
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded")
#: What `pip -vv` prints of an address that it gave up; without `-vv` it often says nothing at all.
_NOT_FETCHED = re.compile(r"Could not fetch URL (\S+): (.*)")
_SKIPPED = re.compile(r"Skipping link: .*?/torch-([^-/]+)-(?:\d+-)?cp(\d)(\d+)-\S*?-(\S*linux\S*?)\.whl")
_WHY = (
    ("Connection refused", "it refuses the connection"),
    ("Name or service not known", "there is no such host, or no network"),
    ("Temporary failure in name resolution", "there is no such host, or no network"),
    ("NameResolutionError", "there is no such host, or no network"),
    ("CERTIFICATE_VERIFY_FAILED", "its certificate is not trusted"),
    ("SSLError", "its certificate is not trusted"),
    ("ProxyError", "the proxy does not answer"),
    ("401 ", "it wants a name and a password"),
    ("403 ", "it refuses access"),
    ("timed out", "it does not answer in time"),
    ("Network is unreachable", "there is no network"),
)


def of_index(printed: str, python: str) -> str:
    """Why `pip -vv index versions torch` found nothing."""
    if problem := unreachable(printed):
        return problem
    if "No matching distribution" in printed:
        return f"the package index offers no torch for Python {python}"
    return f"the package index cannot be asked: {last_error(printed)}"


def unreachable(printed: str) -> str:
    """A sentence for the first index that gave no answer to `pip -vv`; empty where all did.

    "Not found" is an answer: with several indexes most have not got most packages.
    """
    for address, why in _NOT_FETCHED.findall(printed):
        if not why.startswith("404 "):
            reason = next((words for mark, words in _WHY if mark in why), "the connection broke")
            return f"the package index at {urlsplit(address).hostname} does not answer: {reason}"
    return ""


def of_command(
    what: str, ending: CommandResult, torch: str, python: str, query_index: Callable[[str], str]
) -> str:
    """Why a command of a build failed: `what` it did, the version of `torch` to install, the base's Python.

    `query_index` answers what `pip -vv index versions` prints about a package.
    """
    if _NO_ROOM.search(ending.output) or ending.free_bytes < FULL_BYTES:
        return "the disk is full"
    if ending.code is None:
        return f"{what} was killed"
    if missing := _MISSING.search(ending.output):
        project = re.match(r"[A-Za-z0-9._-]+", missing[1])
        printed = query_index(project[0] if project else missing[1])
        versions = [] if missing[2] == "none" else missing[2].split(", ")
        return not_offered(missing[1], versions, printed, torch, python)
    if wheel := re.search(r"(\S+\.whl) is not a supported wheel on this platform", ending.output):
        return f"{wheel[1]} is for another Python or platform than Python {python} here"
    if "ensurepip is not" in ending.output:
        return "its Python lacks `ensurepip`: on Debian that is the package python3-venv"
    return f"{what} failed: {last_error(ending.output)}"


def not_offered(requirement: str, offered: list[str], printed: str, torch: str, python: str) -> str:
    """No version fits: because an index gave no answer, or offers others, or has it for other Pythons."""
    if not offered and (problem := unreachable(printed)):
        return problem
    if not requirement.startswith("torch=="):
        return f"the package index offers no {requirement} for Python {python}"
    sentence = f"the package index offers no torch {torch} for Python {python}"
    if pythons := other_pythons(printed, torch):
        return f"{sentence}, but for {', '.join(pythons)}: `base_python` names another"
    near = ", ".join(around(torch, offered))
    return f"{sentence}; the nearest are {near}" if near else sentence


def other_pythons(printed: str, torch: str) -> list[str]:
    """The Pythons that an index has Linux wheels of this torch for, of those that pip passed over."""
    found = {
        (int(major), int(minor))
        for version, major, minor, tags in _SKIPPED.findall(printed)
        if is_it(torch, unquote(version)) and tags.endswith(platform.machine())
    }
    return [f"{major}.{minor}" for major, minor in sorted(found)]


def last_error(printed: str) -> str:
    """The line that says what went wrong: pip's last ERROR, else the last line."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    reason = (errors or lines or ["it printed nothing"])[-1]
    return reason if len(reason) <= _MAX_ERROR_CHARACTERS else reason[: _MAX_ERROR_CHARACTERS - 3] + "..."
