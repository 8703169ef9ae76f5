"""The view of the Hardware page: read from its address, written back to it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from analysis.metrics import METRICS, Metric
from dashboard.components import frames, links
from dashboard.components.query_params import (
    Query,
    SharedLabel,
    View,
    ambiguous,
    distinct,
    find_fingerprint,
    label_fingerprints,
    last,
    pick,
    pick_fingerprint,
    sharing_label,
    strip_device,
    unknown_value,
)
from dashboard.hardware.normalisation import HardwareColumn, unlike
from records.series import MeasurementConditions

#: The newest point of each case on each hardware, of any version.
NEWEST = "newest"
#: Metrics to choose from; an address may name any metric with a better direction.
LISTED = (
    *("latency_floor", "latency", "throughput", "throughput_per_core", "model_tflops", "compile_cold"),
    *("cold_start", "rss_peak_steady", "cuda_peak_allocated", "energy_per_item"),
)
#: The most hardware side by side.
MOST_HARDWARE = 8
#: The highest price in any currency; larger ones would overflow.
_LEAST_PRICE, _MOST_PRICE = 1e-9, 1e12


@dataclass(frozen=True, slots=True)
class HardwareView(View):
    """The Hardware page. `preset` is a name, `to` the whole fingerprint of the reference.

    `version` is a PyTorch version or `NEWEST`; without its local part it means any build of a release,
    because machines have builds for different CUDA versions. `prices` are those of the address alone:
    fingerprint and price of an hour.
    """

    context: ClassVar = ("metric", "version")
    home: ClassVar = links.HARDWARE
    fingerprints: ClassVar = ("to",)
    # Under another preset other versions were measured, perhaps not on the reference, and by other tools
    # other metrics.
    resets: ClassVar = {"preset": ("metric", "version", "to")}

    metric: str
    version: str
    preset: str
    to: str
    prices: tuple[tuple[str, float], ...] = ()

    def query(self) -> dict[str, list[str]]:
        """The selection as a URL's query; for an empty field the page chooses a value."""
        prices = [f"{links.short(hardware)}:{price:.12g}" for hardware, price in self.prices]
        return View.query(replace(self, prices=())) | ({"price": prices} if prices else {})


@dataclass(frozen=True, slots=True)
class HardwareChoices:
    """The options, and the compared `sides`, the reference first.

    `versions`, without their local parts, map to the number of sides with a build of it. `refused` is
    hardware whose preset of that name has other settings, with the differences; `beyond` is the number of
    sides that are not displayed.
    """

    versions: Mapping[str, int]
    presets: Sequence[str]
    hardware: Mapping[str, str]
    sides: tuple[HardwareColumn, ...]
    refused: tuple[tuple[str, str], ...]
    beyond: int


def metrics(metric: str, imported_metrics: Mapping[str, Metric]) -> dict[str, str]:
    """The metrics to choose from with their titles, including the chosen one; only the `imported_metrics`
    ones if there are any.
    """
    options = imported_metrics or METRICS
    return {name: options[name].title for name in dict.fromkeys((*(imported_metrics or LISTED), metric))}


def versions(offer: HardwareChoices) -> dict[str, str]:
    """The versions to choose from, with the number of hardware that has each."""
    every = len(offer.sides)
    labels = {
        version: f"{words} · on {offer.versions[version]} of {every}"
        for version, words in frames.version_choices(offer.versions).items()
    }
    return {NEWEST: "The newest of each case", **labels}


def prices(
    offer: HardwareChoices, selection: HardwareView, per_hour: Mapping[str, float]
) -> dict[str, float]:
    """The price per hour of a whole hardware (fingerprint), from the address or else from the settings."""
    own = {side.hardware: side.name for side in offer.sides}
    own_prices = {hardware: per_hour[name] for hardware, name in own.items() if name in per_hour}
    return own_prices | {hardware: price for hardware, price in selection.prices if hardware in own}


#: The measured combinations of version, hardware and preset (fingerprints).
Spread = frozenset[tuple[str, str, str]]


def chosen_metric(query: Query, imported_metrics: Mapping[str, Metric], complaints: list[str]) -> str:
    """The metric of an address: one of the `imported_metrics` ones, or of ours if there are none."""
    candidates = [name for name, known in (imported_metrics or METRICS).items() if known.better != "neither"]
    return pick(query, "metric", candidates, next(iter(imported_metrics or LISTED)), complaints)


