"""How a trend, its scale and its marks are put into words."""

import shlex
from collections.abc import Mapping, Sequence

from analysis.detection.default_watched_metrics import judged_by
from analysis.metrics import METRICS, Metric
from dashboard.components import wording
from dashboard.components.query_params import public
from dashboard.trends import lines
from dashboard.trends.frames import Levels
from dashboard.trends.lines import TrendLine
from dashboard.trends.view import Axis
from records.series import MeasuredFor, SeriesPoint
from runner.environments.versions import date_of, parse

#: The way along the axis that a metric had better go.
_BETTER: Mapping[str, str] = {"lower": "below 0 % is better", "higher": "above 0 % is better"}

ABOUT_MOVES = (
    "▲ ▼ confirmed: measured again, A/B interleaved. ? a candidate, which may be noise. ! the machine "
    "changed, not PyTorch. △ ▽ moved here, not confirmed: no schedule watches this line, and only its own "
    "points say so. The arrow is the way the number went; the word says whether that is worse or better."
)


def about_moves(metric: str) -> str:
    """How marks are read; of a metric that follows from a watched one also where its findings come from."""
    behind = judged_by(metric)
    if behind in ("", metric):
        return ABOUT_MOVES
    return (
        f"{ABOUT_MOVES} Nights watch {METRICS[behind].title}, from which this metric follows: findings of it "
        "are marked here too, with its numbers."
    )


ABOUT_CASES = (
    "Without a choice the view opens on the cases with a confirmed finding that is open, then on those with "
    "most points; where no schedule measures, of these on those whose points lie furthest apart."
)
ABOUT_STEPS = (
    "Grey ticks on the axis: something else than PyTorch's version differs from the run before on the same "
    "machine and track, or a case runs differently by its fingerprint. Changes at the same point cannot be "
    "separated by the line."
)


def title(metric: Metric, *, stacked: bool, baseline: str = "") -> str:
    """What a trend chart's scale is; with `baseline` shares of it are drawn."""
    changed = f"{metric.title}, change against {baseline} (%)"
    parts = [changed if baseline else wording.with_unit(metric.title, metric.unit)]
    if metric.better != "neither":
        parts.append(_BETTER[metric.better] if baseline else f"{metric.better} is better")
    if stacked:
        parts.append("each line on its own scale")
    return " · ".join(parts)


def how_to_read(metric: Metric, axis: Axis, tool: str = "", *, rules: bool = True) -> str:
    """How a trend chart is to be read; a metric of another `tool` means what that tool says."""
    definition = f"as {tool} reports it" if tool else metric.meaning
    meaning = f" {metric.title}: {definition}." if definition else ""
    if axis == "version":
        return (
            "Point: median over all runs of a version. Bar and band: smallest to largest of their replicates."
            + meaning
        )
    dashed = "Dashed upright: the PyTorch version changes." if rules else ""
    reading = "Point: median of one run's replicates. Bar and band: smallest to largest replicate."
    return " ".join(part for part in (reading, dashed) if part) + meaning


def against(metric: Metric, baseline: str, levels: Levels, drawn: Sequence[TrendLine], *, run: bool) -> str:
    """The caption of a relative trend: what 0 % is in each line, and what such a share is worth.

    `run`: the baseline is one, and no version.
    """
    builds = {} if run else {line.letter: _build(line, baseline) for line in drawn}
    each = ", ".join(
        f"{letter} {wording.quantity(level, metric.unit)}{builds.get(letter, '')}"
        for letter, level in levels.items()
    )
    missing = [line for line in drawn if line.letter not in levels]
    without = [line.letter for line in missing if not lines.measured(line, baseline)]
    nothing = [line.letter for line in missing if lines.measured(line, baseline)]
    of_which = "that run's point" if run else "the median over the points of its runs"
    sentences = [f"0 % is {baseline}, {of_which}: {each}."] if each else []
    if without:
        verb = "has" if len(without) == 1 else "have"
        sentences.append(f"{', '.join(without)} {verb} nothing measured with {baseline} and cannot be drawn.")
    if nothing:
        what = f"What {', '.join(nothing)} measured with {baseline}"
        sentences.append(f"{what} is not above 0: there is no share of it to draw.")
    sentences.append(
        "Points of different runs are set against each other, and machines drift between runs: a hint, not a "
        "verdict."
    )
    return " ".join(sentences)


def _build(line: TrendLine, baseline: str) -> str:
    """The build that represents a public version in a line with several; empty where it has one."""
    several = [version for version in lines.whole_versions([line]) if public(version) == baseline]
    own = lines.build(line, baseline)
    return f" of {own}" if len(several) > 1 and own != baseline else ""


def in_words(metric: Metric, drawn: Sequence[TrendLine], tracks: int, baseline: str = "") -> str:
    """A trend chart in words, for screen readers."""
    many = sum(len(line.points) for line in drawn)
    names = "; ".join(dict.fromkeys(wording.case(line.key.case).text for line in drawn))
    where = ", ".join(dict.fromkeys(line.key.hardware_label for line in drawn))
    of_tracks = f" in {tracks} tracks" if tracks > 1 else ""
    compared = f", against {baseline}" if baseline else ""
    return (
        f"{metric.title}{compared}: {wording.plural(len(drawn), 'line')}{of_tracks} with "
        f"{wording.plural(many, 'point')} on {where}: {names}"
    )


def measured_on(drawn: Sequence[TrendLine]) -> tuple[str, str]:
    """The hardware of lines, and the PyTorch of their oldest and newest point."""
    where = ", ".join(dict.fromkeys(line.key.hardware_label for line in drawn))
    points = lines.in_time(point for line in drawn for point in line.points)
    versions = [wording.version(one.torch_version) for one in points if one.torch_version]
    return where, f"PyTorch {' to '.join(dict.fromkeys(versions[:1] + versions[-1:]))}" if versions else ""


def comparison(
    old: MeasuredFor | None, new: MeasuredFor | None, before: SeriesPoint, point: SeriesPoint
) -> str:
    """What to type to measure two points against each other; empty where they are one PyTorch.

    Two builds of one release go by the names of their environments; empty where those are one, too.
    """
    if not before.torch_version or before.torch_version == point.torch_version:
        return ""
    sides = (_upgrade_argument(before.torch_version, old), _upgrade_argument(point.torch_version, new))
    if sides[0] == sides[1]:
        sides = (_name(old), _name(new))
    if not all(sides) or sides[0] == sides[1]:
        return ""
    return shlex.join(["pyrometer", "upgrade", *sides, "--case", point.case])


def _upgrade_argument(torch_version: str, about: MeasuredFor | None) -> str:
    """A version that a package index offers, else the name that an environment was measured under."""
    version = parse(torch_version)
    if version is not None:
        candidate = version.pre is not None and version.pre[0] == "rc"
        released = not version.is_prerelease or (candidate and not version.is_devrelease)
        if released or date_of(version):
            return version.public
    return _name(about)


def _name(about: MeasuredFor | None) -> str:
    return about.name if about else ""
