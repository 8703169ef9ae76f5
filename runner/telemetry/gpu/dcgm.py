"""Hardware counters of GPUs without GPM, from an NVIDIA DCGM host engine that already runs.

It is asked through `dcgmi`, never started and never needed. **Written from NVIDIA's sources and
documentation, and never run against a real host engine**: github.com/NVIDIA/DCGM at v4.6.0 and, for the form
of the output, back to v2.1.4; docs.nvidia.com/datacenter/dcgm (dcgmi-dmon, dcgmi-profile, the API's chapter
on profiling). What follows from them:

* `dcgmi dmon` has the fields watched at an interval, and after each such pause prints the newest value that
  the host engine holds (DeviceMonitor.cpp, LockWatchAndUpdate). A line has no time of its own: we stamp it
  when it arrives, and take it for the mean of the interval before. The host engine updates on a beat of its
  own, so what was read may be one interval older. Rows are right to one interval, and `summary` leaves out
  the first half second of a window.
* The first line of a watch may show a value of long before. Lines that come late or in a bunch have lost
  their time. None of them is used.
* Where profiling is stuck, DCGM shows 0 for everything (github.com/NVIDIA/dcgm-exporter, issue 662;
  github.com/NVIDIA/DCGM, issue 16). Nothing but zeros while NVML saw kernels run is no number.
* Below 100 ms a value is none (NVIDIA/DCGM, issue 310).
* GPUs before Hopper have few counters. Asked for more than fit together, DCGM takes turns and extrapolates;
  a field whose turn it was not may be `N/A` (NVIDIA/DCGM, issue 244).
"""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..sample_log import Spool, bare
from .dcgm_output import FIELDS, Rows, Told, gpu_numbers, reason

_SUPERVISOR = Path(__file__).parents[2] / "execution" / "supervisor.py"
#: The column without which this is no rung.
SM = FIELDS["SMACT"][1]
#: What dmon pauses between two lines, and what a value is a mean over.
_INTERVAL_MS = 200
_INTERVAL_NS = _INTERVAL_MS * 1_000_000
#: Lines this many intervals after the one before are on the beat.
_ON_THE_BEAT = (0.5, 1.5)
#: A row this long holds at least one line with its interval.
ROW_SECONDS = 2.25 * _INTERVAL_MS / 1e3
#: How long `discovery` may take, and how long a trial waits for the first number.
_DISCOVERY_SECONDS = 2.0
_TRIAL_SECONDS = 2.0
_END_SECONDS = 0.5
#: Whoever wants lines asks for them every row.
_FORGOTTEN_SECONDS = 10.0
#: More than a watch ever lasts.
_DEADLINE_SECONDS = 86_400
_LOOK_SECONDS = 0.02


class Dcgmi:
    """One `dcgmi` at work under the supervisor, which ends it with this process, or when it is let go.

    A thread reads its lines and stamps them; nothing here waits for it longer than `stop` says. Counters that
    nobody asks about any more, for whoever did hangs, are not left running into what is timed next.
    """

    def __init__(self, *arguments: str) -> None:
        """Start it; raises OSError where that cannot be."""
        self._lines: deque[tuple[int, str]] = deque()
        self.ended = threading.Event()
        self._asked = time.monotonic()
        self._lock = threading.Lock()
        reader, writer = os.pipe()
        held, self._lifeline = os.pipe()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            self._supervisor = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(_SUPERVISOR)),
                    *("--lifeline", str(held), "--report", str(nowhere), "--log", f"/proc/self/fd/{writer}"),
                    *("--deadline", str(_DEADLINE_SECONDS), "--", "dcgmi", *arguments),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(held, nowhere, writer),
                start_new_session=True,
            )
        except OSError:
            os.close(self._lifeline)
            os.close(reader)
            raise
        finally:
            for descriptor in (held, nowhere, writer):
                os.close(descriptor)
        with suppress(OSError):
            # Nobody wants to know how much memory this takes.
            os.write(self._lifeline, b"q")
        threading.Thread(target=self._read, args=(reader,), daemon=True).start()

    def lines(self) -> Iterator[tuple[int, str]]:
        """(arrival on CLOCK_MONOTONIC in ns, line) of all that came since the last time."""
        self._asked = time.monotonic()
        while self._lines:
            yield self._lines.popleft()

    def stop(self) -> bool:
        """End it; answers whether it is gone."""
        self._let_go()
        try:
            self._supervisor.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return self.ended.wait(_END_SECONDS)

    def _let_go(self) -> None:
        with self._lock:
            lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)

    def _read(self, reader: int) -> None:
        with open(reader, encoding="utf-8", errors="replace") as output:
            for line in output:
                self._lines.append((time.monotonic_ns(), line.rstrip("\n")))
                if time.monotonic() - self._asked > _FORGOTTEN_SECONDS:
                    self._let_go()
        self.ended.set()


