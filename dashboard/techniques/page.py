"""The gains of techniques: all workloads as a matrix, and one workload in full."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.components import load as pages
from dashboard.components import parts, wording
from dashboard.components.frames import version_choices
from dashboard.components.query_params import Query
from dashboard.header import page_context
from dashboard.run_pairs.load import technique_pairs
from dashboard.run_pairs.offers import offer_pairs
from dashboard.runs import case_panel
from dashboard.server.settings import ServerSettings
from dashboard.techniques import load, ranking, sections, view
from dashboard.techniques.results import EAGER, TechniqueResult, TechniqueRun, best_of, technique_words
from records.runs import Run
from records.series import MeasurementConditions


def show() -> None:
    """Show the speed-ups of the runs that the address names, else of the newest ones with any."""
    url = ServerSettings.from_environment().database_url
    parts.title("Techniques")
    places = pages.measured_places(url, techniques=True)
    if not places:
        offer_pairs("Techniques of imported runs", technique_pairs(url))
        parts.no_match(
            pages.count_runs(url),
            "No technique measured yet",
            "measured by Pyrometer with a latency of a case under a technique: compiled, in another number "
            "format, pinned, over several ranks. This measures some against eager fp32:",
            pages.suite_command(url),
        )
        st.stop()

    ask = view.Sources(
        partial(load.versions, url),
        partial(load.points, url),
        partial(_run, url),
        partial(load.newest_with_ratios, url),
    )
    address = parts.query()
    query = page_context.complete_query(
        address, view.Techniques.context, lambda query: view.techniques(query, places, ask)[2]
    )
    selection, offer, complaints = view.techniques(query, places, ask)
    parts.complain(complaints)
    if not offer.versions:
        parts.caption("No PyTorch version has a result under a technique.")
        st.stop()
    bar = page_context.bar("/explore", address, query)
    with bar:
        parts.select("Hardware", "hardware", wording.hardware_choices(offer.hardware), selection)
        parts.select("PyTorch", "version", version_choices(offer.versions), selection)
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row:
        parts.select("Preset", "preset", offer.presets, selection)
        parts.select("Runs", "run", offer.runs, selection)
    readings = _readings(url, selection, offer, places)
    cases = best_of(readings)
    if not cases:
        parts.caption(f"No technique with torch {parts.plain(selection.version)} is in this selection.")
        st.stop()

    selection, detail = _workload(selection, cases, address, (bar, row))
    title = wording.workload_title(selection.workload)
    parts.subject(offer.hardware[selection.hardware], f"PyTorch {selection.version}", title)
    parts.tab_title(f"Techniques: {title}")
    if selection.baseline != EAGER:
        readings = load.run_readings(
            url, [one.run for one in readings], selection.version, selection.baseline
        )
    regressions = load.open_regressions(url, selection.hardware, selection.version, selection.workload)
    sections.all_of_them(selection, readings, regressions, datetime.now(UTC))
    offer_pairs("Techniques of imported runs", technique_pairs(url))
    parts.permanent_link(selection.permanent_address([reading.run for reading in readings]))
    case_result = next((case for case in cases if case.case == detail), None)
    if case_result is not None and (run := _run(url, case_result.run)) is not None:
        case_panel.of_run(url, run, case_result.case, case_result.environment, pages.EVERY_CASE)


def _workload(
    selection: view.Techniques,
    cases: Sequence[TechniqueResult],
    address: Query,
    rows: tuple[DeltaGenerator, DeltaGenerator],
) -> tuple[view.Techniques, str | None]:
    """The selection with its workload and baseline, with their choices in `rows`, and the opened case."""
    bar, row = rows
    workloads = ranking.workloads(cases)
    if "workload" not in address and selection.workload not in workloads:
        # A remembered workload that these runs did not measure.
        selection = selection.after("workload", "")
    selection, complaints = view.resolve_selection(selection, workloads, partial(ranking.baselines, cases))
    detail = case_panel.read_case(parts.query(), [case.case for case in cases], complaints)
    parts.complain(complaints)
    with bar:
        titles = {each: wording.workload_title(each) for each in workloads}
        parts.select("Workload", "workload", titles, selection)
    with row:
        options = (EAGER, *ranking.baselines(cases, selection.workload))
        baselines = {each: technique_words(each) for each in options}
        parts.select("Baseline", "baseline", baselines, selection)
    return selection, detail


def _readings(
    url: str,
    selection: view.Techniques,
    offer: view.TechniqueChoices,
    places: Sequence[MeasurementConditions],
) -> list[TechniqueRun]:
    """The readings of the chosen runs, else of the newest; with a link to other runs if none has a ratio."""
    if selection.runs:
        readings = load.run_readings(url, selection.runs, selection.version)
    else:
        newest = load.newest(url, offer.points, selection.version)
        readings = newest.readings
        sections.not_read(selection, newest)
    if not any(reading.has_ratio for reading in readings):
        chosen_place = view.Where(selection.hardware, selection.preset, selection.version)
        # If runs were selected, the newest ones of the same place are other runs.
        if other_place := load.with_ratios(url, chosen_place, elsewhere=not selection.runs):
            where = view.elsewhere(chosen_place, other_place, places)
            words = f"These runs have no speed-up; other runs do, {where} →"
            address = view.Techniques(*other_place, view.NEWEST).address
            parts.link(address, words)
    return readings


def _run(url: str, run_id: str) -> Run | None:
    """A run by its id."""
    stored_run = pages.run(url, run_id)
    return None if stored_run is None else stored_run[0]
