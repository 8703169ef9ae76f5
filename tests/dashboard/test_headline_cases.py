"""The cases of last night: against the nights before, with colour for what is confirmed and nothing else."""

import math
import random
from datetime import timedelta

import pytest

from dashboard.today import headlines, load
from dashboard.today.headlines import CaseNight
from db.connection.engine import Database
from db.findings import store as findings
from records.evidence import Confirmation
from records.findings import Finding
from support.builders.run_records import BERT, MLP, RESNET
from support.builders.schedule_nights import Mornings, a_finding, confirm
from support.pages import TODAY, Open, html

HOUR = timedelta(hours=1)


def nights(
    mornings: Mornings, factors: dict[int, float], oldest: int = 20, noise: float = 0.002
) -> list[str]:
    """Nights up to now of which some took `factors` as long, by their age; all cases alike."""
    drawn = random.Random(3)
    made: list[str] = []
    for age in range(oldest, -1, -1):
        wobble = math.exp(drawn.gauss(0, noise)) if age not in factors else 1.0
        made += mornings.nights([age], factor=factors.get(age, 1.0) * wobble)
    return made


def regressed(database: Database, mornings: Mornings, runs: list[str], change: float = 1.08) -> Finding:
    """A confirmed regression of one case between the last two of some runs, of a measured size."""
    one = a_finding(database, mornings, runs)
    size = math.log(change)
    findings.decide(database, one.id, "confirmed", size, size, size, Confirmation(), mornings.now - 20 * HOUR)
    return one


def tonight(url: str) -> dict[str, CaseNight]:
    """The cases of the newest night, by case."""
    (part,) = load.results(url, load.morning(url).parts)
    newest, runs = part.night_task, headlines.runs_of(part)
    assert newest is not None and newest.run_id is not None
    found = load.points_of_runs(url, runs)
    made = headlines.headlines(part, newest.run_id, found, load.findings_of(url, tuple(found)))
    return {one.key.case: one for one in made}


def rows(page: str) -> list[str]:
    """The rows of the table of cases that moved."""
    table = page.partition('aria-label="Cases that moved')[2].partition("</table>")[0]
    return table.partition("<tbody>")[2].split("<tr>")[1:]


