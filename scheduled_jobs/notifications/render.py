"""Formats a digest: a subject that begins with the worst, plain text, Markdown, JSON."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, tzinfo
from typing import Any
from urllib.parse import urlencode

from analysis.metrics import METRICS
from analysis.staleness import part_label
from common.text import plural, printable, some
from configuration.schedules import zone
from records.tasks import TaskState
from reports.text import markdown, numbers
from reports.text.finding_text import interval

from ..detection.border_levels import BorderChange
from .digest import (
    CaseChange,
    ChangeGroup,
    ContinuedChange,
    Digest,
    DigestProblem,
    PartResult,
    UpgradeDecision,
)

#: A character that chats take for the beginning of a person's name.
_MENTION = re.compile(r"(?<!\w)@|@(?=everyone|here|channel|all|team)", re.IGNORECASE)

#: The number of characters of a subject that mail programs and chats display.
_SUBJECT = 200

#: The names that 0.1.0 gave to fields of a digest and of a change in it.
_OLD_FIELDS = {"troubles": "problems", "news": "notices", "told": "reported"}

#: Problems by kind, most important first, with the words for their count.
_PROBLEMS: Mapping[str, tuple[str, str]] = {
    "missing": ("missing night", "missing nights"),
    "silent": ("silent machine", "silent machines"),
    "coverage": ("part lost coverage", "parts lost coverage"),
    "failed": ("job failed", "jobs failed"),
    "disturbed": ("machine was disturbed", "machines were disturbed"),
    "undelivered": ("message was not delivered", "messages were not delivered"),
}


@dataclass(frozen=True, slots=True)
class Code:
    """A name that is printed unchanged: a case, a run, a command."""

    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """Text with a link; `url` is an address of the dashboard."""

    text: str
    url: str


#: Text comes from any source and stays plain text in every format.
Piece = str | Code | Link
Line = Sequence[Piece]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its lines; a line of depth 1 belongs to the one above it."""

    title: str
    lines: Sequence[tuple[int, Line]]


def subject(digest: Digest) -> str:
    """One line, worst first: regressions, then problems, and improvements last."""
    parts = [
        *_moved_in_all(digest.regressions, "regression"),
        *_going_on_in_all(digest.going_on),
        *_problem_counts(digest.problems, zone(digest.timezone)),
        *(f"upgrade {one.old} to {one.new}: {one.decision}" for one in digest.upgrades),
        *_moved_in_all(digest.machine, "change", " with the machine"),
        *digest.changed,
        *_moved_in_all(digest.improvements, "improvement"),
        *digest.notices,
    ]
    if digest.waiting:
        count = sum(each for _, each in digest.waiting)
        parts.append(f"{plural(count, 'candidate', 'candidates')} to be measured again")
    if late := sum(one.state in (TaskState.WAITING, TaskState.RUNNING) for one in digest.ran):
        parts.append(f"{plural(late, 'task', 'tasks')} not done yet")
    line = f"Pyrometer {digest.night}: {'; '.join(parts) or quiet_line(digest)}"
    return escape_mentions(line if len(line) <= _SUBJECT else f"{line[: _SUBJECT - 3]}...")


def quiet_line(digest: Digest) -> str:
    """The one line of a night with nothing to report."""
    machines = len({ran.machine for ran in digest.ran if ran.cases})
    if not machines:
        return "nothing was measured" if digest.ran else "nothing was due"
    all_cases = "1 case" if digest.cases == 1 else f"all {digest.cases} cases"
    broken = f", {digest.not_ok} of them not ok" if digest.not_ok else ""
    return f"{all_cases} as before on {plural(machines, 'machine', 'machines')}{broken}"


def tone(digest: Digest) -> str:
    """The level of a digest: failure, warning, success or info."""
    refused = any(one.decision == "no-go" for one in digest.upgrades)
    worse = digest.regressions or any(one.direction == "worse" for one in digest.going_on)
    if worse or refused or any(one.kind in ("missing", "silent") for one in digest.problems):
        return "failure"
    if digest.problems or digest.machine or any(ran.state != TaskState.DONE for ran in digest.ran):
        return "warning"
    return "info" if digest.waiting else "success"


def digest_text(digest: Digest, dashboard_url: str | None = None) -> str:
    """The digest as plain text; text from a case makes no mention and no link."""
    lines = [_plain(_head(digest))]
    for section in sections(digest, dashboard_url):
        lines += ["", section.title.upper()]
        lines += [f"{'    ' * depth}  {_plain(line)}" for depth, line in section.lines]
    return "\n".join(lines) + "\n"


def digest_markdown(digest: Digest, dashboard_url: str | None = None) -> str:
    """The digest as GitHub's Markdown; text from a case is escaped, including mentions."""
    lines = [_markdown_line(_head(digest))]
    for section in sections(digest, dashboard_url):
        lines += ["", f"### {markdown.text(section.title)}", ""]
        lines += [f"{'    ' * depth}- {_markdown_line(line)}" for depth, line in section.lines]
    return "\n".join(lines) + "\n"


