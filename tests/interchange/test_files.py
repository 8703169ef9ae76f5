"""How a file begins, and when it was made."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interchange.errors import BadFile
from interchange.source_file import head, made_at, times_in

MODIFIED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("metrics-20260903010203.json", datetime(2026, 9, 3, 1, 2, 3, tzinfo=UTC)),
        ("20260903_010203_1.json", datetime(2026, 9, 3, 1, 2, 3, tzinfo=UTC)),
        ("night-2026-09-03T01-02-03.csv", datetime(2026, 9, 3, 1, 2, 3, tzinfo=UTC)),
        ("night-2026-09-03.csv", datetime(2026, 9, 3, tzinfo=UTC)),
        ("night-20261903.csv", MODIFIED),
        ("job-31020260903.csv", MODIFIED),
        ("commit-a20260903b4.csv", MODIFIED),
        ("plain.csv", MODIFIED),
        ("bert-2048-1024.csv", MODIFIED),
        ("sizes-2019-1024.csv", MODIFIED),
        ("night-20990903.csv", MODIFIED),
        ("night-2026-02-30.csv", MODIFIED),
        ("seq-2019-1924_20260903.csv", datetime(2026, 9, 3, tzinfo=UTC)),
        ("seq-2099-10-24-2026-09-03.csv", datetime(2026, 9, 3, tzinfo=UTC)),
        ("night-2026-09-03_250000.csv", datetime(2026, 9, 3, tzinfo=UTC)),
    ],
)
def test_a_time_in_the_name_comes_before_that_of_the_last_change(
    tmp_path: Path, name: str, expected: datetime
) -> None:
    path = tmp_path / name
    path.touch()
    os.utime(path, (MODIFIED.timestamp(), MODIFIED.timestamp()))

    found, sentence, dated = made_at(path)

    assert found == expected
    assert ("modification" in sentence) is (expected == MODIFIED) is not dated


def test_a_name_may_be_of_a_place_where_it_is_tomorrow_and_no_later() -> None:
    now = datetime(2026, 9, 2, 10, tzinfo=UTC)
    text = "20260903-20260904-2026-09-02T12-00-00-2026-0901"

    assert [(text[slice(*span)], moment) for span, moment in times_in(text, now)] == [
        ("20260903", datetime(2026, 9, 3, tzinfo=UTC)),
        ("2026-09-02T12-00-00", datetime(2026, 9, 2, 12, tzinfo=UTC)),
    ]


def test_a_file_that_is_not_there_has_no_time(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"absent\.csv: has no time"):
        made_at(tmp_path / "absent.csv")


def test_a_beginning_never_raises(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(b"\xef\xbb\xbfab\xff" + b"c" * (1 << 17))

    assert head(path).startswith("ab\N{REPLACEMENT CHARACTER}c")
    assert len(head(path)) < 1 << 17
    assert head(tmp_path) == head(tmp_path / "absent") == ""
