"""What our own exporter says beside the values of a record, put back into the run."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from statistics import median

from analysis.replicates import Summary
from records.machines import Machine
from records.outcomes import Measurement, Outcome
from records.runs import Profile

from ..errors import BadFile, SourcePlace
from ..foreign_runs import Failure, digest
from ..imported import ImportedRun
from ..reading import At, json_of
from .oss_v3_record import Record, extra, extra_text
from .run_bodies import STATUSES

#: The database keeps values as 32-bit floats, and what is said of them as text.
_AGREEING = 1e-6
_PROCESSES = "one per fresh process"
_STATUSES = "status of each fresh process"


@dataclass(frozen=True, slots=True)
class _Ending:
    """How one process ended."""

    status: str
    reason: str
    replicate: int


@dataclass(slots=True)
class Ours:
    """What is known of a run's measurements, by case and metric, and of its processes, by case."""

    measurements: dict[tuple[str, str], Summary] = field(default_factory=dict[tuple[str, str], Summary])
    endings: dict[str, list[_Ending]] = field(default_factory=dict[str, list[_Ending]])
    replicates: dict[str, dict[str, list[int]]] = field(default_factory=dict[str, dict[str, list[int]]])
    """By case and metric, of which processes its values are."""
    profile: tuple[str, str] | None = None
    """The fingerprint and the name of the profile it was measured under."""
    hardware: str = ""
    """The fingerprint of what it was measured on."""

    def under(self, record: Record) -> None:
        """Keep the profile and the hardware that a record of ours names."""
        fingerprint = extra_text(record.benchmark, "profile_fingerprint")
        if record.is_ours and fingerprint:
            self.profile = fingerprint, extra_text(record.benchmark, "profile")
        self.hardware = record.hardware_fingerprint or self.hardware

    def stated(self, record: Record, case: str, metric: str, values: Sequence[float]) -> bool:
        """Keep what a record of ours says of its measurement; whether its values are those of processes.

        Raises BadFile where that contradicts itself or the values.
        """
        if not record.is_ours:
            return False
        about = extra(record.metric)
        processes = extra_text(record.metric, "value_kind") == _PROCESSES
        numbers = [_process(each) for each in _list(about, "replicates")] if processes else []
        if numbers and not len(set(numbers)) == len(numbers) == len(values):
            sentence = f"has {len(values)} values of {len(set(numbers))} processes"
            raise BadFile(record.place.at("metric"), sentence)
        _ended_well(numbers, self.endings.get(case), record.place)
        if "point" in about:
            stated = _stated(about)
            if processes and stated.n != len(values):
                raise BadFile(record.place.at("metric"), f"has {len(values)} values of {stated.n} processes")
            if not _is_close(stated.point, median(values)):
                raise about["point"].wrong(f"the median of its values, {median(values):g}")
            self.measurements.setdefault((case, metric), stated)
        if numbers:
            self.replicates.setdefault(case, {}).setdefault(metric, numbers)
        return processes

    def ended(self, record: Record, case: str) -> list[Failure]:
        """Keep how the processes of a case ended, and return the first that did not end well.

        Raises BadFile where that is not told as our exporter does.
        """
        about = extra(record.metric)
        columns = [_list(about, name) for name in ("benchmark_values", "reasons", "replicates")]
        if len({len(column) for column in columns}) != 1:
            raise BadFile(record.place.at("metric").at("extra_info"), "has lists of different lengths")
        endings = [_ending(*row) for row in zip(*columns, strict=True)]
        if case in self.endings:
            raise BadFile(record.place, f"tells a second time how the processes of {case} ended")
        if len({each.replicate for each in endings}) != len(endings):
            raise BadFile(record.place, f"tells twice how a process of {case} ended")
        for numbers in self.replicates.get(case, {}).values():
            _ended_well(numbers, endings, record.place)
        self.endings[case] = endings
        bad = next((each for each in endings if each.status != "ok"), None)
        return [Failure(case, bad.status, bad.reason)] if bad else []


def is_status(record: Record) -> bool:
    """Whether a record of ours tells how processes ended, and no number."""
    return record.is_ours and extra_text(record.metric, "value_kind") == _STATUSES


def restored(run: ImportedRun, ours: Ours) -> ImportedRun:
    """The run with what our exporter said: the summaries in full, and the processes that did not end well."""
    measurements = tuple(_measurement(each, ours.measurements) for each in run.measurements)
    found: dict[str, list[Outcome]] = {}
    for each in run.outcomes:
        found.setdefault(each.case, []).append(each)
    outcomes = [
        outcome
        for case, own in found.items()
        for outcome in _outcomes(own, ours.endings.get(case, ()), ours.replicates.get(case, {}))
    ]
    profile = _profile(run.run.profile, ours.profile) if ours.profile else run.run.profile
    machine = _machine(run.run.machine, ours.hardware) if ours.hardware else run.run.machine
    restated = replace(run.run, planned=len(outcomes), profile=profile, machine=machine)
    return ImportedRun(restated, tuple(outcomes), measurements)


