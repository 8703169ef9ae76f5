"""Small files are written whole or not at all, and say where they could not be."""

import os
import resource
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from common.atomic_file import replace_atomically, write_whole
from configuration.settings import load_settings
from runner.environments.recipe import Recipe
from runner.environments.spec import EnvironmentSpec
from workflows.errors import UsageError
from workflows.planning.resolve_environment import add_table

OLD = EnvironmentSpec("2.9.1", recipe=Recipe(torch="2.9.1"))
TABLE = b'[environments.old]\ntorch = "2.9.1"\n'


@contextmanager
def no_room(kept: int) -> Generator[None]:
    """No file of this process becomes larger than so many bytes.

    The bytecode of what is imported meanwhile is not written: Python would keep a part of it for good.
    """
    before, silent = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    resource.setrlimit(resource.RLIMIT_FSIZE, (kept, before[1]))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = silent
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def add(file: Path) -> None:
    assert add_table(load_settings(file, environ={}), "old", OLD) == file


def test_what_is_there_stays_byte_for_byte_where_an_environment_cannot_be_added(tmp_path: Path) -> None:
    file = tmp_path / "pyrometer.toml"
    file.write_bytes(before := b"# why\n" * 20)
    settings = load_settings(file, environ={})
    with no_room(len(before) + 5), pytest.raises(OSError, match=str(file)):
        add_table(settings, "old", OLD)
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]
    file.write_bytes(before := b"environments = {}\n")
    with pytest.raises(UsageError, match=r"pyrometer\.toml would become invalid: .*line 3"):
        add_table(settings, "old", OLD)
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("before", "added"),
    [
        (b"", TABLE),
        (b"# why\n", b"\n" + TABLE),
        (b"# why", b"\n\n" + TABLE),
        (b"# why\r\n", b"\r\n" + TABLE.replace(b"\n", b"\r\n")),
        (b"\xef\xbb\xbf# why\n", b"\n" + TABLE),
    ],
)
def test_an_environment_is_added_in_the_files_own_hand(tmp_path: Path, before: bytes, added: bytes) -> None:
    file = tmp_path / "pyrometer.toml"
    file.write_bytes(before)
    add(file)
    assert file.read_bytes() == before + added
    assert load_settings(file, environ={}).environments["old"].torch == "2.9.1"


def test_a_file_that_is_not_there_yet_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert add_table(load_settings(environ={}), "old", OLD).read_bytes() == TABLE


def test_a_link_stays_one_and_a_mode_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/real.toml").touch(0o640)
    (tmp_path / "kept/real.toml").chmod(0o640)
    (tmp_path / "pyrometer.toml").symlink_to("kept/real.toml")
    add(tmp_path / "pyrometer.toml")
    assert (tmp_path / "pyrometer.toml").is_symlink()
    assert (tmp_path / "kept/real.toml").read_bytes() == TABLE
    assert (tmp_path / "kept/real.toml").stat().st_mode & 0o777 == 0o640
    write_whole(tmp_path / "new", "\u00b5s\n")
    (tmp_path / "usual").touch()
    assert (tmp_path / "new").read_text(encoding="utf-8") == "\u00b5s\n"
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path) -> None:
    """As root, a report to /dev/null would otherwise put a file in its place, for every program."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "all")
        assert pipe.is_fifo() and os.read(reader, 9) == b"all"
    finally:
        os.close(reader)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_block_that_raises_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "night.md"
    file.write_text("before")
    with pytest.raises(KeyError), replace_atomically(file) as partial:
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
        write_whole(Path(folder), "text")
    assert caught.value.filename == (folder or ".") and list(tmp_path.iterdir()) == [tmp_path / "there"]


def test_the_error_of_a_missing_folder_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "none" / "night.md", "text")
    assert caught.value.filename == str(tmp_path / "none" / "night.md")
