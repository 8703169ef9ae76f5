"""Files of strangers: pipes, keys and columns that are there twice, odd digits, and more than one wants."""

import json
import os
import subprocess
import sys
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interchange.errors import BadFile, SourcePlace
from interchange.foreign_runs import ForeignOrigin, RunAccumulator
from interchange.importers import action_benchmark, pytest_benchmark
from interchange.runs import MOST_PROBLEMS
from interchange.source_file import Value, csv_rows, json_of, number_in, text_lines, text_of
from workflows.transfer.import_runs import import_path

pytestmark = pytest.mark.slow

SOURCE = SourcePlace("here")
ROOT = Path(__file__).resolve().parents[2]


def test_a_pipe_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    for each in (path, Path("/dev/null")):
        with pytest.raises(BadFile, match="is a pipe or a device: write it to a file, and import that"):
            text_of(each)


def test_a_pipe_that_is_handed_over_keeps_what_it_holds() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"{}")
    with pytest.raises(BadFile, match="is a pipe or a device"):
        text_of(Path(f"/dev/fd/{reader}"))
    assert os.read(reader, 9) == b"{}"
    os.close(reader)
    os.close(writer)


def test_a_folder_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="Is a directory"):
        text_of(tmp_path)


def test_a_key_that_is_there_twice_is_refused() -> None:
    with pytest.raises(BadFile, match=r'here: has the key "b" twice in one object'):
        json_of('{"a": [{"b": 1, "c": 2, "b": 1}]}', SOURCE)
    assert json_of('[{"a": 1}, {"a": 2}]', SOURCE).value == [{"a": 1}, {"a": 2}]


def test_a_column_that_is_there_twice_is_refused() -> None:
    def aside(place: SourcePlace, sentence: str) -> None:
        raise AssertionError(sentence)

    with pytest.raises(BadFile, match='line 1: has two columns "a"'):
        list(csv_rows("a,b, a\n1,2,3\n", "t.csv", aside))
    assert [row["a"].value for row in csv_rows("a,,\n1,2,3\n", "t.csv", aside)] == ["1"]


@pytest.mark.parametrize("text", ["1_5", "\u0661\u0665", "\uff11", "1\u00a0", "0x1"])
def test_only_plain_digits_are_a_number(text: str) -> None:
    with pytest.raises(BadFile, match="expected a number"):
        number_in(Value(text, SOURCE))


def test_what_takes_too_much_memory_is_refused(tmp_path: Path) -> None:
    for piece, times in (("[],", 100_000), ('"",', 500_001), ("0,", 1_500_001)):
        document = "[" + piece * times + "0]"
        with pytest.raises(BadFile, match="than 256 MiB of memory have room for"):
            json_of(document, SOURCE)
    with pytest.raises(BadFile, match="a table of more than 80,000 cells"):
        list(csv_rows("a,b\n" + "1,2\n" * 40_000, "t.csv", lambda place, sentence: None))
    path = tmp_path / "text.csv"
    path.write_text("\N{FIRE}" * (3 << 20))
    with pytest.raises(BadFile, match="is larger than 8 MiB and not plain ASCII"):
        text_of(path)
    path.write_text("x" * (9 << 20))
    assert len(text_of(path)) == 9 << 20


def test_a_large_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="is a JSON document larger than 32 MiB"):
        json_of(" " * (32 << 20) + "1", SOURCE)
    path = tmp_path / "sparse.json"
    path.touch()
    os.truncate(path, (32 << 20) + 1)
    with pytest.raises(BadFile, match="is larger than 32 MiB"):
        text_of(path)


def test_lines_end_as_files_of_every_system_end_them() -> None:
    assert list(text_lines("a\r\nb\rc\n\nd")) == ["a\r\n", "b\r", "c\n", "\n", "d"]
    assert list(text_lines("")) == []


def test_elements_are_made_when_they_are_read() -> None:
    # In a process of its own: threads that other tests have left in this one allocate meanwhile.
    code = """
import tracemalloc
from interchange.errors import SourcePlace
from interchange.runs import MOST_PROBLEMS
from interchange.source_file import json_of
at = json_of("[" + "0," * 50_000 + "0]", SourcePlace("here"))
tracemalloc.start()
assert sum(each.value for each in at.list()) == 0
print(tracemalloc.get_traced_memory()[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(done.stdout) < 100_000
    elements = json_of("[" + "0," * 50_000 + "0]", SOURCE).list()
    assert str(elements[-1].place) == "here, [50000]"
    assert [each.place.field for each in elements[1:3]] == ["[1]", "[2]"]
    with pytest.raises(IndexError):
        elements[50_001]


def test_of_many_problems_some_are_kept_and_the_rest_is_counted(tmp_path: Path) -> None:
    bad = MOST_PROBLEMS + 7
    benches = [{"name": "a", "value": 1.0}, *({"name": ""} for _ in range(bad))]
    entry = {"date": 1_777_636_800_000, "tool": "go", "benches": benches}
    path = tmp_path / "data.js"
    path.write_text("window.BENCHMARK_DATA = " + json.dumps({"entries": {"suite": [entry]}}))

    found = action_benchmark.read_runs(path)

    assert (len(found.set_aside), found.many_more) == (MOST_PROBLEMS, 7)
    # Also the import counts them all.
    assert str(import_path(path, None, None, lambda stored: None).set_aside[-1]) == "data.js: and 7 more"


def test_problems_that_were_there_at_first_count_too() -> None:
    accumulator = RunAccumulator("x")
    for _ in range(MOST_PROBLEMS):
        accumulator.aside(SOURCE, "no")
    accumulator.add(
        ForeignOrigin(format="x", suite="s", started_at=datetime(2026, 9, 1, tzinfo=UTC)), SOURCE, ()
    )
    assert (len(accumulator.log.problems), accumulator.log.many_more) == (MOST_PROBLEMS, 1)


def test_a_list_of_nothing_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text('{"machine_info": {}, "benchmarks": [' + "{}," * 30_000 + "{}]}")
    content = path.stat().st_size
    tracemalloc.start()
    try:
        with pytest.raises(BadFile, match="is missing"):
            pytest_benchmark.read_runs(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60 * content
