"""Series over dates or PyTorch versions: their moves, and other changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import streamlit as st

from analysis.metrics import Metric
from dashboard.components import links, load, markup, parts, wording
from dashboard.components.frames import version_choices
from dashboard.components.query_params import find_fingerprint, last, public
from dashboard.header import page_context
from dashboard.regressions import findings
from dashboard.runs import case_panel
from dashboard.server.settings import ServerSettings
from dashboard.trends import chart_section, frames, lines, marks, tables, words
from dashboard.trends import load as trends_load
from dashboard.trends.lines import TrendLine, place_of
from dashboard.trends.load import ChartData, History, complaints, load_trends
from dashboard.trends.view import MAX_LINES, MAX_TRACKS, TrendChoices, Trends, is_canary, label_series
from interchange.foreign_runs import is_undated
from records.kinds import RunSource
from records.runs import RunChange
from records.series import SeriesPoint

#: The most versions to choose a baseline from; an address may name any.
_OFFERED_VERSIONS = 60


def show() -> None:
    """Show the series that the address names, else those of the watched metric."""
    url = ServerSettings.from_environment().database_url
    parts.title("History")
    address = parts.query()
    query = page_context.complete_query(address, Trends.context, lambda query: complaints(url, query))
    data = load_trends(url, query)
    if data is None:
        words = "with a measurement; see the reasons on their pages. This measures some:"
        parts.no_match(load.count_runs(url), "No number yet", words, load.suite_command(url))
        st.stop()

    selection, past, chart_data, metric = data.chosen, data.past, data.drawn, data.metric
    parts.complain(data.complaints)
    about = f", {wording.workload_title(selection.workload)}" if selection.workload else ""
    parts.tab_title(f"History: {metric.title}{about}")
    with page_context.bar("/explore", address, query):
        _context(selection, data.offer, wording.titles(data.offer.metrics, data.defined))
    _choices(selection, data.offer, past, chart_data)

    if selection.shown == "grid":
        _every_case(url, selection, metric)
        parts.permanent_link(selection.address)
        return
    points = _at(past, selection.at)
    of_panel = _of_panel([point for point, _, _ in points])
    ring_points = [(line, point) for point, line, track in points if track in chart_data.drawn]
    chart_section.show(selection, metric, chart_data, ring_points)
    _captions(selection, metric, past, chart_data)
    _point_limit(selection, past, data.lines)
    _canary(selection, data.offer)
    if points:
        _point(url, selection, metric, past, chart_data, points)
    _move_section(selection, chart_data)
    _change_section(selection, chart_data)
    _every_point(selection, metric, chart_data)
    parts.permanent_link(selection.address)
    if of_panel is not None and (run := load.run(url, of_panel.run)) is not None:
        case_panel.of_run(url, run[0], of_panel.case, of_panel.environment)


def _context(selection: Trends, offer: TrendChoices, metrics: Mapping[str, str]) -> None:
    """The parameters that other views share with this one."""
    places = wording.hardware_choices(offer.hardware)
    parts.several("Hardware", "hardware", places, selection, MAX_LINES)
    titles = {workload: wording.workload_title(workload) for workload in offer.workloads}
    parts.select("Workload", "workload", {"": "All workloads", **titles}, selection)
    parts.select("Metric", "metric", metrics, selection)
    if selection.axis == "date":
        ranges = {"recent": "newest", "30d": "30 d", "90d": "90 d", "1y": "1 y", "all": "all"}
        parts.segments("Range", "points", ranges, selection)


def _choices(selection: Trends, offer: TrendChoices, past: History, chart_data: ChartData) -> None:
    """The choices for these lines, which are stored in the address."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        parts.segments("Show", "shown", {"lines": "chosen cases", "grid": "all cases"}, selection)
        parts.segments("X axis", "axis", {"date": "date", "version": "PyTorch version"}, selection)
        parts.segments("Scale", "scale", {"absolute": "absolute", "relative": "relative"}, selection)
        if selection.scale == "relative":
            parts.select("Against", "baseline", _baselines(selection, past.lines), selection)
        parts.select("Preset", "preset", offer.presets, selection)
        if len(chart_data.tracks) > 1:
            none = "the scheduled ones" if lines.scheduled_tracks(past.lines, past.tracks_of_place) else "all"
            parts.several(f"Series (none: {none})", "tracks", chart_data.tracks, selection, MAX_TRACKS)
    labels = {case: wording.case(case).text for case in offer.cases}
    parts.several(f"Cases, up to {MAX_LINES} lines", "cases", labels, selection, MAX_LINES)


