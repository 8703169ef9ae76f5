"""How numbers, times, statuses, cases and commands are put into words."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Literal, cast
from urllib.parse import unquote

from analysis.metrics import METRICS, Better, Metric
from analysis.speedups import Gain
from common.text import plural as plural
from common.text import printable
from common.text import utc as utc
from configuration.suggestions import nearest
from interchange.foreign_runs import is_undated
from records.findings import FindingState
from records.kinds import RunState
from records.outcomes import MetricDefinition, OutcomeStatus
from records.series import SeriesPoint
from records.tasks import TaskState

Tone = Literal["good", "bad", "odd", "quiet"]

#: Metrics that came from outside, by name.
Definitions = Mapping[str, MetricDefinition]

NONE = "–"
#: The time of a run whose file states none: what is stored is when the file was written.
UNKNOWN_TIME = "unknown"

#: The device of a recording that is about CPUs and processes.
HOST = "host"

_FEW_ZEROS, _MANY_DIGITS = 1e-6, 1e12
#: What differs from 1 by less is 1; so many digits distinguish the others.
_NOTHING, _MOST_DIGITS = 1e-9, 10

_STATUSES: Mapping[str, tuple[str, Tone]] = {
    OutcomeStatus.OK: ("✓", "good"),
    OutcomeStatus.SKIPPED: ("–", "quiet"),
    OutcomeStatus.UNSUPPORTED: ("–", "quiet"),
    OutcomeStatus.OOM: ("×", "bad"),
    OutcomeStatus.TIMEOUT: ("×", "bad"),
    OutcomeStatus.CRASHED: ("×", "bad"),
    OutcomeStatus.WRONG: ("×", "bad"),
    OutcomeStatus.NOT_COMPILED: ("×", "bad"),
    OutcomeStatus.LOST: ("×", "bad"),
    OutcomeStatus.CONTENDED: ("!", "odd"),
    OutcomeStatus.THROTTLED: ("!", "odd"),
    RunState.COMPLETE: ("✓", "good"),
    RunState.RUNNING: ("…", "quiet"),
    RunState.INTERRUPTED: ("!", "odd"),
    "regression": ("×", "bad"),
    "improvement": ("✓", "good"),
    FindingState.CANDIDATE: ("?", "odd"),
    FindingState.CONFIRMING: ("…", "odd"),
    FindingState.UNCLEAR: ("?", "odd"),
    FindingState.MACHINE: ("!", "odd"),
    FindingState.REFUTED: ("–", "quiet"),
    FindingState.NO_LONGER: ("–", "quiet"),
    TaskState.DONE: ("✓", "good"),
    TaskState.FAILED: ("×", "bad"),
    "late": ("×", "bad"),
    "missed": ("×", "bad"),
    "silent": ("×", "bad"),
    TaskState.CANCELLED: ("–", "odd"),
    TaskState.WAITING: ("…", "quiet"),
    "not reached": ("!", "odd"),
    "alive": ("✓", "good"),
    "no longer scheduled": ("–", "quiet"),
}


#: The sign of each tone, so that colour never speaks alone.
SIGNS: Mapping[Tone, str] = {"bad": "×", "odd": "!", "good": "✓", "quiet": "…"}


@dataclass(frozen=True, slots=True)
class Status:
    """A status for people: a sign and a word, so that colour (`tone`) never speaks alone."""

    sign: str
    word: str
    tone: Tone

    @property
    def text(self) -> str:
        return f"{self.sign} {self.word}"


@dataclass(frozen=True, slots=True)
class CaseWords:
    """A case key taken apart: `name` is shown strong, the rest smaller; nothing is dropped."""

    name: str
    phase: str
    parameters: str
    technique: str

    @property
    def workload(self) -> str:
        return f"{self.name} {self.phase}".strip()

    @property
    def rest(self) -> str:
        return " · ".join(part for part in (self.phase, self.parameters, self.technique) if part)

    @property
    def text(self) -> str:
        return f"{self.name} {self.rest}".strip()


@dataclass(frozen=True, slots=True)
class LatestChange:
    """The newest point against the one before it; a description, never a verdict.

    `note` says whether the ranges between replicates overlap. It has no tone: two runs confirm nothing.
    """

    text: str
    note: str


def significant(value: float, digits: int = 3) -> str:
    """`value` to `digits` significant digits, thousands apart: 12,300 or 0.0123.

    In exponent form only where there would be too many zeros to count.
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return "0"
    if not _FEW_ZEROS <= abs(value) < _MANY_DIGITS:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    # Rounded first: 9.999 has one digit before the point until it becomes 10.0.
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}".replace("-", "−")


