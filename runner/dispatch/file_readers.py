"""The files of a fingerprint: profiler events, generated code, and what libraries print.

Formats: of generated code https://github.com/meta-pytorch/tlparse, a line with a JSON object, its payload in
lines with a tab; of oneDNN https://uxlfoundation.github.io/oneDNN/dev_guide_verbose.html (versions 2 and 3);
of MKL MKL_VERBOSE in the developer guide of oneMKL.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

#: How often each name comes.
Counts = Mapping[str, int]

#: Names of operators; what else the profiler calls one are regions of its own, such as `AddmmBackward0`.
_OPERATOR = re.compile(r"[a-z]\w*::\w[\w.]*")
#: Namespaces that are no computation.
_OWN = ("profiler::", "autograd::", "record_function")
_DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
_TYPES = {
    "float": "fp32",
    "double": "fp64",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::complex<float>": "complex64",
}
_NO_TENSOR = ("", "Scalar", "ScalarList", "None")
_NAME_LENGTH = 160


def read_events(events: Iterable[Mapping[str, Any]]) -> tuple[Counts, Counts, bool]:
    """Operators as `aten::addmm(fp32, fp32, fp32:transposed)`, kernels, and whether layouts are known.

    `events` are the `traceEvents` of `torch.profiler.profile.export_chrome_trace`, recorded with shapes.
    Operators that others call are counted too. A layout is only written where it is not contiguous; they are
    known where this PyTorch records strides.
    """
    operators: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    strides = dims = False
    for event in events:
        category, name = event.get("cat"), str(event.get("name", ""))
        if category in _DEVICE_CATEGORIES:
            kernels[_shorten_name(name)] += 1
        elif category == "cpu_op" and _OPERATOR.fullmatch(name) and not name.startswith(_OWN):
            arguments = event.get("args", {})
            dims = dims or "Input Dims" in arguments
            strides = strides or "Input Strides" in arguments
            operators[f"{name}({', '.join(_inputs(arguments))})"] += 1
    return operators, kernels, strides or not dims


def _inputs(arguments: Mapping[str, Any]) -> Iterable[str]:
    types = arguments.get("Input type", ())
    dims = arguments.get("Input Dims", [[]] * len(types))
    strides = arguments.get("Input Strides", [[]] * len(types))
    for kind, sizes, steps in zip(types, dims, strides, strict=False):
        if kind not in _NO_TENSOR:
            layout = layout_of(sizes, steps)
            yield ":".join(filter(None, (_TYPES.get(kind, str(kind)), layout)))


def layout_of(sizes: Sequence[Any], strides: Sequence[Any]) -> str:
    """The memory format of a tensor: empty for contiguous (and for what has no strides), else a word."""
    if len(sizes) != len(strides) or any(isinstance(size, list) for size in sizes):
        return ""
    dense = [(size, step) for size, step in zip(sizes, strides, strict=True) if size != 1]
    if _contiguous(dense):
        return ""
    if any(step == 0 for _, step in dense):
        return "expanded"
    if len(sizes) in (4, 5):
        order = [0, *range(2, len(sizes)), 1]
        if _contiguous([(sizes[i], strides[i]) for i in order if sizes[i] != 1]):
            return "channels_last"
    if _contiguous([*dense[:-2], *reversed(dense[-2:])]):
        return "transposed"
    return "strided"


def _contiguous(dims: Sequence[tuple[int, int]]) -> bool:
    wanted = 1
    for size, step in reversed(dims):
        if step != wanted:
            return False
        wanted *= size
    return True


def _shorten_name(name: str) -> str:
    """A kernel's name, of bounded length; long ones that differ only in their end stay different."""
    name = re.sub(r"0x[0-9a-f]+", "0x", re.sub(r"\s+", " ", name))
    if len(name) <= _NAME_LENGTH:
        return name
    mark = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"{name[: _NAME_LENGTH - len(mark) - 1]}~{mark}"


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


def read_generated(lines: Iterable[str]) -> tuple[Counts, Counts]:
    """Kernels without their number, and hashes, of all graphs whose code is in these lines of a trace."""
    fused: Counter[str] = Counter()
    graphs: Counter[str] = Counter()
    for code in _payloads(lines):
        names = _KERNEL.findall(code) or sorted({*_CPP_KERNEL.findall(code)})
        fused.update(_NUMBER.sub("", name) for name in names)
        graphs[f"graph {hash_of(code)}"] += 1
    return fused, graphs


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


_ONEDNN = re.compile(r"(?:onednn|dnnl)_verbose,(?P<rest>.*)")
_MARKS = re.compile(r"v\d+|[\d.]+")
_MKL = re.compile(r"MKL_VERBOSE (?P<function>\w+)\((?P<arguments>.*?)\) [\d.]+\s*(?:ns|us|ms|s)\b")
#: Its first line says version and machine.
_MKL_ABOUT = re.compile(r"MKL_VERBOSE .*(?:Product|build|Architecture)")
#: Called once by each thread for its share: how often depends on the number of threads.
_VECTOR_MATH = re.compile(r"v[msdcz]{1,2}[A-Z]\w*|FFT")
_DESCRIPTOR = re.compile(r"(?P<name>[a-z]+(?:_[a-z]+)*?)[:_](?P<type>[a-z]+\d*\w*?):[a-z]*:\w*:(?P<tag>\w*)")
_AUTOTUNE = re.compile(r"AUTOTUNE (?P<what>\S.*)")
_CHOICE = re.compile(r"\s+(?P<name>[\w.:]+) [\d.]+ (?:ms|us) ")


def read_printed(lines: Iterable[str]) -> tuple[Counts, Counts, Counts]:
    """oneDNN's executions as `matmul src:f32:ab ... by brg_matmul:avx512_core` and MKL's calls, `SGEMM(T,N)`.

    Third, of lines that cannot be read how many, by library. Other lines are the case's own.
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
    return onednn, mkl, unread


def read_autotuning(lines: Iterable[str]) -> Mapping[str, int]:
    """The kernel that Inductor's autotuning took for each operation, the fastest, which it prints first."""
    choices: Counter[str] = Counter()
    operation = ""
    for line in lines:
        if found := _AUTOTUNE.match(line):
            operation = found["what"].strip()
        elif operation and (choice := _CHOICE.match(line)):
            choices[f"{operation} by {_NUMBER.sub('', choice['name'])}"] += 1
            operation = ""
    return choices


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
