"""What the run page says about techniques: ratios beside absolute numbers, scaling, claims."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from streamlit.testing.v1 import AppTest

from analysis.claims_check import ClaimMeasurement, findings
from analysis.speedups import GainRefusal, NoGain, gains
from dashboard.components import tables
from dashboard.techniques import claims as page
from dashboard.techniques.claims import ClaimRow
from db.connection.engine import Database
from records.environments import Environment
from records.outcomes import Outcome
from records.references import Claim
from reports.table import DataTable
from runner.suites.references import baselines, claims_for
from support.builders.run_records import FIRST_NIGHT, a_run, an_environment, an_outcome
from support.builders.stored_run import store_run
from support.pages import RUNS, Open, TableCells, html, text

INFER, TRAIN = "resnet50/infer/batch=32,image=224", "resnet50/train/batch=4,image=64"
EAGER, COMPILED, WRONG = f"{INFER}/eager", f"{INFER}/compile=default", f"{INFER}/precision=bf16"
NASTY = '<img src=x onerror="alert(1)">'


def processes(
    case: str, *floors: float, items: int = 32, status: str = "ok", **metrics: float
) -> list[Outcome]:
    """One replicate per min-based latency, in ms; those of one number are alive together."""
    return [
        an_outcome(
            case,
            replicate=number,
            status=status,
            metrics={"latency": floor, "latency_floor": floor, "throughput": 1e3 * items / floor, **metrics},
            facts={"items": items},
            started_at=FIRST_NIGHT + timedelta(minutes=number),
        )
        for number, floor in enumerate(floors)
    ]


OUTCOMES = [
    *processes(EAGER, 20.0, 20.0, rss_peak_steady=400.0),
    *processes(COMPILED, 10.0, 10.0, rss_peak_steady=500.0),
    *processes(WRONG, 5.0, 5.0, status="wrong"),
    *processes(f"{TRAIN}/parallel=ddp", 10.0, 10.0, items=4),
    *processes(f"{TRAIN}/parallel=ddp,ranks=2", 12.5, 12.5, items=8),
]


def claims(outcomes: Sequence[Outcome], **versions: str) -> DataTable[ClaimRow]:
    found = findings(outcomes, gains(outcomes, baselines), claims_for)
    return page.claims(found, lambda case, environment: tables.case(a_run(), case, environment), versions)


def test_a_claim_stands_once_above_what_was_measured_for_it() -> None:
    _, *rows = TableCells(claims(OUTCOMES).html()).rows
    fast, memory = rows[:2]
    assert fast[0].startswith("ResNet-50 runs 2.3 times as fast compiled A100 · ")
    assert fast[1:5] == ["2.30×", "2.00×", "2.00× to 2.00×", "2"]
    assert memory[1:5] == ["10.0 %", "–", "Peak allocated is not measured here", "–"]
    max_autotune = processes(f"{INFER}/compile=max-autotune", 8.0)
    _, *rows = TableCells(claims([*OUTCOMES, *max_autotune]).html()).rows
    assert [bool(row[0]) for row in rows[:4]] == [True, False, True, False]


def test_the_csv_of_claims_has_both_numbers_and_how_they_are_read() -> None:
    rows = claims(OUTCOMES).records()
    fast = next(row for row in rows if row["claim"].startswith("ResNet-50 runs"))
    assert (fast["kind"], fast["claimed_low"], fast["measured"], fast["n"]) == ("ratio", 2.3, 2.0, 2)
    assert (fast["case"], fast["metric"]) == (COMPILED, "latency_floor")
    memory = next(row for row in rows if row["metric"] == "cuda_peak_allocated")
    assert memory["reason"] == "Peak allocated is not measured here"


def test_the_csv_of_claims_tells_environments_apart() -> None:
    old, new = an_environment("2.12.0"), an_environment("2.13.0")
    outcomes = [replace(o, environment=e.fingerprint) for e in (old, new) for o in OUTCOMES[:4]]
    rows = claims(outcomes, **{old.fingerprint: "2.12.0", new.fingerprint: "2.13.0"}).records()
    fast = [row for row in rows if row["claim"].startswith("ResNet-50 runs")]
    assert [(row["torch"], row["environment"]) for row in fast] == [
        ("2.12.0", old.fingerprint),
        ("2.13.0", new.fingerprint),
    ]


def test_nothing_from_the_database_becomes_markup() -> None:
    claim = Claim((), NASTY, "latency", "ratio", 1.0, 2.0, NASTY, NASTY, NASTY)
    found = {claim: [(NASTY, NASTY, ClaimMeasurement(None, reason=GainRefusal(NoGain.ENDED, status=NASTY)))]}
    html = page.claims(found, lambda case, environment: tables.case(a_run(), case, environment), {}).html()
    assert "img" not in TableCells(html).tags
    assert "&lt;img" in html


def opened(
    database: Database, outcomes: Sequence[Outcome], open_page: Open, url: str, *environments: Environment
) -> AppTest:
    """The run page of a database that holds these outcomes."""
    run = a_run(planned=len(outcomes), environments=environments)
    store_run(database, run, outcomes)
    return open_page(url, RUNS, run="run-1")


def test_the_run_page_names_the_estimator(url: str, database: Database, open_page: Open) -> None:
    at = opened(database, OUTCOMES, open_page, url)
    for part in ("What each technique brings", "from the min-based latency", "Claimed, and measured here"):
        assert part in text(at)
    rows = TableCells(html(at)).rows
    compiled, wrong = (
        f"resnet50 · infer {each} batch=32 image=224" for each in ("compile=default", "precision=bf16")
    )
    assert any(row[:3] == [compiled, "20.0 n 2", "10.0 n 2"] for row in rows)
    assert any(row[:1] == [wrong] and "2 of 2 replicates ended wrong" in " ".join(row) for row in rows)
    assert any("80.0 % 80.0 % to 80.0 %" in " ".join(row) for row in rows)


def test_environments_have_a_table_each(url: str, database: Database, open_page: Open) -> None:
    sides = an_environment("2.12.0"), an_environment("2.13.0")
    outcomes = [replace(o, environment=e.fingerprint) for e in sides for o in OUTCOMES[:4]]
    at = opened(database, outcomes, open_page, url, *sides)
    titles = [each.value for each in at.header if "technique brings" in str(each.value)]
    assert len(set(titles)) == 2


def test_a_run_without_a_pair_has_no_such_section(url: str, database: Database, open_page: Open) -> None:
    shown = text(opened(database, processes(COMPILED, 10.0, 11.0), open_page, url))
    assert "Measurements" in shown
    assert "technique brings" not in shown
