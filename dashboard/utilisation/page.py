"""One telemetry window: how busy GPU and CPUs were while a case ran, on one axis of seconds."""

from operator import attrgetter

import streamlit as st

from dashboard.components import filters, links, load, parts, wording
from dashboard.components.query_params import distinct
from dashboard.header import page_context
from dashboard.server.settings import ServerSettings
from dashboard.utilisation import by_case, telemetry


def show() -> None:
    """The telemetry window that the address names, else the newest run's first."""
    url = ServerSettings.from_environment().database_url
    query = parts.query()
    parts.title("Utilisation")
    newest = load.newest_windows(url)
    if not newest:
        telemetry.nothing_recorded(url)
        st.stop()

    wanted = filters.last(query, "run")
    remembered = page_context.preferred(newest, attrgetter("workload"), attrgetter("hardware_fingerprint"))
    run_id, complaints = telemetry.choose_run(url, wanted, newest if wanted else remembered)
    windows = load.windows(url, run_id)
    preferred = page_context.preferred(windows, attrgetter("workload"))
    chosen, own, more = filters.utilisation(query, run_id, windows, preferred)
    parts.complain([*complaints, *more])
    if wanted is not None:
        telemetry.without_window(url, wanted, newest)
    if filters.last(query, "case"):
        place = windows[0].hardware_fingerprint[: links.FINGERPRINT]
        page_context.keep("/explore", query, hardware=place, workload=own[0].workload)
    with st.container(horizontal=True, vertical_alignment="bottom", key="window-choice"):
        parts.select("Run", "run", telemetry.runs_on_offer(newest, windows[0]), chosen)
        cases = sorted({w.case for w in windows})
        parts.select("Case", "case", {case: wording.case(case).text for case in cases}, chosen)
        environments = {w.environment: w.environment_name for w in windows if w.case == chosen.case}
        if len(environments) > 1:
            parts.select("Environment", "environment", distinct(environments), chosen)
    names = {w.device: " · ".join(wording.device(w.name, w.device)) for w in own}
    if len(names) > 1:
        most = filters.MAX_DEVICES
        label = "Devices" + (f", up to {most}" if len(names) > most else "")
        parts.several(label, "devices", names, chosen, most)

    for source, measured in by_case.by_source(run_id, load.measurements(url, run_id)).items():
        table = by_case.table(source, measured, {w.environment: w.environment_name for w in windows})
        parts.heading(table.label, table, f"utilisation-{run_id}-{next(iter(by_case.SOURCES[source]))}.csv")
        parts.table(table)
    telemetry.side_by_side(url, chosen, [w for device in chosen.devices for w in own if w.device == device])

    telemetry.all_windows(run_id, windows, chosen.case)
    if wanted is None:
        telemetry.without_window(url, wanted, newest)
    parts.pinned(chosen.address)
