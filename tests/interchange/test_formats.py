"""Which format a file has: detected, or given by the user."""

from pathlib import Path

import pytest

from interchange import formats
from interchange.errors import UnknownFormat
from support.builders.foreign_files import SAMPLES, one_file, written
from support.builders.run_records import a_run


def test_every_format_has_a_sample_and_a_name_of_its_own() -> None:
    assert [each.NAME for each in formats.FORMATS] == list(
        dict.fromkeys(each.NAME for each in formats.FORMATS)
    )
    assert {each.NAME for each in formats.FORMATS} == SAMPLES.keys()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_is_known_to_its_own_importer_alone_and_all_of_it_can_be_used(
    tmp_path: Path, name: str
) -> None:
    path = written(tmp_path, SAMPLES[name])
    assert [each.NAME for each in formats.FORMATS if each.knows(path)] == [name]
    assert formats.reader(path) is formats.reader(Path("anything"), name)
    imported = formats.reader(path).read_runs(path)
    assert imported.format == name and imported.set_aside == ()
    assert imported.runs and all(one.outcomes and one.measurements for one in imported.runs)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_run_says_where_it_comes_from(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, SAMPLES[name])
    (run, *_) = [one.run for one in formats.reader(path).read_runs(path).runs]
    title = formats.reader(path).TITLE
    # What our own export holds was measured by us.
    assert formats.came_from(run) == ("" if name == "pyrometer" else f"imported from {title}")


def test_a_run_of_a_format_that_is_not_known_any_more_still_says_so() -> None:
    runs = [a_run("20260901-020000-other-tool-0123abcd"), a_run("20260901-020000-submitted-0123abcd")]
    assert [formats.came_from(run) for run in runs] == ["imported from other-tool", "submitted by a script"]


def test_an_unknown_format_is_refused_with_the_known_names(tmp_path: Path) -> None:
    path = written(tmp_path, one_file("notes.txt", b"nothing to read here"))
    with pytest.raises(UnknownFormat, match=r"notes\.txt is in none of the formats pyrometer, oss-v3"):
        formats.reader(path)
    with pytest.raises(UnknownFormat, match="there is no format torchbnch: the formats are pyrometer, "):
        formats.reader(path, "torchbnch")


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 300, b"{", b"[" * 5000, b"\xff\xfe", b'{"a": 1}', b"a,b\n1,2\n"]
)
def test_odd_content_matches_no_importer_and_crashes_none(tmp_path: Path, content: bytes) -> None:
    for name in ("odd.json", "odd.csv", "odd.js", "odd.jsonl", "odd"):
        path = written(tmp_path, one_file(name, content))
        assert [each.NAME for each in formats.FORMATS if each.knows(path)] == []
    assert [each.NAME for each in formats.FORMATS if each.knows(tmp_path / "missing")] == []


def test_a_folder_is_one_thing_only_while_nothing_of_another_format_lies_in_it(tmp_path: Path) -> None:
    results = written(tmp_path, SAMPLES["asv"])
    assert formats.is_one(results) and formats.is_one(results, "asv")
    assert not formats.is_one(tmp_path), "a folder above it is not"
    written(results, SAMPLES["torchbench"])
    assert not formats.is_one(results)
    assert formats.is_one(results, "asv"), "a named format is used"
    assert not formats.is_one(results, "torchbench")
