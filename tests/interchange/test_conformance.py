"""What every importer does alike: a good file, the same twice, other files, and files that are damaged."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from interchange import formats, source_file
from interchange.errors import BadFile
from interchange.importers import pyrometer
from support.builders.foreign_files import SAMPLES, fuzzed, good, tried, written

IMPORTERS = {each.NAME: each for each in formats.FORMATS}
DAMAGED = {"empty": b"", "no text": b"\xff\xfe\x00" * 50, "one long line": b"x" * (1 << 20)}


@pytest.fixture(params=list(SAMPLES))
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    return request.param


def test_a_good_file_is_recognised_and_read_twice_as_the_same_runs(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, SAMPLES[name])
    assert formats.reader(path) is IMPORTERS[name]
    first, second = tried(name, path), tried(name, path)
    assert first is not None and first.runs and first.runs[0].measurements
    assert repr(first) == repr(second)


def test_a_file_of_another_format_is_refused(name: str, tmp_path: Path) -> None:
    for other in SAMPLES.keys() - {name}:
        path = written(tmp_path / other, SAMPLES[other])
        if not IMPORTERS[name].knows(path):
            with pytest.raises(BadFile):
                IMPORTERS[name].read_runs(path)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_file_that_is_cut_short_is_refused_or_reported(name: str, tmp_path: Path, part: float) -> None:
    path = written(tmp_path, SAMPLES[name])
    content = good(name)
    fuzzed(tmp_path, name).write_bytes(content[: int(len(content) * part)])
    found = tried(name, path)
    assert found is None or found.set_aside or name.endswith("csv")


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_file_is_refused(name: str, tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, SAMPLES[name])
    fuzzed(tmp_path, name).write_bytes(content)
    assert tried(name, path) is None


def test_a_missing_file_an_empty_folder_and_a_pipe_are_neither_known_nor_read(
    name: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for each in ("absent", "folder", "pipe"):
        assert not IMPORTERS[name].knows(tmp_path / each)
        with pytest.raises(BadFile):
            IMPORTERS[name].read_runs(tmp_path / each)


def test_a_large_file_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, SAMPLES[name])
    monkeypatch.setattr(source_file, "MAX_BYTES", 50)
    monkeypatch.setattr(pyrometer, "MAX_BYTES", 50)
    assert tried(name, path) is None