@dataclass(frozen=True, slots=True)
class Engine:
    """What a host engine calls our GPUs: `numbers` by UUID, and why it is `missing` for the others."""

    numbers: Mapping[str, int]
    missing: Mapping[str, str]


def engine(uuids: Sequence[str]) -> Engine:
    """Ask for the numbers of these GPUs; never raises, and takes some 2 s at most."""

    def nobody(why: str) -> Engine:
        return Engine({}, dict.fromkeys(uuids, why))

    if shutil.which("dcgmi") is None:
        return nobody("no dcgmi is installed")
    try:
        asked = Dcgmi("discovery", "-l")
    except OSError as error:
        return nobody(f"dcgmi cannot be started: {error.strerror or error}")
    answered = asked.ended.wait(_DISCOVERY_SECONDS)
    asked.stop()
    if not answered:
        return nobody(f"dcgmi does not answer: nothing within {_DISCOVERY_SECONDS:g} s")
    text = "\n".join(line for _, line in asked.lines())
    known = gpu_numbers(text)
    if not known:
        return nobody(reason(text))
    numbers = {uuid: known[bare(uuid)] for uuid in uuids if bare(uuid) in known}
    return Engine(numbers, {uuid: "DCGM lists no such GPU" for uuid in uuids if uuid not in numbers})


