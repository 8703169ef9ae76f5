"""The parts of the Techniques page, each shown where there is something to show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

import pandas as pd
import streamlit as st

from dashboard.components import links, markup, parts, wording
from dashboard.runs import gains
from dashboard.techniques import break_even, categories, charts, columns, frames
from dashboard.techniques.columns import ColumnGroup, gain, metric
from dashboard.techniques.load import MOST_RUNS, POINTS_OF_A_CASE, Newest
from dashboard.techniques.results import TechniqueResult, TechniqueRun, best_of, claims_of, eager_of
from dashboard.techniques.view import Techniques
from records.kinds import RunState
from reports.table import DataTable
from runner.worker.case_key import CaseKey


def row(cases: Sequence[TechniqueResult], readings: Sequence[TechniqueRun]) -> str:
    """What matters most, in a row of numbers."""
    timed = [(case, found) for case in frames.timed(cases) if (found := case.speed_up) is not None]
    statuses = [columns.status(found)[1] for _, found in timed]
    faster, slower = statuses.count("faster"), statuses.count("slower")
    unclear = len(timed) - faster - slower
    noisy = sum(found.disturbed > 0 for _, found in timed)
    shown = [
        markup.card(
            "Faster than eager fp32",
            f'<span class="py-good">▲ {faster:,}</span> of {len(timed):,}',
            f"▼ {slower:,} slower, ~ {unclear:,} unclear" + (f", * {noisy:,} disturbed" if noisy else ""),
        )
    ]
    proven = [each for each in timed if columns.status(each[1])[1] == "faster" and not each[1].disturbed]
    if proven:
        best, found = max(proven, key=lambda each: each[1].ratio or 0.0)
        shown.append(_card("Fastest", f"▲ {wording.gain(found)}", best))
    small = [(case, found) for case in cases if (found := case.ratio("memory")) is not None]
    proven = [each for each in small if columns.status(each[1])[1] == "less"]
    if proven:
        best, found = min(proven, key=lambda each: each[1].ratio or 1.0)
        shown.append(_card("Least memory", f"▼ {wording.gain(found)} of eager's", best))
    failed = sum(case.failed is not None for case in cases)
    shown.append(markup.card("Not measured", f"{failed:,}", _ended(cases, readings)))
    return markup.panels(*shown)


def _ended(cases: Sequence[TechniqueResult], readings: Sequence[TechniqueRun]) -> str:
    """How the replicates of the cases ended, in a few words."""
    if any(case.failed is not None for case in cases):
        return "the reasons stand below"
    if lost := sum(case.lost for case in cases):
        return f"{wording.plural(lost, 'replicate')} did not end well"
    runs = {case.run for case in cases}
    unreached = sum(each.unreached for each in readings if each.run in runs)
    return f"all that were reached ended well, {unreached:,} were not" if unreached else "all ended well"


def _card(title: str, value: str, case: TechniqueResult) -> str:
    return markup.card(title, escape(value), escape(wording.case(case.case).text))


_BASE = metric("latency_floor", "Eager floor", base=True)
_FLOOR = metric("latency_floor")
_RATE = metric("throughput")
_SPEED_UP = gain("speed-up", "Speed-up")
_MEMORY = gain("memory", "Memory")
_SIZE = gain("size", "Size")
_PEAKS = (metric("cuda_peak_allocated"), metric("rss_peak_steady"))
#: How every section begins: the case, absolute numbers, then what the technique made of them.
_FIRST = (columns.CASE, _BASE, _FLOOR, _RATE, _SPEED_UP)
_PLAIN = (columns.CASE, _FLOOR, _RATE, metric("latency_p99"), columns.RUN)


@dataclass(frozen=True, slots=True)
class _Section:
    """One section: which cases are in it, and the columns of each; `name` is part of the CSV file's name."""

    name: str
    title: str
    caption: str
    holds: Callable[[CaseKey], bool]
    columns: tuple[ColumnGroup, ...]


@dataclass(frozen=True, slots=True)
class _About:
    """The subject of all sections: a PyTorch version, and whether all is from one run."""

    version: str
    one_run: bool


def _on(subject: categories.Subject) -> Callable[[CaseKey], bool]:
    return lambda key: categories.subject(key) == subject


