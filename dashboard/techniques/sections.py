"""The sections of the Techniques view, each shown if it has content."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

import pandas as pd
import streamlit as st

from analysis.claims_check import ClaimMeasurement
from dashboard.components import links, markup, parts, tables, wording
from dashboard.components.frames import torch_versions
from dashboard.components.markup import HeatCell, HeatHead, HeatMap
from dashboard.techniques import break_even, charts, claims, columns, frames, ranking
from dashboard.techniques.columns import ColumnGroup, gain, metric
from dashboard.techniques.load import MOST_RUNS, POINTS_OF_A_CASE, Newest
from dashboard.techniques.ranking import WorkloadRanking
from dashboard.techniques.results import (
    TechniqueResult,
    TechniqueRun,
    best_of,
    claims_of,
    read_techniques,
    technique_words,
)
from dashboard.techniques.view import Techniques
from records.findings import Finding
from records.kinds import RunState
from records.outcomes import Measurement, Outcome
from records.references import Claim
from records.runs import Run
from reports.table import DataTable
from reports.text.numbers import percent
from reports.text.verdict_text import refusal

#: The speed-up at which a cell has the darkest shade.
_FULL_SHADE = math.log(4)

_BASE = metric("latency_floor", "Baseline", base=True)
_LATENCY = metric("latency_floor", "Latency")
_MEMORY, _PEAK, _SIZE = gain("memory", "Memory"), columns.peak_memory(), gain("size", "Size")
_EVERY = (columns.CASE, _BASE, _LATENCY, metric("throughput"), gain("speed-up", "Speed-up"), _PEAK, _SIZE)
_OF_RUN = (*_EVERY, gain("efficiency", "Efficiency"), gain("one process", "Over one process"), columns.RUN)
#: All metrics of techniques; those that no case of a workload has are left out.
_ALL_METRICS = (
    columns.TECHNIQUE,
    _BASE,
    _LATENCY,
    metric("latency_p99"),
    gain("speed-up", "Speed-up"),
    metric("compile_cold"),
    metric("compile_warm"),
    metric("new_shape"),
    metric("graph_breaks"),
    metric("recompiles"),
    metric("launch_bound", "Launch-bound, baseline", base=True),
    metric("launch_bound", "Launch-bound"),
    metric("mfu"),
    metric("intensity_by_ridge", base=True),
    metric("roofline_share", base=True),
    metric("capture"),
    metric("instantiate"),
    metric("first_replay"),
    metric("graph_pool"),
    metric("cudagraph_skips"),
    _MEMORY,
    _SIZE,
    metric("cuda_peak_allocated"),
    metric("rss_peak_steady"),
    metric("error"),
    columns.ALLOWED,
    metric("error_worst"),
    metric("top1_agreement"),
    metric("loss_drift"),
    metric("throughput_per_core", "Per core"),
    gain("one process", "Over one process"),
    metric("migrations"),
    metric("export_time"),
    metric("package_size"),
    columns.RUN,
)
_SCALING = (
    columns.TECHNIQUE,
    _LATENCY,
    metric("throughput"),
    gain("efficiency", "Efficiency"),
    gain("speed-up", "Speed-up"),
    metric("exposed_communication"),
    metric("exposed_share"),
    metric("rank_skew"),
    metric("bus_bandwidth"),
    _PEAK,
    columns.RUN,
)
#: The explanation of the gains of one run.
_ABOUT_GAINS = (
    "Speed-up: time per item of eager fp32 divided by that of the case, from the min-based latency (from the "
    "throughput where several processes run at once). Median over n pairs of replicates measured in one "
    "session. Peak memory and size: what the case needs divided by what the baseline needs; of several "
    "processes, the one that needs most. Efficiency: the speed-up per item over one rank, divided by the "
    "ranks; 100 % is perfect. Disturbed: pairs in which other programs took part of a core; their ratio may "
    "be anything."
)
_ABOUT_SCALING = (
    "Efficiency: the speed-up per item over one rank / the ranks; 100 % is ideal. Exposed communication: a "
    "step less the same step without communication, lower is better; noise can make it negative. Throughput "
    "is the sum of all ranks."
)


@dataclass(frozen=True, slots=True)
class _About:
    """The subject of all sections: a PyTorch version, and whether all results are from one run."""

    version: str
    one_run: bool


def all_of_them(
    selection: Techniques, readings: Sequence[TechniqueRun], regressions: Sequence[Finding], now: datetime
) -> None:
    """Show every section for the runs that were read, newest first; at least one.

    `regressions` are the open regressions of the chosen workload.
    """
    cases = best_of(readings)
    about = _About(readings[0].torch_version, len({case.run for case in cases}) == 1)
    workload_ranking = ranking.ranking(readings, cases, selection.workload)
    parts.html(runs(readings, cases, now))
    _matrix(selection, cases, readings, about)
    _workload(selection, workload_ranking, regressions, about)
    _memory_and_claims(workload_ranking, readings, cases)
    _scaling([case for case in cases if _scales(case, selection.workload)], about)
    _batches(readings, selection.workload)
    _details(workload_ranking, about)
    _failures([case for case in cases if case.failed is not None], about)


def of_run(run: Run, outcomes: Sequence[Outcome], measurements: Sequence[Measurement]) -> None:
    """Show the gains of each technique of one run in each of its environments, and published claims."""
    readings = [
        read_techniques(run, each.torch_version, outcomes, measurements, environment=each.fingerprint)
        for each in run.environments
    ]
    claim_results: dict[Claim, list[tuple[str, str, ClaimMeasurement]]] = {}
    for reading in readings:
        for claim, own in reading.claimed.items():
            claim_results.setdefault(claim, []).extend(own)
    pairs = [both for both in zip(run.environments, readings, strict=True) if both[1].has_ratio]
    for environment, reading in pairs:
        title, end = "What each technique brings", ""
        if len(pairs) > 1:
            title, end = f"{title} in {environment.name}", f"-{links.short(environment.fingerprint)}"
        table = _tabular(title, _OF_RUN, reading.brought, _About(reading.torch_version, one_run=True))
        parts.table_section(parts.plain(title), table, f"gains-{run.id}{end}.csv", _ABOUT_GAINS)
    table = claims.claims(claim_results, lambda case, each: tables.case(run, case, each), torch_versions(run))
    parts.table_section(table.label, table, f"claims-{run.id}.csv")


def not_read(selection: Techniques, newest: Newest) -> None:
    """The number of cases with older runs that the page does not read, with a link; empty for none."""
    if newest.cut:
        parts.caption(
            f"{wording.plural(len(newest.cut), 'case')} without a ratio in the newest {POINTS_OF_A_CASE} "
            "runs of each.",
            "Older runs of these cases are not read.",
        )
        parts.link(links.runs(), "All runs →")
    if not newest.runs:
        return
    parts.caption(
        f"The newest {MOST_RUNS} runs are read.",
        f"{wording.plural(len(newest.runs), 'older run')} measured "
        f"{wording.plural(len(newest.cases), 'case')} without a ratio in these runs.",
    )
    parts.link(selection.of_runs(newest.runs), "The next older runs →")


def runs(readings: Sequence[TechniqueRun], cases: Sequence[TechniqueResult], now: datetime) -> str:
    """The runs that the page shows, with their subject and time."""
    rows = [
        f"{markup.link(links.run(each.run), each.run)} <span>{escape(_of_run(each, cases, now))}</span>"
        for each in readings
        if any(case.run == each.run for case in cases)
    ]
    items = "".join(f"<li>{row}</li>" for row in rows)
    return f'<ul class="py-runs">{items}</ul>'


def _of_run(reading: TechniqueRun, cases: Sequence[TechniqueResult], now: datetime) -> str:
    many = sum(case.run == reading.run for case in cases)
    text = f"suite {reading.suite}, {wording.ago(reading.started_at, now)}"
    if reading.state != RunState.COMPLETE:
        text += f", {reading.state}, {wording.plural(reading.unreached, 'replicate')} not reached"
    return f"{text}: {wording.plural(many, 'case')}"


def summary(cases: Sequence[TechniqueResult], readings: Sequence[TechniqueRun]) -> str:
    """The number of cases that are faster than the baseline, as a sentence."""
    against = technique_words(readings[0].baseline)
    gains = [gain for case in frames.single_rank_cases(cases) if (gain := case.speed_up) is not None]
    statuses = [columns.status(found)[1] for found in gains]
    faster, slower = statuses.count("faster"), statuses.count("slower")
    noisy = sum(found.disturbed > 0 for found in gains)
    count_text = [f"{faster:,} of {len(gains):,} faster than {against}"]
    count_text += [f"{slower:,} slower"] if slower else []
    count_text += [f"{unclear:,} unclear"] if (unclear := len(gains) - faster - slower) else []
    if noisy:
        count_text.append(f"{noisy:,} disturbed (*)")
    return f"{', '.join(count_text)}."


def endings_text(cases: Sequence[TechniqueResult], readings: Sequence[TechniqueRun]) -> str:
    """The statuses of the cases' replicates, in a few words."""
    if failure_count := sum(case.failed is not None for case in cases):
        return f"{wording.plural(failure_count, 'case')} not measured: see the reasons below."
    if lost_count := sum(case.lost for case in cases):
        return f"{wording.plural(lost_count, 'replicate')} not ok."
    runs = {case.run for case in cases}
    missing_count = sum(each.unreached for each in readings if each.run in runs)
    return f"All that ran are ok, {missing_count:,} did not run." if missing_count else "All ended well."


