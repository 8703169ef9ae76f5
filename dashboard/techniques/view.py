"""The view of the Techniques page: read from its address, written back to it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from dashboard.components import links, wording
from dashboard.components.query_params import (
    Query,
    View,
    distinct,
    find_fingerprint,
    last,
    pick_fingerprint,
    pick_version,
    unknown_value,
)
from dashboard.techniques.results import EAGER, environment_of
from records.kinds import RunSource
from records.runs import Run
from records.series import MeasurementConditions, SeriesPoint

#: The newest run of each case that also has its baseline.
NEWEST = "newest"
#: The separator of runs in an address, and their largest number.
_AND, _NAMED_RUNS = ",", 8
#: The most runs to choose from.
_OFFERED_RUNS = 20


@dataclass(frozen=True, slots=True)
class Techniques(View):
    """The Techniques page. `hardware` and `preset` are whole fingerprints.

    `run` is `NEWEST`, or the ids of some runs with commas between them: see `runs`. `workload` is a case key
    without its technique, `baseline` a technique of it; both are empty before `resolve_selection`.
    """

    context: ClassVar = ("hardware", "version", "workload")
    home: ClassVar = links.TECHNIQUES
    fingerprints: ClassVar = ("hardware", "preset")
    resets: ClassVar = {
        "hardware": ("preset", "version", "run", "baseline"),
        "preset": ("version", "run", "baseline"),
        "version": ("run", "baseline"),
        "workload": ("baseline",),
    }

    hardware: str
    preset: str
    version: str
    run: str
    workload: str = ""
    baseline: str = ""

    def query(self) -> dict[str, list[str]]:
        """The selection as a URL's query; for an empty field the page chooses a value."""
        return View.query(replace(self, baseline="" if self.baseline == EAGER else self.baseline))

    @property
    def runs(self) -> tuple[str, ...]:
        """The selected runs; empty for the newest ones."""
        return () if self.run == NEWEST else tuple(self.run.split(_AND))

    def of_runs(self, runs: Sequence[str]) -> str:
        """The address with these `runs`, up to the largest number."""
        return replace(self, workload="", baseline="").permanent_address(runs[:_NAMED_RUNS])

    def permanent_address(self, runs: Sequence[str]) -> str:
        """The permanent address of the same `runs`."""
        return replace(self, run=_AND.join(runs) or self.run).address

    def of_workload(self, workload: str) -> str:
        """The address of the view of another workload."""
        return self.after("workload", workload).address


class Where(NamedTuple):
    """A hardware and a preset, by their fingerprints, and a PyTorch version."""

    hardware: str
    preset: str
    version: str


@dataclass(frozen=True, slots=True)
class TechniqueChoices:
    """The options for the present selection: values to labels."""

    hardware: Mapping[str, str]
    presets: Mapping[str, str]
    versions: Sequence[str]
    runs: Mapping[str, str]
    points: Sequence[SeriesPoint]


@dataclass(frozen=True, slots=True)
class Sources:
    """The queries of a selection.

    `versions` of a hardware and a preset, newest first; `points` of these and a version, newest run first; a
    `run` by id, None if it is unknown; `newest_with_ratios`: the place of the newest run with a ratio, for a
    hardware, a preset and a version, each of which may be empty.
    """

    versions: Callable[[str, str], Sequence[str]]
    points: Callable[[str, str, str], Sequence[SeriesPoint]]
    run: Callable[[str], Run | None]
    newest_with_ratios: Callable[[str, str, str], Where | None]


def techniques(
    query: Query, places: Sequence[MeasurementConditions], ask: Sources
) -> tuple[Techniques, TechniqueChoices, list[str]]:
    """The selection in `query`, the options, and complaints; `places`, newest first, is not empty.

    The defaults are those of the run in `query`, or of the newest one with a ratio. Raises SharedLabel for
    the label of several hardware or presets.
    """
    complaints: list[str] = []
    run_text = last(query, "run") or NEWEST
    named_runs = [] if run_text == NEWEST else run_text.split(_AND)
    names = named_runs[:_NAMED_RUNS]
    if len(names) < len(named_runs):
        complaints.append(
            f"The address names {len(named_runs):,} runs; only the first {_NAMED_RUNS} are used."
        )
    runs = {name: ask.run(name) for name in names}
    own_runs = {name: run if run and run.source == RunSource.MEASURED else None for name, run in runs.items()}
    first = next((run for run in own_runs.values() if run is not None), None)
    opening_place = None if first is not None else _opening_place(query, places, ask)
    home = _home(first, opening_place, places)

    hardware = {place.hardware: place.hardware_label for place in places}
    chosen_hardware = pick_fingerprint(query, "hardware", hardware, home.hardware, complaints)
    other_place = [place for place in places if place.hardware == chosen_hardware]
    presets = {place.preset: place.preset_name for place in other_place}
    used = home.preset if home in other_place else other_place[0].preset
    chosen_preset = pick_fingerprint(query, "preset", presets, used, complaints)

    versions = ask.versions(chosen_hardware, chosen_preset)
    place = next(place for place in other_place if place.preset == chosen_preset)
    opening = _candidate(first or ask.run(place.run), versions)
    if (
        opening_place is not None
        and opening_place[:2] == (chosen_hardware, chosen_preset)
        and opening_place.version in versions
    ):
        opening = opening_place.version
    version = pick_version(query, "version", versions, opening, complaints)

    points = ask.points(chosen_hardware, chosen_preset, version)
    options = list(dict.fromkeys(point.run for point in points))
    named_ids: list[str] = []
    for name, run in own_runs.items():
        if _fits(run, chosen_hardware, chosen_preset, version):
            named_ids.append(name)
            continue
        about = f"Run {name} has no results of torch {version} there; the page shows a default."
        complaints.append(unknown_value("run", name, options) if run is None else about)
    selection = Techniques(
        chosen_hardware,
        chosen_preset,
        version,
        _AND.join(named_ids) or NEWEST,
        last(query, "workload") or "",
        last(query, "baseline") or "",
    )
    run_options = _runs(points, named_ids)
    offer = TechniqueChoices(distinct(hardware), distinct(presets), versions, run_options, points)
    return selection, offer, complaints