_COMPILE = _Section(
    "compile",
    "Compile modes",
    break_even.FORMULA,
    _on("compile"),
    (
        *_FIRST,
        metric("compile_cold"),
        metric("compile_warm"),
        columns.PAYS,
        _MEMORY,
        *_PEAKS,
        metric("new_shape"),
        metric("graph_breaks"),
        metric("recompiles"),
        columns.RUN,
    ),
)
_GRAPHS = _Section(
    "graphs",
    "CUDA graphs",
    "Launch-bound share: the share of a step in which no kernel ran, of the eager case and under the "
    "technique; more than that no CUDA graph can save.",
    categories.uses_graphs,
    (
        *_FIRST,
        metric("launch_bound", "Launch-bound, eager", base=True),
        metric("launch_bound", "Launch-bound"),
        metric("capture"),
        metric("instantiate"),
        metric("first_replay"),
        metric("graph_pool"),
        metric("cudagraph_skips"),
        columns.RUN,
    ),
)
_SECTIONS = (
    _COMPILE,
    _Section(
        "precision",
        "Precision",
        "Memory and size: what the case needs / what eager fp32 needs, less is better. Error: L2 norm of the "
        "difference from an fp32 reference / L2 norm of the reference, lower is better; an answer beyond the "
        "error allowed is no gain but an outcome `wrong`.",
        _on("precision"),
        (
            *_FIRST,
            _MEMORY,
            _SIZE,
            metric("error"),
            columns.ALLOWED,
            metric("error_worst"),
            metric("loss_drift"),
            columns.RUN,
        ),
    ),
    _GRAPHS,
    _Section(
        "pinning",
        "Pinning, threads and instances",
        "Per core: items in a second / CPUs in use, higher is better. Of several instances the throughput is "
        "that of all together, and their speed-up is made of it; the other ratio is over one process with "
        "all the CPUs.",
        _on("pinning"),
        (
            *_FIRST,
            metric("throughput_per_core", "Per core, eager", base=True),
            metric("throughput_per_core", "Per core"),
            gain("one process", "Over one process"),
            _MEMORY,
            metric("migrations"),
            columns.RUN,
        ),
    ),
    _Section(
        "others",
        "Allocator, layout, checkpointing, export",
        "Export time is spent once, before the first step; memory and size: less is better.",
        _on("others"),
        (*_FIRST, _MEMORY, _SIZE, metric("export_time"), metric("package_size"), columns.RUN),
    ),
    _Section(
        "together",
        "Techniques together",
        "Each against eager fp32: what one of them adds to the other is not measured here.",
        _on("together"),
        (*_FIRST, metric("compile_cold"), _MEMORY, _SIZE, metric("error"), columns.RUN),
    ),
)
_SCALING = _Section(
    "scaling",
    "Scaling",
    "Efficiency: the speed-up per item over one rank / the ranks; 100 % is ideal. Exposed communication: a "
    "step less the same step without communication, lower is better; noise can make it negative. Throughput "
    "is the sum of all ranks.",
    _on("scaling"),
    (
        columns.CASE,
        _FLOOR,
        _RATE,
        gain("efficiency", "Efficiency"),
        _SPEED_UP,
        metric("exposed_communication"),
        metric("exposed_share"),
        metric("rank_skew"),
        metric("bus_bandwidth"),
        _MEMORY,
        columns.RUN,
    ),
)


def all_of_them(readings: Sequence[TechniqueRun], now: datetime) -> None:
    """Every section, for the runs that were read, newest first; there must be one at least."""
    cases = best_of(readings)
    about = _About(readings[0].torch_version, len({case.run for case in cases}) == 1)
    well = [case for case in cases if case.failed is None]
    parts.html(runs(readings, cases, now))
    if frames.timed(cases):
        parts.html(row(cases, readings))
    _speed_ups(cases, readings, about)
    for section in _SECTIONS:
        own = [case for case in well if section.holds(case.key)]
        if section is _GRAPHS:
            _cuda_graphs(own, readings, about)
        elif own:
            _table(section, own, about)
    _scaling([case for case in well if _SCALING.holds(case.key)], about)
    _batches(readings)
    if claimed := claims_of(readings, cases):
        parts.heading(
            "Claimed in the field, measured here",
            lambda: gains.claims_frame(claimed),
            "techniques-claims.csv",
        )
        parts.html(gains.claims(claimed, lambda case, _: markup.case(case)))
    _failed([case for case in cases if case.failed is not None], about)


