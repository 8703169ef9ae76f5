"""Runs gathered from one file or folder, and whatever of it was set aside."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from db.records import MetricDefinition

from .errors import BadFile, Place
from .foreign import Failure, Origin, Point, assembled
from .imported import Imported, ImportedRun, Problem
from .reading import At


@dataclass(slots=True)
class Gathered:
    """Fills up while a file is read; `imported` is what came of it."""

    format: str
    runs: dict[str, ImportedRun] = field(default_factory=dict[str, ImportedRun])
    metrics: dict[str, MetricDefinition] = field(default_factory=dict[str, MetricDefinition])
    set_aside: list[Problem] = field(default_factory=list[Problem])

    def aside(self, place: Place, sentence: str) -> None:
        """Set something aside."""
        self.set_aside.append(Problem(place, sentence))

    def refuse(self, error: BadFile) -> None:
        """Set aside what an error is about."""
        self.aside(error.place, error.sentence)

    def add(
        self, origin: Origin, place: Place, points: Iterable[Point], failures: Iterable[Failure] = ()
    ) -> None:
        """A run from its points; one that holds nothing, or that is there already, is set aside."""
        run, metrics, problems = assembled(origin, list(self._agreeing(points)), failures)
        self.set_aside += problems
        if not run.outcomes:
            self.aside(place, "holds no result")
        elif run.run.id in self.runs:
            self.aside(place, f"repeats what run {run.run.id} holds; the first counts")
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

    def imported(self, place: Place) -> Imported:
        """All that was gathered; raises BadFile where no run was, with the first reason there is."""
        if not self.runs:
            if self.set_aside:
                raise BadFile(self.set_aside[0].place, self.set_aside[0].sentence)
            raise BadFile(place, "holds no result")
        return Imported(
            self.format, tuple(self.runs.values()), tuple(self.metrics.values()), tuple(self.set_aside)
        )


def moment(at: At, seconds: float) -> datetime:
    """The time that many seconds after 1970 began, in UTC; raises BadFile for none on the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        raise at.wrong("a time since 1970") from None


def moment_in(at: At) -> datetime:
    """The time of an ISO 8601 text, in UTC; without a zone it is read as UTC. Raises BadFile."""
    try:
        found = datetime.fromisoformat(at.text())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise at.wrong("a time such as 2026-11-21T20:15:00+00:00") from None
