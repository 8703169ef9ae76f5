"""Rows on their way from the sampler to the session: lines of JSON, appended one by one.

What was written before a sampler was killed is there to be read. A driver hands its buffered samples out
late, so they are spooled as intervals of their own and joined to rows when those are read.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from records.telemetry import HOST, Recording

from .capability import UtilisationSource

Values = Mapping[str, float | None]


class SampleLog:
    """The end that writes. A full disk costs rows, which are counted, and never raises."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._noted: set[tuple[str, str]] = set()
        self._devices: list[str] = []
        self._lost = 0

    def device(self, device: str, name: str, utilisation_source: UtilisationSource) -> None:
        """What the rows to come of a device are about."""
        self._devices.append(device)
        self._append_entry({"device": device, "name": name, "utilisation_source": utilisation_source})

    def row(self, device: str, started_ns: int, ended_ns: int, values: Values) -> None:
        """One row, CLOCK_MONOTONIC."""
        self._append_entry({"row": device, "span": [started_ns, ended_ns], "values": values})

    def sample(self, device: str, column: str, started_ns: int, ended_ns: int, value: float) -> None:
        """One sample of a driver's buffer: a mean over its own interval."""
        self._append_entry(
            {"sample": device, "span": [started_ns, ended_ns], "column": column, "value": value}
        )

    def note(self, device: str, text: str) -> None:
        """What is missing and why, once."""
        if (device, text) not in self._noted:
            self._noted.add((device, text))
            self._append_entry({"note": device, "text": text})

    def note_all(self, text: str) -> None:
        """A note for every device."""
        for device in self._devices:
            self.note(device, text)

    def close(self) -> str:
        """Write no more; answers what was lost, or the empty string."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        return f"{self._lost} rows or notes could not be written" if self._lost else ""

    def _append_entry(self, entry: Mapping[str, Any]) -> None:
        line = (json.dumps(entry, separators=(",", ":")) + "\n").encode()
        try:
            if self._descriptor < 0:
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            if os.write(self._descriptor, line) < len(line):
                # Half a line: the next one must not be glued to it.
                os.write(self._descriptor, b"\n")
                self._lost += 1
        except OSError:
            self._lost += 1


@dataclass(slots=True)
class _Device:
    name: str = ""
    utilisation_source: UtilisationSource = "none"
    rows: list[tuple[int, int, Values]] = field(default_factory=list[tuple[int, int, Values]])
    samples: list[tuple[str, int, int, float]] = field(default_factory=list[tuple[str, int, int, float]])
    notes: list[str] = field(default_factory=list[str])


def recordings(files: Iterable[Path], notes: Sequence[str] = ()) -> tuple[Recording, ...]:
    """What the files hold, one recording per device with the host first, `notes` added to each.

    Files of samplers that followed each other are given in that order; a line cut short is left out.
    """
    devices: dict[str, _Device] = {}
    for path in files:
        try:
            lines = path.read_bytes().splitlines()
        except OSError:
            continue
        for line in lines:
            try:
                _take(json.loads(line), devices)
            except (ValueError, KeyError, TypeError):
                continue
    order = sorted(devices, key=lambda device: device != HOST)
    return tuple(_recording(device, devices[device], notes) for device in order)


def bare(uuid: str) -> str:
    """A GPU's UUID without NVML's prefix, as PyTorch prints it."""
    return uuid.removeprefix("GPU-").removeprefix("MIG-").lower()


def _take(entry: Mapping[str, Any], devices: dict[str, _Device]) -> None:
    if "device" in entry:
        device = devices.setdefault(entry["device"], _Device())
        source = entry["utilisation_source"]
        if device.utilisation_source not in ("none", source):
            raise ValueError("rows of two utilisation sources are never joined")
        device.name, device.utilisation_source = str(entry["name"]), source
    elif "row" in entry:
        started, ended = entry["span"]
        rows = devices.setdefault(entry["row"], _Device()).rows
        rows.append((int(started), int(ended), cast("Values", entry["values"])))
    elif "sample" in entry:
        started, ended = entry["span"]
        samples = devices.setdefault(entry["sample"], _Device()).samples
        samples.append((str(entry["column"]), int(started), int(ended), float(entry["value"])))
    elif "note" in entry:
        device = devices.setdefault(entry["note"], _Device())
        if entry["text"] not in device.notes:
            device.notes.append(str(entry["text"]))


def _recording(name: str, device: _Device, notes: Sequence[str]) -> Recording:
    rows = sorted(device.rows, key=lambda row: row[0])
    columns = list(dict.fromkeys(column for _, _, values in rows for column in values))
    joined = {column: tuple(values.get(column) for _, _, values in rows) for column in columns}
    for column in dict.fromkeys(sample[0] for sample in device.samples):
        joined[column] = _row_means(rows, [each[1:] for each in device.samples if each[0] == column])
    return Recording(
        name,
        device.name,
        device.utilisation_source,
        tuple(started for started, _, _ in rows),
        tuple(ended for _, ended, _ in rows),
        {
            column: column_values
            for column, column_values in joined.items()
            if any(value is not None for value in column_values)
        },
        (*device.notes, *notes),
    )


def _row_means(
    rows: Sequence[tuple[int, int, Values]], samples: Sequence[tuple[int, int, float]]
) -> tuple[float | None, ...]:
    """Per row the mean of the samples whose own interval lies in it, weighted by length."""
    found: list[float | None] = []
    for started, ended, _ in rows:
        inside = [(end - start, value) for start, end, value in samples if started <= start and end <= ended]
        total = sum(length for length, _ in inside)
        found.append(sum(length * value for length, value in inside) / total if total else None)
    return tuple(found)