def digest_json(digest: Digest) -> dict[str, Any]:
    """The digest as JSON values: its fields by name, times in ISO 8601, changes as log ratios."""
    return {"subject": subject(digest), "quiet": digest.quiet, **_values(asdict(digest))}


def stored_digest_json(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a stored digest under the present names; 0.1.0 had other names for three of them."""
    body = {_OLD_FIELDS.get(name, name): value for name, value in facts.items()}
    body["going_on"] = [
        {_OLD_FIELDS.get(name, name): value for name, value in change.items()} for change in body["going_on"]
    ]
    return body


def _values(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _values(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_values(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def sections(digest: Digest, dashboard_url: str | None) -> list[Section]:
    """The sections of a digest, worst first; empty ones are left out."""
    place = _Place(zone(digest.timezone), (dashboard_url or "").rstrip("/"))
    found = [
        Section("Regressions", _groups(digest.regressions, place)),
        Section("Continued since they were reported", [(0, _goes_on(one, place)) for one in digest.going_on]),
        Section("Problems", [(0, (one.sentence,)) for one in _loudest(digest.problems)]),
        Section("Upgrades", [line for one in digest.upgrades for line in _upgrade(one, place)]),
        Section("Changed with the machine, not with PyTorch", _groups(digest.machine, place)),
        Section("Machines that changed since the night before", [(0, (one,)) for one in digest.changed]),
        Section("Levels across a change of the machine, not judged", _border_lines(digest.crossed)),
        Section("Improvements", _groups(digest.improvements, place)),
        Section("On offer", [(0, (one,)) for one in digest.notices]),
        Section("What ran", [(0, _ran(one, place)) for one in digest.ran]),
        Section("Also", [(0, (line,)) for line in _further(digest)]),
    ]
    return [section for section in found if section.lines]


@dataclass(frozen=True, slots=True)
class _Place:
    """The time zone of the readers, and the URL of their dashboard, which may be empty."""

    zone: tzinfo
    dashboard: str

    def time(self, moment: datetime) -> str:
        return moment.astimezone(self.zone).strftime("%a %Y-%m-%d %H:%M")

    def day(self, moment: datetime) -> str:
        return moment.astimezone(self.zone).date().isoformat()

    def link(self, path: str, **query: str | int) -> str:
        return f"{self.dashboard}/{path}?{urlencode(query)}" if self.dashboard else ""


def _head(digest: Digest) -> Line:
    place = _Place(zone(digest.timezone), "")
    quiet = f"{quiet_line(digest)}. " if digest.quiet else ""
    return (f"{quiet}Period: {place.time(digest.since)} to {place.time(digest.until)}, {digest.timezone}.",)


def _groups(groups: Iterable[ChangeGroup], place: _Place) -> list[tuple[int, Line]]:
    lines: list[tuple[int, Line]] = []
    for group in groups:
        sides = f"{group.old} to {group.new}" if group.old != group.new else group.new
        sides += ", other packages" if group.old == group.new and not group.one else ""
        head = f"{group.machine}, night of {place.day(group.night)}, {sides}: "
        lines.append((0, (head + plural(group.count, "case", "cases"),)))
        lines += [(1, _case_change(one, place)) for one in group.top]
        if more := group.count - len(group.top):
            lines.append((1, (f"and {more} more",)))
    return lines


def _case_change(one: CaseChange, place: _Place) -> Line:
    name = _title(one.metric)
    line: list[Piece] = [f"{interval(one.change, one.low, one.high)} {name}: ", Code(one.case)]
    if one.after is not None:
        line.append(f", a slow drift after the night of {place.day(one.after)}")
    if one.began_as is not None:
        url = place.link("regressions", finding=one.began_as)
        first = f"finding {one.began_as}"
        line += [", goes on from ", Link(first, url) if url else first]
    if one.returned:
        line.append(", returned after it was fixed")
    if one.others:
        line.append(f", moved too: {', '.join(map(_title, one.others))}")
    return (*line, ", ", _finding(one.finding, place))


def _goes_on(one: ContinuedChange, place: _Place) -> Line:
    """The size of a change by nights since it was measured in pairs is approximate."""
    since, now = place.day(one.since), place.day(one.now)
    since_text = f"since the night of {since}, reported as {numbers.percent(one.reported)}"
    head = f"now about {numbers.percent(one.change)} (night of {now}) {_title(one.metric)}: "
    return (head, Code(one.case), f" on {one.machine}, {since_text}, ", _finding(one.finding, place))


def _border_lines(levels: Iterable[BorderChange]) -> list[tuple[int, Line]]:
    """The levels of each metric across a border: of all cases, and of those with the largest changes."""
    lines: list[tuple[int, Line]] = []
    for one in levels:
        nights = "on the night of" if one.nights == 1 else f"in the {one.nights} nights since"
        many = plural(one.cases, "case", "cases")
        size = f"{numbers.percent(one.middle)} {_title(one.metric)} (median of {many})"
        what = f"{one.machine}, {one.track}: {size} {nights} {one.border}; not judged, there is no baseline"
        lines.append((0, (what,)))
        named = one.largest if one.cases > 1 else ()
        lines += [(1, (f"{numbers.percent(change)}: ", Code(case))) for case, change in named]
    return lines


def _title(metric: str) -> str:
    return METRICS[metric].title if metric in METRICS else metric


def _finding(number: int, place: _Place) -> Piece:
    """The place of the details of a finding: its page, or a command."""
    url = place.link("regressions", finding=number)
    return Link(f"finding {number}", url) if url else Code(f"pyrometer regressions show {number}")


def _upgrade(one: UpgradeDecision, place: _Place) -> list[tuple[int, Line]]:
    url = place.link("runs", run=one.run) if one.run else ""
    run: Piece = Link(f"run {one.run}", url) if url else Code(f"pyrometer report {one.run}")
    head: Line = (f"{one.old} to {one.new} on {one.machine}: {one.decision or 'no decision'}, ", run)
    return [(0, head), *((1, (reason,)) for reason in one.reasons)]


def _ran(one: PartResult, place: _Place) -> Line:
    name = part_label(one.schedule, one.part)
    where = f" on {one.machine}" if one.machine else ""
    what = f"{name}{where}, due {place.time(one.due_at)}: {one.state}"
    if one.state != TaskState.DONE or not one.cases:
        return (f"{what}{f': {one.error}' if one.error else ''}",)
    bad = one.cases - one.ok
    counts = f"{what}, {one.ok} of {one.cases} cases ok" if bad else f"{what}, all {one.cases} cases ok"
    url = place.link("runs", run=one.run)
    return (f"{counts}, ", Link(f"run {one.run}", url)) if url else (counts,)


def _further(digest: Digest) -> list[str]:
    counted = (
        (digest.refuted, "measured again and refuted"),
        (digest.unclear, "measured again and still unclear"),
        (digest.silenced, "confirmed but not reported, because triaged or muted"),
    )
    lines = [f"{plural(count, 'change', 'changes')} {what}" for count, what in counted if count]
    if digest.coverage:
        fell = plural(len(digest.coverage), "case that used to be is", "cases that used to be are")
        lines.append(f"{fell} not measured, in all")
    lines += [f"{plural(count, 'candidate', 'candidates')} waiting: {why}" for why, count in digest.waiting]
    if digest.open:
        lines.append(f"{plural(digest.open, 'regression is', 'regressions are')} open in all")
    return lines


def _loudest(problems: Iterable[DigestProblem]) -> list[DigestProblem]:
    return sorted(problems, key=lambda one: list(_PROBLEMS).index(one.kind))


def _problem_counts(problems: Sequence[DigestProblem], place: tzinfo) -> list[str]:
    found: list[str] = []
    for kind, names in _PROBLEMS.items():
        own = [one for one in problems if one.kind == kind]
        if len(own) == 1 and kind in ("missing", "silent"):
            found.append(own[0].sentence)
        elif own and kind == "missing":
            # Two parts of one night count once.
            nights = {one.due_at.astimezone(place).date() for one in own if one.due_at}
            parts = list(dict.fromkeys(one.part for one in own))
            found.append(f"{plural(len(nights), *names)}: {some(parts)}")
        elif own:
            found.append(plural(len(own), *names))
    return found


def _going_on_in_all(going_on: Sequence[ContinuedChange]) -> list[str]:
    worse = [one for one in going_on if one.direction == "worse"]
    if not worse:
        return []
    first = worse[0]
    count = plural(len(worse), "regression goes on", "regressions go on")
    return [f"{count}, largest now about {numbers.percent(first.change)} {first.case} on {first.machine}"]


def _moved_in_all(groups: Sequence[ChangeGroup], word: str, how: str = "") -> list[str]:
    if not groups:
        return []
    largest = groups[0].largest
    count = plural(sum(group.count for group in groups), word, f"{word}s")
    return [f"{count}{how}, largest {numbers.percent(largest.change)} {largest.case} on {groups[0].machine}"]


def _plain(line: Line) -> str:
    return _join_pieces(
        line, escape_mentions, escape_mentions, lambda link: f"{escape_mentions(link.text)} ({link.url})"
    )


def _markdown_line(line: Line) -> str:
    return _join_pieces(
        line, markdown.text, markdown.code, lambda link: f"[{markdown.text(link.text)}]({link.url})"
    )


def _join_pieces(
    line: Line, text: Callable[[str], str], code: Callable[[str], str], link: Callable[[Link], str]
) -> str:
    def one(piece: Piece) -> str:
        if isinstance(piece, Link):
            return link(piece)
        return code(piece.text) if isinstance(piece, Code) else text(piece)

    return "".join(map(one, line))


def escape_mentions(anything: str) -> str:
    """Text that chats do not interpret: no mention, no link, and one line."""
    plain = printable(anything).translate({ord("<"): "‹", ord(">"): "›", ord("`"): "'"})
    # A zero-width space prevents a mention; `nightly@h200` is not one.
    quiet = _MENTION.sub("@\N{ZERO WIDTH SPACE}", plain)
    return re.sub(r"(?i)www(?=\.)|:(?=//)", "\\g<0>\N{ZERO WIDTH SPACE}", quiet).replace("](", "] (")
