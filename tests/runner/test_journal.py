"""The journal: whatever happens to the machine or to the file, what was written before is read again."""

import errno
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records.outcomes import Outcome, OutcomeStatus, PlannedReplicate
from runner import journal
from runner.errors import JournalError
from runner.execution.blocks import Blocks
from runner.journal import Journal
from runner.session_plan import Timing
from runner.telemetry.interference import Interference
from runner.worker.messages import Block
from support.measuring import fill
from support.waiting import until

HEADER = {"run": "20260901-020000-abcd", "planned": [1, 2, 3]}

#: Anything JSON holds and gives back as it was.
numbers = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
outcomes = st.builds(
    Outcome,
    case=st.text(),
    environment=st.text(),
    replicate=st.integers(0, 5),
    status=st.sampled_from(["ok", "crashed"]),
    reason=st.text(),
    wall_seconds=st.floats(0, 1e6),
    metrics=st.dictionaries(st.text(), st.floats(allow_nan=False), max_size=3),
    facts=st.dictionaries(st.text(), values, max_size=3),
    log_tail=st.text(),
    blocks=st.lists(st.lists(st.integers(0, 2**40), max_size=3).map(tuple), max_size=3).map(tuple),
)


def an_outcome(replicate: int = 0, reason: str = "") -> Outcome:
    """A small outcome."""
    metrics = {"latency": 1.25 + replicate}
    return Outcome(
        "mlp/infer/-/eager",
        "default",
        replicate,
        "ok",
        reason,
        started_at=datetime(2026, 9, 1, 2, tzinfo=UTC),
        metrics=metrics,
        blocks=((1, 2), (3,)),
    )


def with_members(**members: Any) -> bytes:
    """The line of a small outcome with other members."""
    return journal._encode_body("outcome", an_outcome(9).to_body() | members).strip()


def three(folder: Path) -> Path:
    """A journal with a header, three outcomes and an end."""
    with Journal(folder) as written:
        written.header(HEADER)
        for replicate in range(3):
            assert written.outcome(an_outcome(replicate))
        assert written.ended({"state": "complete"})
    return folder / journal.FILE


def test_the_canarys_outcomes_stand_apart(tmp_path: Path) -> None:
    with Journal(tmp_path) as written:
        written.header(HEADER)
        for replicate in (0, 1, 1):
            assert written.canary(an_outcome(replicate)) and written.outcome(an_outcome(replicate + 5))
    contents = journal.read_contents(tmp_path / journal.FILE)
    assert [outcome.replicate for outcome in contents.canaries] == [0, 1]
    assert [outcome.replicate for outcome in contents.outcomes] == [5, 6]
    assert contents.missing_replicates(tuple(outcome.planned_replicate for outcome in contents.canaries)), (
        "no plan asks for them"
    )


@given(written=st.lists(outcomes, max_size=5, unique_by=lambda outcome: outcome.planned_replicate))
@settings(max_examples=40)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, written: list[Outcome]) -> None:
    folder = tmp_path_factory.mktemp("journal")
    with Journal(folder) as open_journal:
        open_journal.header(HEADER)
        for outcome in written:
            open_journal.outcome(outcome)
    contents = journal.read_contents(folder / journal.FILE)
    assert contents.header == HEADER
    assert contents.outcomes == tuple(written)
    assert contents.set_aside == ()


def test_a_whole_journal(tmp_path: Path) -> None:
    contents = journal.read_contents(three(tmp_path))
    assert [outcome.replicate for outcome in contents.outcomes] == [0, 1, 2]
    assert contents.ended == {"state": "complete"}
    planned = tuple(PlannedReplicate("mlp/infer/-/eager", "default", replicate) for replicate in range(5))
    assert contents.missing_replicates(planned) == planned[3:]
    assert sorted(file.name for file in tmp_path.iterdir()) == [journal.FILE]


