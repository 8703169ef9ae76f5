"""What each technique brings: all workloads as a matrix, and one workload in full."""

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
    """The speed-ups of the runs that the address names, else of the newest ones that have any."""
    url = ServerSettings.from_environment().database_url
    parts.title("Techniques")
    places = pages.measured_places(url, techniques=True)
    if not places:
        offer_pairs("Techniques of imported runs", technique_pairs(url))
        parts.no_match(
            pages.count_runs(url),
            "No technique measured yet",
            "of Pyrometer's own with a latency of a case under a technique: compiled, in another number "
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
    chosen, offer, complaints = view.techniques(query, places, ask)
    parts.complain(complaints)
    if not offer.versions:
        parts.caption("No PyTorch version has a result under a technique.")
        st.stop()
    bar = page_context.bar("/explore", address, query)
    with bar:
        parts.select("Hardware", "hardware", wording.hardware_choices(offer.hardware), chosen)
        parts.select("PyTorch", "version", version_choices(offer.versions), chosen)
    row = st.container(horizontal=True, vertical_alignment="bottom")
    with row:
        parts.select("Preset", "preset", offer.presets, chosen)
        parts.select("Runs", "run", offer.runs, chosen)
    readings = _readings(url, chosen, offer, places)
    cases = best_of(readings)
    if not cases:
        parts.caption(f"Of torch {parts.plain(chosen.version)} no technique was measured in what is chosen.")
        st.stop()

    chosen, detail = _workload(chosen, cases, address, (bar, row))
    parts.subject(
        offer.hardware[chosen.hardware], f"PyTorch {chosen.version}", wording.workload_title(chosen.workload)
    )
    parts.tab_title(f"Techniques: {wording.workload_title(chosen.workload)}")
    if chosen.baseline != EAGER:
        readings = load.run_readings(url, [one.run for one in readings], chosen.version, chosen.baseline)
    regressed = load.open_regressions(url, chosen.hardware, chosen.version, chosen.workload)
    sections.all_of_them(chosen, readings, regressed, datetime.now(UTC))
    offer_pairs("Techniques of imported runs", technique_pairs(url))
    parts.permanent_link(chosen.permanent_address([reading.run for reading in readings]))
    opened = next((case for case in cases if case.case == detail), None)
    if opened is not None and (run := _run(url, opened.run)) is not None:
        case_panel.of_run(url, run, opened.case, opened.environment, pages.EVERY_CASE)


def _workload(
    chosen: view.Techniques,
    cases: Sequence[TechniqueResult],
    address: Query,
    rows: tuple[DeltaGenerator, DeltaGenerator],
) -> tuple[view.Techniques, str | None]:
    """The selection with its workload and baseline, whose choices stand in `rows`, and the case opened."""
    bar, row = rows
    workloads = ranking.workloads(cases)
    if "workload" not in address and chosen.workload not in workloads:
        # A remembered one that these runs did not measure.
        chosen = chosen.after("workload", "")
    chosen, complaints = view.resolve_selection(chosen, workloads, partial(ranking.baselines, cases))
    detail = case_panel.read_case(parts.query(), [case.case for case in cases], complaints)
    parts.complain(complaints)
    with bar:
        titles = {each: wording.workload_title(each) for each in workloads}
        parts.select("Workload", "workload", titles, chosen)
    with row:
        offered = (EAGER, *ranking.baselines(cases, chosen.workload))
        baselines = {each: technique_words(each) for each in offered}
        parts.select("Baseline", "baseline", baselines, chosen)
    return chosen, detail


def _readings(
    url: str,
    chosen: view.Techniques,
    offer: view.TechniqueChoices,
    places: Sequence[MeasurementConditions],
) -> list[TechniqueRun]:
    """What the chosen runs say, else the newest; where none of them has a ratio, a link to those that do."""
    if chosen.runs:
        readings = load.run_readings(url, chosen.runs, chosen.version)
    else:
        newest = load.newest(url, offer.points, chosen.version)
        readings = newest.readings
        sections.not_read(chosen, newest)
    if not any(reading.has_ratio for reading in readings):
        chosen_place = view.Where(chosen.hardware, chosen.preset, chosen.version)
        # With picked runs, the newest ones of the same place are other runs.
        if other_place := load.with_ratios(url, chosen_place, elsewhere=not chosen.runs):
            where = view.elsewhere(chosen_place, other_place, places)
            words = f"These runs have no speed-up; other runs do, {where} →"
            address = view.Techniques(*other_place, view.NEWEST).address
            parts.link(address, words)
    return readings


def _run(url: str, run_id: str) -> Run | None:
    """A run by its id."""
    found = pages.run(url, run_id)
    return None if found is None else found[0]