class Stream:
    """The rows of `dcgmi dmon` over a watch, each with its arrival; only those on the beat.

    Raises OSError when it cannot be started.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        fields = ",".join(str(field) for field, _ in FIELDS.values())
        listed = ",".join(map(str, sorted(numbers)))
        self._dmon = Dcgmi("dmon", "-e", fields, "-d", str(_INTERVAL_MS), "-i", listed)
        self._rows = Rows()
        self._last: dict[int, int] = {}
        self._off_the_beat: set[int] = set()

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self._dmon.ended.is_set()

    def trouble(self, number: int) -> str:
        """Why a GPU has no number, or not every one."""
        late = "DCGM's lines came late or in a bunch" if number in self._off_the_beat else ""
        return self._rows.trouble(number) or late

    def take(self) -> Iterator[tuple[int, Told]]:
        """(arrival in ns, row) since the last time."""
        for arrived, line in self._dmon.lines():
            if (told := self._rows.read(line)) is None:
                continue
            before, self._last[told.gpu] = self._last.get(told.gpu), arrived
            if before is None:
                continue
            least, most = _ON_THE_BEAT
            if least <= (arrived - before) / _INTERVAL_NS <= most:
                yield arrived, told
            else:
                self._off_the_beat.add(told.gpu)

    def silence(self, number: int, ended: bool) -> str:
        """Why a GPU has no number at all."""
        return self.trouble(number) or ("dcgmi ended without a number" if ended else "no number in time")

    def stop(self) -> bool:
        """End it; answers whether it is gone."""
        return self._dmon.stop()


def trial(uuids: Sequence[str]) -> dict[str, str]:
    """Why there are no counters of each GPU by DCGM, by UUID; empty where a number really came.

    Takes some 6 s at most and never raises.
    """
    if not uuids:
        return {}
    found = engine(uuids)
    if not found.numbers:
        return dict(found.missing)
    try:
        stream = Stream([*found.numbers.values()])
    except OSError as error:
        return dict.fromkeys(uuids, f"dcgmi cannot be started: {error.strerror or error}")
    wanted, told = {*found.numbers.values()}, set[int]()
    give_up = time.monotonic() + _TRIAL_SECONDS
    ended = False
    while not (ended or told >= wanted) and time.monotonic() < give_up:
        time.sleep(_LOOK_SECONDS)
        # Asked before its lines are read: what it said last is among them.
        ended = stream.ended
        told |= {row.gpu for _, row in stream.take() if SM in row.values}
    stream.stop()
    silent = {
        uuid: "" if number in told else stream.silence(number, ended)
        for uuid, number in found.numbers.items()
    }
    return {**found.missing, **silent}


class Dcgm:
    """The host engine's part in the recordings of some GPUs; each watch has a stream of its own.

    `declare` writes that a GPU's rung is this one, as soon as that is known; `busy` says whether NVML saw
    kernels run on it since the watch began. After a watch without any number nothing is asked again.
    """

    def __init__(
        self, found: Engine, declare: Callable[[Spool, str], None], busy: Callable[[str], bool]
    ) -> None:
        self._numbers = found.numbers
        self._uuids = {number: uuid for uuid, number in found.numbers.items()}
        self._missing = dict(found.missing)
        self._declare = declare
        self._busy = busy
        #: Why it is asked no more, by UUID: all or none.
        self._refused: dict[str, str] = {}
        self._stream: Stream | None = None
        self._began = 0.0
        self._held: dict[str, list[tuple[int, Told]]] = {}
        #: The GPUs that have told a number in this watch.
        self.told: set[str] = set()

    @property
    def hoped(self) -> frozenset[str]:
        """The GPUs whose rung was still open when the watch began."""
        return frozenset(self._held)

    @property
    def candidates(self) -> frozenset[str]:
        """The GPUs whose rung this may be."""
        return frozenset(() if self._refused else self._numbers)

    def begin(self) -> None:
        """Start a stream, unless that is known to be in vain."""
        self._held, self.told = {uuid: [] for uuid in self.candidates}, set()
        self._began = time.monotonic()
        if not self._held:
            return
        try:
            self._stream = Stream([*self._uuids])
        except OSError as error:
            self._refuse(f"dcgmi cannot be started: {error.strerror or error}")

    def row(self, spool: Spool) -> None:
        """Write what came; a GPU's zeros are kept back until it has shown that it can tell anything else."""
        if self._stream is None:
            return
        for arrived, told in self._stream.take():
            if (uuid := self._uuids.get(told.gpu)) is None:
                continue
            self._held[uuid].append((arrived, told))
            if uuid in self.told or told.values.get(SM):
                self._write(uuid, spool)

    def end(self, spool: Spool) -> None:
        """End the stream, and write what was kept back or why there is nothing."""
        stream = self._stream
        if stream is not None:
            ended = stream.ended
            gone = stream.stop()
            self.row(spool)
            self._stream = None
            self._conclude(stream, ended, spool)
            if not gone:
                self._refuse("dcgmi could not be ended")
        for uuid, why in (self._missing | self._refused).items():
            _note(spool, uuid, why)

    def _conclude(self, stream: "Stream", ended: bool, spool: Spool) -> None:
        said = {uuid: stream.silence(number, ended) for uuid, number in self._numbers.items()}
        waited = ended or time.monotonic() - self._began >= _TRIAL_SECONDS
        if waited and not self.told and not any(self._held.values()):
            self._refused = said
            return
        for uuid, rows in self._held.items():
            if uuid in self.told:
                _note(spool, uuid, "dcgmi has ended" if ended else "")
                _note(spool, uuid, stream.trouble(self._numbers[uuid]))
            elif not any(SM in told.values for _, told in rows):
                _note(spool, uuid, said[uuid])
            elif self._busy(uuid):
                _note(spool, uuid, "DCGM says 0 all the time while kernels ran")
            else:
                self._write(uuid, spool)

    def _refuse(self, why: str) -> None:
        self._refused = dict.fromkeys(self._numbers, why)

    def _write(self, uuid: str, spool: Spool) -> None:
        if uuid not in self.told:
            self.told.add(uuid)
            self._declare(spool, uuid)
        for arrived, told in self._held[uuid]:
            for column, percent in told.values.items():
                spool.sample(uuid, column, arrived - _INTERVAL_NS, arrived, percent)
        self._held[uuid].clear()


def _note(spool: Spool, uuid: str, why: str) -> None:
    if why:
        spool.note(uuid, f"no SM utilisation by DCGM, or not all of it: {why}")