def test_torn_anywhere_in_its_last_outcome_the_rest_is_good_and_the_next_line_too(tmp_path: Path) -> None:
    whole = b"".join(three(tmp_path / "whole").read_bytes().splitlines(keepends=True)[:-1])
    last = whole.rindex(b"\n", 0, -1) + 1
    torn = tmp_path / "torn"
    torn.mkdir()
    for end in range(last, len(whole) + 1):
        (torn / journal.FILE).write_bytes(whole[:end])
        complete = end >= len(whole) - 1
        with Journal(torn) as resumed:
            assert resumed.outcome(an_outcome(7))
        contents = journal.read_contents(torn / journal.FILE)
        assert [o.replicate for o in contents.outcomes] == ([0, 1, 2, 7] if complete else [0, 1, 7]), end
        assert len(contents.set_aside) == (0 if complete or end == last else 1), end


def test_a_damaged_byte_costs_its_line_only(tmp_path: Path) -> None:
    path = three(tmp_path)
    whole = path.read_bytes()
    good = journal.read_contents(path).outcomes
    lines = whole.splitlines(keepends=True)
    begin, end = len(b"".join(lines[:2])), len(b"".join(lines[:3])) - 1
    harmless = 0
    for position in range(begin, end):
        for damage in b"e9\x00\n\xff":
            path.write_bytes(whole[:position] + bytes([damage]) + whole[position + 1 :])
            contents = journal.read_contents(path)
            assert contents.ended == {"state": "complete"}
            if contents.outcomes == good:
                # The same byte, or another spelling of the same number: 0e0 for 0.0.
                harmless += 1
                continue
            assert contents.outcomes == (good[0], good[2]), (position, damage)
            # A newline makes two lines of it.
            assert {note.split(":")[0] for note in contents.set_aside} <= {"line 3", "line 4"}
            assert contents.set_aside
    assert harmless < 5 * (end - begin) * 0.1


@given(junk=st.binary(max_size=200))
def test_junk_among_the_lines_is_set_aside(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    path = three(tmp_path_factory.mktemp("journal"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], junk, b"\n", *lines[2:]]))
    assert [outcome.replicate for outcome in journal.read_contents(path).outcomes] == [0, 1, 2]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"v":2,"kind":"outcome","crc":1,"body":{}}', "written in version 2 of the journal"),
        (b'{"v":1e999,"kind":"outcome","crc":1,"body":{}}', "torn or not a journal line"),
        (b'{"v":1,"kind":"outcome","crc":1,"body":{}}', "damaged: its checksum does not match"),
        (b"[" * 100_000, "torn or not a journal line"),
        (journal._encode_body("weather", {"sun": 1}).strip(), "unknown kind 'weather', perhaps from a newer"),
        (with_members(colour=1), "colour: is unknown, perhaps from a newer Pyrometer"),
        (with_members(blocks=3), "blocks: expected a list, found 3"),
        (with_members(replicate=True), "replicate[0]: expected an integer from 0 to 2147483647, found true"),
        (with_members(status="paused"), "status: expected one of ok, skipped, unsupported"),
        (with_members(started_at="2026-09-01T02:00:00"), "started_at: expected a time with its zone"),
        (with_members(telemetry=[{"device": "host"}]), "telemetry[0].started_ns: is missing"),
    ],
)
def test_lines_that_are_not_ours_are_set_aside_with_a_reason(
    tmp_path: Path, line: bytes, complaint: str
) -> None:
    path = three(tmp_path)
    path.write_bytes(path.read_bytes() + line + b"\n")
    contents = journal.read_contents(path)
    assert len(contents.outcomes) == 3
    assert len(contents.set_aside) == 1
    assert contents.set_aside[0].startswith("line 6: ")
    assert complaint in contents.set_aside[0]


def test_what_an_early_journal_lacks_is_empty_and_any_number_is_a_metric(tmp_path: Path) -> None:
    path = three(tmp_path)
    early = {"case": "mlp/infer/-/eager", "environment": "default", "replicate": 9, "status": "ok"}
    line = journal._encode_body("outcome", early | {"metrics": {"latency": float("inf")}})
    path.write_bytes(path.read_bytes() + line)
    contents = journal.read_contents(path)
    assert contents.set_aside == ()
    (*_, last) = contents.outcomes
    assert (last.metrics, last.blocks, last.facts, last.reason) == ({"latency": float("inf")}, (), {}, "")
    assert last.status is OutcomeStatus.OK and last.started_at.tzinfo is not None