def _matrix(
    selection: Techniques, cases: Sequence[TechniqueResult], readings: Sequence[TechniqueRun], about: _About
) -> None:
    """Show all workloads by techniques, with links to each workload."""
    title = f"Speed-up over {technique_words(selection.baseline)}"
    parts.heading(title, _tabular(title, (*_EVERY, columns.RUN), cases, about), "techniques.csv")
    if frames.single_rank_cases(cases):
        parts.caption(parts.plain(summary(cases, readings)))
        parts.caption(parts.plain(endings_text(cases, readings)))
    else:
        _no_ratio(cases, readings)
    cells = ranking.grid(cases)
    heads = [_workload_head(selection, each) for each in cells.workloads]
    lines = [
        (HeatHead(technique_words(name), chip=True), [each and _cell(selection, each) for each in own])
        for name, own in cells.lines
    ]
    matrix = HeatMap(title, heads, lines).html()
    if any(case.has_ratio for case in cases):
        parts.html(matrix)
        parts.caption("▲ ▼: 95 % interval beyond 1×; ~ unclear. Pick a workload.")
        return
    with parts.expander(f"{wording.plural(len(cases), 'case')} without a ratio"):
        parts.html(matrix)


def _workload_head(selection: Techniques, workload: str) -> HeatHead:
    title, parameters = wording.workload(workload)
    return HeatHead(title, parameters, selection.of_workload(workload), chosen=workload == selection.workload)


