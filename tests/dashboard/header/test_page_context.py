"""The context bar: the next view opens with what the last one was set to; an address decides."""

from dashboard.navigation import page_at
from db.runs import queries
from records.kinds import RunKind
from support.builders.technique_runs import BERT, CPU, GPU, fingerprint
from support.pages import HARDWARE, HISTORY, RUNS, TECHNIQUES, UPGRADE, Open
from support.sqlite_files import open_with_tables

WORKLOAD = "resnet50/infer/batch=8,image=64"


def turn_to(at, **query):
    """Another view of the same page in the same session, as its tab opens it."""
    at.query_params.clear()
    for name, value in query.items():
        at.query_params[name] = value
    return at.run()


def test_a_metric_travels_to_the_next_view_and_an_address_decides(open_page: Open, past_url: str) -> None:
    at = open_page(past_url, HARDWARE, metric="throughput")
    assert turn_to(at, view="runs").selectbox(key="choose-metric").value == "throughput"
    assert turn_to(at, view="runs", metric="latency").selectbox(key="choose-metric").value == "latency"
    assert turn_to(at, view="hardware").selectbox(key="choose-metric").value == "latency"


def test_a_choice_is_remembered_and_its_default_forgets_it(open_page: Open, past_url: str) -> None:
    at = open_page(past_url, HISTORY)
    at.segmented_control(key="choose-points").set_value("90d").run()
    assert turn_to(at, view="history").segmented_control(key="choose-points").value == "90d"
    at.segmented_control(key="choose-points").set_value("recent").run()
    assert turn_to(at, view="history").segmented_control(key="choose-points").value == "recent"


def test_what_a_view_does_not_have_is_passed_over_without_a_complaint(open_page: Open, past_url: str) -> None:
    at = open_page(past_url, HARDWARE, metric="no such metric")
    assert len(at.warning) == 1
    assert not turn_to(at, view="hardware").warning
    at = open_page(past_url, HARDWARE, metric="energy_per_item")
    at = turn_to(at, view="runs")
    assert not at.warning
    assert at.selectbox(key="choose-metric").value != "energy_per_item"


def test_history_begins_with_the_workload_that_was_looked_at(open_page: Open, past_url: str) -> None:
    at = open_page(past_url, TECHNIQUES, hardware=fingerprint(CPU), workload=WORKLOAD)
    assert at.selectbox(key="choose-workload").value == WORKLOAD
    at = turn_to(at, view="history")
    assert at.selectbox(key="choose-workload").value == WORKLOAD
    assert all(case.startswith(f"{WORKLOAD}/") for case in at.multiselect(key="choose-cases").value)
    # And the other way: what is chosen there holds for techniques.
    at.selectbox(key="choose-workload").set_value(BERT).run()
    assert not at.warning and at.query_params["workload"] == BERT
    assert turn_to(at).selectbox(key="choose-workload").value == BERT


def test_two_kinds_of_hardware_of_one_label_are_both_shown(open_page: Open, past_url: str) -> None:
    at = open_page(past_url, HISTORY, hardware=CPU)
    assert any("each has its own lines" in warning.value for warning in at.warning)
    assert not open_page(past_url, HISTORY, hardware=fingerprint(CPU)[:12]).warning


def test_a_run_or_an_upgrade_that_was_opened_chooses_the_hardware(open_page: Open, past_url: str) -> None:
    with open_with_tables(past_url) as database:
        known = {run.kind: run for run in queries.recent_runs(database)}
        upgrade = queries.run_record(database, known[RunKind.UPGRADE].id)
    assert upgrade is not None
    place = upgrade.machine.hardware.fingerprint
    for page, run, hardware in (
        (RUNS, "techniques-gpu", fingerprint(GPU)),
        (UPGRADE, upgrade.id, place),
        (RUNS, "techniques-cpu", fingerprint(CPU)),
    ):
        at = open_page(past_url, page, run=run)
        at.query_params.clear()
        at.query_params["view"] = "history"
        at.switch_page(page_at("explore").script).run()
        assert at.multiselect(key="choose-hardware").value == [hardware]