def _profile(imported: Profile, measured: tuple[str, str]) -> Profile:
    """What was measured under two profiles is never one series, here as little as where it comes from."""
    fingerprint, name = measured
    own = hashlib.sha256(f"{imported.fingerprint} {fingerprint}".encode(errors="replace")).hexdigest()[:16]
    return replace(imported, fingerprint=own, name=f"{imported.name} {name}".strip())


def _machine(imported: Machine, fingerprint: str) -> Machine:
    """Hardware whose labels name only the same GPUs is not one series, as little as where it comes from."""
    hardware = replace(imported.hardware, fingerprint=digest(imported.hardware.fingerprint, fingerprint))
    return replace(imported, fingerprint=digest(imported.fingerprint, fingerprint), hardware=hardware)


def _measurement(each: Measurement, stated: Mapping[tuple[str, str], Summary]) -> Measurement:
    known = stated.get((each.case, each.metric))
    return each if known is None else replace(each, **asdict(known))


def _outcomes(
    found: Sequence[Outcome], endings: Sequence[_Ending], numbered: Mapping[str, Sequence[int]]
) -> list[Outcome]:
    """The outcomes of a case, each under its replicate's own number; `found` are those that values made.

    `numbered` has the numbers of a metric's processes. Older exports lack them; the values are then
    those of the processes that ended well, in turn.
    """
    good = [each for each in found if each.status == "ok"]
    if not endings and len(good) < len(found):
        return list(found)
    metrics: dict[int, dict[str, float]] = {}
    for name in dict.fromkeys(name for each in good for name in each.metrics):
        values = [each.metrics[name] for each in good if name in each.metrics]
        numbers = numbered.get(name, ())
        own = numbers if len(numbers) == len(values) else _in_turn(endings)
        for number, value in zip(own, values, strict=False):
            metrics.setdefault(number, {})[name] = value
    ended = [
        replace(
            found[0],
            status=each.status,
            reason=each.reason,
            replicate=each.replicate,
            metrics=metrics.pop(each.replicate, {}),
        )
        for each in endings
    ]
    return ended + [replace(good[0], replicate=number, metrics=metrics[number]) for number in sorted(metrics)]


def _in_turn(endings: Sequence[_Ending]) -> Iterator[int]:
    """The numbers of the processes that ended well, then those that no process has."""
    yield from (each.replicate for each in endings if each.status == "ok")
    used = {each.replicate for each in endings}
    yield from (number for number in count() if number not in used)


def _ended_well(numbers: Iterable[int], endings: Sequence[_Ending] | None, place: SourcePlace) -> None:
    """Raise BadFile where a process has a value that did not end well, or that is not among the `endings`."""
    well = {each.replicate for each in endings or () if each.status == "ok"}
    for number in numbers:
        if endings is not None and number not in well:
            raise BadFile(place, f"has a value of process {number}, which is none of those that ended well")


def _stated(about: Mapping[str, At]) -> Summary:
    numbers = {
        name: _value(about[name]).number()
        for name in ("point", "low", "high", "smallest", "largest", "spread_log", "n")
        if name in about
    }
    point = numbers["point"]
    n = numbers.get("n", 1.0)
    if n < 1 or not n.is_integer() or n >= 2**31:
        raise about["n"].wrong("a number of processes")
    smallest, largest = numbers.get("smallest", point), numbers.get("largest", point)
    low, high = numbers.get("low"), numbers.get("high")
    order = [smallest, point, largest]
    interval = [each for each in (low, point, high) if each is not None]
    if order != sorted(order) or interval != sorted(interval) or (low is None) != (high is None):
        raise about["point"].wrong("a point within its range and its interval")
    return Summary(point, low, high, smallest, largest, numbers.get("spread_log"), int(n))


def _ending(status: At, reason: At, replicate: At) -> _Ending:
    if status.value not in STATUSES:
        raise status.wrong(f"one of {', '.join(STATUSES)}")
    return _Ending(str(status.value), "" if reason.value == "" else reason.text(), _process(replicate))


def _process(at: At) -> int:
    number = at.value
    if type(number) is not int or not 0 <= number < 2**31:
        raise at.wrong("the number of a process")
    return number


def _list(about: Mapping[str, At], name: str) -> Sequence[At]:
    if name not in about:
        return []
    return _value(about[name]).list()


def _value(at: At) -> At:
    """A value that stands as JSON in a text, or as it is."""
    return json_of(at.value, at.place) if isinstance(at.value, str) else at


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_AGREEING, abs_tol=1e-37)