def _cell(selection: Techniques, case: TechniqueResult) -> HeatCell:
    """One case of the matrix; it is shaded only if its interval proves a change."""
    name, link = wording.case(case.case).text, selection.case_address(case.case)
    if case.failed is not None:
        status = wording.status(case.failed[0])
        about = f"{name}: {case.failed[1]}"
        return HeatCell(status.sign, "", status.word, status.tone, about=about, link=link)
    gain = case.ratio("efficiency") if case.several_ranks else case.speed_up
    if gain is None:
        every = (each.reason for each in case.gains.values() if each.reason is not None)
        reason = next(every, None)
        about = f"{name}: {refusal(reason)}" if reason else name
        return HeatCell(wording.NONE, "no ratio", about=about, link=link)
    sign, word, tone = columns.status(gain)
    star = "*" if gain.disturbed else ""
    shade = 0.0 if tone == "quiet" or not gain.ratio else min(1.0, abs(math.log(gain.ratio)) / _FULL_SHADE)
    about = f"{name}: {columns.about_gain(gain)}"
    return HeatCell(sign, word, f"{wording.gain(gain)}{star}", tone, shade, about, link)


def _no_ratio(cases: Sequence[TechniqueResult], readings: Sequence[TechniqueRun]) -> None:
    """Show why there is no ratio, and the command that would measure one."""
    if not any(case.alone for case in cases):
        parts.caption("There is no ratio: see the reasons below.")
        return
    against = technique_words(readings[0].baseline)
    parts.caption(
        f"There is no ratio. This measures them against {parts.plain(against)}:",
        "These runs measured techniques without their baseline in the same session, as an upgrade does, "
        "which compares versions.",
    )
    on_cpu = all(reading.on_cpu for reading in readings)
    parts.code(f"pyrometer run --suite {'cpu' if on_cpu else 'gpu'}")


