"""The report as one self-contained page, without scripts and network access; it can be printed."""

import math
from collections.abc import Iterable
from importlib import resources

from markupsafe import Markup

from analysis.metrics import METRICS

from . import sentences, tables, wording
from .forest import forest
from .report_context import JudgedUpgrade
from .rows import Grid, Row, grid, rows, without_ratio
from .scorecard import entries
from .text.dispatch_text import summary_words
from .text.reason_text import sentence
from .text.templates import escape_text, render

#: More techniques than this do not fit next to each other.
_WIDEST_GRID = 8
#: A table of more rows than this is folded when the page opens.
_LONG = 12
#: The change at which a cell has the darkest shade.
_FULL_SHADE = math.log(1.15)


def upgrade_html(judged: JudgedUpgrade) -> str:
    """The whole page: decision, reasons, forest plot, grid, tables, and the method.

    All text from a case, an environment or a command is escaped.
    """
    subject = judged.subject
    title = f"{wording.decision_word(judged.upgrade)}: {sentences.title(subject)}"
    content = upgrade_content(judged)
    return whole_page(title, move(subject.old.name, subject.new.name), sentences.place(subject), content)


def move(old: str, new: str) -> Markup:
    """The heading of a page about an upgrade: `2.13.0 to 2.15.0`."""
    return Markup("{} <span>to</span> {}").format(escape_text(old), escape_text(new))


def whole_page(title: str, heading: Markup, place: str, content: Markup, kind: str = "upgrade") -> str:
    """A self-contained page about a subject of a `kind`; `place` is the hardware and the time."""
    page = render(
        "report_page.html",
        title=title,
        style=_package_file("page.css"),
        script=_package_file("page.js"),
        kind=kind,
        heading=heading,
        place=place,
        content=content,
    )
    return str(page)


def upgrade_content(judged: JudgedUpgrade, prefix: str = "") -> Markup:
    """The content of a page below its heading; `prefix` makes the anchors of sections unique among several
    reports.
    """
    subject, upgrade, each = judged.subject, judged.upgrade, rows(judged)
    found = grid(each, _WIDEST_GRID)

    def reproduce_all(cases: Iterable[str]) -> list[str]:
        return [subject.reproduce(case) for case in cases]

    return render(
        "upgrade.html",
        prefix=prefix,
        subject=subject,
        upgrade=upgrade,
        rows=each,
        sentences=sentences,
        wording=wording,
        sentence=sentence,
        scorecard=entries(upgrade.scorecard, subject.policy),
        so_far=sentences.so_far(subject),
        runs_differently=summary_words(subject.dispatch) if subject.dispatch else "",
        metric=METRICS[subject.policy.metric].title,
        forest=forest(subject.policy.metric, each, upgrade.overall),
        grid=heatmap(found) if found else "",
        tables={
            "to_decide": tables.to_decide(subject, upgrade),
            "correctness": tables.correctness(subject, upgrade),
            "cases": tables.cases(subject, upgrade, each),
            "means": tables.means(judged),
            "exclusions": tables.exclusions(upgrade),
            "pairs_left_out": tables.pairs_left_out(each),
            "differences": tables.differences(subject),
            "dispatch": tables.dispatch(subject, each),
            "kernels": tables.kernels(subject, each),
            "screening": tables.screening(each),
        },
        metric_tables=[
            {
                "summary": f"{sentences.table_title(table)}: {sentences.table_summary(table)}",
                "about": sentences.about_table(table, subject.policy),
                "missing": without_ratio(table),
                "table": tables.metric_table(table),
            }
            for table in upgrade.tables
        ],
        reproduce_all=reproduce_all,
        every_command=reproduce_all(row.case for row in each),
        LONG=_LONG,
    )


def heatmap(found: Grid) -> Markup:
    """The grid as a table: shade, sign and number of each change; `·` marks a case that does not exist."""
    return render("heatmap.html", grid=found, shade_of=_shade, change=wording.change)


def _shade(row: Row) -> float:
    """The shade of a proved change, 0 to 1."""
    verdict = row.verdict
    if verdict is None or verdict.old is None or row.status not in ("slower", "faster"):
        return 0.0
    return 1.0 if verdict.change is None else min(1.0, abs(verdict.change) / _FULL_SHADE)


def _package_file(name: str) -> Markup:
    """A file of ours, as it is."""
    return Markup(resources.files(__package__ or "reports").joinpath(name).read_text(encoding="utf-8"))
