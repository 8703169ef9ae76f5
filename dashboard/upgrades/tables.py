"""An upgrade as HTML: verdict, reasons, tables; in the words of the reports, and every text escaped."""

from collections.abc import Iterable, Sequence
from html import escape as _escape

from analysis.comparison.policy import Policy
from analysis.comparison.reasons import Decision
from analysis.comparison.upgrade import Table, Upgrade
from analysis.comparison.verdict import Verdict
from analysis.metrics import METRICS
from common.text import printable
from dashboard.components import links, markup
from dashboard.components import wording as dashboard_wording
from dashboard.upgrades.hardware import HardwareVerdict
from dashboard.upgrades.view import Listed, UpgradeView, version
from records.runs import Run
from reports import sentences, wording
from reports.heatmap import heatmap
from reports.report_context import ComparedEnvironment, Subject, changes
from reports.rows import Grid, Row, left_out, sign, table_rows, techniques, tone, without_ratio
from reports.scorecard import Entry, entries
from reports.text.numbers import NONE, percent
from reports.text.reason_text import exclusion as excluded
from reports.text.reason_text import sentence
from reports.upgrade_report import JudgedUpgrade

#: Rows of a table at most, for a page is to be read; the CSV files hold all.
MOST_ROWS = 100
#: Commands below a reason at most, rows of a table beside the one that decides, and of a list of the same
#: thing said of many cases.
_MOST_COMMANDS, _MOST_BESIDE, _MOST_LISTED = 20, 25, 40
#: More columns than this are no grid that one sees at a glance.
_WIDE = 8

_TONES: dict[Decision, str] = {"go": "good", "no-go": "bad", "unclear": "odd"}


def text(plain: str) -> str:
    """Anybody's text as HTML, without characters that steer a page."""
    return _escape(printable(plain))


def verdict(judged: JudgedUpgrade, rows: Sequence[Row]) -> str:
    """From where to where, the decision and what weighs most for it, and the four metrics."""
    subject, upgrade = judged.subject, judged.upgrade
    decision = upgrade.decision
    cards = markup.panels(
        *(
            markup.card(one.title, text(one.value), "<br>".join([_state(one), *map(text, one.notes)]))
            for one in entries(upgrade.scorecard, subject.policy)
        )
    )
    return (
        f"{_title(subject)}"
        f'<div class="py-verdict py-{_TONES[decision]}"><p class="py-decision">'
        f'<span aria-hidden="true">{wording.DECISION_SIGNS[decision]}</span> '
        f"{wording.DECISIONS[decision]}</p>"
        f"<p>{text(wording.because(upgrade))}</p></div>{cards}"
        f'<p class="py-quiet">{text(sentences.counted(rows, upgrade))}</p>'
    )


def _state(one: Entry) -> str:
    return f'<span class="py-chip py-{one.tone}">{one.sign} {one.state}</span>'


def hardware(verdicts: Sequence[HardwareVerdict], shown: str) -> str:
    """A pair of versions on all hardware, a row each: the decision and the four metrics."""
    rows = (
        (
            f"<strong>{text(one.listed.run.hardware_label)}</strong><small>{_where(one.listed)} · "
            f"{text(dashboard_wording.utc(one.listed.run.started_at))}</small>",
            _decision(one),
            *(map(_metric, one.entries) if one.entries else [NONE] * 4),
            "shown below"
            if one.listed.run.id == shown
            else markup.link(UpgradeView(one.listed.run.id).address, "Open\u00a0→"),
        )
        for one in verdicts
    )
    usual = ("Pass rate", "Steady latency", "Compile time", "Peak memory")
    metrics = next((tuple(each.title for each in one.entries) for one in verdicts if one.entries), usual)
    columns = [("Hardware", False), ("Verdict", False), *((title, False) for title in metrics), ("", False)]
    return markup.table("All hardware", columns, rows, folded=True)


def _decision(one: HardwareVerdict) -> str:
    if one.decision is None:
        return text(one.because)
    return (
        f'<span class="py-chip py-{_TONES[one.decision]}">{wording.DECISION_SIGNS[one.decision]} '
        f"{wording.DECISIONS[one.decision]}</span>"
    )