def _workload(
    selection: Techniques, workload_ranking: WorkloadRanking, regressions: Sequence[Finding], about: _About
) -> None:
    """Show the chosen workload: the recommendation, and its techniques in one table, fastest first."""
    title, parameters = wording.workload(workload_ranking.workload)
    ends = frames.axis(workload_ranking.cases)
    against = technique_words(workload_ranking.baseline)
    groups: tuple[ColumnGroup, ...] = (
        columns.opened_technique(selection.case_address),
        columns.speed_up(f"Speed-up over {against}", ends),
        _LATENCY,
        metric("throughput", "Throughput", unit=f"{workload_ranking.unit}/s"),
        columns.peak_memory(),
        metric("compile_cold", "Compile, cold"),
        columns.PAYS,
        metric("error", "Error"),
        columns.RUN,
    )
    rows = [*workload_ranking.cases, *workload_ranking.others]
    if workload_ranking.base is not None:
        rows.insert(sum(case.times >= 1 for case in workload_ranking.cases), workload_ranking.base)
    table = _tabular(title, groups, rows, about)
    parts.heading(f"{title} {parameters}".strip(), table if rows else None, "techniques-workload.csv")
    if workload_ranking.cases:
        first, *more = ranking.advice(workload_ranking)
        parts.html(markup.strong(first) + "".join(f"<p>{escape(line)}</p>" for line in more))
    if regressions:
        parts.html("".join(map(_regression, regressions)))
    if not rows:
        parts.caption("No technique of this workload is ok: see the reasons below.")
        return
    parts.table(table)


def _regression(one: Finding) -> str:
    """The note that a technique or the baseline has an open regression."""
    technique = technique_words(one.key.case.rpartition("/")[2])
    texts = (
        f"{technique} has an open regression, {percent(one.change)} since {one.at:%Y-%m-%d}, "
        "and ratios with it include that."
    )
    return f"<p>{escape(texts)} {markup.link(links.finding(one.id), f'Finding {one.id} →')}</p>"


def _memory_and_claims(
    workload_ranking: WorkloadRanking, readings: Sequence[TechniqueRun], cases: Sequence[TechniqueResult]
) -> None:
    """Show speed-up by memory, and the claims about this workload."""
    rows = frames.pareto(workload_ranking.cases, ranking.pareto(workload_ranking.cases))
    mine = claims_of(readings, cases)
    claim_results = {
        claim: own
        for claim, measured in mine.items()
        if (own := [each for each in measured if each[0].rpartition("/")[0] == workload_ranking.workload])
    }
    has_chart = len(rows) > 1
    both = st.columns([2, 3]) if has_chart and claim_results else [st.container()] * 2
    if has_chart:
        with both[0]:
            _pareto(rows)
    if claim_results:
        with both[1]:
            table = claims.claims(claim_results, lambda case, _: _technique(case), {})
            parts.table_section("Claims check", table, "techniques-claims.csv")


def _technique(case: str) -> str:
    return markup.technique(technique_words(case.rpartition("/")[2]))


