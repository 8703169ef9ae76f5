"""All cases of a track against the nights before: workload by technique, coloured only where confirmed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from analysis.staleness import LostCase
from dashboard.components import links, markup, wording
from dashboard.today.headlines import CaseNight
from reports.table import Column, DataTable
from reports.text.numbers import percent

#: A case that moved by no more than noise does, and one that is not measured any more.
WITHIN, BROKEN = "·", "× broke"
#: Workloads side by side; further ones are in the CSV file of the changes.
MOST = 12


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One case: what stands in its cell, its tone, and the finding that it leads to, if any."""

    text: str
    tone: wording.Tone = "quiet"
    finding: int | None = None


@dataclass(frozen=True, slots=True)
class CaseMatrix:
    """Cells by technique and workload, what has a colour first; `omitted` workloads have no column."""

    workloads: tuple[str, ...]
    techniques: tuple[str, ...]
    cells: Mapping[tuple[str, str], MatrixCell]
    omitted: int = 0


def matrix(nights: Sequence[CaseNight], lost: Sequence[LostCase] = ()) -> CaseMatrix:
    """The newest night of each case of a track; `lost` are those that used to be measured."""
    cells: dict[tuple[str, str], MatrixCell] = {}
    measured = ((each.key.case, _cell(each)) for each in nights)
    for key, cell in (*measured, *((each.case, _lost_cell(each)) for each in lost)):
        words = wording.case(key)
        workload = " ".join(part for part in (words.name, words.phase, words.parameters) if part)
        cells[words.technique or "eager", workload] = cell
    coloured = {workload for (_, workload), cell in cells.items() if cell.tone != "quiet"}
    workloads = sorted({workload for _, workload in cells}, key=lambda name: (name not in coloured, name))
    techniques = sorted({technique for technique, _ in cells}, key=lambda name: (name != "eager", name))
    shown = tuple(workloads[:MOST])
    return CaseMatrix(shown, tuple(techniques), cells, len(workloads) - len(shown))


def _lost_cell(one: LostCase) -> MatrixCell:
    """What crashed is broken; what the machine disturbed, or was not reached, is not."""
    ended = wording.status(one.status)
    return MatrixCell(BROKEN, "bad") if ended.tone == "bad" else MatrixCell(ended.text, ended.tone)


def _cell(one: CaseNight) -> MatrixCell:
    if one.finding is not None and one.left:
        sign = "▲" if one.finding.change > 0 else "▼"
        return MatrixCell(f"{sign} {percent(one.finding.change)}", one.tone, one.finding.id)
    if one.against is not None and one.against.outside:
        # Also of a confirmed change of which less than half was there.
        known = one.finding or one.candidate
        return MatrixCell(f"{percent(one.against.change)} ?", finding=known.id if known else None)
    return MatrixCell("new" if one.verdict == "too few nights" else WITHIN)


def table(found: CaseMatrix, label: str) -> DataTable[str]:
    """A row for each technique, a column for each workload."""

    def column(workload: str) -> Column[str]:
        def shown(technique: str) -> Markup:
            cell = found.cells.get((technique, workload))
            return Markup("") if cell is None else Markup(_html(cell))

        return Column(label=workload, format=shown)

    first: Column[str] = Column(label="Technique", format=str)
    return DataTable(
        label, [first, *map(column, found.workloads)], found.techniques, folded=False, dense=True
    )


def _html(cell: MatrixCell) -> str:
    if cell.finding is None:
        return markup.toned(cell.text, cell.tone)
    return markup.toned_link(links.finding(cell.finding), cell.text, cell.tone)