def _baselines(selection: Trends, trend_lines: Sequence[TrendLine]) -> dict[str, str]:
    """The possible baselines, and the selected one."""
    choices = version_choices(lines.baselines(trend_lines).values())
    choices_shown = dict(list(choices.items())[:_OFFERED_VERSIONS])
    return (
        choices_shown
        if selection.baseline in choices_shown
        else {selection.baseline: selection.baseline, **choices_shown}
    )


def _captions(selection: Trends, metric: Metric, past: History, chart_data: ChartData) -> None:
    """The caption about the baseline of the chart and the tracks it leaves out."""
    parts.caption("A point opens its case in its run.", "" if "case" in parts.query() else words.ABOUT_CASES)
    if chart_data.levels is not None:
        run = selection.baseline in lines.runs(past.lines)
        sentences = words.against(metric, selection.baseline, chart_data.levels, past.lines, run=run)
        lacking = ", ".join(line.letter for line in past.lines if line.letter not in chart_data.levels)
        undrawn = f" Not drawn: {lacking}." if lacking else ""
        parts.caption(
            parts.plain(f"0 % is {selection.baseline}: a hint, not a verdict.{undrawn}"),
            parts.plain(sentences),
        )
        if not run:
            _measured_in_turns(selection, past, chart_data)
    if max(len(line.points) for line in past.lines) == 1:
        parts.caption("One point each: a line begins with the second run.")
    if selection.axis == "date" and frames.at_one_moment(chart_data.versions):
        parts.caption("Several PyTorch versions at one moment: the version axis separates them.")
    if len(chart_data.tracks) > len(chart_data.drawn) and not selection.tracks:
        parts.caption(_left_out(past, chart_data))


def _left_out(past: History, chart_data: ChartData) -> str:
    """The note about tracks that are drawn only if selected."""
    schedule_tracks = lines.scheduled_tracks(past.lines, past.tracks_of_place)
    sentences: list[str] = []
    if single := len(chart_data.tracks) - len(schedule_tracks) if schedule_tracks else 0:
        tracks = wording.plural(single, "track")
        sentences.append(f"Not drawn: {tracks} of confirmations, upgrades and single runs; see Series.")
    if (many := len(schedule_tracks) or len(chart_data.tracks)) > MAX_TRACKS:
        sentences.append(f"Only the {MAX_TRACKS} of {many} tracks that were measured last are drawn.")
    return " ".join(sentences)


def _point_limit(selection: Trends, past: History, many: int) -> None:
    """The note about points that are left out, with a link to them."""
    limit, most = load.newest_points(many, recent=selection.recent), load.newest_points(many)
    if max(len(line.points) for line in past.lines) >= limit:
        alone = load.newest_points(1, recent=selection.recent)
        fewer = "; with fewer lines more of each" if limit < alone else ""
        parts.caption(f"The newest {limit} points of each line{fewer}; `pyrometer export` has all.")
        if limit < most:
            parts.link(selection.after("points", "all").address, f"Up to {most:,} points of each line →")
    if selection.points == "all" and replace(selection, points="recent").recent and not selection.at:
        parts.link(selection.after("points", "recent").address, "Only the newest points →")


def _measured_in_turns(selection: Trends, past: History, chart_data: ChartData) -> None:
    """The link or the command for a comparison of the baseline with the newest version without drift."""
    old = public(selection.baseline)
    others = [
        (point, line)
        for line in chart_data.lines
        for point in line.points
        if point.torch_version and public(point.torch_version) != old
    ]
    if not others:
        return
    newest, line = max(others, key=lambda own: own[0].started_at)
    names = lines.baselines(past.lines)
    own = {each.letter: lines.build(each, selection.baseline) for each in past.lines}[line.letter]
    ends = {"from": [names.get(own, selection.baseline)], "to": [names[newest.torch_version]]}
    filters = {**ends, "hardware": [line.key.hardware[: links.FINGERPRINT]]}
    address = links.view(links.UPGRADE, filters)
    parts.link(address, "A/B interleaved: the upgrade between the two →")


def _at(past: History, run: str) -> list[tables.Own]:
    """The points of one run in the order of the lines, including tracks that are not drawn."""
    return [
        (point, line, track)
        for line in past.lines
        for point, track in line.points_with_tracks
        if point.run == run
    ]


def _of_panel(points: Sequence[SeriesPoint]) -> SeriesPoint | None:
    """The one of `points` whose panel the address opens, by its case and environment."""
    query, complaints = parts.query(), list[str]()
    case = case_panel.read_case(query, [point.case for point in points], complaints)
    parts.complain(complaints)
    own = {point.environment: point for point in points if point.case == case}
    environment = find_fingerprint(last(query, "environment") or "", dict.fromkeys(own, ""))
    return own.get(environment or next(iter(own), ""))


