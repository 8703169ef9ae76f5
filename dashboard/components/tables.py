"""Records as HTML tables and panels; all text from the database is escaped."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from itertools import groupby
from typing import Any

from analysis.comparison.rounds import TAINTED, core_share, tainted_blocks
from analysis.comparison.screening import EVIDENCE, with_metrics
from analysis.kernel_difference import KERNELS
from analysis.metrics import METRICS
from dashboard.components import frames, links, markup, wording
from interchange.foreign_runs import is_undated
from interchange.formats import SourceFields, came_from, title
from records.kinds import RunSource
from records.outcomes import Measurement, Outcome, OutcomeStatus
from records.runs import Run, RunSummary
from records.series import Headline, SeriesKey, SeriesPoint
from reports.table import Column, DataTable
from reports.text.verdict_text import had_of_core


def in_words(facts: Mapping[str, Any]) -> str:
    """The number of blocks that do not count, with the reasons; empty if all count."""
    blocks = tainted_blocks(facts)
    if not blocks:
        return ""
    counts = Counter(str(each.get("status", "disturbed")) for each in blocks)
    kinds = ", ".join(f"{many} {wording.status(word).word}" for word, many in counts.items())
    worst = max(blocks, key=_share)
    left_out = f"{wording.plural(len(blocks), 'block')} left out and taken again ({kinds})"
    return f"{left_out}; at worst: {worst['reason']}" if worst.get("reason") else left_out


def _share(each: Mapping[str, Any]) -> float:
    share = each.get("share")
    return share if isinstance(share, int | float) else 0.0


#: The number of outcomes on one page of a run's list: a thousand rows take a browser one second.
OUTCOMES = 100
#: The most rows of failures: a run may have hundreds, which its page lists.
_FAILURES = 20


def runs(
    items: Sequence[RunSummary],
    now: datetime,
    sources: Mapping[str, str] | None = None,
    *,
    selectable: bool = False,
) -> DataTable[RunSummary]:
    """A list of runs, each with a link to its page; `sources` are the imported files of some runs.

    `selectable`: two of them can be selected. CSV files have a column for each status that occurs.
    """
    columns: list[Column[RunSummary]] = [
        Column(
            "run",
            "Run",
            lambda r: r.id,
            html=lambda r: (_tick(r.id) if selectable else "") + markup.link(links.run(r.id), r.id),
        ),
        Column(
            "started_at",
            "Started",
            lambda r: None if is_undated(r.id) else r.started_at,
            html=lambda r: _start_cell(r, now),
        ),
        Column("ended_at", value=lambda r: r.ended_at),
        Column(
            "suite",
            "Suite",
            lambda r: r.suite,
            html=lambda r: markup.one_line(r.suite, (sources or {}).get(r.id, ""), came_from(r)),
        ),
        Column("state", "State", lambda r: r.state, html=lambda r: markup.chip(r.state)),
        Column("", "Outcomes", html=counts),
        Column(
            "torch", "PyTorch", lambda r: " ".join(r.torch_versions), html=lambda r: _torch(r.torch_versions)
        ),
        Column("machine", "Machine", lambda r: r.machine, html=_machine),
        Column("hardware", value=lambda r: r.hardware),
        Column("preset", value=lambda r: r.preset),
        Column("", "Took", format=lambda r: wording.duration(took(r)), number=True),
        Column("planned", value=lambda r: r.planned),
    ]
    statuses = dict.fromkeys(status for r in items for status in r.counts)
    return DataTable("Runs", [*columns, *map(_count, statuses)], items)


def _start_cell(run: RunSummary, now: datetime) -> str:
    if is_undated(run.id):
        return (
            f'<span class="py-quiet" title="The file does not contain the time">{wording.UNKNOWN_TIME}</span>'
        )
    return markup.one_line(wording.timestamp(run.started_at), wording.ago(run.started_at, now))


def _count(status: str) -> Column[RunSummary]:
    return Column(status, value=lambda r: r.counts.get(status))


def _machine(run: RunSummary) -> str:
    return markup.one_line(run.machine, _unlike(wording.hardware(run.hardware), run.machine), run.preset)


def run_list(table: DataTable[RunSummary], *, selectable: bool = False, has_pages: bool = False) -> str:
    """The list of runs on a page; `selectable`: two runs can be selected and compared.

    `has_pages`: other pages have more runs, which the filter of rows does not search.
    """
    lines = f'<div class="py-lines"{" data-paged" if has_pages else ""}>{table.html()}</div>'
    if not selectable:
        return lines
    # Runs are listed newest first, so the selected ones are in that order.
    return (
        '<form class="py-pick" action="/compare" method="get"><input type="hidden" name="view" value="runs">'
        '<p><button class="py-save">Compare</button> <span class="py-quiet">Tick two runs.</span></p>'
        f"{lines}</form>"
    )


def _tick(run_id: str) -> str:
    return (
        f'<label class="py-tick"><input type="checkbox" name="run" value="{escape(run_id)}" '
        f'aria-label="Compare {escape(run_id)}"></label>'
    )


def _torch(versions: Sequence[str]) -> str:
    """The PyTorch versions of a run in short form; nightlies have the whole version as a tooltip."""
    return " ".join(map(markup.build, versions)) or wording.NONE


def last_run(summary: RunSummary, runs_kept: int, now: datetime, *, own: bool = False, spare: int = 0) -> str:
    """The last run as a row of numbers: its state, its outcomes by status, what it measured.

    `own`: newer runs were imported. `spare` is the number of planned outcomes that were not needed.
    """
    ok = summary.counts.get(OutcomeStatus.OK, 0)
    failure_count = sum(summary.counts.values()) - ok - spare
    spare_note = f" · {spare:,} more were not needed" if spare else ""
    state = wording.status(summary.state)
    tone = _worst_tone(summary) if failure_count else state.tone
    when = wording.ago(summary.started_at, now) + _and_took(summary)
    return markup.panels(
        markup.card(
            "Last own run" if own else "Last run",
            f'<span class="py-{tone}">{escape(state.text)}</span>',
            f"{markup.link(links.run(summary.id), 'Open →')} {escape(when)}",
        ),
        markup.card("Outcomes ok", f"{ok:,} of {summary.planned - spare:,}", counts(summary)),
        markup.card(
            "Failures",
            f'<span class="py-{_worst_tone(summary)}">{failure_count:,}</span>',
            escape(f"in suite {summary.suite}{spare_note}"),
        ),
        markup.card(
            "PyTorch",
            escape(", ".join(summary.torch_versions) or wording.NONE),
            escape(f"preset {summary.preset}"),
        ),
        markup.card("Machine", escape(summary.machine), escape(summary.hardware)),
        markup.card("Runs", f"{runs_kept:,}", markup.link(links.RUNS, "All runs →")),
    )


def headlines(items: Sequence[Headline], now: datetime, lines: Mapping[SeriesKey, str] | None = None) -> str:
    """The newest point of every series of one metric and the point before it, grouped by hardware.

    `lines` are sparklines of some series, as HTML.
    """

    def place(headline: Headline) -> tuple[str, str]:
        return headline.key.hardware_label, headline.key.preset_name

    parts: list[str] = []
    for (hardware, preset), group in groupby(sorted(items, key=place), key=place):
        parts.append(f'<h3 class="py-place">{escape(hardware)} · preset {escape(preset)}</h3>')
        table = headline_table(list(group), now, lines or {}, f"{hardware}, {preset}")
        parts.append(table.html(sortable=True))
    return "".join(parts)


def headline_table(
    items: Sequence[Headline],
    now: datetime,
    lines: Mapping[SeriesKey, str],
    where: str,
) -> DataTable[Headline]:
    """The headlines of one metric in one table, for one hardware and preset; compared with the previous
    run.
    """
    metric = wording.metric(items[0].key.metric)

    def number(h: Headline) -> str:
        ends = wording.value_range(h.latest.smallest, h.latest.largest, metric.unit)
        value = escape(wording.number(h.latest.point, metric.unit))
        about = f"{ends} · n {h.latest.n}" if h.latest.n > 1 else "n 1"
        return f"<strong>{value}</strong><small>{escape(about)}</small>"

    def torch(h: Headline) -> str:
        when = markup.link(links.run(h.latest.run), wording.ago(h.latest.started_at, now))
        return f"{escape(h.latest.torch_version or wording.NONE)}<small>{when}</small>"

    def trend(h: Headline) -> str:
        return links.trends(h.key.metric, h.key.hardware, h.key.preset, h.key.case)

    def before(read: Callable[[SeriesPoint], object]) -> Callable[[Headline], object]:
        return lambda h: read(h.previous) if h.previous else None

    columns: list[Column[Headline]] = [
        Column("case", "Case", lambda h: h.key.case, html=lambda h: markup.case(h.key.case)),
        Column("metric", value=lambda h: h.key.metric),
        Column("unit", value=lambda _: metric.unit),
        Column("hardware", value=lambda h: h.key.hardware_label),
        Column("preset", value=lambda h: h.key.preset_name),
        Column(
            "point",
            wording.with_unit(metric.title, metric.unit),
            lambda h: h.latest.point,
            html=number,
            number=True,
        ),
        Column("smallest", value=lambda h: h.latest.smallest),
        Column("largest", value=lambda h: h.latest.largest),
        Column("n", value=lambda h: h.latest.n),
        Column("", "vs previous", html=_change, number=True),
        Column("", "Previous run", html=lambda h: _before(h, metric.unit, now), number=True),
        Column("", "Last 60 runs", html=lambda h: lines.get(h.key, wording.NONE)),
        Column("torch", "PyTorch", lambda h: h.latest.torch_version, html=torch),
        Column("run", value=lambda h: h.latest.run),
        Column("previous_point", value=before(lambda point: point.point)),
        Column("previous_run", value=before(lambda point: point.run)),
        Column("previous_torch", value=before(lambda point: point.torch_version)),
        Column("", "", format=lambda _: "Trend →", link=trend),
    ]
    return DataTable(f"Latest {metric.title.lower()}: {where}", columns, items)


def failures(items: Sequence[tuple[RunSummary, Outcome]], now: datetime) -> str:
    """Outcomes that are not ok with their reasons, worst first in each run; equal outcomes of replicates
    share a row.
    """

    def alike(item: tuple[RunSummary, Outcome]) -> tuple[str, ...]:
        summary, outcome = item
        return summary.id, outcome.case, outcome.environment, outcome.status, outcome.reason

    place = {run: number for number, run in enumerate(dict.fromkeys(summary.id for summary, _ in items))}
    in_order = sorted(items, key=lambda i: (place[i[0].id], wording.status(i[1].status).tone != "bad"))
    # Replicates of different cases take turns in a run, so that equal ones are not adjacent.
    by_kind: dict[tuple[str, ...], list[tuple[RunSummary, Outcome]]] = {}
    for item in in_order:
        by_kind.setdefault(alike(item), []).append(item)
    groups = list(by_kind.values())

    def why(members: Sequence[tuple[RunSummary, Outcome]]) -> str:
        summary, outcome = members[0]
        address = links.outcome(summary.id, outcome.case, outcome.environment, outcome.replicate)
        return f"{_reason(outcome)} {markup.link(address, 'Log →')}"

    def where(members: Sequence[tuple[RunSummary, Outcome]]) -> str:
        summary, _ = members[0]
        when = f"{wording.ago(summary.started_at, now)} · {summary.machine}"
        return f"{markup.link(links.run(summary.id), summary.id)}<small>{escape(when)}</small>"

    columns: list[Column[list[tuple[RunSummary, Outcome]]]] = [
        Column("", "Outcome", html=lambda members: markup.chip(members[0][1].status)),
        Column("", "Case", html=lambda members: markup.case(members[0][1].case)),
        Column("", "Why", html=why),
        Column("", "Replicates", format=lambda members: str(len(members)), number=True),
        Column("", "Run", html=where),
    ]
    more = groups[_FAILURES:]
    links_to_others = ", ".join(
        markup.link(links.run(run), run) for run in dict.fromkeys(g[0][0].id for g in more)
    )
    rest = f'<p class="py-quiet">and {len(more):,} more in {links_to_others}</p>' if more else ""
    return f"{DataTable('What did not end ok', columns, groups[:_FAILURES]).html()}{rest}"


def items_of(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """The name of the items of each case, if its outcomes contain it: images, tokens."""
    units = ((one.case, one.facts.get("unit")) for one in outcomes)
    return {case: unit for case, unit in units if isinstance(unit, str) and unit}


def unit_of(metric: str, items: str | None, definitions: wording.Definitions | None) -> str:
    """The unit of a metric of a case with the name of its items."""
    unit = wording.metric(metric, definitions).unit
    return unit.replace("items", items) if items and metric in METRICS else unit


def measurements(
    run: Run,
    items: Sequence[Measurement],
    definitions: wording.Definitions | None = None,
    item_names: Mapping[str, str] | None = None,
) -> DataTable[Measurement]:
    """Every metric of every case of a run; `definitions` are imported metrics.

    `item_names` are the names of the items of cases: see `items_of`. Two environments may have the same
    PyTorch: in CSV files `environment` is the fingerprint.
    """
    versions, names = frames.torch_versions(run), frames.environment_names(run)
    common = wording.common_parameters(dict.fromkeys(m.case for m in items))
    in_order = sorted(items, key=lambda m: (m.case, m.environment, wording.metric_place(m.metric)))
    first = {(m.case, m.environment): m.metric for m in reversed(in_order)}
    # The catalogue does not describe the metrics of other tools.
    meaning = f"as {tool} reports it" if (tool := source_tool(run)) else ""

    def case_cell(m: Measurement) -> str:
        again = first[m.case, m.environment] != m.metric
        return "" if again else case(run, m.case, m.environment, common)

    def unit(m: Measurement) -> str:
        return unit_of(m.metric, (item_names or {}).get(m.case), definitions)

    def title(m: Measurement) -> str:
        metric = wording.metric(m.metric, definitions)
        return f'<span title="{escape(meaning or metric.meaning)}">{escape(metric.title)}</span>'

    columns: list[Column[Measurement]] = [
        Column("run", value=lambda _: run.id),
        Column("case", "Case", lambda m: m.case, html=case_cell),
        Column("torch", value=lambda m: versions.get(m.environment, m.environment)),
        Column("environment", value=lambda m: m.environment),
        Column("environment_name", value=lambda m: names.get(m.environment, "")),
        Column("metric", "Metric", lambda m: m.metric, html=title),
        Column("point", "Median", lambda m: m.point, lambda m: wording.number(m.point, unit(m)), number=True),
        Column("unit", "Unit", unit, unit),
        Column(
            "low",
            "95 % interval",
            lambda m: m.low,
            lambda m: wording.value_range(m.low, m.high, unit(m)),
            number=True,
        ),
        Column("high", value=lambda m: m.high),
        Column(
            "smallest",
            "Min-max",
            lambda m: m.smallest,
            lambda m: wording.replicate_range(m.smallest, m.largest, m.n, unit(m)),
            number=True,
        ),
        Column("largest", value=lambda m: m.largest),
        Column("spread", "Spread", lambda m: m.spread, lambda m: wording.percent(m.spread), number=True),
        Column("n", "n", lambda m: m.n, number=True),
    ]
    about = wording.all_cases(common)
    return DataTable("Every metric", columns, in_order, folded=False, about=about)


def case(run: Run, key: str, environment: str, common: Collection[str] = ()) -> str:
    """The name of a case, with the PyTorch of its environment if a run measured several.

    Environments with the same PyTorch also have their name, or their fingerprint if the names are equal too.
    Parameters that are `common` to all cases are left out.
    """
    versions = {name: torch for name, torch in frames.torch_versions(run).items() if torch}
    name = markup.case(key, common)
    if len(versions) > 1 and environment in versions:
        torch, names = versions[environment], frames.environment_names(run)
        name += f"<small>torch {escape(torch)}</small>"
        alike = [names[each] for each, other in versions.items() if other == torch]
        if len(alike) > 1:
            own = names[environment]
            name += f"<small>{escape(own if alike.count(own) == 1 else links.short(environment))}</small>"
    return name


def outcomes(
    run: Run, items: Sequence[Outcome], window_keys: Collection[tuple[str, str, int]] = frozenset()
) -> DataTable[Outcome]:
    """The outcomes of a run, each with a link that opens it.

    `window_keys` are those with a telemetry window, by case, environment and replicate. CSV files have a
    column for each metric; an imported metric with the name of another column gets the prefix `metric_`.
    """
    names = frames.environment_names(run)
    common = wording.common_parameters(dict.fromkeys(o.case for o in items))

    def key(o: Outcome) -> tuple[str, str, int]:
        return o.case, o.environment, o.replicate

    def latency(o: Outcome) -> str:
        return wording.number(o.metrics["latency"], "ms") if "latency" in o.metrics else wording.NONE

    columns: list[Column[Outcome]] = [
        Column("status", "Outcome", lambda o: o.status, html=lambda o: markup.chip(o.status)),
        Column("case", "Case", lambda o: o.case, html=lambda o: markup.case(o.case, common)),
        Column("replicate", "Replicate", lambda o: o.replicate, number=True),
        Column(
            "environment",
            "Environment",
            lambda o: o.environment,
            lambda o: names.get(o.environment, links.short(o.environment)),
        ),
        Column("phase", value=lambda o: o.phase),
        Column(
            "reason",
            "Reason or disturbance",
            lambda o: o.reason,
            html=lambda o: _reason(o) if o.status != OutcomeStatus.OK else _disturbance_cell(o),
        ),
        Column("started_at", value=lambda o: o.started_at),
        Column("", "Latency (ms)", format=latency, number=True),
        Column(
            "wall_seconds",
            "Took",
            lambda o: o.wall_seconds,
            lambda o: wording.duration(o.wall_seconds),
            number=True,
        ),
        Column("", "", format=lambda _: "Open →", link=lambda o: links.outcome(run.id, *key(o))),
        Column(
            "",
            "",
            format=lambda o: "Utilisation →" if key(o) in window_keys else "",
            link=lambda o: links.utilisation(run.id, *key(o)) if key(o) in window_keys else "",
        ),
    ]
    used_names = [column.name for column in columns]
    metrics = list(dict.fromkeys(name for o in items for name in o.metrics))
    columns += [_metric_column(name, _free_name(name, metrics, used_names)) for name in metrics]
    about = wording.all_cases(common)
    return DataTable("Outcomes", columns, items, folded=False, about=about)


def _metric_column(metric: str, name: str) -> Column[Outcome]:
    return Column(name, value=lambda o: o.metrics.get(metric))


def _free_name(metric: str, metrics: Collection[str], names: Collection[str]) -> str:
    """The heading of a metric's column, different from all other metrics and columns."""
    result = metric
    while result in names or (result != metric and result in metrics):
        result = f"metric_{result}"
    return result


