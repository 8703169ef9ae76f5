"""A journal that arrives in pieces of any size, repeated, late, and on a full disk."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.connection.engine import open_database
from fleet import engine as fleet_engine
from fleet import journal_mirror as mirrors
from fleet.engine import CHUNK_BYTES, Chunk, NodeJournal, read_chunk
from fleet.journal_mirror import Mirror, MirrorBusy, MirrorDiffers, append, is_run
from runner import journal
from support.sqlite_files import sqlite_with_tables

RUN = "20261122-000000-0000abcd"
WHOLE = b'{"a": 1}\n{"b": "\xc3\xa8"}\n{"c": 3}\n'


def written(data_dir: Path) -> bytes:
    path = data_dir / "runs" / RUN / journal.FILE
    return path.read_bytes() if path.exists() else b""


@given(st.lists(st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 12)), max_size=30))
def test_a_mirror_is_whole_lines_of_the_journal(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[tuple[int, int]]
) -> None:
    data_dir = tmp_path_factory.mktemp("data")
    with Mirror(data_dir, RUN) as mirror:
        for at, many in pieces:
            before = mirror.at
            if at > before:
                with pytest.raises(MirrorDiffers, match="are missing before byte"):
                    mirror.append(at, WHOLE[at : at + many])
            else:
                mirror.append(at, WHOLE[at : at + many])
                assert mirror.at == max(before, min(at + many, len(WHOLE)))
            mirrored = written(data_dir)
            assert WHOLE.startswith(mirrored)
            assert mirrored == WHOLE[: mirror.at][: WHOLE[: mirror.at].rfind(b"\n") + 1]


def test_a_difference_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    with Mirror(tmp_path, RUN) as mirror:
        mirror.append(0, WHOLE[:20])
        for at, data in ((0, b"{"), (3, WHOLE[3:20]), (19, WHOLE[19:25])):
            mirror.append(at, data)
        for at, data in ((0, b"x"), (5, b'": 2}\n{'), (10, b"{'b"), (24, b"!"), (26, b"...")):
            with pytest.raises(MirrorDiffers):
                mirror.append(at, data)
        assert mirror.at == 25
    assert written(tmp_path) == WHOLE[:21]


def test_it_goes_on_where_it_ended_and_looks_back_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "_OVERLAP_BYTES", 5)
    with Mirror(tmp_path, RUN) as mirror:
        assert mirror.begin == 0
        mirror.append(0, WHOLE[:20])
    with Mirror(tmp_path, RUN) as mirror:
        # The beginning of a line was dropped, and arrives again.
        assert (mirror.at, mirror.begin) == (9, 4)
        mirror.append(4, WHOLE[4:])
        mirror.append(len(WHOLE), b"half")
        mirror.finish()
    assert written(tmp_path) == WHOLE + b"half"
    with Mirror(tmp_path, RUN) as mirror:
        # The resumed run ends that line in the node's journal.
        mirror.append(mirror.begin, WHOLE[-1:] + b"half\nmore\n")
    assert written(tmp_path) == WHOLE + b"half\nmore\n"


def test_a_line_that_no_reader_takes_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "MAX_LINE", 8)
    long = b"{}\n" + b"x" * 40 + b"\n{}\n"
    with Mirror(tmp_path, RUN) as mirror:
        for at in range(0, 40, 5):
            mirror.append(at, long[at : at + 5])
        assert len(written(tmp_path)) >= 40 - 8 - 5
        mirror.append(mirror.begin, long[mirror.begin :])
    assert written(tmp_path) == long


def test_no_more_is_fetched_than_a_journal_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_BYTES", len(WHOLE))
    with Mirror(tmp_path, RUN) as mirror:
        mirror.append(0, WHOLE)
        with pytest.raises(MirrorDiffers, match="larger than any of ours"):
            mirror.append(len(WHOLE), b"{}\n")
    assert written(tmp_path) == WHOLE


def test_nothing_is_made_of_nothing_and_one_at_a_time_writes(tmp_path: Path) -> None:
    with Mirror(tmp_path, RUN) as mirror:
        mirror.append(0, b"")
        mirror.finish()
        assert not (tmp_path / "runs").exists()
        mirror.append(0, WHOLE)
        assert journal.in_use(mirror.path)
        with pytest.raises(MirrorBusy):
            Mirror(tmp_path, RUN)
    assert not journal.in_use(mirror.path)


@pytest.mark.parametrize("torn", [0, 4])
def test_what_another_process_fetched_meanwhile_is_taken_over(tmp_path: Path, torn: int) -> None:
    with Mirror(tmp_path, RUN) as child:
        child.append(0, WHOLE[:torn])
        with Mirror(tmp_path, RUN) as other:
            other.append(0, WHOLE[:20])
            with pytest.raises(MirrorBusy):
                child.append(torn, WHOLE[torn:])
        child.append(torn, WHOLE[torn:])
        assert child.at == len(WHOLE)
    assert written(tmp_path) == WHOLE


@pytest.mark.parametrize("torn", [b"", b'{"z"'])
def test_other_bytes_that_were_fetched_meanwhile_are_refused(tmp_path: Path, torn: bytes) -> None:
    with Mirror(tmp_path, RUN) as child:
        child.append(0, torn)
        with Mirror(tmp_path, RUN) as other:
            other.append(0, WHOLE[:9])
        with pytest.raises(MirrorDiffers, match="differs from the one in"):
            child.append(0, b'{"z": 1}\n')
        if torn:
            with pytest.raises(MirrorDiffers, match="differs from the one in"):
                child.finish()
    assert written(tmp_path) == WHOLE[:9]


@contextmanager
def full_after(monkeypatch: pytest.MonkeyPatch, many: int) -> Iterator[None]:
    """A disk that takes `many` more bytes of each write, and then is full."""
    write = os.write
    left = [many]

    def writes(descriptor: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(28, "No space left on device")
        taken = write(descriptor, bytes(data)[: left[0]])
        left[0] -= taken
        return taken

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", writes)
        yield


@pytest.mark.parametrize("room", [0, 1, 8, 12])
def test_a_full_disk_damages_nothing_and_the_same_bytes_may_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    log = tmp_path / "log"
    append(log, b"before\n")
    with Mirror(tmp_path, RUN) as mirror:
        mirror.append(0, WHOLE[:9])
        with full_after(monkeypatch, room), pytest.raises(OSError, match="No space left"):
            mirror.append(9, WHOLE[9:])
        with full_after(monkeypatch, room), pytest.raises(OSError, match="No space left"):
            append(log, WHOLE)
        assert (written(tmp_path), log.read_bytes(), mirror.at) == (WHOLE[:9], b"before\n", 9)
        mirror.append(9, WHOLE[9:])
        append(log, b"behind\n")
    assert (written(tmp_path), log.read_bytes()) == (WHOLE, b"before\nbehind\n")


class EndlessNode:
    """An engine whose node announces bytes and never sends them."""

    def __init__(self) -> None:
        self.asked = 0

    def runs(self, node: str) -> list[NodeJournal]:
        return [NodeJournal(RUN, "journal", 10**12, in_use=False)]

    def read_files(self, node: str, offsets: dict[str, int], *, final: bool) -> dict[str, Chunk]:
        self.asked += 1
        assert self.asked < 100, "for ever"
        return {path: Chunk(b"", more=True) for path in offsets}


def test_a_node_that_announces_bytes_and_sends_none_ends_the_copy(tmp_path: Path) -> None:
    with Mirror(tmp_path, RUN) as mirror:
        mirror.append(0, WHOLE)
    node = EndlessNode()
    url = sqlite_with_tables(tmp_path / "pyrometer.db")
    found = mirrors.fetch(node, "node", tmp_path, lambda: open_database(url))  # type: ignore[arg-type]
    assert node.asked == 1 and written(tmp_path) == WHOLE
    assert found.notes and "has no readable header" in found.notes[-1]


def test_a_run_s_name_cannot_leave_its_folder() -> None:
    assert is_run(RUN) and is_run("a")
    for name in ("", "..", ".hidden", "a/b", "../x", "a\n", "x" * 101):
        assert not is_run(name), name


def test_a_chunk_of_a_journal_that_grows_ends_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    assert read_chunk(path, 0, final=True) == read_chunk(path, 0, final=False)
    path.write_bytes(WHOLE + b"half")
    for at in range(len(WHOLE) + 6):
        for most in (1, 7, CHUNK_BYTES):
            monkeypatch.setattr(fleet_engine, "CHUNK_BYTES", most)
            now, then = read_chunk(path, at, final=False), read_chunk(path, at, final=True)
            assert now.data == WHOLE[at : at + most]
            assert now.more == (at + most < len(WHOLE))
            assert then.data == (WHOLE + b"half")[at : at + most]
    # A line that is longer than a block of the search.
    path.write_bytes(WHOLE + b"x" * 200_000)
    assert read_chunk(path, 3, final=False).data == WHOLE[3:]
    path.write_bytes(b"x" * (CHUNK_BYTES + 5))
    assert len(read_chunk(path, 0, final=True).data) == CHUNK_BYTES
    # A log is read to its end.
    log = path.with_suffix(".log")
    log.write_bytes(WHOLE + b"half")
    assert read_chunk(log, 0, final=False).data == WHOLE + b"half"
