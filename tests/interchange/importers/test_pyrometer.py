"""Our own format: what is written comes back to the bit, and what is damaged is said and never made up."""

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.metrics import METRICS
from common.journal_lines import encode_line
from interchange.errors import BadFile
from interchange.importers import pyrometer
from interchange.runs import ImportedRun
from records.environments import Environment
from records.kinds import EnvironmentKind, RunState
from records.machines import Hardware, Machine
from records.outcomes import Measurement, Outcome, OutcomeStatus
from records.runs import Run, RunPreset
from records.telemetry import Recording
from support.builders.exports import SPEEDUP, a_whole_run, file_of, read, sentences
from support.builders.run_records import MLP, a_run, an_outcome

odd = st.sampled_from(["\ud800", "\0", "\u2028", '"\\', "  "])
texts = st.text(max_size=12) | odd
names = st.text(min_size=1, max_size=12) | odd
numbers = st.floats(allow_nan=False, allow_infinity=False)
moments = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(fold=0))
facts = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers() | numbers | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)
counts = st.integers(0, 2**31 - 1)
machines = st.builds(Machine, names, texts, st.builds(Hardware, names, texts, facts), facts)
environments = st.builds(Environment, st.sampled_from(["one", "two"]), texts, texts, texts, facts)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    rows = draw(st.integers(0, 4))
    stamps = st.lists(st.integers(0, 2**62 - 1), min_size=rows, max_size=rows).map(tuple)
    columns = st.lists(st.none() | numbers, min_size=rows, max_size=rows).map(tuple)
    values = draw(st.dictionaries(names, columns, max_size=3))
    notes = tuple(draw(st.lists(texts, max_size=2)))
    return Recording(draw(names), draw(texts), draw(texts), draw(stamps), draw(stamps), values, notes)


samples = st.integers(-(2**63), 2**63 - 1)
outcomes = st.builds(
    Outcome,
    case=names,
    environment=st.just("one"),
    replicate=counts,
    status=st.sampled_from(OutcomeStatus),
    reason=texts,
    phase=texts,
    started_at=moments,
    wall_seconds=numbers,
    metrics=st.dictionaries(names.filter(lambda name: name not in METRICS), numbers, max_size=3),
    facts=facts,
    log_tail=texts,
    blocks=st.lists(st.lists(samples, max_size=4).map(tuple), max_size=3).map(tuple),
    telemetry=st.lists(recordings(), max_size=2).map(tuple),
)


@st.composite
def measurements(draw: st.DrawFn) -> Measurement:
    smallest, low, point, high, largest = sorted(draw(st.tuples(*[numbers] * 5)))
    interval = draw(st.just((low, high)) | st.just((None, None)))
    return Measurement(
        case=draw(names),
        environment="one",
        metric=draw(names),
        point=point,
        low=interval[0],
        high=interval[1],
        smallest=smallest,
        largest=largest,
        spread=draw(st.none() | numbers),
        n=draw(st.integers(1, 2**31 - 1)),
    )


runs = st.builds(
    Run,
    id=names,
    suite=texts,
    started_at=moments,
    ended_at=st.none() | moments,
    state=st.sampled_from(RunState),
    machine=machines,
    environments=environments.map(lambda other: (Environment("one", "first", "2.13", "3.11"), other)),
    preset=st.builds(RunPreset, names, texts, facts),
    harness=texts,
    planned=counts,
    command=texts,
    notes=st.lists(texts, max_size=2).map(tuple),
    facts=facts,
)
imported_runs = st.builds(
    ImportedRun,
    runs,
    st.lists(outcomes, max_size=2).map(tuple),
    st.lists(measurements(), max_size=2).map(tuple),
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(imported_runs, max_size=2, unique_by=lambda one: one.run.id))
def test_what_is_written_comes_back_to_the_bit(them: Sequence[ImportedRun]) -> None:
    found = read(file_of(*them))
    assert found.set_aside == ()
    # Their texts, for 0.0 equals -0.0 and 1 equals 1.0.
    assert repr(found.runs) == repr(tuple(them))


