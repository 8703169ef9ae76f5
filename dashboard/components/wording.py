"""Numbers, times, statuses, cases and commands as text."""

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

#: Imported metrics by name.
Definitions = Mapping[str, MetricDefinition]

NONE = "–"
#: The text for the time of a run whose file does not contain it; the stored time is that of the file.
UNKNOWN_TIME = "unknown"

#: The device of a recording that is about CPUs and processes.
HOST = "host"

_FEW_ZEROS, _MANY_DIGITS = 1e-6, 1e12
#: Smaller differences from 1 are rounding errors; the number of digits that distinguish the others.
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


#: The sign of each tone, so that colour is not the only mark.
SIGNS: Mapping[Tone, str] = {"bad": "×", "odd": "!", "good": "✓", "quiet": "…"}


@dataclass(frozen=True, slots=True)
class Status:
    """A displayed status: a sign and a word in addition to the colour (`tone`)."""

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
    """`value` with `digits` significant digits and thousands separators: 12,300 or 0.0123.

    In exponent form only if there would be many zeros.
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return "0"
    if not _FEW_ZEROS <= abs(value) < _MANY_DIGITS:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    # Rounded first, because rounding can add a digit: 9.999 becomes 10.0.
    rounded_value = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded_value))))
    return f"{rounded_value:,.{decimals}f}".replace("-", "−")


def number(value: float, unit: str) -> str:
    """`value` without its unit, for a table column; counts are exact, and a share below 1 never reads as
    1.
    """
    if unit == "count" and float(value).is_integer():
        return f"{value:,.0f}"
    return _unlike_one(value, 3) if unit == "share" else significant(value)


def _unlike_one(value: float, digits: int, one: float = 1.0) -> str:
    """`value` with `digits` significant digits, or more if it would wrongly read as `one`."""
    unlike = abs(value - one) > _NOTHING * one
    while unlike and digits < _MOST_DIGITS and float(f"{value:.{digits - 1}e}") == one:
        digits += 1
    return significant(value, digits)


def quantity(value: float, unit: str) -> str:
    """`value` with its unit: `12.3 ms`."""
    return number(value, unit) if unit in ("", "count") else f"{number(value, unit)} {unit}"


def value_range(low: float | None, high: float | None, unit: str) -> str:
    """Both ends without their unit: `1.21 to 1.34`; a dash if one is unknown."""
    return NONE if low is None or high is None else f"{number(low, unit)} to {number(high, unit)}"


def replicate_range(smallest: float, largest: float, n: int, unit: str) -> str:
    """The range of `n` replicates without its unit; a dash for one, which has none."""
    return NONE if n < 2 else value_range(smallest, largest, unit)


def percent(fraction: float | None) -> str:
    """A fraction as a percentage with two digits, three from 10 % on: `1.2 %`, `33.1 %`; a dash for None.

    Values near 100 % have more: `99.96 %`.
    """
    if fraction is None:
        return NONE
    return f"{percentage(fraction, 2 if abs(fraction) < 0.1 else 3)} %"


def percentage(fraction: float, digits: int) -> str:
    """A fraction in per cent with `digits` digits, or more if it would wrongly read as 100; without the
    sign.
    """
    return _unlike_one(100 * fraction, digits, 100.0)


def signed_percent(fraction: float | None) -> str:
    """A relative change with its sign, to two digits: `+1.2 %`; a dash for None."""
    if fraction is None:
        return NONE
    sign = "+" if fraction > 0 else "−" if fraction < 0 else "±"
    return f"{sign}{significant(abs(100 * fraction), 2)} %"


def metric(name: str, definitions: Definitions | None = None) -> Metric:
    """The metric `name`, of the catalogue or of `definitions`; an unknown metric has its name as title."""
    if (definition := METRICS.get(name)) is None and (outside := (definitions or {}).get(name)):
        definition = Metric(name, outside.title, outside.unit, cast("Better", outside.better), "")
    return definition or Metric(name, name, "", "neither", "")


def titles(names: Sequence[str], definitions: Definitions) -> dict[str, str]:
    """The titles of metrics by name; those that share one are distinguished by their names."""
    result = {name: metric(name, definitions).title for name in names}
    duplicates = [title for title, many in Counter(result.values()).items() if many > 1]
    return {name: f"{title} ({name})" if title in duplicates else title for name, title in result.items()}


def metric_place(name: str) -> tuple[int, str]:
    """The position of a metric in the catalogue; unknown ones come last."""
    names = list(METRICS)
    return (names.index(name) if name in METRICS else len(names), name)


def change(latest: SeriesPoint, previous: SeriesPoint, better: Better) -> LatestChange:
    """The relative change from `previous` to `latest`, with the ranges of the replicates.

    A single replicate has no range. Negative numbers have no relative change, only a direction.
    """
    new, old = latest.point, previous.point
    if old == 0 or not math.isfinite(new / old):
        return LatestChange(NONE, "no ratio to zero")
    fraction = new / old - 1
    text, more = signed_percent(fraction), ""
    if old < 0 or new < 0:
        text, more = NONE, "; negative values have no ratio"
    if min(latest.n, previous.n) < 2:
        return LatestChange(text, f"one replicate has no range{more}")
    overlap = latest.smallest <= previous.largest and previous.smallest <= latest.largest
    if overlap or better == "neither":
        return LatestChange(text, f"{'within' if overlap else 'outside'} noise{more}")
    worse = (new > old) == (better == "lower")
    return LatestChange(text, f"{'worse' if worse else 'better'}, outside noise{more}")


def gain(gain: Gain) -> str:
    """A ratio as `1.92×`, an efficiency as `93.1 %`; a dash for none."""
    return NONE if gain.ratio is None else _gain(gain, gain.ratio)


def gain_interval(gain: Gain) -> str:
    """The interval of a ratio; a dash for none."""
    if gain.low is None or gain.high is None:
        return NONE
    return f"{_gain(gain, gain.low)} to {_gain(gain, gain.high)}"


def _gain(gain: Gain, value: float) -> str:
    return percent(value) if gain.kind == "efficiency" else times(value)


def times(ratio: float) -> str:
    """A ratio as `1.92×`, with more digits if it would wrongly read as 1: `0.9996×`."""
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


#: The metric of each utilisation source; values of two sources never share a chart or a name.
_UTILISATION_SOURCES: Mapping[str, tuple[str, str]] = {
    "gpm": ("SM utilisation", "hardware counters, GPM"),
    "dcgm": ("SM utilisation", "hardware counters, DCGM"),
    "samples": ("GPU busy, share of time with a kernel", "driver's buffer"),
    "polling": ("GPU busy, share of time with a kernel", "polled"),
}


def utilisation(device: str, utilisation_source: str) -> tuple[str, str]:
    """The utilisation metric of a device, with its source."""
    if device == HOST:
        return "Measured CPUs busy", "kernel's counters"
    return _UTILISATION_SOURCES.get(utilisation_source, ("Utilisation", "this device reports none"))


def utilisation_title(utilisation_source: str) -> str:
    """The title of a chart of one source's utilisation."""
    what, source = _UTILISATION_SOURCES[utilisation_source]
    return f"{what} ({source})"


