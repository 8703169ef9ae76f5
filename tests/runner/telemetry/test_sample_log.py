"""What comes out of a log: whole rows, each with the samples that lie in it."""

from pathlib import Path

from records.telemetry import HOST
from runner.telemetry.sample_log import SampleLog, bare, recordings


def test_a_sample_counts_for_the_row_it_lies_in_wholly(tmp_path: Path) -> None:
    file = tmp_path / "gpu.jsonl"
    log = SampleLog(file)
    log.device("GPU-1", "a GPU", "samples")
    for start in (0, 100, 200):
        log.row("GPU-1", start, start + 100, {"power": 1.0, "energy": None})
    for start, end, value in (
        (0, 20, 80.0),
        (20, 80, 40.0),
        (80, 120, 7.0),
        (120, 200, 10.0),
        (190, 201, 7.0),
    ):
        log.sample("GPU-1", "gpu_busy", start, end, value)
    assert log.close() == ""
    (recording,) = recordings([file])
    assert recording.values == {"power": (1.0, 1.0, 1.0), "gpu_busy": (50.0, 10.0, None)}
    assert (recording.started_ns, recording.ended_ns) == ((0, 100, 200), (100, 200, 300))


def test_files_of_samplers_that_followed_each_other_are_one_recording(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for number, file in enumerate(files):
        log = SampleLog(file)
        log.device("GPU-1", "a GPU", "gpm")
        log.device(HOST, "CPU", "none")
        log.note("GPU-1", "no power: nobody knows")
        log.row("GPU-1", 100 * number, 100 * number + 50, {"power": number})
        log.close()
    files[2].write_bytes(files[2].read_bytes()[:-20])
    host, gpu = recordings([*files, tmp_path / "absent.jsonl"], ["the sampler died"])
    assert (host.device, gpu.device, gpu.name, gpu.utilisation_source) == (HOST, "GPU-1", "a GPU", "gpm")
    assert gpu.values == {"power": (0, 1)}
    assert gpu.notes == ("no power: nobody knows", "the sampler died")


def test_rows_of_another_utilisation_source_do_not_rename_a_recording(tmp_path: Path) -> None:
    files = [tmp_path / f"{source}.jsonl" for source in ("gpm", "samples")]
    for file in files:
        log = SampleLog(file)
        log.device("GPU-1", "a GPU", "gpm" if file is files[0] else "samples")
        log.close()
    (recording,) = recordings(files)
    assert recording.utilisation_source == "gpm"


def test_a_uuid_is_the_same_with_and_without_a_prefix() -> None:
    assert bare("GPU-AB-1") == bare("ab-1") == bare("MIG-ab-1")