def not_read(chosen: Techniques, newest: Newest) -> None:
    """How many cases are left to runs that the page does not read, and where those are; nothing for none."""
    if newest.cut:
        parts.caption(
            f"{wording.plural(len(newest.cut), 'case')} without a ratio in the newest {POINTS_OF_A_CASE} "
            "runs of each; older runs of them are not read."
        )
        parts.html(f"<p>{markup.link(links.runs(), 'All runs →')}</p>")
    if not newest.runs:
        return
    parts.caption(
        f"The newest {MOST_RUNS} runs are read. {wording.plural(len(newest.runs), 'older run')} measured "
        f"{wording.plural(len(newest.cases), 'case')} without a ratio in these runs."
    )
    parts.html(f"<p>{markup.link(chosen.of_runs(newest.runs), 'The next older runs →')}</p>")


def runs(readings: Sequence[TechniqueRun], cases: Sequence[TechniqueResult], now: datetime) -> str:
    """Which runs the page shows, of what and since when."""
    rows = [
        f"{markup.link(links.run(each.run), each.run)} <span>{escape(_of_run(each, cases, now))}</span>"
        for each in readings
        if any(case.run == each.run for case in cases)
    ]
    said = "A ratio is only made of pairs that were alive together in one session of one run."
    listed = "".join(f"<li>{row}</li>" for row in rows)
    return f'<ul class="py-runs">{listed}</ul><p class="py-quiet">{said}</p>'


def _of_run(reading: TechniqueRun, cases: Sequence[TechniqueResult], now: datetime) -> str:
    many = sum(case.run == reading.run for case in cases)
    text = f"suite {reading.suite}, {wording.ago(reading.started_at, now)}"
    if reading.state != RunState.COMPLETE:
        text += f", {reading.state}, {wording.plural(reading.unreached, 'replicate')} not reached"
    return f"{text}: {wording.plural(many, 'case')}"


def _speed_ups(cases: Sequence[TechniqueResult], readings: Sequence[TechniqueRun], about: _About) -> None:
    timed = frames.timed(cases)
    every = (columns.CASE, _BASE, _FLOOR, _RATE, _SPEED_UP, _MEMORY, _SIZE, columns.RUN)
    title = "What each technique brings"
    parts.heading(title, _tabular(title, every, cases, about), "techniques.csv")
    if not timed:
        _no_ratio(cases, readings)
        return
    drawn = frames.drawn(timed)
    about_chart = (
        "Speed-up over eager fp32 of the same workload, median of n pairs with its 95 % interval, higher is "
        "better. ▲ faster, ▼ slower: the interval leaves out 1×; ~ unclear: it holds 1×; ? there is none, as "
        "for one pair."
    )
    if any(categories.several_ranks(case.key) for case in cases):
        about_chart += " Several ranks, which are more hardware, stand below under Scaling."
    if len(drawn) < len(timed):
        about_chart += f" Drawn are the {len(drawn)} furthest from 1× of {len(timed)}; the CSV file has all."
    rows = frames.speed_ups(drawn)
    records = rows.to_dict("records")
    if any(row["low"] < row["from"] or row["high"] > row["to"] for row in records):
        about_chart += " Intervals that reach far beyond all ratios are cut; the table has their ends."
    if any(row["disturbed"] for row in records):
        about_chart += (
            " *: in some pair other programs took part of a core; such a ratio may be anything: measure "
            "again when the machine is quiet."
        )
    parts.caption(about_chart)
    said = [f"{row['label']} {row['text']} {row['status']}" for row in records]
    alt = f"Speed-up of {wording.plural(len(drawn), 'case')} over eager fp32: {'; '.join(said)}"
    dark = st.context.theme.type == "dark"
    parts.chart(charts.speed_ups(len(drawn), dark=dark), alt, rows=rows)


def _no_ratio(cases: Sequence[TechniqueResult], readings: Sequence[TechniqueRun]) -> None:
    """Why there is none, and what would measure one."""
    if not any(case.alone for case in cases):
        parts.caption("There is no ratio: the reasons stand below.")
        return
    parts.caption(
        "There is no ratio: these runs measured techniques without their baseline in the same session, "
        "as an upgrade does, which sets versions against each other. This sets them against eager fp32:"
    )
    on_cpu = all(reading.on_cpu for reading in readings)
    parts.code(f"pyrometer run --suite {'cpu' if on_cpu else 'gpu'}")


