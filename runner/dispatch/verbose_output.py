"""What oneDNN and MKL print under their verbose modes, and what Inductor prints of autotuning.

Formats: https://uxlfoundation.github.io/oneDNN/dev_guide_verbose.html (versions 2 and 3) and MKL_VERBOSE in
the developer guide of oneMKL.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_ONEDNN = re.compile(r"(?:onednn|dnnl)_verbose,(?P<rest>.*)")
_MARKS = re.compile(r"v\d+|[\d.]+")
_MKL = re.compile(r"MKL_VERBOSE (?P<function>\w+)\((?P<arguments>.*?)\) [\d.]+\s*(?:ns|us|ms|s)\b")
#: Its first line says version and machine.
_MKL_ABOUT = re.compile(r"MKL_VERBOSE .*(?:Product|build|Architecture)")
#: Called once by each thread for its share: how often depends on the number of threads.
_VECTOR_MATH = re.compile(r"v[msdcz]{1,2}[A-Z]\w*|FFT")
_DESCRIPTOR = re.compile(r"(?P<name>[a-z]+(?:_[a-z]+)*?)[:_](?P<type>[a-z]+\d*\w*?):[a-z]*:\w*:(?P<tag>\w*)")
_AUTOTUNE = re.compile(r"AUTOTUNE (?P<what>\S.*)")
_NUMBER = re.compile(r"_\d+$")
_CHOICE = re.compile(r"\s+(?P<name>[\w.:]+) [\d.]+ (?:ms|us) ")


@dataclass(frozen=True, slots=True)
class VerboseCounts:
    """Counts by name; of lines that could not be read how many, and the library they are of."""

    onednn: Mapping[str, int]
    mkl: Mapping[str, int]
    unread: Mapping[str, int]


def read_printed(lines: Iterable[str]) -> VerboseCounts:
    """oneDNN's executions as `matmul src:f32:ab ... by brg_matmul:avx512_core` and MKL's calls, `SGEMM(T,N)`.

    Other lines are the case's own.
    """
    onednn: Counter[str] = Counter()
    mkl: Counter[str] = Counter()
    unread: Counter[str] = Counter()
    for line in lines:
        if found := _ONEDNN.search(line):
            name = _execution(found["rest"])
            if name is None:
                unread["onednn"] += 1
            elif name:
                onednn[name] += 1
        elif "MKL_VERBOSE" in line:
            if call := _MKL.search(line):
                name = _call(call["function"], call["arguments"])
                mkl[name] = 1 if _VECTOR_MATH.match(name) else mkl[name] + 1
            elif not _MKL_ABOUT.search(line):
                unread["mkl"] += 1
    return VerboseCounts(onednn, mkl, unread)


def read_autotuning(lines: Iterable[str]) -> Mapping[str, int]:
    """The kernel that Inductor's autotuning took for each operation, the fastest, which it prints first."""
    chosen: Counter[str] = Counter()
    asked = ""
    for line in lines:
        if found := _AUTOTUNE.match(line):
            asked = found["what"].strip()
        elif asked and (choice := _CHOICE.match(line)):
            chosen[f"{asked} by {_NUMBER.sub('', choice['name'])}"] += 1
            asked = ""
    return chosen


def _execution(rest: str) -> str | None:
    """One execution by name; empty for a line that is none, None for one that cannot be read."""
    parts = rest.split(",")
    while parts and _MARKS.fullmatch(parts[0]):
        parts = parts[1:]
    kind = parts[0] if parts and parts[0] in ("primitive", "graph", "ukernel") else ""
    parts = parts[1:] if kind else parts
    if not parts or not parts[0].startswith("exec"):
        about = ("info", "create", "warn", "error", "common", "profile")
        return "" if parts and parts[0].split(":")[0].startswith(about) else None
    if kind == "graph":
        return f"graph {parts[4]} by {parts[8]}" if len(parts) > 8 else None
    if len(parts) < 6 or not parts[2] or not parts[3]:
        return None
    _, _, primitive, implementation, propagation, descriptors, *others = parts
    words = [primitive]
    if propagation and propagation != "undef":
        words.append(propagation)
    words += [
        f"{d['name']}:{d['type']}:{d['tag']}"
        for d in _DESCRIPTOR.finditer(descriptors)
        if d["type"] != "undef"
    ]
    words += [_post_ops(text) for text in others[:1] if "post-ops" in text]
    return f"{' '.join(words)} by {implementation}"


def _post_ops(attributes: str) -> str:
    """What follows the primitive in the same kernel."""
    found = re.search(r"attr-post-ops:(\S+)", attributes)
    return "+" + re.sub(r":[\d.:e-]+", "", found[1]).strip("'") if found else ""


def _call(function: str, arguments: str) -> str:
    flags = [word for word in arguments.split(",") if re.fullmatch("[A-Z]", word)]
    return f"{function}({','.join(flags)})" if flags else function
