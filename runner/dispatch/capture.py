"""Take the fingerprint of one case: a worker that measures nothing, and the files that it leaves behind."""

import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from records.dispatch import CaseFingerprint, DispatchFingerprint, DispatchPart
from records.outcomes import OutcomeStatus

from ..execution.compile_cache import cache_folder, compiles, mark_filled
from ..execution.contender import explain, status_of
from ..execution.fork_server import ForkServers, may_fork
from ..execution.harness import Harness
from ..execution.launch import CannotLaunch, allowed_cpus, read_topology, start_of, usable_numactl
from ..execution.process import Launch, WorkerGone, WorkerProcess, WorkerTimeout
from ..preset import MachinePreset
from ..worker.case_key import CaseKey
from ..worker.messages import Failed, Fingerprinted, Phase, ProtocolError, TakeFingerprint
from .file_readers import read_autotuning, read_events, read_generated, read_printed

#: The worker's own names of its files; not imported from there, which imports torch.
_EVENTS, _PRINTED = "events.json", "printed.txt"
#: A larger file of events is not read: it would take gigabytes of memory.
_EVENT_BYTES = 256 << 20
_REASON_LENGTH = 120
#: Seconds from a closed pipe to the end of the worker and its descendants.
_EXIT_SECONDS = 5.0
_TRACES = "compile"
#: What differs from process to process in a reason.
_PLACE = re.compile(r"(?:/[\w.@+-]+)+/?|0x[0-9a-f]+|(?<=line )\d+|\b\d{4,}\b")


@dataclass(frozen=True, slots=True)
class FingerprintSettings:
    """What all fingerprints of one environment share. `folder` holds files while they are taken.

    With `forks` workers are forked where that can be. With `caches`, the folder of the environment's compile
    caches in a run, what a case compiles is kept there for the processes that measure it.
    """

    python: str
    harness: Harness
    preset: MachinePreset
    device: str
    deadline_seconds: float
    folder: Path
    token: str
    forks: ForkServers | None = None
    caches: Path | None = None


