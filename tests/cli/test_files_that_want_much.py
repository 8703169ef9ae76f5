"""Small files that want much memory, disk or time: each is refused or set aside within fixed bounds."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.journal_lines import encode_line
from runner.journal import Journal
from support.builders.exports import a_whole_run, file_of
from support.builders.journals import ENVIRONMENTS, a_header, a_plan, an_outcome, write_journal
from support.builders.run_records import MLP

pytestmark = pytest.mark.slow

#: Adds a number to the report of the tests.
Recorded = Callable[[str, object], None]
#: Peak memory of a command, and what it may leave in the temporary folder.
MIB = 1 << 20
PEAK = 256 * MIB


def header_line(path: Path) -> bytes:
    """The first line of the journal at that place, right in everything."""
    with tempfile.TemporaryDirectory() as folder:
        return write_journal(Path(folder), path.parent.name).read_bytes().splitlines(keepends=True)[0]


def export_line() -> bytes:
    return file_of(a_whole_run()).splitlines(keepends=True)[0]


def sparse(path: Path) -> None:
    path.write_bytes(header_line(path))
    os.truncate(path, 20 << 30)


def long_line(path: Path) -> None:
    path.write_bytes(header_line(path) + b"x" * (300 * MIB))


def nested_line(path: Path) -> None:
    path.write_bytes(
        header_line(path) + b'{"v":1,"kind":"outcome","crc":1,"body":[' + b"[]," * (5 * MIB) + b"0]}\n"
    )


def packed_line(path: Path, lines: int = 1) -> None:
    with gzip.open(path, "wb") as file:
        file.write(export_line())
        for _ in range(lines):
            file.write(b'{"v":1,"kind":"outcome","crc":1,"body":[')
            for _ in range(20):
                file.write(b"[]," * MIB)
            file.write(b"0]}\n")


def packed_lines(path: Path) -> None:
    packed_line(path, 5)


def packed_problems(path: Path) -> None:
    with gzip.open(path, "wb") as file:
        file.write(export_line())
        for _ in range(150):
            file.write(b"x\n" * MIB)


def many_problems(path: Path) -> None:
    path.write_bytes(header_line(path) + b"x\n" * (30 * MIB))


def texts(path: Path) -> None:
    body = b'{"a":[' + b'"ab",' * (3 * MIB) + b"0]}"
    path.write_bytes(header_line(path) + b'{"v":1,"kind":"outcome","crc":1,"body":' + body + b"}\n")


def of_json(path: Path, begin: str, piece: str, end: str, size: int) -> None:
    """A JSON document of `size` bytes at most, nearly all of it one `piece` again and again."""
    path.write_text(begin + piece * ((size - len(begin) - len(end)) // len(piece)) + end)


def json_too_large(path: Path) -> None:
    of_json(path, '{"benchmarks":[', "[],", "0]}", 64 * MIB)


def json_of_lists(path: Path) -> None:
    of_json(path, '{"benchmarks":[', "[],", "0]}", 32 * MIB)


def json_of_objects(path: Path) -> None:
    of_json(path, '{"benchmarks":[', '{"":{}},', "0]}", MIB)


def json_of_texts(path: Path) -> None:
    of_json(path, '{"benchmarks":[', '"\u00e9b",', "0]}", 4 * MIB)


def json_of_one_text(path: Path) -> None:
    of_json(path, '{"benchmarks":["', "x" * 1024, '"]}', 32 * MIB)


def json_of_numbers(path: Path) -> None:
    of_json(path, '{"benchmarks":[{"name":"a","stats":{"data":[', "0.25,", "0]}}]}", 7 * MIB)


def json_of_flames(path: Path) -> None:
    of_json(path, '{"benchmarks":["', "\N{FIRE}", '"]}', 2 * MIB)


def records(path: Path, lines: int = 60_000) -> None:
    with path.open("w") as file:
        for number in range(lines):
            model = {"name": f"m{number}", "extra_info": {}}
            metric = {"name": "speedup", "benchmark_values": [1.0 + number]}
            record = {"timestamp": 1733000000, "benchmark": {"name": "b"}, "model": model, "metric": metric}
            file.write(json.dumps(record) + "\n")


def whole_records(path: Path) -> None:
    records(path, 16_000)


def empty_lines(path: Path) -> None:
    records(path)
    with path.open("a") as file:
        file.write("\n" * (8 * MIB))


def bad_lines(path: Path) -> None:
    with path.open("w") as file:
        file.write(
            '{"benchmark":{"name":"b"},"model":{"name":"m"},"metric":{"name":"s","benchmark_values":[1]}}\n'
        )
        for _ in range(3):
            file.write("1\n" * MIB)


def write_table(path: Path, header: str, row: str, rows: int) -> None:
    """A table of so many rows; `#` in `row` stands for the number of each."""
    with path.open("w") as file:
        file.write(f"{header}\n")
        for number in range(rows):
            file.write(f"{row.replace('#', str(number))}\n")


def long_table(path: Path, rows: int = 1_500_000) -> None:
    header = "model,infer_samples_per_sec,infer_step_time,infer_batch_size,infer_img_size"
    write_table(path, header, "m#,1.5,2.5,256,224", rows)


def whole_table(path: Path) -> None:
    long_table(path, 15_990)


def long_dynamo_table(path: Path, rows: int = 250_000) -> None:
    header = "dev,name,batch_size,speedup,abs_latency,compilation_latency,compression_ratio"
    write_table(path, header, "cuda,m#,1,1.5,2.5,3.5,0.9", rows)


def whole_dynamo_table(path: Path) -> None:
    long_dynamo_table(path, 11_400)


#: Files of other tools, by their names; what is right in everything is imported, all of it.
DOCUMENTS: dict[Callable[[Path], None], str] = {
    **dict.fromkeys((json_too_large, json_of_lists, json_of_objects, json_of_texts), "benchmark.json"),
    **dict.fromkeys((json_of_one_text, json_of_numbers, json_of_flames), "benchmark.json"),
    **dict.fromkeys((records, whole_records, empty_lines, bad_lines), "records.json"),
    **dict.fromkeys((long_table, whole_table), "benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv"),
    **dict.fromkeys((long_dynamo_table, whole_dynamo_table), "inductor_torchbench_amp_performance.csv"),
}
WHOLE = (whole_table, whole_dynamo_table, whole_records)

JOURNALS: list[Callable[[Path], None]] = [sparse, long_line, nested_line, many_problems, texts]
EXPORTS: list[Callable[[Path], None]] = [packed_line, packed_lines, packed_problems]
#: The bound that ends the reading of files that would be refused later as well.
ENDED_BY = {sparse: "4 GiB", many_problems: "10,000", packed_lines: "1000 times"}


#: Starts a command, and prints its exit code and its peak memory in KiB. The command is not a child
#: of the tests, whose own memory would count as its peak.
MEASURE = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=open("out", "wb"), stderr=subprocess.STDOUT).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([code, peak]))
"""