def _pareto(rows: pd.DataFrame) -> None:
    title = "Speed-up and memory"
    parts.heading(title, lambda: rows.drop(columns=["label", "left", "right"]), "techniques-memory.csv")
    names = [
        f"{row['technique']} {wording.times(row['speed_up'])} at {wording.times(row['memory'])} the memory"
        for row in rows.to_dict("records")
        if row["best"]
    ]
    parts.chart(
        charts.pareto(dark=st.context.theme.type == "dark"),
        f"Speed-up by peak memory of {len(rows)} techniques; best: {'; '.join(names)}",
        points=rows,
    )
    parts.caption("Named: no other technique is both faster and smaller.")


def _details(ranking: WorkloadRanking, about: _About) -> None:
    """Show every metric of the workload's techniques, folded."""
    rows = [*([ranking.base] if ranking.base is not None else []), *ranking.cases, *ranking.others]
    if not rows:
        return
    with st.expander("All metrics of these techniques"):
        table = _tabular("All metrics", _ALL_METRICS, rows, about)
        parts.table_section(table.label, table, "techniques-metrics.csv", break_even.FORMULA)


def _scales(case: TechniqueResult, workload: str) -> bool:
    return "parallel" in dict(case.key.technique) and case.failed is None and case.key.workload == workload


def _scaling(cases: Sequence[TechniqueResult], about: _About) -> None:
    if not cases:
        return
    table = _tabular("Scaling", _SCALING, cases, about)
    parts.table_section(table.label, table, "techniques-scaling.csv", _ABOUT_SCALING)
    curves = frames.rank_curves(cases)
    if curves is None:
        return
    parts.html(markup.legend(curves.names))
    ratios = [
        f"{row['case']} {row['ranks']} ranks {wording.significant(row['times'])}× ({row['efficiency']})"
        for row in curves.points.to_dict("records")
        if row["ranks"] > 1
    ]
    parts.chart(
        charts.scaling(len(curves.names), frames.most_ranks(curves)),
        f"Items per second relative to one rank, and the ideal: {'; '.join(ratios)}",
        points=curves.points,
        ideal=frames.ideal(curves),
    )
    parts.caption(
        "Dashed: ideal. Bars: 95 % interval.",
        "Ideal: twice the ranks process twice the items. Bars end at twice the point.",
    )
    if len(curves.names) < curves.lines:
        parts.caption(f"{len(curves.names)} of {curves.lines} ways are drawn; the table has all.")


def _batches(readings: Sequence[TechniqueRun], workload: str) -> None:
    title = frames.curve_title(workload)
    curves = [each for each in frames.batch_curves(readings) if each.title == title]
    if not curves:
        return
    parts.heading(
        "Batch curve",
        lambda: pd.concat([some for each in curves for some in (each.points, each.beyond)]).drop(
            columns=["letter", "last", "link"]
        ),
        "techniques-batches.csv",
    )
    parts.caption(
        "Items per second over the batch; higher is better.",
        "Each curve is of one run. Points: median of n replicates; bars: 95 % interval, to twice the point. "
        "Batches were measured in separate sessions: the quotient of two of them is not a measured ratio.",
    )
    for number, each in enumerate(curves):
        parts.html(markup.strong(each.title) + markup.legend(each.names))
        if len(each.names) < each.lines:
            parts.caption(f"{len(each.names)} of {each.lines} techniques are drawn; the CSV file has all.")
        values = [
            f"{row['case']} batch {row['batch']}: {wording.quantity(row['throughput'], 'items/s')}"
            for row in each.points.to_dict("records")
        ]
        parts.chart(
            charts.batches(len(each.names)),
            f"Throughput over the batch: {'; '.join(values)}",
            file_name=f"techniques-batches-{number + 1}",
            points=each.points,
        )


def _failures(cases: Sequence[TechniqueResult], about: _About) -> None:
    groups = (columns.ENDED, columns.CASE, columns.WHY, columns.RUN)
    table = _tabular("Not measured, and why", groups, cases, about)
    parts.table_section(table.label, table, "techniques-not-measured.csv")


def _tabular(
    label: str, groups: Sequence[ColumnGroup], cases: Sequence[TechniqueResult], about: _About
) -> DataTable[TechniqueResult]:
    return columns.table(label, groups, cases, about.version, one_run=about.one_run)