def test_the_first_outcome_of_a_replicate_counts_and_the_last_end(tmp_path: Path) -> None:
    with Journal(tmp_path) as written:
        written.header(HEADER)
        written.outcome(an_outcome(reason="first"))
        written.ended({"state": "interrupted"})
    with Journal(tmp_path) as written:
        written.outcome(an_outcome(reason="second"))
        written.header({"run": "another"})
        written.ended({"state": "complete"})
    contents = journal.read_contents(tmp_path / journal.FILE)
    assert [outcome.reason for outcome in contents.outcomes] == ["first"]
    assert contents.ended == {"state": "complete"}
    assert contents.header == HEADER


def test_without_a_header_there_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file"):
        journal.read_contents(tmp_path / "nothing")
    (tmp_path / journal.FILE).write_bytes(b'{"v":1,"kind":"head')
    with pytest.raises(JournalError, match="has no readable header"):
        journal.read_contents(tmp_path / journal.FILE)


def test_one_process_at_a_time_writes(tmp_path: Path) -> None:
    program = f"""
        import sys
        from pathlib import Path
        from runner.journal import Journal
        with Journal(Path({str(tmp_path)!r})):
            print("open", flush=True)
            sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        assert journal.in_use(tmp_path / journal.FILE)
        with pytest.raises(JournalError, match="another process is writing"):
            Journal(tmp_path)
        other.kill()
    # The kernel gives the lock back however the process died.
    assert not journal.in_use(tmp_path / journal.FILE)
    Journal(tmp_path).close()


def test_an_interrupted_write_leaves_no_half_line_and_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Journal(tmp_path)
    written.header(HEADER)
    real = os.write

    def interrupted(descriptor: int, data: memoryview) -> int:
        real(descriptor, data[:10])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("runner.journal.os.write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            written.outcome(an_outcome(0))
    assert written.pending_lines == 1
    assert len((tmp_path / journal.FILE).read_bytes().splitlines()) == 1
    assert written.outcome(an_outcome(1))
    written.close()
    contents = journal.read_contents(tmp_path / journal.FILE)
    assert [outcome.replicate for outcome in contents.outcomes] == [0, 1]
    assert contents.set_aside == ()


def test_half_a_line_that_cannot_be_taken_back_costs_no_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Journal(tmp_path)
    written.header(HEADER)
    real = os.write

    def write_a_part(descriptor: int, data: memoryview) -> int:
        real(descriptor, data[:10])
        raise OSError(errno.ENOSPC, "no space")

    def refuse(descriptor: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "a file system that copies on write needs space for this, too")

    with monkeypatch.context() as patch:
        patch.setattr("common.atomic_file.os.write", write_a_part)
        patch.setattr("common.atomic_file.os.ftruncate", refuse)
        assert not written.outcome(an_outcome(0))
    assert written.outcome(an_outcome(1))
    written.close()
    contents = journal.read_contents(tmp_path / journal.FILE)
    assert [outcome.replicate for outcome in contents.outcomes] == [0, 1]


def test_a_write_in_pieces_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr("runner.journal.os.write", lambda d, data: real(d, data[:7]))
    assert len(journal.read_contents(three(tmp_path)).outcomes) == 3


def big(replicate: int, size: int) -> Outcome:
    """An outcome of about `size` bytes."""
    return an_outcome(replicate, "x" * size)


def test_on_a_full_disk_the_reserve_is_used_and_then_lines_wait(small_disk: Path) -> None:
    written = Journal(small_disk / "run")
    written.header(HEADER)
    filling = fill(small_disk)
    assert written.outcome(big(0, 1 << 20)), "the reserve makes room"
    assert not (small_disk / "run/reserve").exists()
    fill(small_disk / "run")
    assert not written.outcome(big(1, 1 << 20))
    assert not written.outcome(big(2, 10))
    assert written.pending_lines == 2
    assert written.unwritten().count(b"\n") == 2
    # Half a line would fit: it must not stay.
    assert [o.replicate for o in journal.read_contents(written.path).outcomes] == [0]
    assert journal.read_contents(written.path).set_aside == ()
    filling.unlink()
    assert written.outcome(big(3, 10))
    assert written.pending_lines == 0
    written.close()
    assert [o.replicate for o in journal.read_contents(written.path).outcomes] == [0, 1, 2, 3]


def test_closing_writes_what_waits_if_there_is_room_again(small_disk: Path) -> None:
    (small_disk / "run").mkdir()
    filling = fill(small_disk)
    written = Journal(small_disk / "run")
    with pytest.raises(OSError, match="No space left"):
        written.header(HEADER)
    assert not written.outcome(an_outcome())
    filling.unlink()
    written.header(HEADER)
    written.close()
    assert len(journal.read_contents(written.path).outcomes) == 1


def test_a_torn_journal_on_a_full_disk_can_be_resumed(small_disk: Path) -> None:
    run = small_disk / "run"
    path = three(run)
    # A page-aligned size: the end of the torn line needs a page of its own, and there is none.
    page = os.sysconf("SC_PAGE_SIZE")
    torn = path.read_bytes() + b'{"v":1,"kind":"outcome","body":{"log_tail":"'
    path.write_bytes(torn + b"x" * (-len(torn) % page))
    filling = fill(small_disk)
    with Journal(run) as resumed:
        assert not resumed.outcome(an_outcome(3))
        filling.unlink()
    contents = journal.read_contents(path)
    assert [o.replicate for o in contents.outcomes] == [0, 1, 2, 3]
    assert len(contents.set_aside) == 1


def test_a_run_that_others_disturbed_in_every_block_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So many replicates that each has what is for one of them.
    monkeypatch.setattr(journal, "_MOST_FACTS", 0)
    taken = Blocks(Timing())
    reason = "it waited 12 % of the time for a CPU, of which others used 134 %"
    while not taken.satisfied:
        slow = Interference(OutcomeStatus.CONTENDED, "cpu", reason, 0.12345678901234567)
        taken.take(Block((1_234_567,) * 80, 100_000_000, 0), slow)
    disturbed = replace(an_outcome(), status=OutcomeStatus.CONTENDED, facts=taken.facts())
    assert len(disturbed.facts["tainted_blocks"]) >= 200
    with Journal(tmp_path) as written:
        written.header(HEADER)
        assert written.outcome(disturbed)
    contents = journal.read_contents(tmp_path / journal.FILE, [disturbed.planned_replicate])
    assert [outcome.facts for outcome in contents.outcomes] == [disturbed.facts]


def test_a_journal_does_not_grow_beyond_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_BYTES", 100_000)
    monkeypatch.setattr(journal, "_SAMPLES_BYTES", 60_000, raising=False)
    with Journal(tmp_path) as written:
        written.header(HEADER)
        for replicate in range(30):
            assert written.outcome(replace(an_outcome(replicate), blocks=((1_234_567,) * 2000,)))
    outcomes = journal.read_contents(tmp_path / journal.FILE).outcomes
    assert [outcome.metrics["latency"] for outcome in outcomes] == [1.25 + number for number in range(30)]
    with_samples = [bool(outcome.blocks) for outcome in outcomes]
    assert with_samples == [True] * 4 + [False] * 26
    assert all("left_out" in outcome.facts for outcome in outcomes[4:])


def number_in(path: Path) -> int:
    """The number that another process writes there, or -1 while it does."""
    text = path.read_text() if path.exists() else ""
    return int(text[:-1]) if text.endswith(".") else -1


def test_a_run_killed_at_any_moment_loses_no_line_that_was_acknowledged(tmp_path: Path) -> None:
    program = f"""
        from pathlib import Path
        from runner.journal import Journal
        from records.outcomes import Outcome
        with Journal(Path({str(tmp_path)!r})) as journal:
            journal.header({HEADER!r})
            for number in range(10**6):
                journal.outcome(Outcome("c", "e", number, "ok", log_tail="x" * 5000))
                Path({str(tmp_path)!r}, "acknowledged").write_text(f"{{number}}.")
    """
    acknowledged = tmp_path / "acknowledged"
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)]) as writer:
        until(lambda: number_in(acknowledged) >= 100, "a hundred outcomes are written")
        writer.kill()
    contents = journal.read_contents(tmp_path / journal.FILE)
    read = [outcome.replicate for outcome in contents.outcomes]
    assert read == list(range(len(read)))
    assert len(read) > max(99, number_in(acknowledged))
    assert len(contents.set_aside) <= 1
