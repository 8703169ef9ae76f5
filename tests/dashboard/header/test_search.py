"""Search: what can be found."""

from dashboard.components import links
from dashboard.header.search import SearchEntry, entries
from records.runs import RunSummary
from support.builders.run_records import BERT, FIRST_NIGHT
from support.builders.trends import a_key


def test_every_run_version_and_case_is_found_once() -> None:
    version = "2.16.0.dev20261124+cu130"
    run = RunSummary("run-1", "gpu", FIRST_NIGHT, None, "complete", "m", "h", (version,), "quiet", 1, {})
    keys = [a_key(BERT), a_key(BERT, metric="throughput")]
    assert entries(keys, [run, run], []) == [
        *[SearchEntry("Run · run-1 · gpu · nightly 24 Nov", "/runs?run=run-1")] * 2,
        SearchEntry(f"PyTorch {version}", links.view(links.HARDWARE, {"version": [version]})),
        SearchEntry(
            "Case bert_base train · batch=4 length=128 · precision=amp-bf16",
            links.view(links.HISTORY, {"case": [BERT]}),
        ),
    ]
