"""Text that turns around or steers a terminal is shown sign for sign, and what is no sign is marked."""

from db.runs.store import save_outcomes, save_run
from support.builders.run_records import MLP, a_run, an_outcome
from support.pages import RUNS, Open, html
from support.sqlite_files import open_with_tables

TURNING = "\N{RIGHT-TO-LEFT OVERRIDE}", "\N{LEFT-TO-RIGHT ISOLATE}", "\x1b", "\x07"


def test_text_that_turns_around_stays_as_it_was_written(open_page: Open, url: str) -> None:
    turned = "a{}b{}c{}[31md{}".format(*TURNING)
    with open_with_tables(url) as database:
        save_run(database, a_run("run-1", notes=(turned,)))
        save_outcomes(database, "run-1", [an_outcome(MLP, status="crashed", reason=turned, log_tail=turned)])
    shown = html(open_page(url, RUNS, run="run-1", case=MLP, replicate="0"))
    assert shown.count("a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c") >= 3
    assert not set(TURNING) & set(shown)