def device(name: str, uuid: str) -> tuple[str, str]:
    """The name of a device, followed by the beginning of the UUID if several GPUs have the same name."""
    if uuid == HOST:
        return "Host", name
    return name, uuid.removeprefix("GPU-").removeprefix("MIG-")[:8]


def window_in_words(name: str, panels: Sequence[str], rows: int, seconds: float) -> str:
    """The charts of a telemetry window in words, for screen readers."""
    return f"{name}, {plural(rows, 'row')} in {quantity(seconds, 's')}: {'; '.join(panels)}"


#: The reasons for missing telemetry, and the way to record it.
WITHOUT_TELEMETRY = (
    "Telemetry is recorded for some seconds after the timing of the first process of each case if "
    "`observe_seconds` of the suite is above 0; runs of cases without `--suite` have none. Rows older than "
    "`telemetry_days` are deleted. This records some:"
)
#: The explanation of telemetry windows.
ABOUT_WINDOWS = (
    "A telemetry window is recorded for some seconds after the timing, while the case continues to run: "
    "sampling does not disturb timed blocks. SM utilisation and GPU busy time are different metrics: a GPU "
    "can be busy all the time with a few of its SMs."
)


def status(word: str) -> Status:
    """The status `word`; an unknown one is displayed as a problem."""
    sign, tone = _STATUSES.get(word, ("?", "odd"))
    return Status(sign, word.replace("_", " "), tone)