def _metric(one: Entry) -> str:
    largest = f"<small>{text(one.largest)}</small>" if one.largest else ""
    return f'<span class="py-{one.tone}">{one.sign} <strong>{text(one.value)}</strong></span>{largest}'


def _title(subject: Subject) -> str:
    chip = "" if subject.state == "complete" else markup.chip(subject.state)
    torch = f"torch {subject.old.torch} to {subject.new.torch}"
    # Of environments that are named after their PyTorch that would say it twice.
    named = {_plain(subject.old), _plain(subject.new)} == {True}
    where = " · ".join(part for part in ("" if named else torch, f"on {sentences.place(subject)}") if part)
    return (
        f'<div class="py-title"><h2>{text(subject.old.name)} → {text(subject.new.name)} '
        f"<small>{text(where)}</small></h2> {chip}</div>"
    )


def _plain(one: ComparedEnvironment) -> bool:
    return one.name in (one.torch, one.torch.partition("+")[0])


def reasons(judged: JudgedUpgrade) -> str:
    """What speaks for which decision, weightiest first, each with the commands that measure it again."""
    rows = (
        (
            f'<span class="py-chip py-{"odd" if one.warning else _TONES[one.speaks]}">{wording.sign(one)} '
            f"{text(wording.speaks(one))}</span>",
            f'<span class="py-reason py-long">{text(sentence(one))}</span>'
            f"{_again(judged.subject, one.cases)}",
        )
        for one in judged.upgrade.reasons
    )
    return markup.table("Reasons", [("Speaks for", False), ("Why", False)], rows, folded=True)


def _again(subject: Subject, cases: Sequence[str]) -> str:
    if not cases:
        return ""
    summary = "measure it again" if len(cases) == 1 else f"its {len(cases):,} cases, to measure again"
    return _folded(summary, _commands(map(subject.reproduce, cases), len(cases)))


def _folded(summary: str, body: str) -> str:
    return f'<details class="py-more"><summary>{text(summary)}</summary>{body}</details>'


def _commands(lines: Iterable[str], many: int) -> str:
    shown = [line for line, _ in zip(lines, range(_MOST_COMMANDS), strict=False)]
    more = _more(many - len(shown), "commands")
    return f"<pre><code>{chr(10).join(map(text, shown))}</code></pre>{more}"


def _more(many: int, what: str, where: str = "the report has them") -> str:
    return markup.more(many, f"more {what}: {where}.")


def settle(judged: JudgedUpgrade) -> str:
    """What would settle an unclear upgrade; empty where nothing has to."""
    listed = judged.upgrade.settle
    rows = (
        (
            markup.case(one.case),
            text(wording.settling(one)),
            f"<code>{text(judged.subject.settle(one))}</code>",
        )
        for one in listed[:_MOST_LISTED]
    )
    columns = [("Case", False), ("What it takes", False), ("Command", False)]
    table = markup.table("What would settle it", columns, rows, tall=True, folded=True)
    return _cut(table, len(listed), _MOST_LISTED)


def _cut(table: str, many: int, most: int = MOST_ROWS) -> str:
    return table + _more(many - most, "rows", "the CSV file has them")


def correctness(upgrade: Upgrade) -> str:
    """What broke and what was repaired, with how it ended on either side."""
    told = [("✗ broken", "bad", each) for each in upgrade.broken]
    told += [("✓ repaired", "good", each) for each in upgrade.repaired]
    rows = (
        (
            markup.case(one.case),
            f'<span class="py-chip py-{colour}">{word}</span>',
            _ended(one.old.status, one.old.reason),
            _ended(one.new.status, one.new.reason),
        )
        for word, colour, one in told[:MOST_ROWS]
    )
    columns = [("Case", False), ("", False), ("Old", False), ("New", False)]
    return _cut(markup.table("Correctness", columns, rows, tall=True, folded=True), len(told))


def _ended(status: str, reason: str) -> str:
    return f'<span class="py-reason"><strong>{text(status)}</strong> {text(reason)}</span>'


