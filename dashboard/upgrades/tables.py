"""An upgrade as HTML: verdict, reasons, tables, in the words of the reports; all text is escaped."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from analysis.comparison.verdict import Verdict
from analysis.decision.reasons import Decision
from analysis.metrics import METRICS
from common.text import printable
from dashboard.components import markup
from dashboard.components import wording as dashboard_wording
from dashboard.components.markup import HeatCell, HeatHead, HeatMap
from dashboard.components.query_params import public
from dashboard.components.wording import utc
from dashboard.upgrades.view import HardwareVerdict, UpgradeSummary, UpgradeView, version
from reports import sentences, wording
from reports.report_context import ComparedEnvironment, Subject, changes
from reports.rows import Row, grid, sign, tone
from reports.scorecard import Entry, entries
from reports.table import Column, DataTable
from reports.tables import commands, details_element
from reports.text import numbers
from reports.text.numbers import NONE
from reports.text.templates import chip, escape_text
from reports.upgrade_report import JudgedUpgrade

#: The most rows of a table; the CSV files have all.
MOST_ROWS = 100
#: The most rows of a table of another metric, and of a list of cases with the same note.
MOST_OTHERS, MOST_LISTED = 25, 40
#: The most differences between the environments next to the verdict.
_MOST_CHANGES = 4


def verdict(judgement: JudgedUpgrade, rows: Sequence[Row]) -> str:
    """The two environments, the decision, its main reason, and other differences."""
    subject, upgrade = judgement.subject, judgement.upgrade
    decision = upgrade.decision
    lines = (sentences.risk(upgrade), *sentences.waiver_lines(rows, upgrade), also_different(subject))
    box = markup.verdict(
        wording.DECISION_TONES[decision],
        wording.DECISION_SIGNS[decision],
        printable(wording.decision_text(upgrade)),
        printable(wording.because(upgrade)),
        *map(printable, lines),
    )
    counts = escape_text(sentences.case_count_line(rows, upgrade))
    return f'{_title(subject)}{box}<p class="py-quiet">{counts}</p>'


def also_different(subject: Subject) -> str:
    """Other differences of the new environment: `Also: triton 3.6 to 3.8`; empty for none."""
    matches = [one for one in changes(subject.old, subject.new) if one.what != "PyTorch"]
    texts = [f"{one.what} {one.old or NONE} to {one.new or NONE}" for one in matches[:_MOST_CHANGES]]
    more = [f"{len(matches) - len(texts):,} more"] if len(matches) > len(texts) else []
    return f"Also: {', '.join([*texts, *more])}." if matches else ""


def metric_cards(judgement: JudgedUpgrade) -> str:
    """The four metrics, a card each."""
    return markup.panels(
        *(
            markup.card(
                one.title, escape_text(one.value), "<br>".join([_state(one), *map(escape_text, one.notes)])
            )
            for one in entries(judgement.upgrade.scorecard, judgement.subject.policy)
        )
    )


def _state(one: Entry) -> str:
    return f'<span class="py-chip py-{one.tone}">{one.sign} {one.state}</span>'


def hardware(verdicts: Sequence[HardwareVerdict], current_run: str) -> DataTable[HardwareVerdict]:
    """A pair of versions on all hardware, a row each: the decision and the four metrics."""
    usual = ("Pass rate", "Steady latency", "Compile time", "Peak memory")
    metrics = next((tuple(each.title for each in one.entries) for one in verdicts if one.entries), usual)
    places = {(one.listed.run.hardware, one.listed.run.machine) for one in verdicts}
    machines = Counter(hardware for hardware, _ in places)

    def hardware_cell(one: HardwareVerdict) -> Markup:
        return _hardware(one, with_machine=machines[one.listed.run.hardware] > 1)

    columns: list[Column[HardwareVerdict]] = [
        Column("hardware", "Hardware", lambda one: one.listed.run.hardware_label, hardware_cell),
        Column("machine", value=lambda one: one.listed.run.machine),
        Column("run", value=lambda one: one.listed.run.id),
        Column("suite", value=lambda one: one.listed.run.suite),
        Column("started_at", value=lambda one: one.listed.run.started_at),
        Column("decision", "Verdict", lambda one: one.decision or "", _decision),
        Column("because", value=lambda one: one.because),
        *(column for place, title in enumerate(metrics) for column in _metric_columns(place, title)),
    ]
    if len(verdicts) > 1:
        columns.append(Column("", "", format=lambda one: _open(one.listed.run.id, current_run)))
    return DataTable("All hardware", columns, verdicts)


def _hardware(one: HardwareVerdict, *, with_machine: bool) -> Markup:
    """The hardware of a verdict; `with_machine`: with the machine, if several have this hardware."""
    machine = f" · {one.listed.run.machine}" if with_machine else ""
    return Markup("<strong>{}</strong><small>{} · {}{}</small>").format(
        Markup(markup.hardware(one.listed.run.hardware_label)),
        _where(one.listed),
        utc(one.listed.run.started_at),
        escape_text(machine),
    )


def _metric_columns(place: int, title: str) -> list[Column[HardwareVerdict]]:
    """The cell of one of the four metrics, and its state, value and largest change for CSV files."""

    def entry_value(what: str) -> Callable[[HardwareVerdict], object]:
        return lambda one: getattr(one.entries[place], what) if one.entries else None

    name = title.lower().replace(" ", "_")
    return [
        Column(
            f"{name}_state",
            title,
            entry_value("state"),
            lambda one: _metric(one.entries[place]) if one.entries else NONE,
        ),
        Column(f"{name}_value", value=entry_value("value")),
        Column(f"{name}_largest", value=entry_value("largest")),
    ]


def _open(run: str, current_run: str) -> Markup:
    """A link to the page of a run, unless it is on this page."""
    link = markup.link(UpgradeView(run).address, "Open\u00a0→")
    return Markup("shown above" if run == current_run else link)


def _decision(one: HardwareVerdict) -> str:
    return one.because if one.decision is None else _decision_chip(one.decision)


def _decision_chip(decision: Decision) -> Markup:
    return chip(
        wording.DECISION_TONES[decision], wording.DECISION_SIGNS[decision], wording.DECISIONS[decision]
    )


def _metric(one: Entry) -> Markup:
    largest = Markup("<small>{}</small>").format(escape_text(one.largest)) if one.largest else ""
    return Markup('<span class="py-{}">{} <strong>{}</strong></span>{}').format(
        one.tone, one.sign, escape_text(one.value), largest
    )


def _title(subject: Subject) -> str:
    chip = "" if subject.state == "complete" else markup.chip(subject.state)
    torch = f"torch {subject.old.torch} to {subject.new.torch}"
    # Left out for environments that are named after their PyTorch, because it would be repeated.
    is_plain = {_plain(subject.old), _plain(subject.new)} == {True}
    where = " · ".join(part for part in ("" if is_plain else torch, f"on {sentences.place(subject)}") if part)
    return (
        f'<div class="py-title"><h2>{escape_text(subject.old.name)} → {escape_text(subject.new.name)} '
        f"<small>{escape_text(where)}</small></h2> {chip}</div>"
    )


def _plain(one: ComparedEnvironment) -> bool:
    return one.name in (one.torch, public(one.torch))


def how(subject: Subject) -> str:
    """The context of the numbers, the notes of the run, and the rules."""
    rules = "".join(f"<li>{escape_text(rule)}</li>" for rule in sentences.rules(subject))
    run_facts = {name: printable(value) for name, value in sentences.facts(subject)}
    facts = markup.facts("How it was measured", subject.run, run_facts)
    notes_html = markup.notes([printable(note) for note in subject.notes])
    notes = f'<h3 class="py-sub">Notes</h3>{notes_html}' if subject.notes else ""
    return (
        f"{markup.panels(facts, kind='py-facts')}{notes}"
        f'<h3 class="py-sub">The rules it is judged by</h3><ul class="py-rules">{rules}</ul>'
    )


def again(judgement: JudgedUpgrade, rows: Sequence[Row]) -> str:
    """The command of every case, folded."""
    lines = (judgement.subject.reproduce(row.case) for row in rows)
    return details_element(f"The command of every case: {len(rows):,}", commands(lines, len(rows)))


def upgrades(
    title: str, items: Sequence[UpgradeSummary], current_run: str, most: int
) -> DataTable[UpgradeSummary]:
    """A list of upgrades, each with a link to its page; the one that is `current_run` says so."""
    columns: list[Column[UpgradeSummary]] = [
        Column("run", value=lambda one: one.run.id),
        Column("old", "Upgrade", lambda one: one.old.name, _versions),
        Column("old_torch", value=lambda one: one.old.torch_version),
        Column("new", value=lambda one: one.new.name),
        Column("new_torch", value=lambda one: one.new.torch_version),
        Column("decision", "Decision", lambda one: one.decision, _decision_cell),
        Column("hardware", "Where", lambda one: one.run.hardware_label, _listed_where),
        Column("machine", value=lambda one: one.run.machine),
        Column("preset", value=lambda one: one.run.preset),
        Column("suite", value=lambda one: one.run.suite),
        Column("started_at", "When", lambda one: one.run.started_at, lambda one: utc(one.run.started_at)),
        Column("state", value=lambda one: one.run.state),
        Column("because", value=lambda one: one.because),
        Column("", "", format=lambda one: _open(one.run.id, current_run)),
    ]
    what = "sessions" if title.startswith("Sessions") else "upgrades"
    return DataTable(title, columns, items, most, f"more {what} in the CSV file.")


def _versions(one: UpgradeSummary) -> Markup:
    because = Markup("<small>{}</small>").format(escape_text(one.because)) if one.because else ""
    return Markup("<strong>{} → {}</strong>{}").format(
        escape_text(version(one.old)), escape_text(version(one.new)), because
    )


def _listed_where(one: UpgradeSummary) -> Markup:
    where = Markup(markup.hardware(one.run.hardware_label))
    return Markup("{}<small>{}</small>").format(where, _where(one))


def _where(one: UpgradeSummary) -> Markup:
    return escape_text(f"{one.run.suite} · {one.run.preset}")


def _decision_cell(one: UpgradeSummary) -> str:
    if one.confirms:
        return NONE
    for decision in wording.DECISIONS:
        if one.decision == decision:
            return _decision_chip(decision)
    if one.run.state != "complete":
        return Markup(markup.chip(one.run.state))
    return "not stored" if one.comparison is None else "open it to judge"


#: The most techniques and workloads of the matrix.
_WIDEST = 60
#: The change at which a cell has the darkest shade, and the lightest shade of a proved change.
_FULL_SHADE, _LEAST_SHADE = math.log(1.10), 0.2

#: The address of the view with a case opened.
CaseAddress = Callable[[str], str]


def metrics(judgement: JudgedUpgrade) -> dict[str, str]:
    """The metrics of the matrix, by name: the deciding one, then those of the tables."""
    names = [judgement.subject.policy.metric, *(table.metric for table in judgement.upgrade.tables)]
    return {name: METRICS[name].title for name in names}


def matrix(
    judgement: JudgedUpgrade, rows: Sequence[Row], metric: str, address: CaseAddress | None = None
) -> HeatMap | None:
    """The changes of a metric as a matrix; None if a list would be as good, or if it would be too wide."""
    matrix = grid(rows, _WIDEST)
    if matrix is None:
        return None
    verdicts = _verdicts(judgement, metric)
    lines = [
        (
            HeatHead(technique.replace(",", " "), chip=True),
            [
                row and _cell(row, verdicts.get(row.case), address)
                for row in (cells[place] for _, cells in matrix.lines)
            ],
        )
        for place, technique in enumerate(matrix.techniques)
    ]
    return HeatMap(
        f"Change of {METRICS[metric].title.lower()} by technique and workload",
        [HeatHead(*dashboard_wording.workload(workload)) for workload, _ in matrix.lines],
        lines,
    )


def _verdicts(judgement: JudgedUpgrade, metric: str) -> Mapping[str, Verdict]:
    if metric == judgement.subject.policy.metric:
        return judgement.upgrade.verdicts
    return next(table.verdicts for table in judgement.upgrade.tables if table.metric == metric)


def _cell(row: Row, verdict: Verdict | None, address: CaseAddress | None) -> HeatCell:
    link = address(row.case) if address is not None else ""
    name = dashboard_wording.case(row.case).text
    if not row.result.works or row.status in ("waived", "screened"):
        return HeatCell(row.sign, "", row.word, row.tone, 1.0 if row.status == "broken" else 0.0, name, link)
    if verdict is None:
        return HeatCell(wording.NONE, "no number", about=f"{name}: not measured", link=link)
    about = (
        f"{name}: {wording.change(verdict)} [{wording.interval(verdict.low, verdict.high)}], n {verdict.n}"
    )
    if verdict.word == "same":
        return HeatCell("·", "same", about=about, link=link)
    text = wording.change(verdict)
    if verdict.word == "unclear" and verdict.low is not None and verdict.high is not None:
        # The possible range.
        text = wording.interval(verdict.low, verdict.high)
    mark = "?" if verdict.word == "unclear" else sign(verdict.word)
    return HeatCell(mark, numbers.word(verdict), text, tone(verdict.word), _shade(verdict), about, link)


def _shade(verdict: Verdict) -> float:
    """The shade of a proved change: darkest at 10 %, lightest at the threshold."""
    if verdict.word not in ("slower", "faster"):
        return 0.0
    if verdict.change is None or verdict.threshold >= _FULL_SHADE:
        return 1.0
    share = (abs(verdict.change) - verdict.threshold) / (_FULL_SHADE - verdict.threshold)
    return max(_LEAST_SHADE, min(1.0, share))
