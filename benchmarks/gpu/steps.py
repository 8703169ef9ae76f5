"""The steps of the acceptance: each gives figures for one or several lines, within its own deadline."""

import json
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import suite_figures
from lines import BY_NAME, NO_DEVICE, judged, without_figures
from nvml_probes import TRACE_FILE
from processes import MARK, Budget, Ended, Lines, NoAnswer, ProbeServer, Processes
from report import Report
from suite_figures import Outcomes

from records.outcomes import Outcome, OutcomeStatus
from runner import journal

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
PROGRAM = (sys.executable, "-c", "from cli.app import main; main()")
_FAULT_CASES = ("--cases", str(FOLDER / "fault_cases.py"))
_MIB = 1 << 20
#: They take seconds and belong to the end: the reserve of the budget is for them and for the bundle.
_AT_THE_END = ("memory_returned", "leftovers")
#: For steps that are about processes and not about numbers: other programs' load repeats no block.
_ANY_LOAD: Mapping[str, str] = {"PYROMETER_CONTENTION_LIMIT": "1"}

Figures = Mapping[str, Mapping[str, Any]]


class StepFailed(Exception):
    """A step gave no figures; the text says why."""


class Acceptance:
    """Measures line by line: `python`, with scratch files in `work` and the bundle in `out`."""

    def __init__(
        self,
        report: Report,
        processes: Processes,
        budget: Budget,
        python: str,
        work: Path,
        out: Path,
        mark: str,
    ) -> None:
        self._report = report
        self._processes = processes
        self._budget = budget
        self._python = python
        self._work = work
        self._out = out
        self._mark = mark
        self._has = {"": True, "nvml": False, "cuda": False}
        self._shared = set(os.listdir("/dev/shm"))
        self._used_mib: float | None = None
        self._memory_mib = 0.0
        self._torch = ProbeServer(processes, (python, str(FOLDER / "torch_probes.py")))
        self._nvml = self._nvml_probes("")

    def run(self, only: frozenset[str]) -> None:
        """All steps, or those of the lines `only`; a step that fails or hangs costs its own lines."""
        self._step(("doctor",), 60, self._doctor, only)
        self._step(("card_state",), 30, lambda seconds: self._probe(self._nvml, "card_state", seconds), only)
        self._find_device()
        for name, seconds in (("nvml_latency", 30), ("process_ids", 40), ("trace", 50)):
            self._step((name,), seconds, lambda left, name=name: self._probe(self._nvml, name, left), only)
        self._step(("counters", "power"), 60, lambda left: self._probe(self._nvml, "counters", left), only)
        # The allocator first: a graph of a later probe leaves a pool behind.
        timers = ("clock", "droop", "event_cost", "sample_length", "other_timers", "collectives")
        for name in ("allocator", "ceilings", *timers):
            self._step((name,), 50, lambda left, name=name: self._probe(self._torch, name, left), only)
        # Their context would be another program's to what is measured next.
        self._torch.close()
        self._step(("no_device",), 60, self._no_device, only)
        self._suites(only)
        self._step(("out_of_memory", "device_faults"), 110, self._faults, only)
        self._step(("strangers",), 80, self._strangers, only)
        self._step(("kills",), 120, self._kills, only)
        self._step(("memory_returned",), 20, self._memory_returned, only)
        self._nvml.close()
        self._step(("leftovers",), 20, lambda _: self._leftovers(), only)

    def _suites(self, only: frozenset[str]) -> None:
        if not self._has["cuda"]:
            self._step(("suite",), 180, lambda left: self._suite("accept-cpu", left), only)
        # What the suite shows is judged together, and skipped where there is no device.
        shown = ("stored_state", *suite_figures.of_suite(Outcomes(())))
        lines = ("suite", *shown) if self._has["cuda"] else shown
        self._step(lines, 300, lambda left: self._suite("accept", left), only)
        self._step(("memory", "copies"), 110, lambda left: self._suite("accept-memory", left), only)
        self._step(("telemetry",), 100, lambda left: self._suite("accept-observed", left), only)

    def bundle(self) -> None:
        """Export all runs, import them into an empty database, and keep what a reader needs."""
        left = self._budget.left + self._budget.reserve
        self._step(("bundle",), max(20.0, left), self._bundle, frozenset())

    # -- how a step goes -------------------------------------------------------------------

    def _step(
        self, names: Sequence[str], seconds: float, measure: Callable[[float], Figures], only: frozenset[str]
    ) -> None:
        """Measure figures and judge the lines `names` by them; whatever goes wrong is their reason."""
        if only and not only & set(names):
            return
        if (
            absent := NO_DEVICE.get(BY_NAME[names[0]].needs, "")
            if not self._has[BY_NAME[names[0]].needs]
            else ""
        ):
            self._end(names, "skip", absent)
            return
        own = self._budget.left + self._budget.reserve * (names[0] in _AT_THE_END)
        left = min(self._budget.of_step(seconds), own) if names != ("bundle",) else seconds
        if left < 5:
            self._end(names, "fail", "no time left")
            return
        started = time.monotonic()
        try:
            figures = measure(left)
        except StepSkipped as reason:
            self._end(names, "skip", str(reason), time.monotonic() - started)
        except Exception as error:
            reason = (
                str(error)
                if isinstance(error, (NoAnswer, StepFailed))
                else f"{type(error).__name__}: {error}"
            )
            self._end(names, "fail", reason[:500], time.monotonic() - started)
        else:
            taken = (time.monotonic() - started) / len(names)
            for name in names:
                own = figures.get(name, {})
                skipped = own.get("skip")
                self._report.add(
                    without_figures(name, "skip", skipped, taken) if skipped else judged(name, own, taken)
                )

    def _end(self, names: Sequence[str], verdict: Any, reason: str, seconds: float = 0.0) -> None:
        for name in names:
            self._report.add(without_figures(name, verdict, reason, seconds / len(names)))

    def _probe(self, server: ProbeServer, name: str, seconds: float) -> Figures:
        answer = server.ask(name, seconds)
        if "skip" in answer:
            raise StepSkipped(answer["skip"])
        if "error" in answer:
            raise StepFailed(answer["error"])
        return dict(answer["figures"])

    def _nvml_probes(self, uuid: str) -> ProbeServer:
        command = (sys.executable, str(FOLDER / "nvml_probes.py"), "--python", self._python)
        return ProbeServer(self._processes, (*command, "--scratch", str(self._work), "--uuid", uuid))

    def _find_device(self) -> None:
        """What there is to measure on; without a device the lines that need one are skipped."""
        try:
            self._used_mib = self._probe(self._nvml, "memory_used", 30)["memory_used"]["mib"]
        except (NoAnswer, StepSkipped, StepFailed):
            self._used_mib = None
        try:
            found = self._probe(self._torch, "device", 60)["device"]
        except (NoAnswer, StepFailed) as reason:
            found = {"cuda": 0, "problem": str(reason)}
        self._has["cuda"] = bool(found["cuda"])
        self._memory_mib = float(found.get("memory_mib", 0))
        self._report.describe(device=found)
        if uuid := found.get("uuid"):
            self._nvml.close()
            self._nvml = self._nvml_probes(str(uuid))

    # -- the program's commands ------------------------------------------------------------

    def _pyrometer(self, *words: str, seconds: float, **variables: str) -> Ended:
        return self._processes.run((*PROGRAM, *words), seconds, **variables)

    def _doctor(self, seconds: float) -> Figures:
        done = self._pyrometer("doctor", "--json", seconds=seconds)
        found: Mapping[str, Any] = json.loads(done.out) if done.code == 0 else {}
        (self._out / "doctor.json").write_text(done.out)
        gpus = found.get("telemetry", {}).get("gpu", {})
        self._has["nvml"] = bool(gpus.get("gpus"))
        working = [text for text in found.get("environments", {}).values() if text.startswith("torch ")]
        self._report.describe(hardware=found.get("hardware"), driver=gpus.get("driver"))
        sources = [f"{gpu['name']}: {gpu['utilisation_source']}" for gpu in gpus.get("gpus", ())]
        return {
            "doctor": {
                "exit_code": done.code,
                "environments": len(working),
                "torch": working,
                "gpus": sources,
                "no_gpu_because": gpus.get("absent"),
            }
        }

    def _measured(self, words: Sequence[str], seconds: float, **variables: str) -> tuple[str, Ended]:
        """A run to its end or its deadline; answers its id, which is empty where it did not begin."""
        known = set(self._journals())
        done = self._pyrometer("run", *words, "--json", "--yes", seconds=seconds, **variables)
        began = sorted(set(self._journals()) - known)
        return (began[-1] if began else ""), done

    def _journals(self) -> list[str]:
        return sorted(path.parent.name for path in (self._work / "data/runs").glob(f"*/{journal.FILE}"))

    def _read(self, run: str) -> tuple[Mapping[str, Any], tuple[Outcome, ...]]:
        """Header and outcomes of a run, as far as it came."""
        if not run:
            raise StepFailed("the run did not begin: see log.txt")
        contents = journal.read_contents(self._journal(run))
        return contents.header, contents.outcomes

    def _journal(self, run: str) -> Path:
        return self._work / "data/runs" / run / journal.FILE

    def _suite(self, name: str, seconds: float) -> Figures:
        how = {} if self._has["cuda"] else _ANY_LOAD
        # An interrupted run keeps what it has, and has a quarter of a minute to end.
        run, _ = self._measured(("--suite", name), seconds - 20, **how)
        header, measured = self._read(run)
        outcomes = Outcomes(measured)
        if name == "accept-observed":
            about = suite_figures.telemetry(outcomes) | suite_figures.process_memory(outcomes)
            return {"telemetry": about}
        if name == "accept-memory":
            return suite_figures.of_memory(outcomes, header, self._memory_mib)
        planned = [str(case) for case, _, _ in header["planned"]]
        return {
            "suite": suite_figures.suite(planned, outcomes),
            "stored_state": suite_figures.stored_state(header),
            **suite_figures.of_suite(outcomes),
        }

    def _faults(self, seconds: float) -> Figures:
        names = ("asks_too_much", "fails_an_assertion", "reads_beyond")
        # By name, or the file's other cases would be measured too.
        selected = [word for name in names for word in ("--case", name)]
        run, _ = self._measured(("--suite", "accept-faults", *_FAULT_CASES, *selected), seconds)
        return suite_figures.faults(Outcomes(self._read(run)[1]))

    def _kills(self, seconds: float) -> Figures:
        """Kill a worker, the sampler and the run, each while a block is measured; resume the run."""
        ends = time.monotonic() + seconds
        first, second = "custom_cnn/infer/batch=4/eager", "mlp_overhead/infer/batch=64/eager"
        run = self._run_with_kills(ends, (first, "harness-"), (second, "runner.telemetry.sampler"))
        outcomes = Outcomes(self._read(run)[1])
        killed, other = outcomes.all.get(first), outcomes.all.get(second)
        again = self._run_with_kills(ends, (first, ""))
        resumed = self._pyrometer(
            "run", "--resume", again, "--json", seconds=ends - time.monotonic(), **_ANY_LOAD
        )
        return {
            "kills": {
                "worker_crashed": int(killed is not None and killed.status == OutcomeStatus.CRASHED),
                "other_ok": outcomes.ok(second),
                "reason": "" if killed is None else killed.reason,
                "notes": [] if other is None else other.facts.get("telemetry_notes", []),
                "resumed": int(resumed.code == 0 and len(self._read(again)[1]) == 2),
            }
        }

    def _run_with_kills(self, ends: float, *victims: tuple[str, str]) -> str:
        """Measure suite `accept-kills`; while a block of each case is measured, kill what its word names.

        An empty word names the run itself: what it had started must end by itself. Answers the run.
        """
        command = (*PROGRAM, "run", "--suite", "accept-kills", "--json", "--yes")
        process = self._processes.start(command, **_ANY_LOAD)
        assert process.stdout is not None
        lines = Lines(process.stdout)
        run, left = "", list(victims)
        while line := lines.next(ends):
            event = json.loads(line)
            run = event.get("run", run)
            case, word = left[0] if left else ("", "")
            if not case or event.get("phase") != "measure" or event.get("case") != case:
                continue
            left.pop(0)
            if not word:
                process.kill()
                process.wait()
                return run
            _kill(process.pid, word)
        self._processes.end(process)
        if left:
            raise StepFailed(f"no block of {left[0][0]} was measured")
        return run

    def _strangers(self, seconds: float) -> Figures:
        """The same case beside another program's idle context, and beside its kernels."""
        pids = self._report.results.get("process_ids")
        if pids is not None and pids.figures.get("same_namespace") == 0:
            raise StepSkipped("the driver's process ids are those of another namespace")
        found: dict[str, Any] = {}
        for kind in ("idle", "product"):
            stranger = self._processes.start((self._python, str(FOLDER / "torch_probes.py"), "load", kind))
            try:
                assert stranger.stdout is not None
                Lines(stranger.stdout).next(time.monotonic() + seconds / 4)
                words = ("--suite", "accept-beside", *_FAULT_CASES, "--case", "product")
                run, _ = self._measured(words, seconds / 2)
            finally:
                self._processes.end(stranger)
            outcomes = self._read(run)[1]
            found[f"{kind}_outcome"] = [f"{one.status}: {one.reason}"[:200] for one in outcomes]
            found["idle_disturbed" if kind == "idle" else "busy_disturbed"] = suite_figures.disturbed(
                outcomes
            )
        return {"strangers": found}

    def _no_device(self, seconds: float) -> Figures:
        words = (*_FAULT_CASES, "--case", "addition/infer/-/eager", "--device", "cuda")
        run, done = self._measured(words, seconds, CUDA_VISIBLE_DEVICES="")
        return {"no_device": {"exit_code": done.code, "runs": int(bool(run))}}

    # -- the end ---------------------------------------------------------------------------

    def _memory_returned(self, seconds: float) -> Figures:
        self._nvml.close()
        time.sleep(1.0)
        now = self._probe(self._nvml, "memory_used", seconds)["memory_used"]["mib"]
        left = None if self._used_mib is None else now - self._used_mib
        return {"memory_returned": {"memory_left_mib": left, "used_mib": now}}

    def _leftovers(self) -> Figures:
        running = self._processes.left_over(self._mark)
        commands = [
            " ".join(psutil.Process(pid).cmdline())[:200] for pid in running if psutil.pid_exists(pid)
        ]
        mine = [
            name for name in set(os.listdir("/dev/shm")) - self._shared if _is_ours(Path("/dev/shm", name))
        ]
        return {
            "leftovers": {
                "processes": len(running),
                "commands": commands,
                "shared": len(mine),
                "shared_names": sorted(mine),
            }
        }

    def _bundle(self, seconds: float) -> Figures:
        if not self._journals():
            raise StepSkipped("nothing was measured")
        half = seconds / 2
        exported = self._out / "run.jsonl.gz"
        done = self._pyrometer("export", "--all", "--force", str(exported), seconds=half)
        if done.code:
            raise StepFailed("the export failed: see log.txt")
        other = self._work / "imported"
        empty = {"PYROMETER_DATA_DIR": str(other), "PYROMETER_DATABASE_URL": f"sqlite:///{other}.db"}
        read = self._pyrometer("import", "--json", str(exported), seconds=half, **empty)
        arrived = [json.loads(line) for line in read.out.splitlines()]
        new = [event["new"] for event in arrived if "new" in event]
        trace = self._work / TRACE_FILE
        if trace.exists():
            shutil.copy(trace, self._out / TRACE_FILE)
        self._pack_journals()
        size = sum(path.stat().st_size for path in self._out.iterdir())
        journals = [journal.read_contents(self._journal(run)) for run in self._journals()]
        measured = sum(len(one.outcomes) + len(one.canaries) for one in journals)
        stored = new[-1]["outcomes"] if new else 0
        return {
            "bundle": {
                "same_outcomes": int(read.code == 0 and stored == measured),
                "outcomes": measured,
                "imported": stored,
                "set_aside": sum(len(event.get("set_aside", ())) for event in arrived if "new" not in event),
                "mib": size / _MIB,
            }
        }

    def _pack_journals(self) -> None:
        """The raw journals and logs; left out where the bundle would grow beyond its bound."""
        file = self._out / "journals.tar.gz"
        with tarfile.open(file, "w:gz") as packed:
            for run in self._journals():
                folder = self._work / "data/runs" / run
                for path in sorted([folder / journal.FILE, *folder.glob("logs/**/*.log")]):
                    packed.add(path, f"{run}/{path.relative_to(folder)}")
        if sum(path.stat().st_size for path in self._out.iterdir()) > 16 * _MIB:
            file.unlink()
            self._report.describe(left_out="journals.tar.gz")


class StepSkipped(Exception):
    """The step cannot be made here; the text says why."""


def _is_ours(path: Path) -> bool:
    try:
        return path.stat().st_uid == os.getuid()
    except OSError:
        return False


def _kill(root: int, word: str) -> None:
    """Kill the processes below `root` whose command line holds `word`, the youngest of a chain only."""
    below = [one for one in psutil.Process(root).children(recursive=True) if word in " ".join(one.cmdline())]
    leaves = [one for one in below if not any(child in below for child in one.children())]
    if not leaves:
        raise StepFailed(f"no process {word} to kill")
    for one in leaves:
        one.kill()


def variables(work: Path, python: str, mark: str) -> dict[str, str]:
    """The variables of every process: data, settings and the interpreter of this acceptance."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYROMETER_") or "TEST" in name
    }
    return own | {
        MARK: mark,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYROMETER_CONFIG": str(work / "pyrometer.toml"),
        "PYROMETER_DATA_DIR": str(work / "data"),
        "PYROMETER_ENVIRONMENTS__DEFAULT__PYTHON": python,
    }