def number(value: float, unit: str) -> str:
    """`value` without its unit, as a table column shows it; counts are exact, and no share reads as 1."""
    if unit == "count" and float(value).is_integer():
        return f"{value:,.0f}"
    return _unlike_one(value, 3) if unit == "share" else significant(value)


def _unlike_one(value: float, digits: int, one: float = 1.0) -> str:
    """`value` to so many significant digits, to more where it would read as `one` and is not."""
    unlike = abs(value - one) > _NOTHING * one
    while unlike and digits < _MOST_DIGITS and float(f"{value:.{digits - 1}e}") == one:
        digits += 1
    return significant(value, digits)


def quantity(value: float, unit: str) -> str:
    """`value` with its unit: `12.3 ms`."""
    return number(value, unit) if unit in ("", "count") else f"{number(value, unit)} {unit}"


def value_range(low: float | None, high: float | None, unit: str) -> str:
    """Both ends without their unit: `1.21 to 1.34`; a dash where one is not known."""
    return NONE if low is None or high is None else f"{number(low, unit)} to {number(high, unit)}"


def replicate_range(smallest: float, largest: float, n: int, unit: str) -> str:
    """The range of `n` replicates without its unit; a dash for one, which has none."""
    return NONE if n < 2 else value_range(smallest, largest, unit)


def percent(fraction: float | None) -> str:
    """A fraction as a percentage of two digits, of three from 10 % on: `1.2 %`, `33.1 %`; a dash for None.

    What is nearly 100 % has more: `99.96 %`.
    """
    if fraction is None:
        return NONE
    return f"{percentage(fraction, 2 if abs(fraction) < 0.1 else 3)} %"


def percentage(fraction: float, digits: int) -> str:
    """A fraction in per cent to so many digits, to more where it would read as 100 and is not; no sign."""
    return _unlike_one(100 * fraction, digits, 100.0)


def signed_percent(fraction: float | None) -> str:
    """A relative change with its sign, to two digits: `+1.2 %`; a dash for None."""
    if fraction is None:
        return NONE
    sign = "+" if fraction > 0 else "−" if fraction < 0 else "±"
    return f"{sign}{significant(abs(100 * fraction), 2)} %"


def metric(name: str, defined: Definitions | None = None) -> Metric:
    """The metric called `name`, ours or one of `defined`; an unknown one goes by its own name."""
    if (known := METRICS.get(name)) is None and (outside := (defined or {}).get(name)):
        known = Metric(name, outside.title, outside.unit, cast("Better", outside.better), "")
    return known or Metric(name, name, "", "neither", "")


def titles(names: Sequence[str], defined: Definitions) -> dict[str, str]:
    """The titles of metrics by name; those that share one are distinguished by their names."""
    found = {name: metric(name, defined).title for name in names}
    shared = [title for title, many in Counter(found.values()).items() if many > 1]
    return {name: f"{title} ({name})" if title in shared else title for name, title in found.items()}


def metric_place(name: str) -> tuple[int, str]:
    """Where the catalogue lists a metric; unknown ones come last."""
    names = list(METRICS)
    return (names.index(name) if name in METRICS else len(names), name)