def outcome_facts(run: Run, outcome: Outcome, definitions: wording.Definitions | None = None) -> str:
    """The facts of one outcome: its status, its metrics, the facts of its case."""
    names = frames.environment_names(run)
    how = {
        "environment": names.get(outcome.environment, outcome.environment),
        "replicate": outcome.replicate,
        "phase": outcome.phase,
        "started": wording.run_time(run.id, outcome.started_at),
        "took": wording.duration(outcome.wall_seconds),
    }
    values = sorted(outcome.metrics.items(), key=lambda m: wording.metric_place(m[0]))
    titles = wording.titles([name for name, _ in values], definitions or {})
    item_names = items_of([outcome]).get(outcome.case)
    units = {name: unit_of(name, item_names, definitions) for name, _ in values}
    metrics = {titles[name]: wording.quantity(value, units[name]) for name, value in values}
    # Operators, kernels and blocks that do not count are shown elsewhere.
    elsewhere = ("operators", KERNELS, TAINTED)
    texts = {name: value for name, value in outcome.facts.items() if name not in elsewhere}
    return markup.panels(
        markup.facts("Outcome", wording.status(outcome.status).text, how),
        markup.facts("Metrics of this replicate", wording.plural(len(metrics), "metric"), metrics),
        markup.facts("What the case says", wording.case(outcome.case).name, texts),
        kind="py-facts",
    )