def _point(
    url: str,
    selection: Trends,
    metric: Metric,
    past: History,
    chart_data: ChartData,
    own: Sequence[tables.Own],
) -> None:
    """Show the points of one run: their values, comparisons, and other changes."""
    run = selection.at
    table = tables.points(own, selection, metric, chart_data.tracks, chart_data.levels)
    parts.heading(parts.plain(f"Point of run {run}"), table, f"point-{selection.metric}-{run}.csv")
    window_keys = {(window.case, window.environment) for window in load.windows(url, run)}
    changes: set[RunChange] | None = None
    for each, line, track in own:
        before = _before(line, track, each)
        label = chart_data.tracks[track] if len(chart_data.tracks) > 1 else ""
        facts = tables.point_facts(line, each, metric, label, (chart_data.levels or {}).get(line.letter))
        change_html = tables.change(each, before, metric) if before is not None else ""
        parts.html(markup.panels(facts, change_html, kind="py-point"))
        parts.html(
            tables.ways(each, before, selection, has_window=(each.case, each.environment) in window_keys)
        )
        if before is not None:
            _against(past, before, each)
            changes = (changes or set()) | set(past.of_line.get((line.letter, place_of(each)), ()))
    if changes is not None:
        _differs(sorted(changes, key=lambda change: (change.kind, change.name)), selection)


def _before(line: TrendLine, track: str, point: SeriesPoint) -> SeriesPoint | None:
    """The point before one in its track on its machine; None for the first, and for one without a time."""
    if is_undated(point.run):
        return None
    earlier = [
        each
        for each in line.of_track(track)
        if each.machine == point.machine and each.started_at < point.started_at and not is_undated(each.run)
    ]
    return earlier[-1] if earlier else None


def _against(past: History, before: SeriesPoint, point: SeriesPoint) -> None:
    old, new = past.tracks_of_place.get(place_of(before)), past.tracks_of_place.get(place_of(point))
    command = words.comparison(old, new, before, point)
    # Runs of other tools or scripts cannot be measured again by a command.
    if command and {point.source, before.source} == {RunSource.MEASURED}:
        parts.caption("Runs also differ by drift; this measures both A/B interleaved:")
        parts.code(command)


def _differs(changes: Sequence[RunChange], selection: Trends) -> None:
    if not changes:
        parts.caption("No other stored fact differs from the run before.")
        return
    table = findings.changes(changes)
    name = f"changes-{selection.metric}-{selection.at}.csv"
    parts.table_section("Differences from the run before in its track", table, name)


def _move_section(selection: Trends, chart_data: ChartData) -> None:
    """Show the change points, if any."""
    if not chart_data.moves:
        return
    table = tables.moves(chart_data.moves, chart_data.tracks, several=len(chart_data.drawn) > 1)
    about = words.about_moves(selection.metric)
    parts.table_section(table.label, table, f"moves-{selection.metric}.csv", about)


def _change_section(selection: Trends, chart_data: ChartData) -> None:
    """Show other changes along the lines, if any."""
    if not chart_data.steps:
        return
    parts.heading(
        "Other changes",
        lambda: marks.step_table(chart_data.steps, chart_data.tracks),
        f"changes-{selection.metric}.csv",
        words.ABOUT_STEPS,
    )
    parts.table(tables.steps(chart_data.steps, chart_data.drawn))


def _every_point(selection: Trends, metric: Metric, chart_data: ChartData) -> None:
    """Show the newest points with their links; all of them as CSV."""
    items, several = tables.newest_first(chart_data.lines), len(chart_data.drawn) > 1
    table = tables.points(items, selection, metric, chart_data.tracks, chart_data.levels, several=several)
    parts.table_section("Data", table, f"points-{selection.metric}.csv")


def _every_case(url: str, selection: Trends, metric: Metric) -> None:
    """Show all cases of the metric and the workload as sparklines, because they are too many for one
    chart.
    """
    keys = [
        key
        for key in load.series_keys(url)
        if (key.metric, key.preset) == (selection.metric, selection.preset)
        and key.hardware in selection.hardware
        and selection.has(key.case)
    ]
    rows = trends_load.every_case(url, label_series(keys))
    table = tables.every_case(rows, selection, metric)
    parts.heading(f"All cases: {metric.title}", table, f"cases-{selection.metric}.csv")
    parts.caption("Not coloured: one change by itself is no finding.")
    parts.table(table)


def _canary(selection: Trends, offer: TrendChoices) -> None:
    """A link that adds the series of the canary to the lines, if there is one and room for it."""
    own = [case for case in offer.cases if is_canary(case) and case not in selection.cases]
    room = MAX_LINES // len(selection.hardware) - len(selection.cases)
    if not own or room < 1 or any(map(is_canary, selection.cases)):
        return
    with_canary = selection.after("cases", (*selection.cases, *own[:room]))
    parts.link(with_canary.address, "Add the canary of the machine →")