@lru_cache(maxsize=16_384)
def case(key: str) -> CaseWords:
    """The parts of a case key; a text that is not a key is displayed unchanged."""
    parts = key.split("/")
    if len(parts) != 4:
        return CaseWords(key, "", "", "")
    name, phase, _, technique = parts
    parameter_text = " ".join(parameters(key))
    # A phase without a word, such as `call`.
    return CaseWords(
        _decode_part(name),
        "" if phase == "call" else _decode_part(phase),
        parameter_text,
        _decode_part(technique),
    )


def parameters(key: str) -> tuple[str, ...]:
    """The parameters of a case key, such as `batch=8`; empty for a text that is not a key."""
    parts = key.split("/")
    if len(parts) != 4 or parts[2] == "-":
        return ()
    return tuple(map(_decode_part, parts[2].split(",")))


def common_parameters(keys: Iterable[str]) -> tuple[str, ...]:
    """The parameters that all these case keys have in common, which a table prints once; empty for a single
    key.
    """
    matches = [parameters(key) for key in keys]
    if len(matches) < 2:
        return ()
    return tuple(each for each in matches[0] if all(each in others for others in matches[1:]))


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
    """A part of a key as displayed: imported names have encoded spaces and separators."""
    return printable(unquote(part.replace(",", " ")))


def hardware(label: str) -> str:
    """A hardware label in short form: `8×H100` for `8 x NVIDIA H100 80GB HBM3`; other labels are
    unchanged.
    """
    match = re.fullmatch(r"(\d+) x NVIDIA (?:GeForce |RTX |Tesla )?([A-Z]{1,3}\d+\w*)\b.*", label)
    return f"{match[1]}×{match[2]}" if match else label


def hardware_choices(labels: Mapping[str, str]) -> dict[str, str]:
    """Hardware to choose from, in short form if the short forms differ; labels by fingerprint."""
    counts = Counter(map(hardware, labels.values()))
    return {key: label if counts[hardware(label)] > 1 else hardware(label) for key, label in labels.items()}


def version(torch_version: str) -> str:
    """A PyTorch version in short form: `nightly 24 Nov` for `2.16.0.dev20261124+cu130`; other versions are
    unchanged.
    """
    match = re.fullmatch(r"[\d.]+\.dev(\d{4})(\d{2})(\d{2})(\+.*)?", torch_version)
    try:
        day = date(int(match[1]), int(match[2]), int(match[3])) if match else None
    except ValueError:
        day = None
    return f"nightly {day:%d %b}" if day else torch_version or NONE


def is_nightly(torch_version: str) -> bool:
    """Whether it is a build of one night."""
    return version(torch_version).startswith("nightly ")


def build(torch_version: str) -> str:
    """A PyTorch version in a sentence: `nightly 24 Nov`, else `torch 2.13.0+cu130`."""
    short = version(torch_version)
    return f"torch {short}" if short in (torch_version, NONE) else short


