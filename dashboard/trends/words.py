"""Text about a trend, its scale and its marks."""

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

#: The better direction of a metric along the axis.
_BETTER: Mapping[str, str] = {"lower": "below 0 % is better", "higher": "above 0 % is better"}

ABOUT_MOVES = (
    "▲ ▼ confirmed: measured again, A/B interleaved. ? a candidate, which may be noise. ! the machine "
    "changed, not PyTorch. △ ▽ moved here, not confirmed: no schedule watches this line, and only its points "
    "show the move. The arrow is the direction of the value; the word tells whether that is worse or better."
)


def about_moves(metric: str) -> str:
    """The explanation of marks; for a metric that follows from a watched one also the source of its
    findings.
    """
    behind = judged_by(metric)
    if behind in ("", metric):
        return ABOUT_MOVES
    return (
        f"{ABOUT_MOVES} Schedules watch {METRICS[behind].title}, from which this metric follows: its "
        f"findings are marked here too, with its values."
    )


ABOUT_CASES = (
    "Without a choice the view opens on the cases with a confirmed finding that is open, then on those with "
    "most points; where no schedule measures, of these on those whose points lie furthest apart."
)
ABOUT_STEPS = (
    "Grey ticks on the axis: something other than PyTorch's version differs from the run before on the same "
    "machine and track, or the dispatch fingerprint of a case differs. The line cannot separate changes at "
    "the same point."
)


def title(metric: Metric, *, stacked: bool, baseline: str = "") -> str:
    """The title of a trend chart's scale; with `baseline` shares of it are drawn."""
    change_title = f"{metric.title}, change against {baseline} (%)"
    parts = [change_title if baseline else wording.with_unit(metric.title, metric.unit)]
    if metric.better != "neither":
        parts.append(_BETTER[metric.better] if baseline else f"{metric.better} is better")
    if stacked:
        parts.append("each line on its own scale")
    return " · ".join(parts)


def how_to_read(metric: Metric, axis: Axis, tool: str = "", *, rules: bool = True) -> str:
    """The explanation of a trend chart; a metric of another `tool` is defined by that tool."""
    definition = f"as {tool} reports it" if tool else metric.meaning
    meaning = f" {metric.title}: {definition}." if definition else ""
    if axis == "version":
        return (
            "Point: median over all runs of a version. Bar and band: smallest to largest of their replicates."
            + meaning
        )
    dash_note = "Dashed vertical lines: the PyTorch version changes." if rules else ""
    reading = "Point: median of one run's replicates. Bar and band: smallest to largest replicate."
    return " ".join(part for part in (reading, dash_note) if part) + meaning


def against(
    metric: Metric, baseline: str, levels: Levels, trend_lines: Sequence[TrendLine], *, run: bool
) -> str:
    """The caption of a relative trend: the meaning of 0 % in each line, and the quality of such shares.

    `run`: the baseline is a run, not a version.
    """
    builds = {} if run else {line.letter: _build(line, baseline) for line in trend_lines}
    each = ", ".join(
        f"{letter} {wording.quantity(level, metric.unit)}{builds.get(letter, '')}"
        for letter, level in levels.items()
    )
    missing = [line for line in trend_lines if line.letter not in levels]
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
    sentences.append("The points are of different runs, between which machines drift: a hint, not a verdict.")
    return " ".join(sentences)


def _build(line: TrendLine, baseline: str) -> str:
    """The build that represents a public version in a line with several; empty if it has one."""
    several = [version for version in lines.whole_versions([line]) if public(version) == baseline]
    own = lines.build(line, baseline)
    return f" of {own}" if len(several) > 1 and own != baseline else ""


def in_words(metric: Metric, trend_lines: Sequence[TrendLine], tracks: int, baseline: str = "") -> str:
    """The description of a trend chart, for screen readers."""
    many = sum(len(line.points) for line in trend_lines)
    names = "; ".join(dict.fromkeys(wording.case(line.key.case).text for line in trend_lines))
    where = ", ".join(dict.fromkeys(line.key.hardware_label for line in trend_lines))
    of_tracks = f" in {tracks} tracks" if tracks > 1 else ""
    against_text = f", against {baseline}" if baseline else ""
    return (
        f"{metric.title}{against_text}: {wording.plural(len(trend_lines), 'line')}{of_tracks} with "
        f"{wording.plural(many, 'point')} on {where}: {names}"
    )


def measured_on(trend_lines: Sequence[TrendLine]) -> tuple[str, str]:
    """The hardware of lines, and the PyTorch of their oldest and newest point."""
    where = ", ".join(dict.fromkeys(line.key.hardware_label for line in trend_lines))
    points = lines.in_time(point for line in trend_lines for point in line.points)
    versions = [wording.version(one.torch_version) for one in points if one.torch_version]
    return where, f"PyTorch {' to '.join(dict.fromkeys(versions[:1] + versions[-1:]))}" if versions else ""


def comparison(
    old: MeasuredFor | None, new: MeasuredFor | None, before: SeriesPoint, point: SeriesPoint
) -> str:
    """The command that compares two points; empty if they have the same PyTorch.

    Two builds of one release are named by their environments; empty if these are the same too.
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
    """A version that a package index offers, else the name of the measured environment."""
    version = parse(torch_version)
    if version is not None:
        candidate = version.pre is not None and version.pre[0] == "rc"
        is_release = not version.is_prerelease or (candidate and not version.is_devrelease)
        if is_release or date_of(version):
            return version.public
    return _name(about)


def _name(about: MeasuredFor | None) -> str:
    return about.name if about else ""