def _without(metrics: Mapping[str, float]) -> Mapping[str, float]:
    return {name: value for name, value in metrics.items() if name != SPEEDUP.name}


@given(st.data())
def test_no_changed_byte_makes_anything_up(data: st.DataObject) -> None:
    whole = a_whole_run()
    content = bytearray(file_of(whole, definitions={SPEEDUP.name: SPEEDUP}))
    place = data.draw(st.integers(0, len(content) - 1))
    before = content[place]
    content[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != before))
    found = read(bytes(content))
    # Where the line that defines a metric is gone, its values are left out.
    poorer = [replace(each, metrics=_without(each.metrics)) for each in whole.outcomes]
    known = set(map(repr, (*whole.outcomes, *poorer)))
    for run in found.runs:
        assert run.run == whole.run
        assert set(map(repr, run.outcomes)) <= known
        assert set(map(repr, run.measurements)) <= set(map(repr, whole.measurements))
    complete = len(found.runs) == 1 and found.runs[0] == whole and found.metrics == (SPEEDUP,)
    assert complete or found.set_aside


@given(st.data())
def test_a_file_that_was_cut_short_is_known_to_be(data: st.DataObject) -> None:
    whole = a_whole_run()
    content = file_of(whole)
    first = content.index(b"\n") + 1
    cut = read(content[: data.draw(st.integers(first, len(content) - 2))])
    assert any("the file was cut off here" in sentence for sentence in sentences(cut))
    for run in cut.runs:
        assert run.outcomes == whole.outcomes[: len(run.outcomes)]


def test_only_the_damaged_line_is_set_aside() -> None:
    lines = file_of(a_whole_run()).split(b"\n")
    (number,) = [n for n, line in enumerate(lines) if b'"replicate":1' in line]
    lines[number] = lines[number].replace(b'"wall_seconds":12.5', b'"wall_seconds":1.25')
    found = read(b"\n".join(lines))
    assert [each.replicate for each in found.runs[0].outcomes] == [0, 0]
    assert sentences(found) == [f"runs.jsonl, line {number + 1}: damaged: its checksum does not match"]


def test_a_line_from_a_newer_pyrometer_is_set_aside() -> None:
    lines = file_of(a_whole_run()).split(b"\n")
    newer = b'{"v":2,"kind":"outcome","crc":0,"body":{}}'
    found = read(b"\n".join([*lines[:-2], newer, *lines[-2:]]))
    assert len(found.runs[0].outcomes) == 3
    assert sentences(found)[0].endswith(": written in version 2 of the journal, this Pyrometer reads 1")
    with pytest.raises(BadFile, match="line 1: written in version 2"):
        read(newer)


def test_a_missing_line_is_counted() -> None:
    lines = file_of(a_whole_run()).split(b"\n")
    found = read(b"\n".join(lines[:3] + lines[4:]))
    total = len(lines) - 2
    assert sentences(found) == [
        f"runs.jsonl, line {total}: "
        f"the file was written with {total} lines before this one and has {total - 1}"
    ]


