"""Runs gathered from one file or folder, and whatever of it was set aside."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from records.outcomes import MetricDefinition

from .errors import BadFile, SourcePlace
from .foreign_runs import Failure, ForeignOrigin, Point, assembled
from .imported import Imported, ImportedRun, ImportProblem
from .reading import At

#: What was set aside beyond that many things is counted and not kept.
MOST_PROBLEMS = 1000
#: No benchmark is older; seconds that are taken for milliseconds are.
_FIRST_YEAR = 2000


@dataclass(slots=True)
class Gathered:
    """Fills up while a file is read; `imported` is what came of it."""

    format: str
    runs: dict[str, ImportedRun] = field(default_factory=dict[str, ImportedRun])
    metrics: dict[str, MetricDefinition] = field(default_factory=dict[str, MetricDefinition])
    set_aside: list[ImportProblem] = field(default_factory=list[ImportProblem])
    repeats: list[ImportProblem] = field(default_factory=list[ImportProblem])
    #: How many more were set aside than are kept.
    more: int = 0

    def aside(self, place: SourcePlace, sentence: str) -> None:
        """Set something aside."""
        self.keep(ImportProblem(place, sentence))

    def keep(self, problem: ImportProblem) -> None:
        """Set something aside, or only count it where that is enough."""
        if len(self.set_aside) < MOST_PROBLEMS:
            self.set_aside.append(problem)
        else:
            self.more += 1

    def refuse(self, error: BadFile) -> None:
        """Set aside what an error is about."""
        self.aside(error.place, error.sentence)

    def add(
        self,
        origin: ForeignOrigin,
        place: SourcePlace,
        points: Iterable[Point],
        failures: Iterable[Failure] = (),
    ) -> None:
        """A run from its points; one that holds nothing, or that is there otherwise already, is set aside."""
        run, metrics, problems = assembled(origin, list(self._agreeing(points)), failures)
        for problem in problems:
            self.keep(problem)
        if not run.outcomes:
            self.aside(place, "holds no result")
        elif known := self.runs.get(run.run.id):
            if _results(known) == _results(run):
                self.repeats.append(ImportProblem(place, f"repeats run {run.run.id}"))
            else:
                self.aside(place, f"tells run {run.run.id} otherwise; the first counts")
        else:
            self.runs[run.run.id] = run
            self.metrics |= {metric.name: metric for metric in metrics}

    def _agreeing(self, points: Iterable[Point]) -> Iterable[Point]:
        """The points whose metric means what it meant in the runs before."""
        for point in points:
            known = self.metrics.get(point.metric)
            if known is not None and (known.unit, known.better) != (point.unit, point.better):
                self.aside(
                    point.place,
                    f"{point.metric} is in {known.unit} and {known.better} is better, "
                    f"not in {point.unit} and {point.better}",
                )
            else:
                yield point

    def imported(self, place: SourcePlace) -> Imported:
        """All that was gathered; raises BadFile where no run was, with the first reason there is."""
        if not self.runs:
            if self.set_aside:
                raise BadFile(self.set_aside[0].place, self.set_aside[0].sentence)
            raise BadFile(place, "holds no result")
        more = [ImportProblem(SourcePlace(place.file), f"and {self.more} more")] if self.more else []
        return Imported(
            self.format,
            tuple(self.runs.values()),
            tuple(self.metrics.values()),
            (*self.set_aside, *more),
            tuple(self.repeats[:MOST_PROBLEMS]),
        )


def _results(one: ImportedRun) -> tuple[object, ...]:
    """All that was measured: of a run without a time of its own each file has another."""
    started = one.run.started_at
    return tuple(replace(each, started_at=started) for each in one.outcomes), one.measurements


def moment(at: At, seconds: float) -> datetime:
    """The time that many seconds after 1970 began, in UTC; raises BadFile for none on the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise at.wrong("a time since 1970") from None


def moment_in_milliseconds(at: At) -> datetime:
    """The time that many milliseconds after 1970 began; raises BadFile for one before the year 2000."""
    found = moment(at, at.number() / 1e3)
    if found.year < _FIRST_YEAR:
        raise BadFile(at.place, f"is in the year {found.year}: seconds, not milliseconds?")
    return found


def in_utc(text: str) -> datetime:
    """The time of an ISO 8601 text, in UTC, in which it is where it has no zone.

    Raises ValueError or OverflowError for what is none.
    """
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)


def moment_in(at: At) -> datetime:
    """The time of an ISO 8601 text, in UTC; without a zone it is read as UTC. Raises BadFile."""
    try:
        return in_utc(at.text())
    except (ValueError, OverflowError):
        raise at.wrong("a time such as 2026-11-21T20:15:00+00:00") from None