def change(latest: SeriesPoint, previous: SeriesPoint, better: Better) -> LatestChange:
    """The relative change from `previous` to `latest`, with the ranges between replicates.

    A single replicate has no range. Of numbers below zero there is no share, only which of the two is larger.
    """
    new, old = latest.point, previous.point
    if old == 0 or not math.isfinite(new / old):
        return LatestChange(NONE, "no ratio to zero")
    fraction = new / old - 1
    text, more = signed_percent(fraction), ""
    if old < 0 or new < 0:
        text, more = NONE, "; no ratio below zero"
    if min(latest.n, previous.n) < 2:
        return LatestChange(text, f"one replicate has no range{more}")
    overlap = latest.smallest <= previous.largest and previous.smallest <= latest.largest
    if overlap or better == "neither":
        return LatestChange(text, f"{'within' if overlap else 'outside'} noise{more}")
    worse = (new > old) == (better == "lower")
    return LatestChange(text, f"{'worse' if worse else 'better'}, outside noise{more}")


def gain(found: Gain) -> str:
    """A ratio as `1.92×`, an efficiency as `93.1 %`; a dash for none."""
    return NONE if found.ratio is None else _gain(found, found.ratio)


def gain_interval(found: Gain) -> str:
    """The interval of a ratio; a dash for none."""
    if found.low is None or found.high is None:
        return NONE
    return f"{_gain(found, found.low)} to {_gain(found, found.high)}"


def _gain(found: Gain, value: float) -> str:
    return percent(value) if found.kind == "efficiency" else times(value)


def times(ratio: float) -> str:
    """A ratio as `1.92×`, with more digits where it would read as 1 and is not: `0.9996×`."""
    return f"{_unlike_one(ratio, 3)}×"


def with_unit(title: str, unit: str) -> str:
    """A metric's title with its unit, if it has one: `Latency (ms)`, `Latency (min-based, ms)`."""
    if not unit:
        return title
    return f"{title[:-1]}, {unit})" if title.endswith(")") else f"{title} ({unit})"


def claim_value(kind: str, metric_name: str, value: float) -> str:
    """A number of a claim: a ratio, a share, or a metric with its unit."""
    if kind == "ratio":
        return times(value)
    unit = metric(metric_name).unit
    return percent(value) if kind in ("saved", "efficiency") or unit == "share" else quantity(value, unit)


#: What each utilisation source measures, and how; numbers of two sources never share a chart or a name.
_UTILISATION_SOURCES: Mapping[str, tuple[str, str]] = {
    "gpm": ("SM utilisation", "hardware counters, GPM"),
    "dcgm": ("SM utilisation", "hardware counters, DCGM"),
    "samples": ("GPU busy, share of time with a kernel", "driver's buffer"),
    "polling": ("GPU busy, share of time with a kernel", "polled"),
}


def utilisation(device: str, utilisation_source: str) -> tuple[str, str]:
    """What the utilisation of a device is, and where it was read."""
    if device == HOST:
        return "Measured CPUs busy", "kernel's counters"
    return _UTILISATION_SOURCES.get(utilisation_source, ("Utilisation", "this device reports none"))


def utilisation_title(utilisation_source: str) -> str:
    """The title of a chart of one source's utilisation."""
    what, source = _UTILISATION_SOURCES[utilisation_source]
    return f"{what} ({source})"


def device(name: str, uuid: str) -> tuple[str, str]:
    """A name that identifies a device: GPUs of one name by the beginning of their UUID."""
    if uuid == HOST:
        return "Host", name
    return name, uuid.removeprefix("GPU-").removeprefix("MIG-")[:8]


def window_in_words(name: str, panels: Sequence[str], rows: int, seconds: float) -> str:
    """The charts of a telemetry window in words, for screen readers."""
    return f"{name}, {plural(rows, 'row')} in {quantity(seconds, 's')}: {'; '.join(panels)}"


#: Why there may be no telemetry, and what makes some.
WITHOUT_TELEMETRY = (
    "It is recorded for some seconds after the first process of each case was timed, where `observe_seconds` "
    "of the suite is above 0; a run of cases named without `--suite` has none. Older versions recorded none, "
    "and rows older than `telemetry_days` are given up. This records some:"
)
#: How the windows are to be read.
ABOUT_WINDOWS = (
    "A telemetry window is some seconds after the case was timed, with the case still at work: what stands "
    "here never disturbed a timed block. SM utilisation and GPU busy time are two metrics: a GPU can be busy "
    "all the time with a few of its SMs."
)


