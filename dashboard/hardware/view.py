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

#: No version in particular: of each case on each hardware the newest point.
NEWEST = "newest"
#: Metrics to choose from; an address may name any that has a better direction.
LISTED = (
    *("latency_floor", "latency", "throughput", "throughput_per_core", "model_tflops", "compile_cold"),
    *("cold_start", "rss_peak_steady", "cuda_peak_allocated", "energy_per_item"),
)
#: Hardware side by side at most.
MOST_HARDWARE = 8
#: In any currency; beyond, costs are no numbers any more.
_LEAST_PRICE, _MOST_PRICE = 1e-9, 1e12


@dataclass(frozen=True, slots=True)
class HardwareView(View):
    """The Hardware page. `preset` is a name, `to` the whole fingerprint of the reference.

    `version` is a PyTorch version or `NEWEST`; without its local part it is any build of a release, for each
    machine has one for its own CUDA. `prices` are those of the address alone: fingerprint and price
    of an hour.
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
        """The selection as a URL's query; what is empty is left for the page to choose."""
        prices = [f"{links.short(hardware)}:{price:.12g}" for hardware, price in self.prices]
        return View.query(replace(self, prices=())) | ({"price": prices} if prices else {})


@dataclass(frozen=True, slots=True)
class HardwareChoices:
    """What there is to choose from, and what is compared: the `sides`, the reference first.

    `versions`, without their local parts, map to how many of them have any build of it. `refused` is hardware
    of the preset's name whose settings are others, each with what differs; `beyond` how many more there are
    than stand side by side.
    """

    versions: Mapping[str, int]
    presets: Sequence[str]
    hardware: Mapping[str, str]
    sides: tuple[HardwareColumn, ...]
    refused: tuple[tuple[str, str], ...]
    beyond: int


def metrics(chosen: str, imported: Mapping[str, Metric]) -> dict[str, str]:
    """The metrics on offer with their titles, the chosen one among them; with `imported` ones those alone."""
    known = imported or METRICS
    return {name: known[name].title for name in dict.fromkeys((*(imported or LISTED), chosen))}


def versions(offer: HardwareChoices) -> dict[str, str]:
    """The versions on offer, with how much of the hardware has each."""
    every = len(offer.sides)
    named = {
        version: f"{words} · on {offer.versions[version]} of {every}"
        for version, words in frames.version_choices(offer.versions).items()
    }
    return {NEWEST: "The newest of each case", **named}


def prices(offer: HardwareChoices, chosen: HardwareView, per_hour: Mapping[str, float]) -> dict[str, float]:
    """What an hour of a whole hardware (fingerprint) costs, by the address or else by the settings."""
    own = {side.hardware: side.name for side in offer.sides}
    known = {hardware: per_hour[name] for hardware, name in own.items() if name in per_hour}
    return known | {hardware: price for hardware, price in chosen.prices if hardware in own}


#: What was measured where: version, hardware, preset (fingerprints).
Spread = frozenset[tuple[str, str, str]]


def chosen_metric(query: Query, imported: Mapping[str, Metric], complaints: list[str]) -> str:
    """The metric that an address names: one of the `imported` ones, or of ours where there are none."""
    directed = [name for name, known in (imported or METRICS).items() if known.better != "neither"]
    return pick(query, "metric", directed, next(iter(imported or LISTED)), complaints)


def hardware(
    query: Query,
    places: Sequence[MeasurementConditions],
    spread: Spread,
    shared: Mapping[str, int],
    imported: Mapping[str, Metric] | None = None,
) -> tuple[HardwareView, HardwareChoices, list[str]]:
    """The selection in `query`, what else is on offer, and complaints; `places`, newest first, is not empty.

    What `query` leaves open is the preset that most hardware was measured under, the newest version that
    most of it has, and of the hardware that has the version the one that shares most cases with others: so
    many as `shared` says, by fingerprint; of several the first by name. `imported` are the metrics of other
    tools' files, where nothing else was measured. Raises SharedLabel for a `to` that several have as their
    label.
    """
    complaints: list[str] = []
    metric = chosen_metric(query, imported or {}, complaints)
    presets = _presets(places)
    preset = pick(query, "preset", presets, presets[0], complaints)
    there = [place for place in places if place.preset_name == preset]
    own_labels = {place.hardware: place.hardware_label for place in there}
    if several := sharing_label(query, "to", own_labels):
        raise SharedLabel("to", last(query, "to") or "", several)
    labels = distinct(own_labels)

    def usefulness(fingerprint: str) -> tuple[int, str, str]:
        return -shared.get(fingerprint, 0), labels[fingerprint], fingerprint

    first = min(labels, key=usefulness)
    to = pick_fingerprint(query, "to", labels, first, complaints)
    sides, refused = _sides(there, to, labels)
    shown, beyond = sides[:MOST_HARDWARE], max(0, len(sides) - MOST_HARDWARE)

    versions = _versions(spread, shown)
    wanted = last(query, "version")
    version = NEWEST
    if wanted != NEWEST:
        builds = {build for build, _, _ in spread}
        valid = [*versions, *builds] if wanted in builds else list(versions)
        version = pick(query, "version", valid, _default_version(versions, shown), complaints)
    if last(query, "to") is None:
        newest = {place.hardware: place.preset for place in reversed(there)}
        alike = [side for side in shown if newest[side.hardware] == side.preset]
        to = _first_with(version, spread, sorted(alike, key=lambda side: usefulness(side.hardware))) or to
        sides, refused = _sides(there, to, labels)
        shown = sides[:MOST_HARDWARE]
        versions = _versions(spread, shown)
    shown = tuple(replace(side, build=_build(version, spread, side)) for side in shown)
    if version not in (NEWEST, *versions):
        versions = {version: sum(side.build != "" for side in shown), **versions}
    prices = _prices(query, sides, complaints)
    chosen = HardwareView(metric, version, preset, to, prices)
    return chosen, HardwareChoices(versions, presets, labels, shown, refused, beyond), complaints