def hardware(
    query: Query,
    places: Sequence[MeasurementConditions],
    spread: Spread,
    shared_counts: Mapping[str, int],
    imported_metrics: Mapping[str, Metric] | None = None,
) -> tuple[HardwareView, HardwareChoices, list[str]]:
    """The selection in `query`, the options, and complaints; `places`, newest first, is not empty.

    The defaults are the preset under which most hardware was measured, the newest version that most of it
    has, and the hardware with that version that shares the most cases with others (`shared_counts`, by
    fingerprint), the first by name among equals. `imported_metrics` are the metrics of other tools' files if
    nothing else was measured. Raises SharedLabel for a `to` that is the label of several.
    """
    complaints: list[str] = []
    metric = chosen_metric(query, imported_metrics or {}, complaints)
    presets = _presets(places)
    preset = pick(query, "preset", presets, presets[0], complaints)
    there = [place for place in places if place.preset_name == preset]
    own_labels = {place.hardware: place.hardware_label for place in there}
    if several := sharing_label(query, "to", own_labels):
        raise SharedLabel("to", last(query, "to") or "", several)
    labels = distinct(own_labels)

    def usefulness(fingerprint: str) -> tuple[int, str, str]:
        return -shared_counts.get(fingerprint, 0), labels[fingerprint], fingerprint

    first = min(labels, key=usefulness)
    to = pick_fingerprint(query, "to", labels, first, complaints)
    sides, refusals = _sides(there, to, labels)
    columns, beyond = sides[:MOST_HARDWARE], max(0, len(sides) - MOST_HARDWARE)

    versions = _versions(spread, columns)
    version_text = last(query, "version")
    version = NEWEST
    if version_text != NEWEST:
        builds = {build for build, _, _ in spread}
        valid = [*versions, *builds] if version_text in builds else list(versions)
        version = pick(query, "version", valid, _default_version(versions, columns), complaints)
    if last(query, "to") is None:
        newest = {place.hardware: place.preset for place in reversed(there)}
        alike = [side for side in columns if newest[side.hardware] == side.preset]
        to = _first_with(version, spread, sorted(alike, key=lambda side: usefulness(side.hardware))) or to
        sides, refusals = _sides(there, to, labels)
        columns = sides[:MOST_HARDWARE]
        versions = _versions(spread, columns)
    columns = tuple(replace(side, build=_build(version, spread, side)) for side in columns)
    if version not in (NEWEST, *versions):
        versions = {version: sum(side.build != "" for side in columns), **versions}
    prices = _prices(query, sides, complaints)
    selection = HardwareView(metric, version, preset, to, prices)
    return selection, HardwareChoices(versions, presets, labels, columns, refusals, beyond), complaints


def _presets(places: Sequence[MeasurementConditions]) -> list[str]:
    """The names of presets: most hardware first, among equals that of the newest run."""
    hardware_of: dict[str, set[str]] = {}
    for place in places:
        hardware_of.setdefault(place.preset_name, set()).add(place.hardware)
    return sorted(hardware_of, key=lambda name: -len(hardware_of[name]))


def _sides(
    there: Sequence[MeasurementConditions], to: str, labels: Mapping[str, str]
) -> tuple[tuple[HardwareColumn, ...], tuple[tuple[str, str], ...]]:
    """Each hardware under the newest of its presets that equals that of the reference, and the hardware
    without one.
    """
    reference = next(place for place in there if place.hardware == to)
    sides: dict[str, HardwareColumn] = {}
    differs: dict[str, str] = {}
    for place in there:
        if place.hardware in sides:
            continue
        if other := unlike(place.settings, reference.settings):
            differs.setdefault(place.hardware, other)
        else:
            cpus = place.settings.get("pinned_cpus")
            own = cpus if isinstance(cpus, int) else None
            sides[place.hardware] = HardwareColumn(
                place.hardware,
                labels[place.hardware],
                place.preset,
                own,
                gpus=place.gpus,
                machines=place.machines,
                name=place.hardware_label,
            )
    in_order = sorted(sides.values(), key=lambda side: (side.hardware != to, side.label, side.hardware))
    refusals = tuple((labels[fp], other) for fp, other in differs.items() if fp not in sides)
    return tuple(in_order), refusals


def _versions(spread: Spread, sides: Sequence[HardwareColumn]) -> dict[str, int]:
    """The versions of all sides, for any device, newest first, with the number of sides of each."""
    own = {(side.hardware, side.preset) for side in sides}
    there = {(strip_device(build), where, how) for build, where, how in spread if (where, how) in own}
    counts = Counter(version for version, _, _ in there)
    return {version: counts[version] for version in sorted(counts, key=frames.version_order, reverse=True)}


def _build(version: str, spread: Spread, side: HardwareColumn) -> str:
    """The build of a version that a side has: exactly that version, else the highest build; empty for none.

    Builds of one release differ by their CUDA: `2.15.0+cu126` and `2.15.0+cu130`.
    """
    own = {build for build, where, how in spread if (where, how) == (side.hardware, side.preset)}
    if version in own:
        return version
    return max(
        (build for build in own if strip_device(build) == version), key=frames.version_order, default=""
    )


def _default_version(versions: Mapping[str, int], sides: Sequence[HardwareColumn]) -> str:
    """The newest of the versions that most sides have; `NEWEST` if no two sides share one."""
    most = max(versions.values(), default=0)
    if most < min(2, len(sides)):
        return NEWEST
    return next((version for version, many in versions.items() if many == most), NEWEST)


def _first_with(version: str, spread: Spread, sides: Sequence[HardwareColumn]) -> str | None:
    """The first hardware with a version; None if none has it, or for `NEWEST`."""
    return next((side.hardware for side in sides if _build(version, spread, side)), None)


def _prices(
    query: Query, sides: Sequence[HardwareColumn], complaints: list[str]
) -> tuple[tuple[str, float], ...]:
    """The prices in an address: `price=LABEL:2.5`; the label may be the beginning of a fingerprint."""
    labels = {side.hardware: side.label for side in sides}
    own_labels = {side.hardware: side.name for side in sides}
    result: dict[str, float] = {}
    for text in query.get("price", ()):
        name, colon, number = text.rpartition(":")
        price = _number(number)
        if not colon or price is None:
            complaints.append(f'"{text}" is not a price: expected a hardware, a colon and a number above 0.')
        elif len(several := label_fingerprints(name, own_labels)) > 1:
            complaints.append(ambiguous("hardware", name, several))
        elif (fingerprint := find_fingerprint(name, labels)) is None:
            complaints.append(unknown_value("hardware", name, labels.values()))
        else:
            result[fingerprint] = price
    return tuple(result.items())


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if _LEAST_PRICE <= number <= _MOST_PRICE else None