def status(word: str) -> Status:
    """The status called `word`; an unknown one is odd, never hidden."""
    sign, tone = _STATUSES.get(word, ("?", "odd"))
    return Status(sign, word.replace("_", " "), tone)


@lru_cache(maxsize=16_384)
def case(key: str) -> CaseWords:
    """The parts of a case key; a text that is no key is shown as it stands."""
    parts = key.split("/")
    if len(parts) != 4:
        return CaseWords(key, "", "", "")
    name, phase, _, technique = parts
    shown = " ".join(parameters(key))
    # `call`: neither of the phases that there are words for.
    return CaseWords(
        _decode_part(name), "" if phase == "call" else _decode_part(phase), shown, _decode_part(technique)
    )


def parameters(key: str) -> tuple[str, ...]:
    """The parameters of a case key, such as `batch=8`; none of a text that is no key."""
    parts = key.split("/")
    if len(parts) != 4 or parts[2] == "-":
        return ()
    return tuple(map(_decode_part, parts[2].split(",")))


def common_parameters(keys: Iterable[str]) -> tuple[str, ...]:
    """The parameters that all these case keys have: a table says them once. None of a single key."""
    found = [parameters(key) for key in keys]
    if len(found) < 2:
        return ()
    return tuple(each for each in found[0] if all(each in others for others in found[1:]))


def all_cases(common: Sequence[str]) -> str:
    """The parameters that all cases of a table have in `common`, for above it; empty for none."""
    return f"All cases: {' '.join(common)}." if common else ""


def workload(key: str) -> tuple[str, str]:
    """A workload, a case key without its technique, as its name with the phase, and its parameters."""
    words = case(f"{key}/eager")
    return words.workload, words.parameters


def workload_title(key: str) -> str:
    """A workload in one line."""
    return " ".join(filter(None, workload(key)))


def _decode_part(part: str) -> str:
    """A part of a key for people: names from outside hold spaces and separators as in a URL."""
    return printable(unquote(part.replace(",", " ")))


def hardware(label: str) -> str:
    """A hardware in short: `8×H100` of `8 x NVIDIA H100 80GB HBM3`; any other label as it is."""
    found = re.fullmatch(r"(\d+) x NVIDIA (?:GeForce |RTX |Tesla )?([A-Z]{1,3}\d+\w*)\b.*", label)
    return f"{found[1]}×{found[2]}" if found else label


def hardware_choices(labels: Mapping[str, str]) -> dict[str, str]:
    """Kinds of hardware to choose from, in short where their short forms differ; labels by fingerprint."""
    counted = Counter(map(hardware, labels.values()))
    return {key: label if counted[hardware(label)] > 1 else hardware(label) for key, label in labels.items()}


def version(torch_version: str) -> str:
    """A PyTorch in short: `nightly 24 Nov` of `2.16.0.dev20261124+cu130`; any other version as it is."""
    found = re.fullmatch(r"[\d.]+\.dev(\d{4})(\d{2})(\d{2})(\+.*)?", torch_version)
    try:
        day = date(int(found[1]), int(found[2]), int(found[3])) if found else None
    except ValueError:
        day = None
    return f"nightly {day:%d %b}" if day else torch_version or NONE


def is_nightly(torch_version: str) -> bool:
    """Whether it is a build of one night."""
    return version(torch_version).startswith("nightly ")


def build(torch_version: str) -> str:
    """A PyTorch in a sentence: `nightly 24 Nov`, else `torch 2.13.0+cu130`."""
    short = version(torch_version)
    return f"torch {short}" if short in (torch_version, NONE) else short


#: The zone of the moments on the page that is being shown.
_zone: ContextVar[tzinfo] = ContextVar("zone", default=UTC)