#: The time zone of the page that is being rendered.
_zone: ContextVar[tzinfo] = ContextVar("zone", default=UTC)


def show_in(zone: tzinfo) -> None:
    """Set the time zone of `timestamp` for this thread."""
    _zone.set(zone)


def timestamp(moment: datetime) -> str:
    """`moment` to the minute in the time zone of the page, with its name: `UTC`, or `UTC+05:30`."""
    local = moment.astimezone(_zone.get())
    ahead = "" if _zone.get() is UTC else f"{local:%z}"
    return f"{local:%Y-%m-%d %H:%M} UTC{ahead[:3]}{':' if ahead else ''}{ahead[3:5]}"


def run_time(run: str, moment: datetime) -> str:
    """The time of a run; unknown for an import whose file does not contain it."""
    return UNKNOWN_TIME if is_undated(run) else timestamp(moment)


def ago(moment: datetime, now: datetime) -> str:
    """The time from `moment` to `now`: `3 hours ago`."""
    seconds = (now - moment).total_seconds()
    if seconds < 60:
        return "just now"
    for size, word in ((86400 * 365, "year"), (86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            many = int(seconds // size)
            return f"{many} {word}{'' if many == 1 else 's'} ago"
    raise AssertionError("a span of a minute or more has a unit")


def duration(seconds: float | None) -> str:
    """A duration: `4.2 s`, `3 min 05 s`, `2 h 10 min`; a dash for None and for 0, which means unknown."""
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


def about_samples(summary: str, many: int, count: int, cut: int, tainted_blocks: int = 0) -> str:
    """The caption of the two charts of samples: `summary`, and the samples they leave out.

    `tainted_blocks` blocks do not count.
    """
    parts = [f"{summary}.", "Dashed: a new block."]
    if tainted_blocks:
        parts.append(
            f"Crosses: {plural(tainted_blocks, 'block')} disturbed by other programs, left out of median and "
            f"distribution."
        )
    if many > count:
        parts.append("The sequence shows the smallest and the largest sample of every thousandth.")
    if cut:
        parts.append(f"The distribution leaves out the slowest {plural(cut, 'sample')}.")
    return " ".join(parts)


def about_operators(totals: Mapping[str, float], left_out: int, *, traced_on_device: bool) -> tuple[str, str]:
    """What an operator table is of, in a few words and in full with what it leaves out."""
    more = (
        f" {left_out:,} rows of less time were not stored: shares refer to the stored rows."
        if left_out
        else ""
    )
    on_device = f" and {quantity(totals['self_device_us'], 'µs')} on the device" if traced_on_device else ""
    short = f"Per step, over {totals['steps']:g} steps under the profiler, which slows them."
    return short, (
        "A table says where time goes, not how long a step takes. "
        f"{quantity(totals['self_cpu_us'], 'µs')} on the CPU{on_device}; "
        f"{quantity(totals['outside_us'], 'µs')} on the CPU are outside operators.{more}"
    )


def about_difference(
    against: str, cpu_us: float, device_us: float | None, left_out: tuple[int, int] = (0, 0)
) -> tuple[str, str]:
    """How to read a difference of operator tables, in a few words and in full.

    The sums are over all rows, CPU and device apart. `left_out` are the rows of less time that A and B were
    kept without.
    """
    of_a, of_b = left_out
    lacking = f" Rows of less time were not stored ({of_a:,} of A, {of_b:,} of B)"
    more = f"{lacking}: a row that one side lacks may be among them." if of_a or of_b else ""
    places = [(cpu_us, "CPU"), *([] if device_us is None else [(device_us, "device")])]
    sums = " and ".join(f"{'+' if us > 0 else ''}{quantity(us, 'µs')} on the {place}" for us, place in places)
    short = f"B - A: above zero, B is slower; {sums} in all."
    return short, (
        f"B is this table, A is {against}. Two traces do not compare speed: they show which operators to "
        f"examine.{more}"
    )
