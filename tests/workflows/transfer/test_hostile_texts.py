"""Texts of a million characters and NUL in files of every format: stored or set aside, on both databases."""

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from db.connection.engine import open_database
from db.runs import queries
from interchange.errors import ExchangeError
from support.builders.foreign_files import SAMPLES, written
from support.servers.databases import on_both
from workflows.database_upkeep import check
from workflows.transfer.import_runs import import_path

pytestmark = pytest.mark.slow

MILLION = 1_000_000


@cache
def hostile_texts() -> dict[str, str]:
    """Long, unprintable, and what an index of a database cannot make shorter."""
    dice = random.Random(1)
    noise = "".join(dice.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=MILLION))
    return {
        "long": "x" * MILLION,
        "noise": noise,
        "3000": noise[:3000],
        "nul": "a\0b",
        "wide": "\N{FIRE}" * 3000,
    }


def altered(content: bytes, old: str, text: str) -> bytes:
    """A file with a text in the place of another one, as its format spells it."""
    own = json.dumps(text)[1:-1].encode() if content.lstrip()[:1] in (b"{", b"[", b"w") else text.encode()
    assert old.encode() in content
    return content.replace(old.encode(), own)


#: A text of each sample that becomes a name: of a case, a machine, a metric.
NAMES = {
    "oss-v3": ("resnet50", "TorchInductor", "speedup"),
    "torchbench": ("BERT_pytorch", "NVIDIA A100", "group_bench"),
    "pytest-benchmark": ("test_steps.py::test_step[8]", "Xeon 6430", "bench-1"),
    "action-benchmark": ("test_step", "CPU benchmarks", "iter/sec"),
    "optimum": ("bert-base-uncased", " Xeon 6430", "inference"),
    "timm-csv": ("resnet50",),
    "dynamo-csv": ("resnet50",),
}


@on_both
@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_text_is_stored_or_set_aside_and_harms_nothing(
    tmp_path: Path, url: str, name: str, record_property: Callable[[str, object], None]
) -> None:
    files, path = SAMPLES[name]
    tried = stored = 0
    with open_database(url) as database:
        for kind, text in hostile_texts().items():
            for number, old in enumerate(NAMES[name]):
                folder = tmp_path / f"{kind}{number}"
                made = {
                    each: altered(content, old, text)
                    for each, content in files.items()
                    if old.encode() in content
                }
                place = written(folder, ({**files, **made}, path))
                tried += 1
                try:
                    stored += import_path(place, name, database, lambda runs: None).new.runs
                except ExchangeError:
                    continue
        assert len(queries.recent_runs(database, limit=1000)) == stored
        problems = [problem for each in check(database, tmp_path) for problem in each.problems]
        assert problems == []
    record_property("files", tried)
    record_property("runs stored", stored)