def _table(section: _Section, cases: Sequence[TechniqueResult], about: _About) -> None:
    file = f"techniques-{section.name}.csv"
    table = _tabular(section.title, section.columns, cases, about)
    parts.heading(section.title, table, file)
    parts.caption(section.caption)
    parts.table(table)
    if section is _COMPILE and (advice := break_even.advice(cases)):
        parts.html(markup.strong("When to use which, by these numbers") + markup.notes(advice))


def _cuda_graphs(cases: Sequence[TechniqueResult], readings: Sequence[TechniqueRun], about: _About) -> None:
    eager = [case for case in eager_of(readings) if "launch_bound" in case.own]
    if cases:
        _table(_GRAPHS, cases, about)
    elif not eager:
        parts.heading(_GRAPHS.title)
        parts.caption(_why_no_graphs(readings))
        return
    if eager:
        column_names = (columns.CASE, metric("launch_bound"), _FLOOR, columns.RUN)
        table = _tabular("How launch-bound eager steps are", column_names, eager, about)
        parts.heading(table.label, table, "techniques-launch-bound.csv")
        parts.caption("The share of a step in which no kernel ran: the most that a CUDA graph could save.")
        parts.table(table)


def _why_no_graphs(readings: Sequence[TechniqueRun]) -> str:
    if any(categories.uses_graphs(one.key) for reading in readings for one in reading.brought):
        return "No case with CUDA graphs ended well: the reasons stand below."
    if all(reading.on_cpu for reading in readings):
        return (
            "These runs measured a CPU: there is nothing that a CUDA graph could launch. On a machine "
            "with a GPU, suite `gpu` measures them."
        )
    return "None of these runs has a case with CUDA graphs; suite `gpu` has."


def _scaling(cases: Sequence[TechniqueResult], about: _About) -> None:
    if not cases:
        return
    _table(_SCALING, cases, about)
    curves = frames.scaled(cases)
    if curves is None:
        return
    parts.html(markup.legend(curves.names))
    said = [
        f"{row['case']} {row['ranks']} ranks {wording.significant(row['times'])}× ({row['efficiency']})"
        for row in curves.points.to_dict("records")
        if row["ranks"] > 1
    ]
    parts.chart(
        charts.scaling(len(curves.names), frames.most_ranks(curves)),
        f"Items in a second over one rank, and the ideal: {'; '.join(said)}",
        points=curves.points,
        ideal=frames.ideal(curves),
    )
    about_chart = (
        "Dashed: ideal, twice the ranks do twice the items. Bars: 95 % interval, up to twice the point."
    )
    if len(curves.names) < curves.lines:
        about_chart += f" Drawn are {len(curves.names)} ways of {curves.lines}; the table has all."
    parts.caption(about_chart)


def _batches(readings: Sequence[TechniqueRun]) -> None:
    curves = frames.batch_curves(readings)
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
        "Items in a second over the batch, each curve of one run, higher is better. Points: median of n "
        "replicates; bars: 95 % interval, to twice the point. Batches were measured in sessions of their "
        "own: what lies between two of them is no ratio."
    )
    for number, each in enumerate(curves):
        parts.html(markup.strong(each.title) + markup.legend(each.names))
        if len(each.names) < each.lines:
            parts.caption(f"Drawn are {len(each.names)} techniques of {each.lines}; the CSV file has all.")
        said = [
            f"{row['case']} batch {row['batch']}: {wording.quantity(row['throughput'], 'items/s')}"
            for row in each.points.to_dict("records")
        ]
        parts.chart(
            charts.batches(len(each.names)),
            f"Throughput over the batch: {'; '.join(said)}",
            file_name=f"techniques-batches-{number + 1}",
            points=each.points,
        )


def _failed(cases: Sequence[TechniqueResult], about: _About) -> None:
    if not cases:
        return
    groups = (columns.ENDED, columns.CASE, columns.WHY, columns.RUN)
    table = _tabular("Not measured, and why", groups, cases, about)
    parts.heading(table.label, table, "techniques-not-measured.csv")
    parts.table(table)


def _tabular(
    label: str, groups: Sequence[ColumnGroup], cases: Sequence[TechniqueResult], about: _About
) -> DataTable[TechniqueResult]:
    return columns.table(label, groups, cases, about.version, one_run=about.one_run)
