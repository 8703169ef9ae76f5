"""Golden files: a difference fails with a diff, and no file is left that no test compares."""

from pathlib import Path

import pytest

from support.golden import Golden

TESTS = Path(__file__).parent


def test_another_text_fails_with_a_diff_until_it_is_written(tmp_path: Path) -> None:
    Golden(tmp_path, update=True).check("a.md", "one\ntwo\n")
    golden = Golden(tmp_path, update=False)
    golden.check("a.md", "one\ntwo\n")
    with pytest.raises(pytest.fail.Exception, match=r"-two\n\+three"):
        golden.check("a.md", "one\nthree\n")
    with pytest.raises(pytest.fail.Exception, match=r"\+one"):
        golden.check("b.md", "one\n")
    assert [file.name for file in tmp_path.iterdir()] == ["a.md"]


def test_reports_of_a_terminal_are_sections_without_padding(tmp_path: Path) -> None:
    Golden(tmp_path, update=True).check_terminal("a.md", {"First": "a  \nb\n", "Second": "c"})
    assert (tmp_path / "a.md").read_text() == (
        "## First\n\n````text\na\nb\n````\n\n## Second\n\n````text\nc\n````\n"
    )


def test_every_golden_file_is_named_by_a_test_of_its_folder() -> None:
    for file in TESTS.rglob("golden/*"):
        tests = "".join(test.read_text() for test in file.parents[1].glob("test_*.py"))
        assert f'"{file.name}"' in tests, f"{file} is compared by no test"