def command(folder: Path, *arguments: str) -> tuple[int, str, int]:
    """A command in a process of its own: exit code, output and peak memory in bytes."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYROMETER_")}
    pyrometer = Path(sys.executable).with_name("pyrometer")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, pyrometer, *arguments],
        cwd=folder,
        env=environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        check=True,
    )
    code, peak = json.loads(done.stdout)
    assert sum(each.stat().st_size for each in temporary.rglob("*") if each.is_file()) < MIB
    return code, (folder / "out").read_text(errors="replace"), peak * 1024


def written(folder: Path, *writers: Callable[[Path], None]) -> list[Path]:
    """A file of each, in a folder of its own."""
    paths: list[Path] = []
    for number, write in enumerate(writers):
        own = "journal.jsonl" if write in JOURNALS else "runs.jsonl.gz"
        paths.append(folder / f"20260901-020000-000{number}" / DOCUMENTS.get(write, own))
        paths[-1].parent.mkdir()
        write(paths[-1])
    return paths


@pytest.mark.parametrize(
    "writers",
    [JOURNALS, EXPORTS, [write for write in DOCUMENTS if write not in WHOLE]],
    ids=["journals", "exports", "of other tools"],
)
def test_files_that_are_refused_are_bounded(
    tmp_path: Path, writers: list[Callable[[Path], None]], record_property: Recorded
) -> None:
    paths = written(tmp_path, *writers)
    code, output, peak = command(tmp_path, "import", *map(str, paths))
    record_property("files refused", len(paths))
    record_property("peak MiB", peak // MIB)
    assert code == 1 and "Traceback" not in output, output
    of_each = {path: [line for line in output.splitlines() if path.parent.name in line] for path in paths}
    for write, path in zip(writers, paths, strict=True):
        assert of_each[path] and ENDED_BY.get(write, "") in output, (write.__name__, output)
    assert peak < PEAK, f"{peak / MIB:.0f} MiB: {output}"


def test_whole_files_of_other_tools_are_bounded(tmp_path: Path, record_property: Recorded) -> None:
    paths = written(tmp_path, *WHOLE)
    code, output, peak = command(tmp_path, "import", *map(str, paths))
    record_property("files read", len(paths))
    record_property("peak MiB", peak // MIB)
    assert code == 0, output
    assert "Traceback" not in output and peak < PEAK, f"{peak / MIB:.0f} MiB: {output}"


def test_fingerprints_of_a_journal_are_bounded(tmp_path: Path, record_property: Recorded) -> None:
    run = "20260901-020000-0001"
    path = write_journal(tmp_path / ".pyrometer", run)
    about = {"case": MLP, "status": "ok", "reason": "", "environment": ENVIRONMENTS[0].fingerprint}
    about |= {"harness": "h", "device": "cpu", "driver": "", "taken_at": "2026-09-01T02:00:00+00:00"}
    with path.open("ab") as file:
        for number in range(30):
            parts = {"code": {f"{number}{'x' * (4 * MIB)}": 1}}
            content = {"parts": parts, "missing": {}, "layouts": True, "format": 1}
            file.write(encode_line("fingerprint", {**about, "fingerprint": content})[0])
    code, output, peak = command(tmp_path, "report", run)
    record_property("peak MiB", peak // MIB)
    assert code == 0 and "set aside" not in output, output
    assert "Traceback" not in output and peak < PEAK, f"{peak / MIB:.0f} MiB: {output}"


def large_outcomes(folder: Path, run: str, **large: Any) -> None:
    """The journal of an interrupted run whose outcomes, those that ended well, all hold what is given."""
    plan = a_plan(1)
    with Journal(folder / ".pyrometer" / "runs" / run) as journal:
        journal.header(a_header(run, plan).to_body())
        for planned in plan[:-1]:
            outcome = an_outcome(planned, datetime.now(UTC))
            journal.outcome(replace(outcome, **large) if outcome.blocks else outcome)


def test_the_samples_of_a_run_are_bounded(tmp_path: Path, record_property: Recorded) -> None:
    run = "20260901-020000-0001"
    large_outcomes(tmp_path, run, blocks=(tuple(range(10**7, 10**7 + 10**6)),))
    for arguments, ends, says in (
        (("report", run), 0, "is interrupted"),
        (("run", "--resume", run), 4, "belongs to machine"),
    ):
        code, output, peak = command(tmp_path, *arguments)
        record_property(f"peak MiB of {arguments[0]}", peak // MIB)
        assert (code, says in output) == (ends, True), output
        assert "Traceback" not in output and peak < PEAK, f"{peak / MIB:.0f} MiB: {output}"


def test_the_facts_of_a_run_are_bounded(tmp_path: Path, record_property: Recorded) -> None:
    run = "20260901-020000-0001"
    large_outcomes(tmp_path, run, facts={"lists": [[]] * 250_000})
    code, output, peak = command(tmp_path, "report", run)
    record_property("peak MiB", peak // MIB)
    assert code == 2 and "facts and metrics take more than" in output, output
    assert "Traceback" not in output and peak < PEAK, f"{peak / MIB:.0f} MiB: {output}"


def test_journals_in_the_data_folder_are_bounded(tmp_path: Path, record_property: Recorded) -> None:
    folder = tmp_path / ".pyrometer"
    write_journal(folder, "20260902-020000-0002")
    for number, write in enumerate(JOURNALS):
        path = folder / "runs" / f"20260901-020000-000{number}" / "journal.jsonl"
        path.parent.mkdir(parents=True)
        write(path)
    code, output, peak = command(tmp_path, "report", "20260902-020000-0002")
    record_property("journals set aside", len(JOURNALS))
    record_property("peak MiB", peak // MIB)
    assert code == 0, output
    assert "Traceback" not in output and peak < PEAK, f"{peak / MIB:.0f} MiB: {output}"
    assert command(tmp_path, "db", "check")[0] == 0
