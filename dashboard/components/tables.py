"""Records as HTML tables and panels; every text from the database is escaped."""

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
    """How many blocks do not count and why; empty where all do."""
    listed = tainted_blocks(facts)
    if not listed:
        return ""
    counted = Counter(str(each.get("status", "disturbed")) for each in listed)
    kinds = ", ".join(f"{many} {wording.status(word).word}" for word, many in counted.items())
    worst = max(listed, key=_share)
    left_out = f"{wording.plural(len(listed), 'block')} left out and taken again ({kinds})"
    return f"{left_out}; at worst: {worst['reason']}" if worst.get("reason") else left_out


def _share(each: Mapping[str, Any]) -> float:
    share = each.get("share")
    return share if isinstance(share, int | float) else 0.0


#: Outcomes on one page of a run's list: a thousand rows keep a browser busy for a second.
OUTCOMES = 100
#: Rows of what failed at most: a run that failed as a whole has hundreds, and its page lists them.
_FAILURES = 20


def runs(
    items: Sequence[RunSummary],
    now: datetime,
    sources: Mapping[str, str] | None = None,
    *,
    compared: bool = False,
) -> DataTable[RunSummary]:
    """A list of runs, each with a link to its page; `sources` say of some what was imported.

    `compared`: two of them can be ticked. CSV files have a column for each status that occurs.
    """
    columns: list[Column[RunSummary]] = [
        Column(
            "run",
            "Run",
            lambda r: r.id,
            html=lambda r: (_tick(r.id) if compared else "") + markup.link(links.run(r.id), r.id),
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
        return f'<span class="py-quiet" title="The file states no time">{wording.UNKNOWN_TIME}</span>'
    return markup.one_line(wording.timestamp(run.started_at), wording.ago(run.started_at, now))


def _count(status: str) -> Column[RunSummary]:
    return Column(status, value=lambda r: r.counts.get(status))


def _machine(run: RunSummary) -> str:
    return markup.one_line(run.machine, _unlike(wording.hardware(run.hardware), run.machine), run.preset)


def run_list(table: DataTable[RunSummary], *, compared: bool = False, paged: bool = False) -> str:
    """The list of runs on a page; `compared`: two that are ticked are set against each other on theirs.

    `paged`: there are more on other pages, which a filter of the rows does not search.
    """
    lines = f'<div class="py-lines"{" data-paged" if paged else ""}>{table.html()}</div>'
    if not compared:
        return lines
    # Runs are listed newest first, and so are those that are ticked.
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
    """The PyTorches of a run in short; nightlies have their whole version as a tooltip."""
    return " ".join(map(markup.build, versions)) or wording.NONE


def last_run(summary: RunSummary, runs_kept: int, now: datetime, *, own: bool = False, spare: int = 0) -> str:
    """The last run, in a row of numbers: its state, its outcomes by status, what it measured.

    `own`: others were imported since. So many outcomes are `spare`: planned, and not needed in the end.
    """
    ok = summary.counts.get(OutcomeStatus.OK, 0)
    failed = sum(summary.counts.values()) - ok - spare
    unneeded = f" · {spare:,} more were not needed" if spare else ""
    state = wording.status(summary.state)
    tone = _worst_tone(summary) if failed else state.tone
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
            f'<span class="py-{_worst_tone(summary)}">{failed:,}</span>',
            escape(f"in suite {summary.suite}{unneeded}"),
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
    """The newest point of every series of one metric and the point before it, like hardware together.

    `lines` are small pictures of some series, as HTML.
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
    """Headlines of one metric in one table, measured `where`; set against the run before."""
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
    """What did not end ok and why, of each run the worst first; replicates that ended alike share a row."""

    def alike(item: tuple[RunSummary, Outcome]) -> tuple[str, ...]:
        summary, outcome = item
        return summary.id, outcome.case, outcome.environment, outcome.status, outcome.reason

    place = {run: number for number, run in enumerate(dict.fromkeys(summary.id for summary, _ in items))}
    ordered = sorted(items, key=lambda i: (place[i[0].id], wording.status(i[1].status).tone != "bad"))
    # Replicates of different cases take turns in a run: those alike are not adjacent.
    by_kind: dict[tuple[str, ...], list[tuple[RunSummary, Outcome]]] = {}
    for item in ordered:
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
    left = ", ".join(markup.link(links.run(run), run) for run in dict.fromkeys(g[0][0].id for g in more))
    rest = f'<p class="py-quiet">and {len(more):,} more in {left}</p>' if more else ""
    return f"{DataTable('What did not end ok', columns, groups[:_FAILURES]).html()}{rest}"


def items_of(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """What the items of each case are, as far as its outcomes state it: images, tokens."""
    stated = ((one.case, one.facts.get("unit")) for one in outcomes)
    return {case: unit for case, unit in stated if isinstance(unit, str) and unit}


def unit_of(metric: str, items: str | None, defined: wording.Definitions | None) -> str:
    """The unit of a metric of a case whose items are called so."""
    unit = wording.metric(metric, defined).unit
    return unit.replace("items", items) if items and metric in METRICS else unit


def measurements(
    run: Run,
    items: Sequence[Measurement],
    defined: wording.Definitions | None = None,
    counted: Mapping[str, str] | None = None,
) -> DataTable[Measurement]:
    """Every metric of every case of a run; `defined` are those that came from outside.

    `counted` are what the items of cases are: see `items_of`.
    Two environments may have one PyTorch: in CSV files `environment` is the fingerprint.
    """
    versions, names = frames.torch_versions(run), frames.environment_names(run)
    common = wording.common_parameters(dict.fromkeys(m.case for m in items))
    ordered = sorted(items, key=lambda m: (m.case, m.environment, wording.metric_place(m.metric)))
    first = {(m.case, m.environment): m.metric for m in reversed(ordered)}
    # What a word means to another tool our catalogue cannot say.
    meaning = f"as {tool} reports it" if (tool := source_tool(run)) else ""

    def case_cell(m: Measurement) -> str:
        again = first[m.case, m.environment] != m.metric
        return "" if again else case(run, m.case, m.environment, common)

    def unit(m: Measurement) -> str:
        return unit_of(m.metric, (counted or {}).get(m.case), defined)

    def title(m: Measurement) -> str:
        metric = wording.metric(m.metric, defined)
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
    return DataTable("Every metric", columns, ordered, folded=False, about=about)


def case(run: Run, key: str, environment: str, common: Collection[str] = ()) -> str:
    """The name of a case, with the PyTorch of its environment where a run measured several.

    Of environments that share a PyTorch also by what they are called, or by their fingerprint if they share
    that, too. Parameters that are `common` to all cases are left out.
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
    run: Run, items: Sequence[Outcome], observed: Collection[tuple[str, str, int]] = frozenset()
) -> DataTable[Outcome]:
    """How replicates of a run ended, with a link that opens each.

    `observed` are those with a telemetry window, by case, environment and replicate. CSV files have a column
    for each metric; one from outside that is called as another column is `metric_` and its name.
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
            "Why, or what disturbed it",
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
            format=lambda o: "Utilisation →" if key(o) in observed else "",
            link=lambda o: links.utilisation(run.id, *key(o)) if key(o) in observed else "",
        ),
    ]
    taken = [column.name for column in columns]
    metrics = list(dict.fromkeys(name for o in items for name in o.metrics))
    columns += [_metric_column(name, _free_name(name, metrics, taken)) for name in metrics]
    about = wording.all_cases(common)
    return DataTable("Outcomes", columns, items, folded=False, about=about)


def _metric_column(metric: str, name: str) -> Column[Outcome]:
    return Column(name, value=lambda o: o.metrics.get(metric))


def _free_name(metric: str, metrics: Collection[str], taken: Collection[str]) -> str:
    """What the column of a metric is called: no other metric has that name, and no other column."""
    found = metric
    while found in taken or (found != metric and found in metrics):
        found = f"metric_{found}"
    return found


def outcome_facts(run: Run, outcome: Outcome, defined: wording.Definitions | None = None) -> str:
    """The facts of one outcome: how it ended, what it measured, the facts of its case."""
    names = frames.environment_names(run)
    how = {
        "environment": names.get(outcome.environment, outcome.environment),
        "replicate": outcome.replicate,
        "phase": outcome.phase,
        "started": wording.run_time(run.id, outcome.started_at),
        "took": wording.duration(outcome.wall_seconds),
    }
    values = sorted(outcome.metrics.items(), key=lambda m: wording.metric_place(m[0]))
    titles = wording.titles([name for name, _ in values], defined or {})
    counted = items_of([outcome]).get(outcome.case)
    units = {name: unit_of(name, counted, defined) for name, _ in values}
    measured = {titles[name]: wording.quantity(value, units[name]) for name, value in values}
    # Operators and kernels have tables of their own; blocks that do not count have a place, too.
    elsewhere = ("operators", KERNELS, TAINTED)
    said = {name: value for name, value in outcome.facts.items() if name not in elsewhere}
    return markup.panels(
        markup.facts("Outcome", wording.status(outcome.status).text, how),
        markup.facts("Metrics of this replicate", wording.plural(len(measured), "metric"), measured),
        markup.facts("What the case says", wording.case(outcome.case).name, said),
        kind="py-facts",
    )


def outcome_title(outcome: Outcome) -> str:
    """An opened outcome's title and, where it is not ok, why."""
    why = "" if outcome.status == OutcomeStatus.OK else f"<p>{_reason(outcome)}</p>"
    # The reason of one that is not ok says it already, where that is why.
    if outcome.status == OutcomeStatus.OK and (left_out := in_words(outcome.facts)):
        why = f'<p class="py-odd">! {escape(left_out)}</p>'
    named = f"<h2>{markup.case(outcome.case)}</h2> {markup.chip(outcome.status)}"
    return f'<div class="py-title">{named}</div>{why}'


def run_title(summary: RunSummary, now: datetime, source: str = "") -> str:
    """A run's title: what, where, when, and its state; `source` is what was imported."""
    began = f"{wording.timestamp(summary.started_at)}, {wording.ago(summary.started_at, now)}"
    if is_undated(summary.id):
        began = "Time unknown: the file states none"
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
    """How many outcomes of each status a run has, and how many are still missing."""
    chips = [
        markup.chip(status, many)
        for status, many in sorted(summary.counts.items(), key=lambda c: c[0] != OutcomeStatus.OK)
    ]
    if (missing := summary.planned - sum(summary.counts.values())) > 0:
        chips.append(f'<span class="py-chip py-quiet">… {missing:,} not reached</span>')
    return f'<span class="py-chips">{"".join(chips)}</span>'


def took(summary: RunSummary) -> float | None:
    """How long a run took, in seconds; None while it runs."""
    return (summary.ended_at - summary.started_at).total_seconds() if summary.ended_at else None


def _unlike(hardware: str, machine: str) -> str:
    # Where others measured, their file often says no more than the hardware: the machine is called after it.
    return "" if hardware == machine else hardware


def _worst_tone(summary: RunSummary) -> wording.Tone:
    # What only others or heat disturbed is no alarm.
    tones = {wording.status(status).tone for status in summary.counts}
    return "bad" if "bad" in tones else "odd" if "odd" in tones else "quiet" if "quiet" in tones else "good"


def _and_took(summary: RunSummary) -> str:
    seconds = took(summary)
    return "" if seconds is None else f", took {wording.duration(seconds)}"


def _reason(outcome: Outcome) -> str:
    where = f" (while in {outcome.phase})" if outcome.phase and outcome.phase not in outcome.reason else ""
    return f'<span class="py-reason">{escape(outcome.reason + where)}</span>'


def _disturbance_cell(outcome: Outcome) -> str:
    short = "short pair of a screen: no measurement" if EVIDENCE in outcome.facts else ""
    said = [short, had_of_core(core_share(with_metrics(outcome))), in_words(outcome.facts)]
    return f'<span class="py-reason">{escape("; ".join(text for text in said if text))}</span>'


def _change(item: Headline) -> str:
    if item.previous is None:
        return f'{wording.NONE}<small class="py-quiet">new</small>'
    # Two runs are no confirmation, and only what is confirmed has a colour.
    found = wording.change(item.latest, item.previous, wording.metric(item.key.metric).better)
    return f"{escape(found.text)}<small>{escape(found.note)}</small>"


def _before(item: Headline, unit: str, now: datetime) -> str:
    if item.previous is None:
        return wording.NONE
    shown = markup.link(links.run(item.previous.run), wording.number(item.previous.point, unit))
    torch = item.previous.torch_version or wording.NONE
    # Another version says that it is another one.
    unlike = item.previous.environment != item.latest.environment and torch == item.latest.torch_version
    other = " · another environment" if unlike else ""
    text = f"n {item.previous.n} · {torch}{other} · {wording.ago(item.previous.started_at, now)}"
    return f"{shown}<small>{escape(text)}</small>"


#: Facts in which importers say what they read, the plainest first.
_SOURCES = ("file", "experiment", "benchmark")


def source_tool(run: SourceFields) -> str:
    """The tool that defines the numbers of a run; empty for Pyrometer itself."""
    if run.source == RunSource.IMPORTED:
        return title(run)
    return "the script" if run.source == RunSource.SUBMITTED else ""


def source(run: Run) -> str:
    """What was imported, as a file's name; empty where the run does not say so."""
    return next((text for name in _SOURCES if isinstance(text := run.facts.get(name), str) and text), "")


def untitled_facts(run: Run, facts: Mapping[str, Any]) -> dict[str, Any]:
    """`facts` of a run without the one that its title says in better words."""
    own = run.source == RunSource.MEASURED
    return {name: fact for name, fact in facts.items() if own or name != "imported_from"}
