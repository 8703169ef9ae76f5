"""Small files that want much memory, disk or time: each is refused or set aside within fixed bounds."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from support.builders.exports import a_whole_run, file_of
from support.builders.journals import write_journal

pytestmark = pytest.mark.slow

#: Peak memory of a command, and what it may leave in the temporary folder.
MIB = 1 << 20
PEAK = 256 * MIB


def header_line() -> bytes:
    """The first line of a journal that is right in everything."""
    with tempfile.TemporaryDirectory() as folder:
        return write_journal(Path(folder), "20260901-020000-0001").read_bytes().splitlines(keepends=True)[0]


def export_line() -> bytes:
    return file_of(a_whole_run()).splitlines(keepends=True)[0]


def sparse(path: Path) -> None:
    path.write_bytes(header_line())
    os.truncate(path, 20 << 30)


def long_line(path: Path) -> None:
    path.write_bytes(header_line() + b"x" * (300 * MIB))


def nested_line(path: Path) -> None:
    path.write_bytes(
        header_line() + b'{"v":1,"kind":"outcome","crc":1,"body":[' + b"[]," * (5 * MIB) + b"0]}\n"
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
    packed_line(path, 12)


def packed_problems(path: Path) -> None:
    with gzip.open(path, "wb") as file:
        file.write(export_line())
        for _ in range(150):
            file.write(b"x\n" * MIB)


def many_problems(path: Path) -> None:
    path.write_bytes(header_line() + b"x\n" * (30 * MIB))


def texts(path: Path) -> None:
    body = b'{"a":[' + b'"ab",' * (3 * MIB) + b"0]}"
    path.write_bytes(header_line() + b'{"v":1,"kind":"outcome","crc":1,"body":' + body + b"}\n")


JOURNALS: list[Callable[[Path], None]] = [sparse, long_line, nested_line, many_problems, texts]
EXPORTS: list[Callable[[Path], None]] = [packed_line, packed_lines, packed_problems]


#: Starts a command, and prints its exit code, its peak memory in KiB, and its seconds. The command is not a
#: child of the tests, whose own memory would count as its peak.
MEASURE = """
import json, resource, subprocess, sys, time
started = time.monotonic()
code = subprocess.run(sys.argv[1:], stdout=open("out", "wb"), stderr=subprocess.STDOUT).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([code, peak, time.monotonic() - started]))
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
    code, peak, seconds = json.loads(done.stdout)
    print(f"{' '.join(arguments)[-60:]}: exit code {code}, {peak / 1024:.0f} MiB, {seconds:.1f} s")
    assert sum(each.stat().st_size for each in temporary.rglob("*") if each.is_file()) < MIB
    return code, (folder / "out").read_text(errors="replace"), peak * 1024


@pytest.mark.parametrize("write", [*JOURNALS, *EXPORTS], ids=lambda write: write.__name__)
def test_an_import_is_bounded(tmp_path: Path, write: Callable[[Path], None]) -> None:
    path = tmp_path / ("journal.jsonl" if write in JOURNALS else "runs.jsonl.gz")
    write(path)
    code, output, peak = command(tmp_path, "import", str(path))
    assert code == 1, output
    assert "Traceback" not in output and peak < PEAK, f"{peak / MIB:.0f} MiB: {output}"


@pytest.mark.parametrize("write", JOURNALS, ids=lambda write: write.__name__)
def test_a_journal_in_the_data_folder_is_bounded(tmp_path: Path, write: Callable[[Path], None]) -> None:
    folder = tmp_path / ".pyrometer"
    write_journal(folder, "20260902-020000-0002")
    path = folder / "runs" / "20260901-020000-0001" / "journal.jsonl"
    path.parent.mkdir(parents=True)
    write(path)
    code, output, peak = command(tmp_path, "report", "20260902-020000-0002")
    assert code == 0, output
    assert "Traceback" not in output and peak < PEAK, f"{peak / MIB:.0f} MiB: {output}"
    assert command(tmp_path, "db", "check")[0] == 0