def outcome_title(outcome: Outcome) -> str:
    """The title of an opened outcome, with the reason if it is not ok."""
    why = "" if outcome.status == OutcomeStatus.OK else f"<p>{_reason(outcome)}</p>"
    # The reason of a status that is not ok may contain it already.
    if outcome.status == OutcomeStatus.OK and (left_out := in_words(outcome.facts)):
        why = f'<p class="py-odd">! {escape(left_out)}</p>'
    heading = f"<h2>{markup.case(outcome.case)}</h2> {markup.chip(outcome.status)}"
    return f'<div class="py-title">{heading}</div>{why}'


def run_title(summary: RunSummary, now: datetime, source: str = "") -> str:
    """The title of a run: suite, machine, time, and state; `source` is the imported file."""
    began = f"{wording.timestamp(summary.started_at)}, {wording.ago(summary.started_at, now)}"
    if is_undated(summary.id):
        began = "Time unknown: the file does not contain it"
    torch = f"torch {' '.join(summary.torch_versions) or wording.NONE}"
    hardware = _unlike(summary.hardware, summary.machine)
    facts = (f"on {summary.machine}", hardware, torch, came_from(summary), source)
    where = " · ".join(part for part in facts if part)
    return (
        f"<p>{markup.link(links.RUNS, '← All runs')}</p>"
        f'<div class="py-title"><h1>{escape(summary.suite)} <small>{escape(where)}</small></h1> '
        f"{markup.chip(summary.state)}</div>"
        f"<p>{escape(began + _and_took(summary))} {counts(summary)}</p>"
    )


