"""What runs differently along the lines of a trend, by the dispatch fingerprints that nights took."""

from collections.abc import Mapping, Sequence

from analysis.dispatch_difference import DispatchChange, compare_fingerprints
from dashboard.components import wording
from dashboard.trends.lines import Place, TrendLine, place_of
from db.connection.engine import Database
from db.runs.fingerprints import fingerprints_by_environment
from records.dispatch import DispatchFingerprint, DispatchPart
from records.runs import RunChange
from reports.text.dispatch_text import PARTS

#: So many changes of one case before one point are named, those with a warning first.
_NAMED = 4
#: The kind of a change that is one of what runs.
DISPATCH = "dispatch"


def dispatch_changes(
    database: Database, drawn: Sequence[TrendLine]
) -> dict[tuple[str, Place], tuple[RunChange, ...]]:
    """What runs differently from the point before in its track, by a line's letter and place."""
    found: dict[tuple[str, Place], tuple[RunChange, ...]] = {}
    for line in drawn:
        key, environments = line.key, {point.environment for point in line.points}
        known = fingerprints_by_environment(database, environments, key.hardware, key.preset, [key.case])
        found |= changes_along(line, {environment: one for (environment, _), one in known.items()})
    return found


def changes_along(
    line: TrendLine, known: Mapping[str, DispatchFingerprint]
) -> dict[tuple[str, Place], tuple[RunChange, ...]]:
    """As `dispatch_changes`, of one line whose fingerprints are `known` by environment.

    A night of an environment without one is passed over: what changed since then is said of the next.
    """
    found: dict[tuple[str, Place], tuple[RunChange, ...]] = {}
    before: dict[tuple[str, str], DispatchFingerprint] = {}
    for point, track in zip(line.points, line.tracks, strict=True):
        current = known.get(point.environment)
        if current is None:
            continue
        last = before.get((track, point.machine))
        before[track, point.machine] = current
        # The same content is the same object.
        if last is not None and last is not current:
            changes = compare_fingerprints(last, current).changes
            if changes:
                found[line.letter, place_of(point)] = _in_words(wording.case(point.case).text, changes)
    return found


def _in_words(case: str, changes: Sequence[DispatchChange]) -> tuple[RunChange, ...]:
    named = [one for one in changes if one.part != DispatchPart.CODE]
    listed = [
        RunChange(
            DISPATCH,
            f"{PARTS[one.part]} of {case}",
            f"{one.count_before}x {one.before}" if one.before else "",
            f"{one.count_after}x {one.after}" if one.after else "",
        )
        for one in named[:_NAMED]
    ]
    if more := len(named) - len(listed):
        listed.append(RunChange(DISPATCH, f"{more} more of {case}", "", "differ"))
    if len(named) < len(changes):
        listed.append(RunChange(DISPATCH, f"generated code of {case}", "", "differs"))
    return tuple(listed)