def test_what_belongs_to_a_run_without_its_line_is_set_aside_once() -> None:
    lines = file_of(a_whole_run(), a_whole_run(a_run("run-2"))).split(b"\n")
    (number,) = [n for n, line in enumerate(lines) if b'"kind":"header"' in line and b'"id":"run-2"' in line]
    found = read(b"\n".join([*lines[:number], b"gone", *lines[number + 1 :]]))
    assert [run.run.id for run in found.runs] == ["run-1"]
    assert sentences(found)[1:] == [
        "runs.jsonl: 4 measurements and 3 outcomes of run run-2: the line of the run itself is missing "
        "before them"
    ]


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("status", "fine", "status: expected one of ok, skipped, unsupported, oom, timeout, crashed, wrong"),
        ("replicate", True, "replicate[0]: expected an integer from 0 to 2147483647, found true"),
        ("replicate", 2**31, "replicate[0]: expected an integer from 0 to 2147483647, found 2147483648"),
        ("started_at", "2026-09-01T02:00:00", "started_at: expected a time with its zone"),
        ("metrics", {"latency": "fast"}, 'metrics.latency: expected a number, found "fast"'),
        ("blocks", [[1.5]], "blocks[0][0]: expected an integer from"),
        ("environment", "elsewhere", "environment: is not an environment of run run-1"),
        ("reason", None, "reason: is missing"),
        ("telemetry", [{"device": "host"}], "telemetry[0].started_ns: is missing"),
    ],
)
def test_a_line_that_fits_its_checksum_and_nothing_else_names_the_field(
    field: str, value: Any, sentence: str
) -> None:
    lines = file_of(a_whole_run()).split(b"\n")
    (number,) = [n for n, line in enumerate(lines) if b'"replicate":1' in line]
    body = json.loads(lines[number])["body"] | {field: value}
    lines[number] = encode_line("outcome", body)[0].rstrip(b"\n")
    found = read(b"\n".join(lines))
    assert len(found.runs[0].outcomes) == 2
    said, other = sentences(found)
    assert said.startswith(f"runs.jsonl, line {number + 1}, {sentence}")
    assert "the lines differ from those written" in other


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


@cache
def _lines() -> tuple[bytes, ...]:
    return tuple(file_of(a_whole_run()).splitlines())


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data())
def test_whatever_a_line_holds_it_is_read_or_refused(data: st.DataObject) -> None:
    lines = list(_lines())
    number = data.draw(st.integers(0, len(lines) - 1))
    line = json.loads(lines[number])
    # One value, as deep as one likes, becomes another.
    at: Any = line["body"]
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not (isinstance(at[key], dict | list) and at[key] and data.draw(st.booleans())):
            break
        at = at[key]
    at[key] = data.draw(anything)
    lines[number] = encode_line(line["kind"], line["body"])[0].rstrip(b"\n")
    found = read(b"\n".join(lines))
    assert found.set_aside or len(found.runs) == 1


def test_a_metric_that_is_in_another_unit_there_is_left_out() -> None:
    content = file_of(a_whole_run()).decode()
    (line,) = [each for each in content.split("\n") if '"name":"latency"' in each]
    other = {**json.loads(line)["body"], "unit": "s"}
    seconds = encode_line("metric", other)[0].decode().rstrip("\n")
    found = read(content.replace(line, seconds).encode())
    assert "latency is in s there and in ms here: its values are left out" in sentences(found)[0]
    assert all("latency" not in each.metrics for each in found.runs[0].outcomes)
    assert "latency" not in {each.metric for each in found.runs[0].measurements}
    assert {each.metric for each in found.runs[0].measurements} >= {"throughput", "rss_peak"}


def test_a_metric_from_outside_comes_along_once() -> None:
    both = file_of(a_whole_run(), a_whole_run(a_run("run-2")), definitions={SPEEDUP.name: SPEEDUP})
    assert read(both).metrics == (SPEEDUP,)


def test_a_fact_that_is_no_number_becomes_none() -> None:
    run = replace(a_run(), facts={"load": [math.nan, 1.5], "more": {"high": math.inf}})
    found = read(file_of(ImportedRun(run, (), ())))
    assert found.runs[0].run.facts == {"load": [None, 1.5], "more": {"high": None}}


