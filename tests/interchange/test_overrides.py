"""Overrides at import: other runs, the same each time, with all else as it was."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from interchange import formats
from interchange.errors import BadFile, SourcePlace
from interchange.overrides import override_runs
from interchange.runs import ImportBatch
from interchange.source_file import NO_TIME
from support.builders.foreign_files import SAMPLES, written

DATE = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)
SOURCE = SourcePlace("file")


def sample(folder: Path, name: str) -> ImportBatch:
    path = written(folder, SAMPLES[name])
    return formats.reader(path).read_runs(path)


def test_a_date_makes_runs_of_that_date(tmp_path: Path) -> None:
    read = sample(tmp_path, "timm-csv")
    (before,) = read.runs
    (after,) = override_runs(read, SOURCE, DATE).runs
    assert after.run.id.startswith("20250301-123000-timm-csv-")
    assert after.run.started_at == DATE == after.outcomes[0].started_at
    assert NO_TIME not in after.run.notes and "the time is that of --date, not the file's" in after.run.notes
    assert after.run.facts["stated"] == {"date": "2025-03-01T12:30:00+00:00"}
    assert after.run.facts["notes"] == list(after.run.notes)
    assert (after.run.machine, after.measurements) == (before.run.machine, before.measurements)
    assert formats.came_from(after.run) == formats.came_from(before.run) != ""
    assert override_runs(read, SOURCE, DATE) == override_runs(
        sample(tmp_path / "copy", "timm-csv"), SOURCE, DATE
    )


@pytest.mark.parametrize("name", ["timm-csv", "torchbench", "asv"])
def test_a_label_makes_runs_on_that_hardware(tmp_path: Path, name: str) -> None:
    read = sample(tmp_path, name)
    made = override_runs(read, SOURCE, hardware="RTX 4090")
    for before, after in zip(read.runs, made.runs, strict=True):
        assert after.run.machine.hardware.label == "RTX 4090"
        assert after.run.facts["stated"] == {
            "hardware": "RTX 4090",
            "hardware_of_the_file": before.run.machine.hardware.label,
        }
        assert any("--hardware" in note for note in after.run.notes)
        assert after.run.id != before.run.id and after.run.id[:8] == before.run.id[:8]
        assert after.run.started_at == before.run.started_at
        assert (after.outcomes, after.measurements) == (before.outcomes, before.measurements)


def test_one_label_joins_two_formats(tmp_path: Path) -> None:
    hardware = [
        override_runs(sample(tmp_path / name, name), SOURCE, hardware="RTX 4090").runs[0].run.machine.hardware
        for name in ("timm-csv", "torchbench")
    ]
    assert hardware[0] == hardware[1]


def test_what_is_said_otherwise_is_another_run(tmp_path: Path) -> None:
    read = sample(tmp_path, "timm-csv")
    said = [
        override_runs(read, SOURCE),
        override_runs(read, SOURCE, DATE),
        override_runs(read, SOURCE, DATE, "a"),
        override_runs(read, SOURCE, None, "a"),
        override_runs(read, SOURCE, None, "b"),
    ]
    assert len({each.runs[0].run.id for each in said}) == 5


def test_a_known_time_is_not_changed(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="file: states the time itself; --date is for files without a time"):
        override_runs(sample(tmp_path, "asv"), SOURCE, DATE)


@pytest.mark.parametrize(("date", "hardware"), [(DATE, None), (None, "RTX 4090")])
def test_runs_of_ours_are_not_changed(tmp_path: Path, date: datetime | None, hardware: str | None) -> None:
    with pytest.raises(BadFile, match="holds runs of Pyrometer,"):
        override_runs(sample(tmp_path, "pyrometer"), SOURCE, date, hardware)
