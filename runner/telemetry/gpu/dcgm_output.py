"""What `dcgmi` prints, read strictly: a number only where header, unit and row say that it is one.

The form is that of NVIDIA's sources (github.com/NVIDIA/DCGM, dcgmi/DeviceMonitor.cpp and dcgmi/Query.cpp,
the same in meaning from v2.1.4 to v4.6.0): a line `#Entity` (before v2.4 `# Entity`) with the fields' short
names, a line with their units, then a row per GPU, `GPU 0  0.652  0.206`, with three decimals or `N/A`; the
header comes again every 14 rounds. A field that has no value may also be left out, after which no column can
be told from its neighbour: a row with fewer or more values than the header has names is none. Short names
and their meaning: dcgmlib/src/dcgm_fields.cpp and dcgmlib/dcgm_fields.h, fields 1002 to 1005.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..sample_log import bare

#: The fields that are asked for, by the short name that stands in the header, and the column each becomes.
FIELDS: Mapping[str, tuple[int, str]] = {
    "SMACT": (1002, "dcgm_sm_utilisation"),
    "SMOCC": (1003, "dcgm_sm_occupancy"),
    "TENSO": (1004, "dcgm_tensor"),
    "DRAMA": (1005, "dcgm_dram_bandwidth"),
}
#: A ratio is printed with decimals; `N/A`, `NAN` and a count are none.
_RATIO = re.compile(r"\d+\.\d+")
#: Lines between the rows: units (these fields have none), and nothing.
_UNITS = frozenset({"", "ID", "Id"})
#: What dcgmi says when it cannot (dcgmlib/src/dcgm_errors.c), and what that means here.
_REASONS = {
    "connect to host engine": "no DCGM host engine answers",
    "establish a connection": "no DCGM host engine answers",
    "Profiling is not supported": "DCGM has no hardware counters of this GPU",
    "module of DCGM that is not currently loaded": "DCGM's profiling module is not loaded",
    "as root": "the DCGM host engine does not run as root",
    "as non-root": "the DCGM host engine does not run as root",
    "unrecoverable error": "DCGM's profiling is not permitted or does not work here",
    "resource is in use": "another profiler holds the hardware counters",
}
_LONGEST_QUOTE = 120


@dataclass(frozen=True, slots=True)
class Told:
    """One row: percent by column of one GPU, which DCGM counts in its own way."""

    gpu: int
    values: Mapping[str, float]


class Rows:
    """Reads the lines of `dcgmi dmon` one by one, and keeps what was first neither header nor number.

    A watch may begin with an old number and with `N/A`: what comes before a GPU's second row that is complete
    is forgiven then.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._complete: Counter[int] = Counter()
        #: By GPU; what is about none of them is under None.
        self._doubts: dict[int | None, str] = {}

    def trouble(self, gpu: int) -> str:
        """Why a GPU has no number, or not every one; the empty string where it has."""
        return self._doubts.get(gpu) or self._doubts.get(None, "")

    def read(self, line: str) -> Told | None:
        """A row with at least one number, or None."""
        words = line.split()
        if line.startswith("#"):
            # `# Entity` and `#Entity`.
            self._names = line.removeprefix("#").split()[1:]
            if missing := FIELDS.keys() - self._names:
                self._doubt(None, f"DCGM's header lacks {', '.join(sorted(missing))}")
        elif words[:1] == ["GPU"] and len(words) > 1 and words[1].isdecimal():
            return self._row(int(words[1]), words[2:])
        elif line.strip() not in _UNITS:
            self._doubt(None, reason(line))
        return None

    def _row(self, gpu: int, words: list[str]) -> Told | None:
        if not self._names or len(words) != len(self._names) or len({*self._names}) < len(self._names):
            self._doubt(gpu, "DCGM's rows do not match their header")
            return None
        values: dict[str, float] = {}
        for name, word in zip(self._names, words, strict=True):
            if name not in FIELDS:
                continue
            if not _RATIO.fullmatch(word):
                self._doubt(gpu, f"DCGM says {word[:_LONGEST_QUOTE]} instead of a number")
            elif (ratio := float(word)) > 1:
                self._doubt(gpu, f"DCGM says {word[:_LONGEST_QUOTE]}, which is no share")
            else:
                values[FIELDS[name][1]] = 100 * ratio
        if len(values) == len(FIELDS):
            self._complete[gpu] += 1
            if self._complete[gpu] == 2:
                self._doubts.pop(gpu, None)
        return Told(gpu, values) if values else None

    def _doubt(self, gpu: int | None, why: str) -> None:
        self._doubts.setdefault(gpu, why)


def reason(text: str) -> str:
    """An error of dcgmi's as people would say it; an unknown one is quoted."""
    known = (meaning for said, meaning in _REASONS.items() if said in text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next(known, f"dcgmi says: {lines[0][:_LONGEST_QUOTE]}" if lines else "dcgmi says nothing")


def gpu_numbers(text: str) -> dict[str, int]:
    """DCGM's number of each GPU by its bare UUID, from what `dcgmi discovery -l` prints.

    The table's first cell holds the number in a GPU's first line; the UUID follows in one of the next, until
    a line of dashes. A UUID or a number that is not told apart by that is left out.
    """
    pairs: list[tuple[str, int]] = []
    number: int | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 2:
            number = None
            continue
        if cells[0].isdecimal():
            number = int(cells[0])
        if number is not None and cells[1].startswith("Device UUID:"):
            pairs.append((bare(cells[1].removeprefix("Device UUID:").strip()), number))
    uuids, numbers = Counter(uuid for uuid, _ in pairs), Counter(number for _, number in pairs)
    return {uuid: number for uuid, number in pairs if uuids[uuid] == numbers[number] == 1}
