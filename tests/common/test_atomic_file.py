"""Files are replaced whole or not at all, and an error names the file."""

from pathlib import Path

import pytest

from common.atomic_file import replacing, write_file


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    write_file(tmp_path / "new", "\u00b5s\n")
    (tmp_path / "usual").touch()
    assert (tmp_path / "new").read_text(encoding="utf-8") == "\u00b5s\n"
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_block_that_raises_leaves_what_was_there_and_nothing_beside(tmp_path: Path) -> None:
    file = tmp_path / "night.md"
    file.write_text("before")
    with pytest.raises(KeyError), replacing(file) as partial:
        partial.write_text("half")
        raise KeyError
    assert file.read_text() == "before" and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("folder", [".", "/", "", "there"])
def test_a_folder_is_no_file_and_is_named_as_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    with pytest.raises(OSError, match="Is a directory") as caught:
        write_file(Path(folder), "text")
    assert caught.value.filename == (folder or ".") and list(tmp_path.iterdir()) == [tmp_path / "there"]


def test_a_folder_that_is_not_there_is_told_by_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_file(tmp_path / "none" / "night.md", "text")
    assert caught.value.filename == str(tmp_path / "none" / "night.md")