def cases(run: Run, judged: JudgedUpgrade, rows: Sequence[Row]) -> str:
    """Cases with both numbers, the change, its interval, n, the verdict and what could have been seen."""
    subject, metric = judged.subject, judged.subject.policy.metric
    columns = [
        ("Case", False),
        *((title, True) for title in _capital(wording.headings(metric))),
        ("Change", True),
        (sentences.interval_heading(subject, judged.upgrade).capitalize(), True),
        ("n", True),
        ("Verdict", False),
        ("Visible from", True),
        ("", False),
    ]
    place = (run.machine.hardware.fingerprint, run.preset.fingerprint)
    listed = (
        (
            markup.case(row.case) + _counts(subject, row.case),
            *_numbers(row.verdict),
            _told(row.standing, row.summary),
            text(wording.within(row.verdict.smallest) if row.verdict else NONE),
            markup.link(links.trends(metric, *place, row.case, axis="version"), "Trend\u00a0→"),
        )
        for row in rows[:MOST_ROWS]
    )
    return _cut(markup.table("Every case", columns, listed, tall=True, folded=True), len(rows))


def _counts(subject: Subject, case: str) -> str:
    weight = subject.policy.weight(case)
    told = [f"counts {weight:g} times"] if weight != 1 else []
    told += ["must not regress"] if subject.policy.guards(case) else []
    return f"<small>{text(', '.join(told))}</small>" if told else ""


def _capital(titles: Sequence[str]) -> list[str]:
    return [title[:1].upper() + title[1:] for title in titles]


def _numbers(judged: Verdict | None) -> tuple[str, ...]:
    """Old, new, change, interval, n."""
    if judged is None:
        return (*[NONE] * 4, "0")
    return (
        text(wording.number(judged.metric, judged.old)),
        text(wording.number(judged.metric, judged.new)),
        f"<strong>{text(wording.change(judged))}</strong>",
        text(wording.interval(judged.low, judged.high)),
        str(judged.n),
    )


def _told(standing: str, told: str) -> str:
    return f'<span class="py-reason py-{tone(standing)}">{sign(standing)} {text(told)}</span>'


def heat(found: Grid) -> str:
    """Workloads by techniques, as the report has it; many techniques below each other, for there is room."""
    if len(found.techniques) <= _WIDE:
        return f'<div class="py-report">{heatmap(found)}</div>'
    workloads = tuple(workload for workload, _ in found.lines)
    turned = tuple(
        (technique, tuple(cells[place] for _, cells in found.lines))
        for place, technique in enumerate(found.techniques)
    )
    return f'<div class="py-report">{heatmap(Grid(workloads, turned), "technique")}</div>'


def means(judged: JudgedUpgrade) -> str:
    """The geomean over all and by technique, each with n and with how many cases are left out."""
    upgrade = judged.upgrade
    every = [("<strong>all</strong>", upgrade.overall, len(upgrade.exclusions))]
    every += [
        (f"<code>{text(row.technique)}</code>", row.mean, len(row.excluded))
        for row in techniques(judged.results, upgrade)
    ]
    columns = [
        ("Technique", False),
        ("Geomean", True),
        (wording.confidence(upgrade.overall).capitalize(), True),
        ("Cases", True),
        ("Pairs", True),
        ("Left out", True),
    ]
    rows = (
        (
            name,
            f"<strong>{text(percent(mean.change) if mean else NONE)}</strong>",
            text(wording.interval(mean.low, mean.high) if mean else NONE),
            f"{mean.cases if mean else 0:,}",
            f"{mean.pairs if mean else 0:,}",
            f"{out:,}",
        )
        for name, mean, out in every
    )
    return markup.table("Geomeans", columns, rows, tall=True, folded=True)


def beside(listed: Sequence[Table], policy: Policy) -> str:
    """Tables of metrics that do not decide, one below the other, what moved first."""
    return "".join(_beside(table, policy) for table in listed)


def _beside(table: Table, policy: Policy) -> str:
    columns = [
        ("Case", False),
        *((title, True) for title in _capital(wording.headings(table.metric))),
        ("Change", True),
        ("Interval", True),
        ("n", True),
        ("Verdict", False),
    ]
    every = table_rows(table)
    rows = (
        (markup.case(case), *_numbers(one), _told(one.word, wording.verdict(one)))
        for case, one in every[:_MOST_BESIDE]
    )
    title = METRICS[table.metric].title
    about = sentences.about_table(table, policy)
    if missing := without_ratio(table):
        named = ", ".join(missing[:_MOST_BESIDE]) + (" …" if len(missing) > _MOST_BESIDE else "")
        about += f" Without a ratio: {named}."
    return (
        f'<h3 class="py-sub">{text(title)}: {text(sentences.table_summary(table))}</h3>'
        f'<p class="py-quiet">{text(about)}</p>'
        f"{markup.table(title, columns, rows, tall=True, folded=True)}"
        f"{_more(len(every) - _MOST_BESIDE, 'cases', 'the CSV file has them')}"
    )