def test_a_regression_confirmed_yesterday_is_no_improvement_today(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    """+8 % last night, confirmed; -1.1 % from last night to tonight."""
    runs = nights(mornings, {1: 1.08, 0: 1.08 * 0.989})
    regressed(database, mornings, runs[:-1])
    cases = tonight(url)
    one = cases[MLP]
    assert (one.verdict, one.tone) == ("worse", "bad")
    assert one.finding is not None and math.exp(one.finding.change) == pytest.approx(1.08)
    assert one.against is not None
    assert one.against.level == pytest.approx(2.0, rel=0.005)
    assert math.exp(one.against.change) == pytest.approx(1.08 * 0.989, rel=0.005)
    # The same numbers without a confirmation are outside noise, and have no colour.
    assert {(cases[each].verdict, cases[each].tone) for each in (RESNET, BERT)} == {
        ("outside noise", "quiet")
    }
    first, *others = rows(html(open_page(url, TODAY)))
    assert "mlp_overhead" in first and "+8.0 %" in first and "py-bad" in first
    assert len(others) == 2
    assert not any("py-good" in each or "py-bad" in each for each in others) and "py-good" not in first


def test_noise_is_one_line(open_page: Open, url: str, mornings: Mornings) -> None:
    nights(mornings, {0: 0.998})
    assert {one.verdict for one in tonight(url).values()} == {"within noise"}
    page = html(open_page(url, TODAY))
    assert rows(page) == [] and "3 of 3 cases within noise (±1.0 % in the median)" in page


def test_a_regression_that_is_open_for_long_is_still_against_the_nights_before_it(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    runs = nights(mornings, {age: 1.08 for age in range(18)}, oldest=25)
    regressed(database, mornings, runs[:-17])
    first = rows(html(open_page(url, TODAY)))[0]
    assert "median of 8 nights before the change" in first and "py-bad" in first
    assert first.count("+8.") == 2, "the confirmed size, and last night's"


def test_a_change_that_people_expect_is_the_level_from_then_on(
    url: str, database: Database, mornings: Mornings
) -> None:
    runs = nights(mornings, {age: 1.08 for age in range(8)})
    one = regressed(database, mornings, runs[:-7])
    findings.triage(database, one.id, "expected", "ann", "", None, mornings.now)
    case = tonight(url)[MLP]
    assert case.verdict == "within noise"
    assert case.against is not None and (case.against.nights, case.against.change) == (7, pytest.approx(0))


def test_an_open_regression_is_not_hidden_by_a_later_one_that_people_expect(
    url: str, database: Database, mornings: Mornings
) -> None:
    """+8 %, which is open, and +5 % a week later, which is accepted."""
    later = {age: 1.08 * 1.05 for age in range(8)}
    runs = nights(mornings, {**{age: 1.08 for age in range(8, 16)}, **later}, oldest=25)
    first = regressed(database, mornings, runs[:-15])
    second = regressed(database, mornings, runs[:-7], change=1.05)
    findings.triage(database, second.id, "expected", "ann", "", None, mornings.now)
    one = tonight(url)[MLP]
    assert one.finding is not None and (one.verdict, one.finding.id) == ("worse", first.id)
    assert one.against is not None
    assert math.exp(one.against.change) == pytest.approx(1.08 * 1.05, rel=0.005)


def test_an_open_regression_is_not_hidden_by_an_old_improvement_that_took_little_of_it(
    url: str, database: Database, mornings: Mornings
) -> None:
    """+10 %, which is open, and 3 % less a week later, more than two weeks ago."""
    later = {age: 1.10 * 0.97 for age in range(18)}
    runs = nights(mornings, {**{age: 1.10 for age in range(18, 26)}, **later}, oldest=35)
    first = regressed(database, mornings, runs[:-25], change=1.10)
    confirm(database, mornings, a_finding(database, mornings, runs[:-17], direction="better"))
    one = tonight(url)[MLP]
    assert one.finding is not None and (one.verdict, one.finding.id) == ("worse", first.id)


def test_an_improvement_colours_no_night_long_after_it(
    url: str, database: Database, mornings: Mornings
) -> None:
    runs = nights(mornings, {age: 0.8 for age in range(18)}, oldest=25)
    confirm(database, mornings, a_finding(database, mornings, runs[:-17], direction="better"))
    assert tonight(url)[MLP].verdict == "within noise"


def test_what_is_confirmed_and_not_there_last_night_has_no_colour(
    url: str, database: Database, mornings: Mornings
) -> None:
    runs = nights(mornings, {1: 1.08, 0: 1.0})
    regressed(database, mornings, runs[:-1])
    one = tonight(url)[MLP]
    assert (one.verdict, one.tone) == ("less last night", "quiet")


def test_few_nights_and_another_machine_say_nothing_of_noise(url: str, mornings: Mornings) -> None:
    """A pool of two machines: the nights before were the other one's."""
    for age, machine, factor in ((4, "b", 2.0), (3, "b", 2.0), (2, "b", 2.0), (1, "b", 2.0), (0, "a", 1.25)):
        mornings.nights([age], machine, factor=factor)
    assert {(one.verdict, one.against) for one in tonight(url).values()} == {("too few nights", None)}


def test_what_is_confirmed_on_one_machine_is_no_status_of_another(
    url: str, database: Database, mornings: Mornings
) -> None:
    """A pool of two machines: a's regression is confirmed, and b, which measured last night, has none."""
    runs: list[str] = []
    for age in range(12, 0, -2):
        runs += mornings.nights([age + 1], "a", factor=1.08 if age <= 2 else 1.0)
        mornings.nights([age], "b")
    mornings.nights([0], "b")
    regressed(database, mornings, runs)
    one = tonight(url)[MLP]
    assert (one.verdict, one.finding, one.latest.machine) == ("within noise", None, "b")
    assert one.against is not None and one.against.nights == 6


def test_the_pinned_track_has_no_headlines_and_a_track_with_more_nights_comes_first(
    open_page: Open, url: str, mornings: Mornings
) -> None:
    mornings.baseline = "2.13.0"
    for age in (5, 4, 3, 2, 1, 0):
        parts = [("nightly", ""), ("2.13.0", ""), *([("new", "")] if age == 0 else [])]
        mornings.trigger(mornings.due(age), *parts)
        for track, _ in parts:
            mornings.measure(mornings.due(age), version=f"{track}+cpu")
    page = html(open_page(url, TODAY))
    places = [each.partition("</h3>")[0] for each in page.split('<h3 class="py-place">')[1:]]
    assert places == ["nightly · nightly", "nightly · new"]
