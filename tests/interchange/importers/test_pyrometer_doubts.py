"""Our own format, where a file leaves out, contradicts itself or has no end."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interchange.errors import BadFile
from interchange.importers import pyrometer
from support.builders.exports import SPEEDUP, a_whole_run, file_of, read, sentences
from support.builders.run_records import a_run


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
    assert "other lines were written than are here: " in said[-1]
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
