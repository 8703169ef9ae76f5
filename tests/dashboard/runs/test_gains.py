"""What the run page says about techniques: ratios beside absolute numbers, scaling, claims, the CSV."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from analysis.claims_check import findings
from analysis.speedups import Gain, GainRefusal, NoGain, gains
from dashboard.components import tables, wording
from dashboard.runs import gains as page
from db.connection.engine import Database
from records.outcomes import Outcome
from runner.suites.references import baselines, claims_for
from support.builders.run_records import FIRST_NIGHT, a_run, an_environment, an_outcome, measurements_for
from support.builders.stored_run import store_run
from support.pages import RUNS, Open, TableCells, text

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


def good(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.status == "ok"]


def claims(outcomes: Sequence[Outcome]) -> str:
    found = findings(outcomes, FOUND, claims_for)
    return page.claims(found, lambda case, environment: tables.case(a_run(), case, environment))


FOUND = gains(OUTCOMES, baselines)
MEASURED = measurements_for(good(OUTCOMES))


def test_a_baseline_leads_its_techniques_and_absolute_numbers_lead_the_ratios() -> None:
    head, *rows = TableCells(page.speed_ups(a_run(), MEASURED, FOUND)).rows
    assert head == ["Case", "Latency (min-based, ms)", "Items/s", "Speed-up", "95 % interval", "n", "Memory"]
    assert rows[:3] == [
        ["resnet50 · infer eager batch=32 image=224", "20.0", "1,600", "baseline", "", "", ""],
        [
            "resnet50 · infer compile=default batch=32 image=224",
            *("10.0", "3,200", "2.00×", "2.00× to 2.00×", "2", "1.25×"),
        ],
        [
            "resnet50 · infer precision=bf16 batch=32 image=224",
            *("–", "–", "–", "2 of 2 replicates ended wrong", "0 2 left out", "–"),
        ],
    ]
    assert [row[4] for row in rows[3:]] == ["the baseline was not measured"] * 2


def test_scaling_names_what_it_is_against() -> None:
    _, row = TableCells(page.scaling(a_run(), MEASURED, FOUND)).rows
    assert row[1:] == ["12.5", "640", "80.0 %", "80.0 % to 80.0 %", "2", "parallel=ddp", "400"]
    assert page.scaling(a_run(), MEASURED, gains(OUTCOMES[:4], baselines)) == ""


def test_a_claim_stands_once_above_what_was_measured_for_it() -> None:
    _, *rows = TableCells(claims(OUTCOMES)).rows
    fast, memory = rows[:2]
    assert fast[0].startswith("ResNet-50 runs 2.3 times as fast compiled A100 · ")
    assert fast[1:5] == ["2.30×", "2.00×", "2.00× to 2.00×", "2"]
    assert memory[1:5] == ["10.0 %", "–", "Peak allocated is not measured here", "–"]
    max_autotune = processes(f"{INFER}/compile=max-autotune", 8.0)
    _, *rows = TableCells(claims([*OUTCOMES, *max_autotune])).rows
    assert [bool(row[0]) for row in rows[:4]] == [True, False, True, False]


def test_the_csv_of_claims_has_both_numbers_and_how_they_are_read() -> None:
    rows = page.claims_frame(findings(OUTCOMES, FOUND, claims_for)).to_dict("records")
    fast = next(row for row in rows if row["claim"].startswith("ResNet-50 runs"))
    assert (fast["kind"], fast["claimed_low"], fast["measured"], fast["n"]) == ("ratio", 2.3, 2.0, 2)
    assert (fast["case"], fast["metric"]) == (COMPILED, "latency_floor")
    memory = next(row for row in rows if row["metric"] == "cuda_peak_allocated")
    assert memory["reason"] == "Peak allocated is not measured here"


def test_the_csv_of_claims_tells_environments_apart() -> None:
    old, new = an_environment("2.12.0"), an_environment("2.13.0")
    outcomes = [replace(o, environment=e.fingerprint) for e in (old, new) for o in OUTCOMES[:4]]
    claimed = findings(outcomes, gains(outcomes, baselines), claims_for)
    rows = page.claims_frame(claimed, a_run(environments=[old, new])).to_dict("records")
    fast = [row for row in rows if row["claim"].startswith("ResNet-50 runs")]
    assert [(row["torch"], row["environment"]) for row in fast] == [
        ("2.12.0", old.fingerprint),
        ("2.13.0", new.fingerprint),
    ]
    # Where the page is about one PyTorch, several runs may have environments of their own.
    assert [row["environment"] for row in page.claims_frame(claimed).to_dict("records")][:2] == [
        old.fingerprint,
        new.fingerprint,
    ]


def test_environments_are_distinguished() -> None:
    old, new = an_environment("2.12.0"), an_environment("2.13.0")
    outcomes = [replace(o, environment=e.fingerprint) for e in (old, new) for o in OUTCOMES[:4]]
    found = gains(outcomes, baselines)
    run = a_run(environments=[old, new])
    _, *rows = TableCells(page.speed_ups(run, measurements_for(outcomes), found)).rows
    assert [row[0].split()[-1] for row in rows] == ["2.12.0", "2.12.0", "2.13.0", "2.13.0"]


def test_the_csv_has_every_gain_and_why_one_is_missing() -> None:
    text = page.frame(a_run(), FOUND).to_csv(index=False)
    rows = {(row["case"], row["kind"]): row for row in csv.DictReader(io.StringIO(text))}
    assert rows[COMPILED, "speed-up"] == {
        "run": "run-1",
        "case": COMPILED,
        "torch": "2.13.0+cpu",
        "environment": "environment-torch-2.13.0+cpu-2.13.0+cpu",
        "environment_name": "torch-2.13.0+cpu",
        "kind": "speed-up",
        "metric": "latency_floor",
        "ratio": "2.0",
        "low": "2.0",
        "high": "2.0",
        "n": "2",
        "left_out": "0",
        "disturbed": "0",
        "against": EAGER,
        "reason": "",
    }
    assert rows[COMPILED, "memory"]["ratio"] == "1.25"
    assert (rows[WRONG, "speed-up"]["ratio"], rows[WRONG, "speed-up"]["n"]) == ("", "0")
    assert rows[f"{TRAIN}/parallel=ddp,ranks=2", "efficiency"]["against"] == f"{TRAIN}/parallel=ddp"


def test_nothing_from_the_database_becomes_markup() -> None:
    reason = GainRefusal(NoGain.ENDED, status=NASTY)
    nasty = Gain("speed-up", NASTY, NASTY, NASTY, NASTY, None, None, None, 0, 1, reason)
    found = {(NASTY, NASTY): [nasty, replace(nasty, kind="efficiency")]}
    run = a_run(
        environments=[replace(an_environment(), fingerprint=NASTY, torch_version=NASTY), an_environment()]
    )
    measured = measurements_for([an_outcome(NASTY, environment=run.environments[0])])
    html = page.speed_ups(run, measured, found) + page.scaling(run, measured, found)
    assert "img" not in TableCells(html).tags
    assert "&lt;img" in html


def opened(database: Database, outcomes: Sequence[Outcome], open_page: Open, url: str) -> str:
    """The texts of the run page of a database that holds these outcomes."""
    store_run(database, a_run(planned=len(outcomes)), outcomes)
    return text(open_page(url, RUNS, run="run-1"))


def test_the_run_page_names_the_estimator(url: str, database: Database, open_page: Open) -> None:
    shown = opened(database, OUTCOMES, open_page, url)
    for part in (
        "What each technique brings",
        "from the min-based latency",
        "<strong>2.00×</strong>",
        wording.ABOUT_SCALING,
        "Claimed, and measured here",
    ):
        assert part in shown


def test_a_run_without_a_pair_has_no_such_section(url: str, database: Database, open_page: Open) -> None:
    shown = opened(database, processes(COMPILED, 10.0, 11.0), open_page, url)
    assert "Measurements" in shown
    assert "technique brings" not in shown