def exclusions(judged: JudgedUpgrade, rows: Sequence[Row]) -> str:
    """Cases that are in no geomean, and pairs that do not count, each with the reason."""
    whole = [(one.case, excluded(one)) for one in judged.upgrade.exclusions]
    parts = [_because("Cases in no geomean", whole), _because("Pairs that do not count", left_out(rows))]
    return "".join(parts) or "<p>Every case is in the geomean, and every pair counts.</p>"


def _because(title: str, listed: Sequence[tuple[str, str]]) -> str:
    if not listed:
        return ""
    rows = (
        (markup.case(case), f'<span class="py-reason py-long">{text(why)}</span>')
        for case, why in listed[:_MOST_LISTED]
    )
    table = markup.table(title, [("Case", False), ("Why", False)], rows, tall=True, folded=True)
    return f'<h3 class="py-sub">{title}: {len(listed):,}</h3>{_cut(table, len(listed), _MOST_LISTED)}'


def differences(subject: Subject) -> str:
    """What the new environment has other than the old."""
    found = changes(subject.old, subject.new)
    if not found:
        return f"<p>{text(sentences.no_difference(subject))}</p>"
    columns = [("What", False), (subject.old.name, False), (subject.new.name, False)]
    rows = ((text(one.what), text(one.old) or NONE, text(one.new) or NONE) for one in found)
    return markup.table("What differs between the environments", columns, rows, tall=True)


def how(subject: Subject) -> str:
    """Everything around the numbers, what the run noted, and the rules it was judged by."""
    rules = "".join(f"<li>{text(rule)}</li>" for rule in sentences.rules(subject))
    told = {name: printable(value) for name, value in sentences.facts(subject)}
    facts = markup.facts("How it was measured", subject.run, told)
    noted = markup.notes([printable(note) for note in subject.notes])
    notes = f'<h3 class="py-sub">Notes</h3>{noted}' if subject.notes else ""
    return (
        f"{markup.panels(facts, kind='py-facts')}{notes}"
        f'<h3 class="py-sub">The rules it is judged by</h3><ul class="py-rules">{rules}</ul>'
    )


def again(judged: JudgedUpgrade, rows: Sequence[Row]) -> str:
    """The command of every case, folded."""
    commands = (judged.subject.reproduce(row.case) for row in rows)
    return _folded(f"The command of every case: {len(rows):,}", _commands(commands, len(rows)))


def upgrades(title: str, items: Sequence[Listed], shown: str) -> str:
    """A list of upgrades, each with a link to its page; the one that is `shown` says so."""
    rows = (
        (
            f"<strong>{text(version(one.old))} → {text(version(one.new))}</strong>"
            + (f"<small>{text(one.because)}</small>" if one.because else ""),
            _decided(one),
            f"{text(one.run.hardware_label)}<small>{_where(one)}</small>",
            text(dashboard_wording.utc(one.run.started_at)),
            "shown above"
            if one.run.id == shown
            else markup.link(UpgradeView(one.run.id).address, "Open\u00a0→"),
        )
        for one in items
    )
    columns = [("Upgrade", False), ("Decision", False), ("Where", False), ("When", False), ("", False)]
    return markup.table(title, columns, rows, folded=True)


def _where(one: Listed) -> str:
    return text(f"{one.run.suite} · {one.run.preset}")


def _decided(one: Listed) -> str:
    if one.confirms:
        return text(NONE)
    for decision, colour in _TONES.items():
        if one.decision == decision:
            signed = f"{wording.DECISION_SIGNS[decision]} {wording.DECISIONS[decision]}"
            return f'<span class="py-chip py-{colour}">{signed}</span>'
    if one.run.state != "complete":
        return markup.chip(one.run.state)
    return "not stored" if one.comparison is None else "open it to judge"
