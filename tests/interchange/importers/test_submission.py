"""What a script submits: runs of ours when it is right, one sentence with file and field when it is not."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from interchange.errors import BadFile, SourcePlace
from interchange.importers import submission
from interchange.importers.submission import STATUSES, Gpu
from interchange.runs import ImportBatch
from interchange.source_file import json_of
from records.machines import Machine
from records.outcomes import OutcomeStatus
from support.builders.foreign_files import SUBMITTED
from support.builders.run_records import a_machine

WRITTEN = datetime(2026, 11, 20, tzinfo=UTC)


def machine(gpus: Sequence[Gpu]) -> Machine:
    return a_machine(hardware=" + ".join(str(gpu["name"]) for gpu in gpus) or "Xeon 6430, 2 cores")


def read(document: Any, written: datetime | None = WRITTEN) -> ImportBatch:
    at = json_of(json.dumps(document), SourcePlace("results.json"))
    return submission.group_submissions(submission.submissions(at, written), machine)


def changed(**fields: Any) -> dict[str, Any]:
    """The good submission with other fields; those that are None are left out."""
    return {name: each for name, each in {**SUBMITTED, **fields}.items() if each is not None}


def metric(**fields: Any) -> dict[str, Any]:
    good = {"value": 51300, "unit": "tokens/s", "better": "higher"}
    return changed(metrics={"tokens": {k: v for k, v in {**good, **fields}.items() if v is not None}})


def test_a_submission_is_a_run_on_the_machine_with_an_outcome_for_each_process() -> None:
    (one,) = read(changed(facts={"loss": 0.5})).runs
    assert one.run.machine == a_machine() and one.run.suite == "training"
    assert one.run.started_at == datetime(2026, 11, 21, 20, 15, tzinfo=UTC)
    assert [each.torch_version for each in one.run.environments] == ["2.13.0"]
    assert {each.case for each in one.outcomes} == {"my_model/train/batch=8/eager"}
    assert [each.metrics for each in one.outcomes] == [
        {"tokens_per_second": 51300.0, "latency": 12.5},
        {"tokens_per_second": 51500.0},
    ]
    assert [dict(each.facts) for each in one.outcomes] == [{"loss": 0.5}] * 2
    found = {each.metric: each for each in one.measurements}
    assert (found["tokens_per_second"].point, found["tokens_per_second"].n) == (51400.0, 2)
    assert (found["latency"].point, found["latency"].n) == (12.5, 1)


def test_only_metrics_that_are_not_ours_are_defined() -> None:
    (defined,) = read(SUBMITTED).metrics
    assert (defined.name, defined.unit, defined.better) == ("tokens_per_second", "tokens/s", "higher")


def test_the_same_submission_is_the_same_run_and_any_other_is_another() -> None:
    def run(document: Any, name: str = "results.json") -> str:
        (one,) = read(document).runs
        return one.run.id

    first = run(SUBMITTED)
    assert run(SUBMITTED) == first
    others = [
        changed(suite="other"),
        changed(torch="2.14.0"),
        changed(environment="mine"),
        changed(preset="four-threads"),
        changed(started_at="2026-11-21T20:15:00.5+00:00"),
        changed(gpus=[{"name": "NVIDIA H200", "memory_mib": 143771}]),
    ]
    assert len({first, *map(run, others)}) == 1 + len(others)
    # Another case of the same start belongs to the same run.
    assert run(changed(case="my_model/infer")) == first


def test_a_list_is_one_run_for_each_start_and_environment() -> None:
    parts = [SUBMITTED, changed(case="my_model/infer"), changed(torch="2.14.0")]
    runs = read(parts).runs
    assert [len({each.case for each in one.outcomes}) for one in runs] == [2, 1]


def test_a_preset_of_its_own_never_shares_a_series_with_one_of_ours() -> None:
    (one,) = read(changed(preset="quiet")).runs
    (other,) = read(SUBMITTED).runs
    assert one.run.preset.name == "quiet" and other.run.preset.name == "submitted"
    assert one.run.preset.fingerprint != other.run.preset.fingerprint


def test_what_failed_is_an_outcome_with_its_reason() -> None:
    (one,) = read(changed(metrics=None, status="oom", reason="CUDA out of memory")).runs
    ((outcome),) = one.outcomes
    assert (outcome.status, outcome.reason, dict(outcome.metrics)) == ("oom", "CUDA out of memory", {})
    assert one.measurements == ()


@pytest.mark.parametrize(
    ("case", "key"),
    [
        ("m/call", "m/call/-/eager"),
        ("my model/train", "my%20model/train/-/eager"),
        ("m/train/seq=128,batch=8", "m/train/batch=8,seq=128/eager"),
        ("m/train/-/compile=default", "m/train/-/compile=default"),
        ("m/infer/name=a b/eager", "m/infer/name=a%20b/eager"),
    ],
)
def test_a_case_becomes_a_key(case: str, key: str) -> None:
    (one,) = read(changed(case=case)).runs
    assert {each.case for each in one.outcomes} == {key}


def test_the_time_may_be_seconds_or_that_of_the_file() -> None:
    def started(document: Any) -> datetime:
        return read(document).runs[0].run.started_at

    assert started(changed(started_at=1795292100)) == datetime(2026, 11, 21, 20, 15, tzinfo=UTC)
    assert started(changed(started_at="2026-11-21T21:15:00+01:00")) == datetime(
        2026, 11, 21, 20, 15, tzinfo=UTC
    )
    assert started(changed(started_at=None)) == WRITTEN


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "results.json: holds no result"),
        (7, "results.json: expected an object, found 7"),
        ([changed(suite=None)], "results.json, [0].suite: is missing"),
        (changed(case=None), "results.json, case: is missing"),
        (changed(case="m"), 'case: expected a case such as my_model/train/batch=8, found "m"'),
        (changed(case="m/eval"), "case: expected a phase (infer, train, call) after the first /"),
        (changed(case="m/train/batch"), "case: expected name=value pairs"),
        (changed(case="m/train/a=1,a=2"), "case: expected name=value pairs"),
        (changed(started_at="2026-11-21T20:15:00"), "started_at: expected a time with its zone"),
        (changed(started_at="yesterday"), "started_at: expected a time with its zone"),
        (changed(started_at=1e300), "started_at: expected a time with its zone"),
        (changed(started_at=True), "started_at: expected a number, found true"),
        (changed(metrics=None), "metrics: is missing: a case with status ok has at least one"),
        (changed(metrics={}), "metrics: is missing"),
        (changed(metrics={"Tokens/s": {"value": 1}}), "metrics.Tokens/s: is not a valid name of a metric"),
        (metric(unit=None), "metrics.tokens.unit: is missing"),
        (metric(better=None), "metrics.tokens.better: is missing"),
        (metric(better="more"), "metrics.tokens.better: expected one of lower, higher, neither"),
        (metric(value=None), "metrics.tokens: needs either `value`, or `values`"),
        (metric(values=[1]), "metrics.tokens: needs either `value`, or `values`"),
        (metric(value=None, values=[]), "metrics.tokens.values: holds no value"),
        (metric(value=None, values=[1, "2"]), 'metrics.tokens.values[1]: expected a number, found "2"'),
        (metric(value=float("nan")), "metrics.tokens.value: expected a finite number"),
        (metric(value=True), "metrics.tokens.value: expected a number, found true"),
        (metric(units="x"), "metrics.tokens.units: is not a field: the fields are value, values, unit"),
        (changed(metrics={"latency": {"value": 1, "unit": "s"}}), 'metrics.latency.unit: expected "ms"'),
        (
            changed(metrics={"latency": {"value": 1, "better": "higher"}}),
            'metrics.latency.better: expected "lower", as latency is',
        ),
        (changed(status="broken", metrics=None), "status: expected one of ok, skipped"),
        (changed(status="oom", metrics=None), "reason: is missing: state the reason of status oom"),
        (changed(status="oom", reason="full"), "metrics: a case with status oom has no metrics"),
        (changed(gpus=[{"name": "H200"}]), "gpus[0].memory_mib: is missing"),
        (changed(host="a"), "host: is not a field: the fields are suite, case, started_at"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_field(document: Any, sentence: str) -> None:
    with pytest.raises(BadFile) as raised:
        read(document)
    assert sentence in str(raised.value)
    assert str(raised.value).startswith("results.json")


@pytest.mark.parametrize("more", [{}, {"started_at": "2026-11-20T20:15:00+00:00"}, {"case": "other/infer"}])
def test_a_metric_has_one_unit_and_one_direction_in_all_of_a_file(more: dict[str, Any]) -> None:
    good = metric()
    for other in ({"unit": "ktokens/s"}, {"better": "lower"}):
        with pytest.raises(BadFile) as raised:
            read([good, {**metric(**other), **more}])
        about = {"unit": "tokens/s", "better": "higher", **other}
        sentence = f'is in "{about["unit"]}" ({about["better"]}), and "tokens/s" (higher) before'
        assert str(raised.value) == f"results.json, [1].metrics.tokens: {sentence}"
    assert len(read([good, {**metric(title="Tokens"), "case": "other/infer"}]).metrics) == 1


def test_what_comes_from_nowhere_has_to_say_when_it_was_measured() -> None:
    with pytest.raises(BadFile, match="started_at: is missing"):
        read(changed(started_at=None), written=None)


def test_its_statuses_are_the_databases_own() -> None:
    # Others disturbing a process and a throttled GPU are what our own gates find.
    assert set(OutcomeStatus) - set(STATUSES) == {"contended", "throttled"}
    assert set(STATUSES) <= set(OutcomeStatus)


NOW = datetime(2026, 11, 21, 20, 10, tzinfo=UTC)


def started(moment: Any) -> datetime:
    at = json_of(json.dumps(changed(started_at=moment)), SourcePlace("results.json"))
    (one,) = submission.submissions(at, None, NOW)
    return one.started_at


@pytest.mark.parametrize("moment", ["2026-11-21T20:15:01Z", 1795292101, "2099-01-01T00:00:00+00:00"])
def test_what_lies_in_the_future_is_refused(moment: Any) -> None:
    with pytest.raises(BadFile, match=r"started_at: 20.* UTC is in the future, by this machine's clock"):
        started(moment)


def test_two_clocks_may_differ_by_five_minutes() -> None:
    assert started("2026-11-21T20:15:00Z") == datetime(2026, 11, 21, 20, 15, tzinfo=UTC)


def test_milliseconds_are_recognised() -> None:
    with pytest.raises(BadFile, match=r"seconds since 1970 \(milliseconds\?\), found 1763755200000"):
        started(1763755200000)


@pytest.mark.parametrize(
    ("name", "about", "sentence"),
    [
        ("latency", {"value": -5}, "-5 ms is not a valid time: it is below 0"),
        ("throughput", {"value": 0}, "0 items/s is not a valid rate: nothing was measured"),
        ("queue", {"value": -1, "unit": "ms", "better": "lower"}, "-1 ms is not a valid time: it is below 0"),
    ],
)
def test_an_impossible_number_is_refused(name: str, about: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadFile, match=f"metrics.{name}: {sentence}"):
        read(changed(metrics={name: about}))


def test_a_metric_of_ones_own_may_be_0() -> None:
    (one,) = read(changed(metrics={"queue": {"value": 0, "unit": "ms", "better": "lower"}})).runs
    assert one.measurements[0].point == 0.0