def test_compressed_it_is_the_same_and_a_torn_end_is_said() -> None:
    whole = a_whole_run()
    packed = gzip.compress(file_of(whole))
    assert read(packed, "runs.jsonl.gz").runs == (whole,)
    torn = read(packed[: len(packed) * 9 // 10], "runs.jsonl.gz")
    assert any("the compressed file is damaged or cut short here" in each for each in sentences(torn))
    assert any("the file was cut off here" in each for each in sentences(torn))


def test_an_export_of_an_earlier_version_is_read_to_the_bit() -> None:
    old = Path(__file__).parents[1] / "old_exports" / "0.1.0.jsonl"
    assert pyrometer.knows(old)
    found = pyrometer.read_runs(old)
    assert repr(found.runs) == repr((a_whole_run(),))
    assert (found.metrics, found.set_aside) == ((SPEEDUP,), ())


def test_phases_and_outcomes_of_the_canary_come_back() -> None:
    canary = replace(a_run().environments[0], fingerprint="canary", kind=EnvironmentKind.CANARY)
    run = replace(a_run(), environments=(*a_run().environments, canary))
    done = an_outcome(MLP, facts={"device": "cpu", "phases": {"build": 0.5}})
    whole = ImportedRun(run, (done, replace(done, environment="canary")), ())
    content = file_of(whole)
    assert content.count(b'"kind":"canary","crc"') == content.count(b'"kind":"outcome","crc"') == 1
    assert read(content).runs == (whole,)


def test_two_files_one_after_the_other_are_one_file() -> None:
    found = read(file_of(a_whole_run()) + file_of(a_whole_run(a_run("run-2"))))
    assert (len(found.runs), found.set_aside) == (2, ())


def test_a_large_run_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(file_of(a_whole_run(), a_whole_run(a_run("run-2"))))
    assert [[run.run.id for run in part.runs] for part in pyrometer.parts(path)] == [["run-1"], ["run-2"]]
    whole = pyrometer.read_runs(path)
    monkeypatch.setattr(pyrometer, "_PART_LINES", 3)
    assert len(list(pyrometer.parts(path))) > 4
    assert pyrometer.read_runs(path) == whole
    monkeypatch.setattr(pyrometer, "_PART_BYTES", 100)
    assert len(list(pyrometer.parts(path))) > 8
    assert pyrometer.read_runs(path) == whole


def test_a_line_in_the_place_of_another_is_noticed() -> None:
    lines = file_of(a_whole_run()).split(b"\n")
    first, second, *_ = [number for number, line in enumerate(lines) if b'"kind":"outcome"' in line]
    lines[second] = lines[first]
    (said,) = sentences(read(b"\n".join(lines)))
    assert said.startswith(f"runs.jsonl, line {len(lines) - 1}: the lines differ from those written")
    # In another order they are the same lines, and a file of before the sum has none.
    lines = file_of(a_whole_run()).split(b"\n")
    lines[first], lines[second] = lines[second], lines[first]
    assert sentences(read(b"\n".join(lines))) == []
    last = json.loads(lines[-2])["body"]
    del last["sum"]
    lines[-2] = encode_line("end", last)[0].rstrip(b"\n")
    lines[second] = lines[first]
    assert sentences(read(b"\n".join(lines))) == []


def test_a_line_without_end_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *rest = file_of(a_whole_run()).split(b"\n")
    path = tmp_path / "runs.jsonl"
    monkeypatch.setattr(pyrometer, "_MAX_LINE", max(map(len, [first, *rest])) + 1)
    path.write_bytes(b"\n".join([first, b"x" * 100_000, *rest]))
    found = pyrometer.read_runs(path)
    assert len(found.runs[0].outcomes) == 3
    assert any(str(each.place) == "runs.jsonl, line 2" for each in found.set_aside)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name, content in {"empty": b"", "other": b"a,b\n1,2\n" * 5000, "null": b"null\n[]\n3\n"}.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert not pyrometer.knows(path)
        with pytest.raises(BadFile, match=r"is empty|torn or not a journal line"):
            list(pyrometer.parts(path))
    path.write_bytes(file_of(a_whole_run()))
    assert pyrometer.knows(path)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert pyrometer.knows(path)
    assert not pyrometer.knows(tmp_path)
    with pytest.raises(BadFile, match="No such file or directory"):
        pyrometer.read_runs(tmp_path / "nowhere")


def test_whole_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(gzip.compress(file_of(a_whole_run())))
    monkeypatch.setattr(pyrometer, "MAX_BYTES", 2000)
    with pytest.raises(BadFile, match="is larger than"):
        pyrometer.read_runs(path)


@pytest.mark.parametrize("damaged", [True, False])
def test_without_its_line_the_values_of_a_metric_are_left_out(damaged: bool) -> None:
    lines = file_of(a_whole_run(), definitions={SPEEDUP.name: SPEEDUP}).split(b"\n")
    (number,) = [n for n, line in enumerate(lines) if b'"name":"dynamo.speedup"' in line]
    lines[number : number + 1] = [lines[number].replace(b'"x"', b'"y"')] * damaged
    found = read(b"\n".join(lines))
    assert all(SPEEDUP.name not in each.metrics for each in found.runs[0].outcomes)
    measured = {each.metric for each in found.runs[0].measurements}
    assert ("latency" in measured, SPEEDUP.name in measured) == (True, False)
    said = [each for each in sentences(found) if "no line before defines dynamo.speedup" in each]
    assert len(said) == 1


def test_a_metric_with_two_definitions_is_left_out() -> None:
    other = replace(SPEEDUP, unit="%")
    first = file_of(a_whole_run(), definitions={SPEEDUP.name: SPEEDUP})
    found = read(first + file_of(a_whole_run(a_run("run-2")), definitions={SPEEDUP.name: other}))
    assert found.metrics == (SPEEDUP,)
    measured = [{each.metric for each in run.measurements} for run in found.runs]
    assert [SPEEDUP.name in each for each in measured] == [True, False]
    assert any("was defined differently before" in each for each in sentences(found))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n": 0}, "n: expected at least one value, found 0"),
        ({"smallest": 1e9}, "point: does not lie between the smallest and the largest value"),
        ({"largest": -9.0}, "point: does not lie between the smallest and the largest value"),
        ({"low": 9.0, "high": 1.0}, "low: is greater than the high end of its interval"),
        ({"low": 1e8, "high": 1e9}, "point: does not lie within its interval"),
        ({"low": None, "high": 1e9}, "low: is missing, and the other end of its interval is there"),
        ({"low": -1e9, "high": None}, "high: is missing, and the other end of its interval is there"),
    ],
)
def test_a_measurement_that_contradicts_itself_is_set_aside(changes: dict[str, Any], sentence: str) -> None:
    whole = a_whole_run()
    first, *rest = whole.measurements
    found = read(file_of(replace(whole, measurements=(replace(first, **changes), *rest))))
    assert found.runs[0].measurements == tuple(rest)
    (said,) = sentences(found)
    assert said.endswith(sentence)


