"""Records as HTML tables and panels; every text from the database is escaped."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from html import escape
from itertools import groupby
from typing import Any

from analysis.comparison.rounds import TAINTED, core_share, tainted_blocks
from analysis.comparison.screening import EVIDENCE
from analysis.kernel_difference import KERNELS
from dashboard.components import frames, links, markup, run_source, wording
from interchange.formats import came_from
from records.outcomes import Measurement, Outcome, OutcomeStatus
from records.runs import Run, RunSummary
from records.series import Headline, SeriesKey
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
) -> str:
    """A list of runs, each with a link to its page; `sources` say of some what was imported.

    `compared`: two of them can be ticked, which the page of two runs sets against each other.
    """
    columns = [
        ("Run", False),
        ("Started", False),
        ("Suite", False),
        ("State", False),
        ("Outcomes", False),
        ("PyTorch", False),
        ("Machine", False),
        ("Took", True),
    ]
    rows = (
        (
            (_tick(r.id) if compared else "") + markup.link(links.run(r.id), r.id),
            markup.one_line(wording.timestamp(r.started_at), wording.ago(r.started_at, now)),
            markup.one_line(r.suite, came_from(r), (sources or {}).get(r.id, "")),
            markup.chip(r.state),
            counts(r),
            _torch(r.torch_versions),
            markup.one_line(r.machine, _unlike(wording.hardware(r.hardware), r.machine), r.preset),
            escape(wording.duration(took(r))),
        )
        for r in items
    )
    table = f'<div class="py-lines">{markup.table("Runs", columns, rows, folded=True)}</div>'
    if not compared:
        return table
    # Runs are listed newest first, and so are those that are ticked.
    return (
        '<form class="py-pick" action="/compare" method="get"><input type="hidden" name="view" value="runs">'
        '<p><button class="py-save">Compare</button> <span class="py-quiet">Tick two runs.</span></p>'
        f"{table}</form>"
    )


def _tick(run_id: str) -> str:
    return (
        f'<label class="py-tick"><input type="checkbox" name="run" value="{escape(run_id)}" '
        f'aria-label="Compare {escape(run_id)}"></label>'
    )


def _torch(versions: Sequence[str]) -> str:
    """The PyTorches of a run in short; nightlies have their whole version as a tooltip."""
    shown = (f'<span title="{escape(each)}">{escape(wording.version(each))}</span>' for each in versions)
    return " ".join(shown) or wording.NONE


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
        parts.append(headline_table(list(group), now, lines or {}, f"{hardware}, {preset}"))
    return "".join(parts)


def headline_table(
    items: Sequence[Headline],
    now: datetime,
    lines: Mapping[SeriesKey, str],
    where: str,
) -> str:
    """Headlines of one metric in one table, measured `where`; set against the run before."""
    known = wording.metric(items[0].key.metric)
    columns = [
        ("Case", False),
        (wording.with_unit(known.title, known.unit), True),
        ("vs previous", True),
        ("Previous run", True),
        ("Last 60 runs", False),
        ("PyTorch", False),
        ("", False),
    ]
    rows = (
        (
            markup.case(h.key.case),
            f"<strong>{escape(wording.number(h.latest.point, known.unit))}</strong>"
            f"<small>{wording.value_range(h.latest.smallest, h.latest.largest, known.unit)}"
            f" · n {h.latest.n}</small>",
            _change(h),
            _before(h, known.unit, now),
            lines.get(h.key, wording.NONE),
            f"{escape(h.latest.torch_version or wording.NONE)}"
            f"<small>{markup.link(links.run(h.latest.run), wording.ago(h.latest.started_at, now))}</small>",
            markup.link(links.trends(h.key.metric, h.key.hardware, h.key.preset, h.key.case), "Trend →"),
        )
        for h in items
    )
    return markup.table(f"Latest {known.title.lower()}: {where}", columns, rows, folded=True)


def failures(items: Sequence[tuple[RunSummary, Outcome]], now: datetime) -> str:
    """What did not end ok and why, of each run the worst first; replicates that ended alike share a row."""

    def alike(item: tuple[RunSummary, Outcome]) -> tuple[str, ...]:
        summary, outcome = item
        return summary.id, outcome.case, outcome.environment, outcome.status, outcome.reason

    columns = [("Outcome", False), ("Case", False), ("Why", False), ("Replicates", True), ("Run", False)]
    place = {run: number for number, run in enumerate(dict.fromkeys(summary.id for summary, _ in items))}
    ordered = sorted(items, key=lambda i: (place[i[0].id], wording.status(i[1].status).tone != "bad"))
    # Replicates of different cases take turns in a run: those alike are not adjacent.
    by_kind: dict[tuple[str, ...], list[tuple[RunSummary, Outcome]]] = {}
    for item in ordered:
        by_kind.setdefault(alike(item), []).append(item)
    groups = list(by_kind.values())
    rows: list[tuple[str, ...]] = []
    for members in groups[:_FAILURES]:
        summary, outcome = members[0]
        address = links.outcome(summary.id, outcome.case, outcome.environment, outcome.replicate)
        when = f"{wording.ago(summary.started_at, now)} · {summary.machine}"
        rows.append(
            (
                markup.chip(outcome.status),
                markup.case(outcome.case),
                f"{_reason(outcome)} {markup.link(address, 'Log →')}",
                str(len(members)),
                f"{markup.link(links.run(summary.id), summary.id)}<small>{escape(when)}</small>",
            )
        )
    more = groups[_FAILURES:]
    left = ", ".join(markup.link(links.run(run), run) for run in dict.fromkeys(g[0][0].id for g in more))
    rest = f'<p class="py-quiet">and {len(more):,} more in {left}</p>' if more else ""
    return markup.table("What did not end ok", columns, rows, folded=True) + rest


def measurements(run: Run, items: Sequence[Measurement], defined: wording.Definitions | None = None) -> str:
    """Every metric of every case of a run, grouped by case; `defined` are those that came from outside."""
    columns = [
        ("Case", False),
        ("Metric", False),
        ("Median", True),
        ("Unit", False),
        ("95 % interval", True),
        ("Min-max", True),
        ("Spread", True),
        ("n", True),
    ]
    rows: list[tuple[str, ...]] = []
    common = wording.common_parameters(dict.fromkeys(m.case for m in items))
    # What a word means to another tool our catalogue cannot say.
    meaning = f"as {teller} reports it" if (teller := run_source.teller(run)) else ""
    ordered = sorted(items, key=lambda m: (m.case, m.environment, wording.metric_place(m.metric)))
    for (key, environment), group in groupby(ordered, key=lambda m: (m.case, m.environment)):
        name = case(run, key, environment, common)
        for m in group:
            known = wording.metric(m.metric, defined)
            rows.append(
                (
                    name,
                    f'<span title="{escape(meaning or known.meaning)}">{escape(known.title)}</span>',
                    f"<strong>{escape(wording.number(m.point, known.unit))}</strong>",
                    escape(known.unit),
                    escape(wording.value_range(m.low, m.high, known.unit)),
                    escape(wording.value_range(m.smallest, m.largest, known.unit)),
                    escape(wording.percent(m.spread)),
                    str(m.n),
                )
            )
            name = ""
    return markup.all_cases(common) + markup.table("Measurements", columns, rows, tall=True)


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
) -> str:
    """How replicates of a run ended, with a link that opens each.

    `observed` are those with a telemetry window, by case, environment and replicate.
    """
    names = frames.environment_names(run)
    common = wording.common_parameters(dict.fromkeys(o.case for o in items))
    columns = [
        ("Outcome", False),
        ("Case", False),
        ("Replicate", True),
        ("Environment", False),
        ("Why, or what disturbed it", False),
        ("Latency (ms)", True),
        ("Took", True),
        ("", False),
        ("", False),
    ]
    rows = (
        (
            markup.chip(o.status),
            markup.case(o.case, common),
            str(o.replicate),
            escape(names.get(o.environment, links.short(o.environment))),
            _reason(o) if o.status != OutcomeStatus.OK else _disturbed(o),
            escape(wording.number(o.metrics["latency"], "ms") if "latency" in o.metrics else wording.NONE),
            escape(wording.duration(o.wall_seconds)),
            markup.link(links.outcome(run.id, o.case, o.environment, o.replicate), "Open →"),
            markup.link(links.utilisation(run.id, o.case, o.environment, o.replicate), "Utilisation →")
            if (o.case, o.environment, o.replicate) in observed
            else "",
        )
        for o in items
    )
    return markup.all_cases(common) + markup.table("Outcomes", columns, rows, tall=True)


def outcome_facts(run: Run, outcome: Outcome, defined: wording.Definitions | None = None) -> str:
    """The facts of one outcome: how it ended, what it measured, the facts of its case."""
    names = frames.environment_names(run)
    how = {
        "environment": names.get(outcome.environment, outcome.environment),
        "replicate": outcome.replicate,
        "phase": outcome.phase,
        "started": wording.timestamp(outcome.started_at),
        "took": wording.duration(outcome.wall_seconds),
    }
    values = sorted(outcome.metrics.items(), key=lambda m: wording.metric_place(m[0]))
    known = wording.titles([name for name, _ in values], defined or {})
    measured = {
        known[name]: wording.quantity(value, wording.metric(name, defined).unit) for name, value in values
    }
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


def _disturbed(outcome: Outcome) -> str:
    short = "short pair of a screen: no measurement" if EVIDENCE in outcome.facts else ""
    said = [short, had_of_core(core_share(outcome.facts)), in_words(outcome.facts)]
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
