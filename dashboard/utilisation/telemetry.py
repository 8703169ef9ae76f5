"""The parts of the utilisation page: the panels of devices, all windows of a run, and the empty state."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

import streamlit as st

from dashboard.components import links, load, markup, parts, wording
from dashboard.runs import capabilities
from dashboard.utilisation import panels, window_charts
from dashboard.utilisation.view import Utilisation
from db.errors import DamagedTelemetry, SchemaTooNew
from records.kinds import RunKind, RunSource
from records.outcomes import OutcomeStatus
from records.runs import Run
from records.telemetry import Recording, TelemetryWindow
from reports.table import Column, DataTable

#: The most windows of a run on the page: a run of a thousand outcomes has thousands, which the CSV file has.
MOST_WINDOWS = 40


def nothing_recorded(url: str) -> None:
    """The page of a database without a window: the first command, and the telemetry that the machine
    lacks.
    """
    runs = load.count_runs(url)
    if runs == 0:
        parts.nothing_measured()
        return
    latest = load.latest_run_id(url)
    stored_run = load.run(url, latest) if latest else None
    with parts.empty_state("No telemetry yet"):
        st.write(f"{wording.plural(runs, 'run')} stored, none with telemetry. {wording.WITHOUT_TELEMETRY}")
        st.html(markup.code("pyrometer run --suite smoke"))
        if stored_run:
            st.write(f"Run {parts.plain(stored_run[0].id)}: {why_none(stored_run[0])}.")
        reasons = capabilities.absent(stored_run[0]) if stored_run else []
        if reasons:
            st.write("Telemetry that the machine of the newest run lacks, with reasons:")
            st.html(markup.notes(reasons))
        else:
            st.write("Telemetry of this machine, available and missing with reasons:")
            st.html(markup.code("pyrometer doctor"))


def without_window(url: str, requested: str | None, newest: Sequence[TelemetryWindow]) -> None:
    """Show why the run of an address, or else the newest own one, has no telemetry, and the command that
    records some.

    Nothing if it has some, or without such a run.
    """
    own = next(iter(load.own_runs(url, 1)), None)
    run_id = (own.id if own else None) if requested in (None, "latest") else requested
    if run_id is None or any(window.run == run_id for window in newest) or load.windows(url, run_id):
        return
    stored_run = load.run(url, run_id)
    if stored_run is None:
        return
    run, _ = stored_run
    which = "The newest run" if requested in (None, "latest") else "Run"
    parts.caption(f"{which} {parts.plain(run_id)} has no telemetry.", f"Why: {why_none(run)}.")
    case = next((each.case for each in load.outcomes(url, run_id) if each.status == OutcomeStatus.OK), "")
    if case and run.source == RunSource.MEASURED:
        suite = "gpu" if run.machine.hardware.facts.get("gpus") else "cpu"
        parts.caption("This measures a case of it with telemetry:")
        parts.code(shlex.join(["pyrometer", "run", "--suite", suite, "--case", case]))


def why_none(run: Run) -> str:
    """The reason why a run has no telemetry window, as the end of a sentence in Markdown."""
    if run.source != RunSource.MEASURED:
        return "Pyrometer did not measure it"
    timing = run.facts.get("timing")
    if run.kind == RunKind.TRACE:
        return "it was traced, not measured"
    if isinstance(timing, Mapping) and not timing.get("observe_seconds"):
        hint = ", for example for cases without `--suite`" if run.suite == "chosen" else ""
        return f"it was measured without a telemetry window (`observe_seconds` is 0{hint})"
    return "no first process of a case is ok, or its windows are older than `telemetry_days`"


def opening_run(newest: Sequence[TelemetryWindow]) -> str:
    """The newest run with a utilisation of the machine with the most such runs; without any, the newest run.

    A single run on another machine, or one without values, is not a useful default.
    """
    with_utilisation = {window.run: window.machine for window in newest if window.utilisation is not None}
    if not with_utilisation:
        return newest[0].run
    # Among equal machines the first one is the one that was measured last.
    (machine, _), *_ = Counter(with_utilisation.values()).most_common(1)
    return next(run for run, where in with_utilisation.items() if where == machine)


def choose_run(url: str, run_id: str | None, newest: Sequence[TelemetryWindow]) -> tuple[str, list[str]]:
    """The run to show: the one the address names, or a default with a complaint."""
    if run_id is None:
        return opening_run(newest), []
    if run_id == "latest" or load.windows(url, run_id):
        return (newest[0].run if run_id == "latest" else run_id), []
    if load.run(url, run_id) is None:
        run_ids = list(dict.fromkeys(w.run for w in newest))
        return newest[0].run, [
            f"{wording.no_such_run(run_id, run_ids)} The page shows the newest with telemetry."
        ]
    return newest[0].run, [f"Run {run_id} has no telemetry; the page shows the newest run with telemetry."]


def runs_on_offer(newest: Sequence[TelemetryWindow], own: TelemetryWindow) -> Mapping[str, str]:
    """The runs to choose from, newest first, including the shown one, of any age."""
    windows = [*newest, *([] if any(w.run == own.run for w in newest) else [own])]
    return {w.run: f"{wording.timestamp(w.started_at)} · {w.machine} · {w.run}" for w in windows}


def side_by_side(url: str, selection: Utilisation, windows: Sequence[TelemetryWindow]) -> None:
    """Show the chosen devices side by side, on one axis of seconds."""
    matches = [(window, _rows(url, window)) for window in windows]
    recordings = [recording for _, recording in matches if not isinstance(recording, str)]
    origin, seconds = panels.origin(recordings), panels.length(recordings)
    for start in range(0, len(matches), 2):
        pair = matches[start : start + 2]
        columns = st.columns(2) if len(matches) > 1 else [st.container()]
        for column, (window, recording) in zip(columns, pair, strict=False):
            with column:
                _device(window, recording, origin, seconds)
    address = links.outcome(selection.run, selection.case, selection.environment, selection.replicate)
    parts.link(address, "The replicate and its samples →")


def _rows(url: str, window: TelemetryWindow) -> Recording | str:
    """A recording, or the reason why there is none, so that a damaged one does not affect the others."""
    try:
        return load.recording(url, window) or "Its rows are deleted; the metrics computed from them remain."
    except (DamagedTelemetry, SchemaTooNew) as error:
        return str(error)


def _device(window: TelemetryWindow, recording: Recording | str, origin: int, seconds: float) -> None:
    name = " · ".join(wording.device(window.name, window.device))
    if isinstance(recording, str):
        parts.heading(parts.plain(name))
        parts.html(markup.notes([recording]))
        return
    file = f"telemetry-{window.run}-{window.case.replace('/', '__')}-{window.device}.csv"
    parts.heading(parts.plain(name), lambda: panels.table(recording, origin), file)
    parts.html(cards(window))
    panel_list = panels.panels(recording)
    if panel_list:
        rows = panels.hover_rows(recording, origin)
        parts.subject(wording.case(window.case).text, window.hardware, f"PyTorch {window.torch_version}")
        parts.chart(
            window_charts.window(panel_list, seconds, with_tooltips=len(rows) > 0),
            alt=wording.window_in_words(
                name, [panel.heading for panel in panel_list], window.rows, window.seconds
            ),
            count=wording.plural(window.rows, "sample"),
            sets=panels.lines(recording, panel_list, origin),
            heat=panels.heat(recording, panel_list, origin),
            rows=rows,
        )
    notes = [*recording.notes]
    if missing := panels.without_values(recording):
        notes.append(f"Not available: {', '.join(missing)}.")
    if notes:
        parts.html(markup.notes(notes))


def cards(window: TelemetryWindow) -> str:
    """The summary of a window as a row of numbers."""
    what, source = wording.utilisation(window.device, window.utilisation_source)
    card_list = [markup.card(what, _value(window.utilisation, "%"), escape(f"mean · {source}"))]
    if window.power is not None:
        card_list.append(markup.card("Power", _value(window.power, "W"), "mean"))
    if window.temperature is not None:
        card_list.append(markup.card("Temperature", _value(window.temperature, "°C"), "highest"))
    rows = escape(wording.plural(window.rows, "sample"))
    card_list.append(markup.card("Window", _value(window.seconds, "s"), rows))
    return markup.panels(*card_list, kind="py-cards py-narrow")


def all_windows(run_id: str, windows: Sequence[TelemetryWindow], case: str) -> None:
    """The windows of the run, those of `case` first, each with the link that opens it; all of them as CSV."""
    window_table = table(windows, case)
    parts.table_section(window_table.label, window_table, f"telemetry-{run_id}.csv", wording.ABOUT_WINDOWS)


def table(windows: Sequence[TelemetryWindow], case: str = "") -> DataTable[TelemetryWindow]:
    """The windows of a run by case, those of `case` first, one row per device."""
    several = len({w.environment for w in windows}) > 1
    first = {(w.case, w.environment): w.replicate for w in windows}
    repeated_cases = {w.case for w in windows if w.replicate != first[w.case, w.environment]}
    in_order = sorted(windows, key=lambda window: (window.case != case, *_by_case(window)))
    leading = {(w.case, w.environment, w.replicate): w.device for w in reversed(in_order)}

    def leads(w: TelemetryWindow) -> bool:
        return leading[w.case, w.environment, w.replicate] == w.device

    def name(w: TelemetryWindow) -> str:
        small = [w.environment_name] if several else []
        small += [f"replicate {w.replicate}"] if w.case in repeated_cases else []
        return markup.case(w.case) + "".join(f"<small>{escape(each)}</small>" for each in small)

    columns: list[Column[TelemetryWindow]] = [
        Column("run", value=lambda w: w.run),
        Column("case", "Case", lambda w: w.case, html=lambda w: name(w) if leads(w) else ""),
        Column("environment", value=lambda w: w.environment_name),
        *_conditions(),
        Column(
            "device",
            "Device",
            lambda w: w.device,
            html=lambda w: markup.two_lines(*wording.device(w.name, w.device)),
        ),
        Column("name", value=lambda w: w.name),
        *_means(),
        Column("rows", "Samples", lambda w: w.rows, number=True),
        Column("seconds", "Seconds", lambda w: w.seconds, html=lambda w: _value(w.seconds, ""), number=True),
        Column(
            "",
            "",
            format=lambda w: "Open →" if leads(w) else "",
            link=lambda w: links.utilisation(w.run, w.case, w.environment, w.replicate) if leads(w) else "",
        ),
    ]
    rest = "more in the CSV file; choose any case above"
    return DataTable("All windows of this run", columns, in_order, MOST_WINDOWS, rest, folded=False)


def _conditions() -> list[Column[TelemetryWindow]]:
    """The columns of CSV files with the place of a window."""
    return [
        Column("torch", value=lambda w: w.torch_version),
        Column("machine", value=lambda w: w.machine),
        Column("hardware", value=lambda w: w.hardware),
        Column("replicate", value=lambda w: w.replicate),
    ]


def _means() -> list[Column[TelemetryWindow]]:
    """The summary of a window."""
    return [
        Column(
            "utilisation_percent",
            "Mean utilisation (%)",
            lambda w: w.utilisation,
            html=lambda w: f"<strong>{_value(w.utilisation, '')}</strong>",
            number=True,
        ),
        Column("utilisation_source", value=lambda w: w.utilisation_source),
        Column(
            "utilisation_of",
            "Of what",
            lambda w: " · ".join(wording.utilisation(w.device, w.utilisation_source)),
            html=lambda w: markup.two_lines(*wording.utilisation(w.device, w.utilisation_source)),
        ),
        Column("power_w", "Power (W)", lambda w: w.power, html=lambda w: _value(w.power, ""), number=True),
        Column(
            "temperature_c",
            "Highest °C",
            lambda w: w.temperature,
            html=lambda w: _value(w.temperature, ""),
            number=True,
        ),
    ]


def _by_case(window: TelemetryWindow) -> tuple[str, str, int, bool, str]:
    return window.case, window.environment, window.replicate, window.device == wording.HOST, window.device


def _value(value: float | None, unit: str) -> str:
    return escape(wording.NONE if value is None else wording.quantity(value, unit))
