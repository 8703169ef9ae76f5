"""Inductor's generated code out of the files of TORCH_TRACE: fused kernels, and a hash of each graph.

Format: https://github.com/meta-pytorch/tlparse: a line with a JSON object, its payload in lines with a tab.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_RECORD = "inductor_output_code"
_KERNEL = re.compile(r"^(\w+) = async_compile\.\w+\(", re.MULTILINE)
_CPP_KERNEL = re.compile(r"\bvoid\s+((?:cpp|triton)_\w+)\s*\(")
_NUMBER = re.compile(r"_\d+$")
#: Names that are numbered through a graph: buffers, inputs, temporaries, loop variables, kernels.
_NUMBERED = re.compile(
    r"\b(buf|arg|tmp|tmp_acc|in_ptr|out_ptr|in_out_ptr|primals_|tangents_|getitem_|ks|[xyzrsu]|"
    r"(?:cpp|triton)_\w+?_)\d+(?:_\d+|_vec|_masked_vec|_local)*\b"
)
_THREADS = re.compile(r"num_threads\(\d+\)")
_QUOTED_PATH = re.compile(r"(['\"])[^'\"\n]*/[^'\"\n]*\1|<[\w./-]+\.h>|\"[\w./-]+\.h\"")
#: Not the digits of a decimal: a constant is part of what is computed.
_HASH = re.compile(r"(?<![.\w])(?=\d*[a-f])[0-9a-f]{16,}\b|\bc[a-z2-7]{50,}\b")
_HASH_LENGTH = 16
#: Comments of Python and of C++. Within a line of Python `//` divides.
_COMMENT = re.compile(r"(\s*#(?!\s*pragma)|(^|(?<=[;{},]))\s*//).*$")
#: Lines that prepare a module and differ between versions without another kernel; of those that give a part
#: of PyTorch a name, the indented ones call it.
_FRAME = re.compile(
    r"\s*(import |from |#include |assert_size_stride|assert_alignment|del |async_compile|AOT ID)|"
    r"\w+ = (torch\.|(extern_kernels|inductor_ops|aten)\b)"
)
_CALL = re.compile(r"^(def call\(|    def call\()", re.MULTILINE)
_AFTER_CALL = re.compile(r"^(runner = |def benchmark_compiled_module|def get_args|if __name__)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class GeneratedCode:
    """`fused`: kernels by name without their number. `graphs`: one hash for each graph's code."""

    fused: Mapping[str, int]
    graphs: Mapping[str, int]


def read_generated(lines: Iterable[str]) -> GeneratedCode:
    """The kernels and hashes of all graphs whose code is in these lines of a trace."""
    fused: Counter[str] = Counter()
    graphs: Counter[str] = Counter()
    for code in _payloads(lines):
        names = _KERNEL.findall(code) or sorted({*_CPP_KERNEL.findall(code)})
        fused.update(_NUMBER.sub("", name) for name in names)
        graphs[f"graph {hash_of(code)}"] += 1
    return GeneratedCode(fused, graphs)


def _payloads(lines: Iterable[str]) -> Iterator[str]:
    taken: list[str] | None = None
    for line in lines:
        if line.startswith("\t"):
            if taken is not None:
                taken.append(line[1:].rstrip("\n"))
            continue
        if taken:
            yield "\n".join(taken)
        taken = [] if _RECORD in _about(line) else None
    if taken:
        yield "\n".join(taken)


def _about(line: str) -> Mapping[str, Any]:
    try:
        body = json.loads(line.partition("] ")[2])
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def hash_of(code: str) -> str:
    """A hash of what the code computes, whatever its comments, paths, names, checks and thread counts."""
    return hashlib.sha256(normalise_code(code).encode(errors="replace")).hexdigest()[:_HASH_LENGTH]


def normalise_code(code: str) -> str:
    """The code as it is hashed: kernels and the body of `call`, names numbered as they first appear."""
    call = _CALL.search(code)
    if call and (end := _AFTER_CALL.search(code, call.end())):
        code = code[: end.start()]
    kept = (_COMMENT.sub("", line) for line in code.splitlines())
    text = "\n".join(line.strip() for line in kept if line.strip() and not _FRAME.match(line))
    text = _THREADS.sub("num_threads(n)", _QUOTED_PATH.sub("PATH", _HASH.sub("HASH", text)))
    numbers: dict[str, str] = {}

    def number_name(found: re.Match[str]) -> str:
        word = found[0]
        if word not in numbers:
            numbers[word] = f"{found[1]}{len(numbers)}"
        return numbers[word]

    return _NUMBERED.sub(number_name, text)