def resolve_selection(
    selection: Techniques, workloads: Sequence[str], techniques_of: Callable[[str], Sequence[str]]
) -> tuple[Techniques, list[str]]:
    """The selection after the runs are read, and complaints about values that none of them has.

    `workloads` are the measured ones, default first, and must not be empty; `techniques_of` returns the
    possible baselines of one.
    """
    complaints: list[str] = []
    workload, baseline = selection.workload or workloads[0], selection.baseline or EAGER
    if workload not in workloads:
        complaints.append(unknown_value("workload", workload, workloads))
        workload = workloads[0]
    baselines = (EAGER, *techniques_of(workload))
    if baseline not in baselines:
        complaints.append(unknown_value("baseline", baseline, baselines))
        baseline = EAGER
    return replace(selection, workload=workload, baseline=baseline), complaints


def elsewhere(chosen_place: Where, other_place: Where, places: Sequence[MeasurementConditions]) -> str:
    """The place of other runs as text: always their PyTorch, and the other differences from `here`."""
    parts: list[str] = []
    hardware = distinct({place.hardware: place.hardware_label for place in places})
    if other_place.hardware != chosen_place.hardware:
        parts.append(f"on {hardware[other_place.hardware]}")
    names = {place.preset: place.preset_name for place in places}
    if names[other_place.preset] != names[chosen_place.preset]:
        parts.append(f"under preset {names[other_place.preset]}")
    elif other_place.hardware == chosen_place.hardware and other_place.preset != chosen_place.preset:
        parts.append(f"under preset {distinct(names)[other_place.preset]}")
    return (
        f"{' '.join(parts)} with torch {other_place.version}" if parts else f"of torch {other_place.version}"
    )


def _opening_place(query: Query, places: Sequence[MeasurementConditions], ask: Sources) -> Where | None:
    """The place of the newest run with a ratio that matches the address."""
    hardware = find_fingerprint(
        last(query, "hardware") or "", {each.hardware: each.hardware_label for each in places}
    )
    own = [each for each in places if hardware in (None, each.hardware)]
    preset = find_fingerprint(last(query, "preset") or "", {each.preset: each.preset_name for each in own})
    return ask.newest_with_ratios(hardware or "", preset or "", last(query, "version") or "")


def _home(
    first: Run | None, opening_place: Where | None, places: Sequence[MeasurementConditions]
) -> MeasurementConditions:
    """The place with which a view opens: that of the named run, or of one with a ratio, or the newest."""
    made = opening_place[:2] if opening_place is not None else ()
    if first is not None:
        made = first.machine.hardware.fingerprint, first.preset.fingerprint
    return next((place for place in places if (place.hardware, place.preset) == made), places[0])


def _candidate(run: Run | None, versions: Sequence[str]) -> str:
    """The version of the last environment of a run, if it is an option; else the newest one."""
    own = [each.torch_version for each in run.environments] if run is not None else []
    matches = [version for version in own if version in versions]
    return matches[-1] if matches else next(iter(versions), "")


def _fits(run: Run | None, hardware: str, preset: str, version: str) -> bool:
    return (
        run is not None
        and run.machine.hardware.fingerprint == hardware
        and run.preset.fingerprint == preset
        and environment_of(run, version) is not None
    )


def _runs(points: Sequence[SeriesPoint], runs_in_address: Sequence[str]) -> dict[str, str]:
    """The runs to choose from, including the selected ones as one option."""
    moments = {point.run: point.started_at for point in points}
    newest_first = sorted(moments, key=lambda run: moments[run], reverse=True)[:_OFFERED_RUNS]
    labels = {run: f"{run}, {wording.timestamp(moments[run])}" for run in newest_first}
    if runs_in_address and (joint := _AND.join(runs_in_address)) not in labels:
        labels[joint] = (
            f"{runs_in_address[0]} and {len(runs_in_address) - 1} more"
            if len(runs_in_address) > 1
            else runs_in_address[0]
        )
    return {NEWEST: "The newest of each case", **labels}
