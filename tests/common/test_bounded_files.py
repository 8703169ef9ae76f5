"""Lines are read whole, in order, and never more of them than fits."""

import io

import pytest

from common import bounded_files
from common.bounded_files import TOO_LONG, pieces


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of a few bytes."""
    monkeypatch.setattr(bounded_files, "MAX_LINE", 8)
    monkeypatch.setattr(bounded_files, "_PIECE", 140)
    monkeypatch.setattr(bounded_files, "_SKIPPED", 3)


@pytest.mark.parametrize(
    ("content", "read"),
    [
        (b"", b""),
        (b"a\nb", b"a\nb"),
        (b"1234567\n", b"1234567\n"),
        (b"12345678\nb\n", TOO_LONG + b"\nb\n"),
        (b"1234567890123\nb\n", TOO_LONG + b"\nb\n"),
        (b"a\n12345678901", b"a\n" + TOO_LONG + b"\n"),
        (b"\n\n\n\n\n", b"\n\n\n\n\n"),
    ],
)
def test_every_byte_is_in_one_piece(content: bytes, read: bytes) -> None:
    found = list(pieces(io.BytesIO(content), len(content)))
    assert b"".join(each.lines for each in found) == read
    assert sum(each.size for each in found) == len(content)
    assert [each.last for each in found] == [False] * (len(found) - 1) + [True]
    assert all(len(each.lines) <= 140 for each in found)


def test_a_piece_ends_with_the_line_that_fills_it() -> None:
    file = io.BytesIO(b"1\n2\n3\n4\n")
    read = pieces(file, 8)
    assert next(read).lines == b"1\n2\n3\n"
    # The next line, which may be large, is not held as well.
    assert file.tell() == 6
    assert [each.lines for each in read] == [b"4\n"]


def test_what_is_appended_meanwhile_is_left_out() -> None:
    (piece,) = pieces(io.BytesIO(b"a\nb\nc\n"), 4)
    assert (piece.lines, piece.size, piece.last) == (b"a\nb\n", 4, True)
