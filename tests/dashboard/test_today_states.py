"""Today in each of its states, in the words in which it was last reviewed: see the folder `golden`."""

import math
import random
import re
from datetime import UTC, datetime

from dashboard.exports import page_recorder
from dashboard.exports.page_recorder import PageRecord
from db.connection.engine import Database
from db.findings import store as findings
from records.evidence import Confirmation, PairVerdict
from support.builders.run_records import BERT, MLP, RESNET
from support.builders.schedule_nights import HOSTILE, Mornings, a_finding
from support.golden import Golden
from support.pages import TODAY, Open

NOON = datetime(2026, 9, 20, 12, 30, tzinfo=UTC)
#: What depends on the moment of the test: days, times, how long ago, and names of runs.
MOMENTS = (
    (r"-\d{4}-\d{6}\b", "-MOMENT"),
    (r"\b\d{4}-\d{2}-\d{2}( \d{2}:\d{2})?", "DATE"),
    (r"\b\d+ [a-z]+ ago\b|just now", "AGO"),
    (r"\b\d{2} [A-Z][a-z]{2}\b", "DAY"),
)


def shown(open_page: Open, url: str, records: list[PageRecord]) -> str:
    """The page as Markdown, without what depends on the moment."""
    assert not open_page(url, TODAY).exception
    text = page_recorder.of_page(records[-1], "http://bench:8501/", NOON)
    for pattern, word in MOMENTS:
        text = re.sub(pattern, word, text)
    return text


def test_a_quiet_night(
    open_page: Open, url: str, mornings: Mornings, records: list[PageRecord], golden: Golden
) -> None:
    mornings.nights(range(6, -1, -1))
    golden.check("today_quiet.md", shown(open_page, url, records))


def test_a_bad_night(
    open_page: Open,
    url: str,
    database: Database,
    mornings: Mornings,
    records: list[PageRecord],
    golden: Golden,
) -> None:
    drawn, runs = random.Random(3), list[str]()
    for age in range(20, -1, -1):
        factor = (1.08 if age < 2 else 1.0) * math.exp(drawn.gauss(0, 0.002))
        ended = {BERT: "crashed", RESNET: "throttled"} if age == 0 else {}
        runs += mornings.nights([age], factor=factor, not_ok=ended)
    for case in (MLP, RESNET):
        one = a_finding(database, mornings, runs[:-1], case)
        confirm_by_pairs(database, mornings, one.id)
    a_finding(database, mornings, runs, BERT)
    golden.check("today_bad_night.md", shown(open_page, url, records))


def confirm_by_pairs(database: Database, mornings: Mornings, finding: int) -> None:
    """Confirm a finding as a session of twelve pairs does."""
    verdict = PairVerdict("latency_floor", "ms", "slower", pairs=12, old=2.0, new=2.16, change=0.077)
    confirmation = Confirmation(verdict=verdict, bisect="pyrometer bisect GOOD BAD --case KEY")
    findings.decide(database, finding, "confirmed", 0.077, 0.07, 0.085, confirmation, mornings.now)


def test_hostile_names(
    open_page: Open,
    url: str,
    database: Database,
    mornings: Mornings,
    records: list[PageRecord],
    golden: Golden,
) -> None:
    runs = mornings.nights([3, 2, 1, 0], HOSTILE, hardware=HOSTILE, error=HOSTILE, state="failed")
    confirm_by_pairs(database, mornings, a_finding(database, mornings, runs).id)
    text = shown(open_page, url, records)
    golden.check("today_hostile.md", text)
    assert "<img" not in re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