def show_in(zone: tzinfo) -> None:
    """Have `timestamp` write moments in a zone from now on, in this thread."""
    _zone.set(zone)


def timestamp(moment: datetime) -> str:
    """`moment` to the minute in the zone of the page, which it names: `UTC`, or `UTC+05:30`."""
    shown = moment.astimezone(_zone.get())
    ahead = "" if _zone.get() is UTC else f"{shown:%z}"
    return f"{shown:%Y-%m-%d %H:%M} UTC{ahead[:3]}{':' if ahead else ''}{ahead[3:5]}"


def run_time(run: str, moment: datetime) -> str:
    """When a run, by its id, was measured; of an import whose file states no time that is not known."""
    return UNKNOWN_TIME if is_undated(run) else timestamp(moment)


def ago(moment: datetime, now: datetime) -> str:
    """How long before `now` the `moment` was: `3 hours ago`."""
    seconds = (now - moment).total_seconds()
    if seconds < 60:
        return "just now"
    for size, word in ((86400 * 365, "year"), (86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            many = int(seconds // size)
            return f"{many} {word}{'' if many == 1 else 's'} ago"
    raise AssertionError("a span of a minute or more has a unit")


def duration(seconds: float | None) -> str:
    """A length of time: `4.2 s`, `3 min 05 s`, `2 h 10 min`; a dash for None, and for 0, which is unknown."""
    if not seconds:
        return NONE
    if seconds < 60:
        return f"{significant(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def no_such_run(run: str, runs: Sequence[str]) -> str:
    """One sentence for a run that is not in the database."""
    near = nearest(run, runs)
    return f"There is no run {run!r} in this database" + (f"; did you mean {near!r}?" if near else ".")


def about_samples(summary: str, many: int, drawn: int, cut: int, tainted: int = 0) -> str:
    """The caption of the two charts of samples: `summary`, and what they leave out.

    Of `tainted` blocks nothing counts.
    """
    parts = [f"{summary}.", "Dashed: a new block."]
    if tainted:
        parts.append(
            f"Crosses: {plural(tainted, 'block')} disturbed by others, left out of median and distribution."
        )
    if many > drawn:
        parts.append("In order: the smallest and the largest of every thousandth.")
    if cut:
        parts.append(f"The distribution leaves out the slowest {plural(cut, 'sample')}.")
    return " ".join(parts)


def about_operators(totals: Mapping[str, float], left_out: int, *, traced_on_device: bool) -> tuple[str, str]:
    """What an operator table is of, in a few words and in full with what it leaves out."""
    more = f" {left_out:,} rows of less time were not kept: shares are of those that are." if left_out else ""
    on_device = f" and {quantity(totals['self_device_us'], 'µs')} on the device" if traced_on_device else ""
    short = f"Per step, over {totals['steps']:g} steps under the profiler, which slows them."
    return short, (
        "A table says where time goes, not how long a step takes. "
        f"{quantity(totals['self_cpu_us'], 'µs')} on the CPU{on_device}; "
        f"{quantity(totals['outside_us'], 'µs')} on the CPU lie in no operator.{more}"
    )


def about_difference(
    against: str, cpu_us: float, device_us: float | None, left_out: tuple[int, int] = (0, 0)
) -> tuple[str, str]:
    """How to read a difference of operator tables, in a few words and in full.

    The sums are over all rows, CPU and device apart. `left_out` are the rows of less time that A and B were
    kept without.
    """
    of_a, of_b = left_out
    lacking = f" Rows of less time were not kept ({of_a:,} of A, {of_b:,} of B)"
    more = f"{lacking}: what one side lacks may be among them." if of_a or of_b else ""
    places = [(cpu_us, "CPU"), *([] if device_us is None else [(device_us, "device")])]
    sums = " and ".join(f"{'+' if us > 0 else ''}{quantity(us, 'µs')} on the {place}" for us, place in places)
    short = f"B - A: above zero, B is slower; {sums} in all."
    return short, (
        f"B is this table, A is {against}. Two traces are no comparison of speed: they say where to "
        f"look.{more}"
    )