def counts(summary: RunSummary) -> str:
    """The number of outcomes by status, and the number of missing ones."""
    chips = [
        markup.chip(status, many)
        for status, many in sorted(summary.counts.items(), key=lambda c: c[0] != OutcomeStatus.OK)
    ]
    if (missing := summary.planned - sum(summary.counts.values())) > 0:
        chips.append(f'<span class="py-chip py-quiet">… {missing:,} not reached</span>')
    return f'<span class="py-chips">{"".join(chips)}</span>'


def took(summary: RunSummary) -> float | None:
    """The duration of a run in seconds; None while it runs."""
    return (summary.ended_at - summary.started_at).total_seconds() if summary.ended_at else None


def _unlike(hardware: str, machine: str) -> str:
    # The file of another tool often contains only the hardware, which is then also the name of the machine.
    return "" if hardware == machine else hardware


def _worst_tone(summary: RunSummary) -> wording.Tone:
    # Outcomes disturbed by other programs or heat are not failures.
    tones = {wording.status(status).tone for status in summary.counts}
    return "bad" if "bad" in tones else "odd" if "odd" in tones else "quiet" if "quiet" in tones else "good"


def _and_took(summary: RunSummary) -> str:
    seconds = took(summary)
    return "" if seconds is None else f", took {wording.duration(seconds)}"