def test_the_last_line_counts_each_kind() -> None:
    lines = file_of(a_whole_run()).split(b"\n")
    outcomes = [n for n, line in enumerate(lines) if b'"kind":"outcome"' in line]
    measured = [n for n, line in enumerate(lines) if b'"kind":"measurement"' in line]
    lines[outcomes[1]] = lines[measured[0]]
    said = sentences(read(b"\n".join(lines)))
    assert "the lines differ from those written: " in said[-1]
    assert "3 outcome, 2 here" in said[-1]


def test_blank_lines_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(file_of(a_whole_run()) + b"\n" * 3000)
    assert len(pyrometer.read_runs(path).runs) == 1
    monkeypatch.setattr(pyrometer, "_MOST_BLANK", 2000)
    with pytest.raises(BadFile, match="MiB of blank lines"):
        pyrometer.read_runs(path)


def test_a_small_file_does_not_unpack_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.jsonl.gz"
    monkeypatch.setattr(pyrometer, "_MAX_LINE", 1 << 16)
    # What is packed before is read ahead: the ratio is known only after megabytes.
    path.write_bytes(gzip.compress(b"x" * (64 << 20)))
    with pytest.raises(BadFile, match="unpacks to more than 1000 times its size"):
        pyrometer.read_runs(path)