def _presets(places: Sequence[MeasurementConditions]) -> list[str]:
    """The names of presets: that of most hardware first, of as many the one of the newest run."""
    used: dict[str, set[str]] = {}
    for place in places:
        used.setdefault(place.preset_name, set()).add(place.hardware)
    return sorted(used, key=lambda name: -len(used[name]))


def _sides(
    there: Sequence[MeasurementConditions], to: str, labels: Mapping[str, str]
) -> tuple[tuple[HardwareColumn, ...], tuple[tuple[str, str], ...]]:
    """Each hardware under the newest of its presets that is like the reference's, and what has none."""
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
    ordered = sorted(sides.values(), key=lambda side: (side.hardware != to, side.label, side.hardware))
    refused = tuple((labels[fp], other) for fp, other in differs.items() if fp not in sides)
    return tuple(ordered), refused


def _versions(found: Spread, sides: Sequence[HardwareColumn]) -> dict[str, int]:
    """The versions that any side has, for whatever device, newest first, and how many sides have each."""
    own = {(side.hardware, side.preset) for side in sides}
    there = {(strip_device(build), where, how) for build, where, how in found if (where, how) in own}
    counted = Counter(version for version, _, _ in there)
    return {version: counted[version] for version in sorted(counted, key=frames.version_order, reverse=True)}


def _build(version: str, found: Spread, side: HardwareColumn) -> str:
    """The build of a version that a side has: that very one, else the highest; empty for none.

    Builds of one release differ by the CUDA they were made for: `2.15.0+cu126` and `2.15.0+cu130`.
    """
    own = {build for build, where, how in found if (where, how) == (side.hardware, side.preset)}
    if version in own:
        return version
    return max(
        (build for build in own if strip_device(build) == version), key=frames.version_order, default=""
    )


def _default_version(versions: Mapping[str, int], sides: Sequence[HardwareColumn]) -> str:
    """The newest of the versions that most sides have; none in particular where no two share one."""
    most = max(versions.values(), default=0)
    if most < min(2, len(sides)):
        return NEWEST
    return next((version for version, many in versions.items() if many == most), NEWEST)


def _first_with(version: str, found: Spread, sides: Sequence[HardwareColumn]) -> str | None:
    """The first hardware with a version; None if none has it, or for no version in particular."""
    return next((side.hardware for side in sides if _build(version, found, side)), None)


def _prices(
    query: Query, sides: Sequence[HardwareColumn], complaints: list[str]
) -> tuple[tuple[str, float], ...]:
    """The prices that an address gives: `price=LABEL:2.5`; a fingerprint's beginning does for the label."""
    labels = {side.hardware: side.label for side in sides}
    own_labels = {side.hardware: side.name for side in sides}
    found: dict[str, float] = {}
    for text in query.get("price", ()):
        name, colon, number = text.rpartition(":")
        price = _number(number)
        if not colon or price is None:
            complaints.append(f'"{text}" is no price: expected a hardware, a colon and a number above 0.')
        elif len(several := label_fingerprints(name, own_labels)) > 1:
            complaints.append(ambiguous("hardware", name, several))
        elif (fingerprint := find_fingerprint(name, labels)) is None:
            complaints.append(unknown_value("hardware", name, labels.values()))
        else:
            found[fingerprint] = price
    return tuple(found.items())


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if _LEAST_PRICE <= number <= _MOST_PRICE else None