def _reason(outcome: Outcome) -> str:
    where = f" (while in {outcome.phase})" if outcome.phase and outcome.phase not in outcome.reason else ""
    return f'<span class="py-reason">{escape(outcome.reason + where)}</span>'


def _disturbance_cell(outcome: Outcome) -> str:
    short = "short pair of a screen, not a measurement" if EVIDENCE in outcome.facts else ""
    texts = [short, had_of_core(core_share(with_metrics(outcome))), in_words(outcome.facts)]
    return f'<span class="py-reason">{escape("; ".join(text for text in texts if text))}</span>'


def _change(item: Headline) -> str:
    if item.previous is None:
        return f'{wording.NONE}<small class="py-quiet">new</small>'
    # Two runs do not confirm a change, and only confirmed changes have a colour.
    change = wording.change(item.latest, item.previous, wording.metric(item.key.metric).better)
    return f"{escape(change.text)}<small>{escape(change.note)}</small>"


def _before(item: Headline, unit: str, now: datetime) -> str:
    if item.previous is None:
        return wording.NONE
    link = markup.link(links.run(item.previous.run), wording.number(item.previous.point, unit))
    torch = item.previous.torch_version or wording.NONE
    # Show a version that differs.
    unlike = item.previous.environment != item.latest.environment and torch == item.latest.torch_version
    other = " · another environment" if unlike else ""
    text = f"n {item.previous.n} · {torch}{other} · {wording.ago(item.previous.started_at, now)}"
    return f"{link}<small>{escape(text)}</small>"


#: Facts with the source of an import, most readable first.
_SOURCES = ("file", "experiment", "benchmark")


def source_tool(run: SourceFields) -> str:
    """The tool that defines the metrics of a run; empty for Pyrometer."""
    if run.source == RunSource.IMPORTED:
        return title(run)
    return "the script" if run.source == RunSource.SUBMITTED else ""


def source(run: Run) -> str:
    """The name of the imported file; empty if it is not recorded."""
    return next((text for name in _SOURCES if isinstance(text := run.facts.get(name), str) and text), "")


def untitled_facts(run: Run, facts: Mapping[str, Any]) -> dict[str, Any]:
    """`facts` of a run without the one that is in its title."""
    own = run.source == RunSource.MEASURED
    return {name: fact for name, fact in facts.items() if own or name != "imported_from"}
