"""Every case of an upgrade as a matrix of techniques by workloads, in one of its metrics."""

import math
from collections.abc import Callable, Mapping, Sequence

from analysis.comparison.verdict import Verdict
from analysis.metrics import METRICS
from dashboard.components import wording as dashboard_wording
from dashboard.components.heat_map import HeatCell, HeatHead, HeatMap
from reports import wording
from reports.rows import Row, grid, sign, tone
from reports.text import numbers
from reports.upgrade_report import JudgedUpgrade

#: More techniques or workloads than this are no matrix that one sees at a glance.
_WIDEST = 60
#: The change at which the shade of a cell is full, and the least shade of one that is proved.
_FULL_SHADE, _LEAST_SHADE = math.log(1.10), 0.2

#: The address of the view with a case opened.
CaseAddress = Callable[[str], str]


def metrics(judged: JudgedUpgrade) -> dict[str, str]:
    """The metrics that the matrix can show, by name: the one that decides, then those of the tables."""
    names = [judged.subject.policy.metric, *(table.metric for table in judged.upgrade.tables)]
    return {name: METRICS[name].title for name in names}


def matrix(
    judged: JudgedUpgrade, rows: Sequence[Row], metric: str, address: CaseAddress | None = None
) -> HeatMap | None:
    """The changes of a metric; None where they would show nothing more than a list, or be too wide."""
    found = grid(rows, _WIDEST)
    if found is None:
        return None
    verdicts = _verdicts(judged, metric)
    lines = [
        (
            HeatHead(technique.replace(",", " "), chip=True),
            [
                row and _cell(row, verdicts.get(row.case), address)
                for row in (cells[place] for _, cells in found.lines)
            ],
        )
        for place, technique in enumerate(found.techniques)
    ]
    return HeatMap(
        f"Change of {METRICS[metric].title.lower()} by technique and workload",
        [_head(workload) for workload, _ in found.lines],
        lines,
    )


def _verdicts(judged: JudgedUpgrade, metric: str) -> Mapping[str, Verdict]:
    if metric == judged.subject.policy.metric:
        return judged.upgrade.verdicts
    return next(table.verdicts for table in judged.upgrade.tables if table.metric == metric)


def _head(workload: str) -> HeatHead:
    words = dashboard_wording.case(f"{workload}/eager")
    return HeatHead(f"{words.name} {words.phase}".strip(), words.parameters)


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
        # What is still possible.
        text = wording.interval(verdict.low, verdict.high)
    mark = "?" if verdict.word == "unclear" else sign(verdict.word)
    return HeatCell(mark, numbers.word(verdict), text, tone(verdict.word), _shade(verdict), about, link)


def _shade(verdict: Verdict) -> float:
    """How strongly a proved change is shaded: full at 10 %, and least at what matters."""
    if verdict.word not in ("slower", "faster"):
        return 0.0
    if verdict.change is None or verdict.threshold >= _FULL_SHADE:
        return 1.0
    share = (abs(verdict.change) - verdict.threshold) / (_FULL_SHADE - verdict.threshold)
    return max(_LEAST_SHADE, min(1.0, share))