def take_fingerprint(case: str, settings: FingerprintSettings) -> CaseFingerprint:
    """Run the case once in a process of its own; raises nothing for a worker that fails, hangs or dies.

    Files are written into a folder of this case below `settings.folder` and removed at the end.
    """
    settings.folder.mkdir(parents=True, exist_ok=True)
    # Not named by the case: AOTInductor of 2.9 cannot compile in a folder with `=` or `,` in its name.
    folder = Path(tempfile.mkdtemp(prefix="case-", dir=settings.folder))
    key = CaseKey.parse(case)
    kept = cache_folder(settings.caches, key) if settings.caches else None
    try:
        launch = _launch(key, settings, folder, kept)
    except CannotLaunch as error:
        shutil.rmtree(folder, ignore_errors=True)
        return _failure(case, OutcomeStatus.UNSUPPORTED, str(error))
    try:
        with WorkerProcess(launch) as worker:
            answer = _answer(worker, TakeFingerprint(case, str(folder), settings.device), settings)
            worker.close()
        if isinstance(answer, CaseFingerprint):
            return answer
        if kept:
            mark_filled(kept)
        found = _assemble_fingerprint(answer.facts, folder, launch.log)
        return CaseFingerprint(case, datetime.now(UTC), OutcomeStatus.OK, fingerprint=found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _launch(key: CaseKey, settings: FingerprintSettings, folder: Path, kept: Path | None) -> Launch:
    preset = settings.preset
    start = start_of(key, preset, read_topology(allowed_cpus(preset)), usable_numactl)
    variables = dict(start.variables)
    if compiles(key) or key.axis("export") == "aot-inductor":
        # Always an empty cache: from a warm one no code is generated. Inductor keeps its headers next to it.
        cache = kept or folder.parent / "cache" / folder.name
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir(parents=True)
        variables |= {
            "TORCHINDUCTOR_CACHE_DIR": str(cache),
            "TRITON_CACHE_DIR": str(cache / "triton"),
            "TORCH_TRACE": str(folder / _TRACES),
        }
    return Launch(
        python=settings.python,
        harness=settings.harness,
        variables=variables,
        cpus=start.cpus,
        own_cpus=preset.housekeeping,
        log=folder / "worker.log",
        deadline_seconds=settings.deadline_seconds,
        token=settings.token,
        prefix=start.prefix,
        facts=start.facts,
        fork=settings.forks.fork if settings.forks and may_fork(key, settings.device) else None,
    )


def _answer(
    worker: WorkerProcess, request: TakeFingerprint, settings: FingerprintSettings
) -> Fingerprinted | CaseFingerprint:
    """The worker's last message, or why there is none."""
    phase = "import"
    # The supervisor ends the worker at its deadline; this is longer.
    patience = settings.deadline_seconds + _EXIT_SECONDS
    try:
        worker.send(request)
        while True:
            message = worker.receive(patience)
            if isinstance(message, Fingerprinted):
                return message
            if isinstance(message, Failed):
                return _failure(request.case, status_of(message), _plain(message.reason))
            if isinstance(message, Phase):
                phase = message.name
    except WorkerGone:
        # The pipe closes a moment before the process has ended.
        worker.ends(_EXIT_SECONDS)
        return _failure(request.case, *explain(worker.close(), phase))
    except WorkerTimeout:
        worker.kill()
        reason = f"no end within {settings.deadline_seconds:g} s, last seen in {phase}"
        return _failure(request.case, OutcomeStatus.TIMEOUT, reason)
    except ProtocolError as error:
        worker.kill()
        return _failure(request.case, OutcomeStatus.CRASHED, f"the worker broke the protocol: {error}")


def _failure(case: str, status: OutcomeStatus, reason: str) -> CaseFingerprint:
    return CaseFingerprint(case, datetime.now(UTC), status, reason)


def _plain(reason: str) -> str:
    return _PLACE.sub("...", reason.splitlines()[0] if reason else "")[:_REASON_LENGTH]


def _assemble_fingerprint(facts: Mapping[str, Any], folder: Path, log: Path) -> DispatchFingerprint:
    """The fingerprint out of the files; a file that cannot be read is missing, with the reason."""
    parts: dict[str, Mapping[str, int]] = {}
    missing: dict[str, str] = {str(name): str(reason) for name, reason in facts.get("missing", {}).items()}
    layouts = _read_events(folder, parts, missing)
    _read_printed(folder, parts, missing)
    if (compiled := facts.get("compile")) is not None:
        parts[DispatchPart.COMPILER] = _compiler(compiled)
        parts[DispatchPart.AUTOTUNE] = read_autotuning(_lines(log))
    if (folder / _TRACES).exists() or compiled is not None:
        traces = sorted((folder / _TRACES).glob("*.log"))
        if traces:
            fused, graphs = read_generated(line for trace in traces for line in _lines(trace))
            parts |= {DispatchPart.FUSED: fused, DispatchPart.CODE: graphs}
        else:
            for part in (DispatchPart.FUSED, DispatchPart.CODE):
                missing[part] = "this PyTorch writes no trace of compiling"
    return DispatchFingerprint(parts, missing, layouts)


def _read_events(folder: Path, parts: dict[str, Mapping[str, int]], missing: dict[str, str]) -> bool:
    file = folder / _EVENTS
    reason = ""
    try:
        if file.stat().st_size > _EVENT_BYTES:
            reason = f"the profiler wrote more than {_EVENT_BYTES >> 20} MiB"
        else:
            # Names of kernels and regions may hold anything.
            body = json.loads(file.read_text(encoding="utf-8", errors="replace"), strict=False)
            operators, kernels, layouts = read_events(body["traceEvents"])
            parts |= {DispatchPart.OPERATORS: operators, DispatchPart.KERNELS: kernels}
            return layouts
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"the profiler's events cannot be read: {type(error).__name__}"
    missing[DispatchPart.OPERATORS] = missing[DispatchPart.KERNELS] = reason
    return True


def _read_printed(folder: Path, parts: dict[str, Mapping[str, int]], missing: dict[str, str]) -> None:
    onednn, mkl, unread = read_printed(_lines(folder / _PRINTED))
    for part, counts in ((DispatchPart.ONEDNN, onednn), (DispatchPart.MKL, mkl)):
        if unread.get(part):
            missing[part] = "lines of its verbose mode cannot be read"
        elif part not in missing:
            parts[part] = counts


def _lines(path: Path) -> Iterator[str]:
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from file


def _compiler(report: Mapping[str, Any]) -> Mapping[str, int]:
    """The counters of `CompileReport` that say what was compiled, and each reason with how often it came."""
    ok, total = report.get("frames_ok"), report.get("frames_total")
    counts = {
        "graphs": report.get("graphs"),
        "graph breaks": report.get("graph_breaks"),
        "guards": report.get("guards"),
        "recompiles": report.get("recompiles"),
        "frames run eager": None if ok is None or total is None else total - ok,
        "CUDA graphs skipped": report.get("cudagraph_skips"),
    }
    known: Counter[str] = Counter({name: int(value) for name, value in counts.items() if value is not None})
    reasons = {
        "graph break": "break_reasons",
        "fallback": "fallbacks",
        "CUDA graph skipped": "cudagraph_skip_reasons",
    }
    for word, field in reasons.items():
        known.update(f"{word}: {_plain(str(reason))}" for reason in report.get(field) or ())
    return known
