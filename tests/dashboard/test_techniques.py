"""The Techniques page through the router: what it chooses, what it says, and what where there is nothing."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest
import streamlit as st

from dashboard.components import parts
from dashboard.exports.page_recorder import PageRecord
from records.kinds import RunKind
from records.outcomes import Outcome
from records.runs import Run
from support.builders.run_records import FIRST_NIGHT, a_run, an_outcome
from support.builders.technique_runs import (
    BERT,
    CPU,
    GPU,
    MLP,
    ON_CPU,
    ON_GPU,
    RESNET,
    TRAIN,
    VERSION,
    Measured,
    fingerprint,
    outcomes,
    preset,
    run,
    save,
)
from support.pages import RUNS, TECHNIQUES, Open, html, text, typed
from workflows import demonstration

NASTY = '<img src=x onerror="alert(1)">'


class Links(HTMLParser):
    """The addresses of all links, and every tag that occurs."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: set[str] = set()
        self.feed(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "a":
            self.addresses.append(dict(attrs).get("href") or "")


@pytest.fixture(scope="module")
def measured_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with a run of a CPU, a day later one of a GPU, and imported numbers after both."""
    url = f"sqlite:///{tmp_path_factory.mktemp('techniques')}/pyrometer.db"
    save(url, run(), outcomes(ON_CPU))
    later = run("run-2", hardware=GPU, started_at=FIRST_NIGHT + timedelta(days=1), suite="gpu")
    save(url, later, outcomes(ON_GPU, device="cuda"))
    foreign = a_run("20260910-000000-timm-csv-0123456789abcdef", started_at=FIRST_NIGHT + timedelta(days=9))
    imported = [an_outcome(f"{RESNET}/precision=bf16", metrics={"latency_floor": 1.0})]
    return save(url, foreign, imported)


def test_it_opens_where_we_ourselves_measured_techniques_last(open_page: Open, measured_url: str) -> None:
    at = open_page(measured_url, TECHNIQUES)
    chosen = [fingerprint(GPU), VERSION, MLP, preset().fingerprint, "newest", "eager"]
    assert [box.value for box in at.selectbox] == chosen
    assert "1 of 1 faster than eager fp32" in text(at)


@pytest.mark.parametrize(
    ("workload", "titles", "texts"),
    [
        (
            BERT,
            ["bert_base infer batch=4 tokens=128", "All metrics"],
            ["precision=int8-dynamic is the fastest", "2.7\N{NO-BREAK SPACE}%<small>", "10.0 %"],
        ),
        (
            TRAIN,
            ["bert_base train batch=1 tokens=128", "Claims check", "Scaling", "All metrics"],
            ["80.0 %</strong>", "64 GPUs under DDP scale with an efficiency of 92 %"],
        ),
    ],
)
def test_a_workload_is_ranked_with_what_to_use_and_what_is_claimed(
    open_page: Open, measured_url: str, workload: str, titles: list[str], texts: list[str]
) -> None:
    at = open_page(measured_url, TECHNIQUES, hardware=CPU, workload=workload)
    first, *middle, last = [head.value for head in at.header]
    assert (first, middle, last) == ("Speed-up over eager fp32", titles, "Not measured, and why")
    shown = text(at)
    for part in (*texts, "torch_tensorrt is not installed", "error 0.4 is more than 0.05"):
        assert part in shown


def test_an_open_regression_of_the_baseline_is_said(open_page: Open, tmp_path: Path) -> None:
    url = demonstration.write(tmp_path, datetime.now(UTC))
    regressed = text(open_page(url, TECHNIQUES, workload="bert_base/train/batch=4,tokens=128"))
    assert "eager fp32 has an open regression, +" in regressed and "tokens/s" in regressed
    assert "open regression" not in text(
        open_page(url, TECHNIQUES, workload="resnet50/infer/batch=8,image=224")
    )


def test_a_column_of_the_matrix_leads_to_its_workload(open_page: Open, measured_url: str) -> None:
    at = open_page(measured_url, TECHNIQUES, hardware=CPU)
    assert at.selectbox(key="choose-workload").value == RESNET, "the one with the most speed-ups"
    queries = [parse_qs(urlsplit(each).query) for each in Links(html(at)).addresses]
    (found,) = [each for each in queries if each.get("workload") == [TRAIN] and each["run"] == ["newest"]]
    there = open_page(measured_url, TECHNIQUES, **found)
    assert not there.warning and there.selectbox(key="choose-workload").value == TRAIN


def test_techniques_are_set_against_the_baseline_that_is_chosen(open_page: Open, measured_url: str) -> None:
    compiled = "compile=default"
    at = open_page(measured_url, TECHNIQUES, hardware=CPU, workload=RESNET, baseline=compiled)
    assert not at.warning and at.header[0].value == "Speed-up over compile=default"
    shown = html(at)
    # 50 ms against the 40 ms of max-autotune, which compiles 50 s longer, and against 100 ms of eager.
    assert "▲ 1.25×" in shown and "▼ 0.500×" in shown and "eager fp32" in shown
    assert "5,000<small>" in shown
    unknown = open_page(measured_url, TECHNIQUES, hardware=CPU, workload="bert", baseline="precision=fp4")
    said = [each.value.replace("\\", "") for each in unknown.warning]
    assert said[0].startswith('Unknown workload "bert"')
    assert said[1].startswith('Unknown baseline "precision=fp4"') and len(said) == 2


def test_the_samples_of_a_panel_are_those_that_count(
    open_page: Open, url: str, records: list[PageRecord]
) -> None:
    """The first process crashed; of the blocks of the second one others disturbed one."""
    case = f"{RESNET}/compile=default"
    made: list[Outcome] = []
    for one in outcomes(ON_CPU):
        if one.case == case and one.replicate == 0:
            one = replace(one, status="crashed", metrics={}, blocks=())
        elif one.case == case:
            tainted = [{"block": 0, "status": "contended", "reason": "another program"}]
            blocks = (90_000_000,) * 5, (50_000_000,) * 4
            one = replace(one, facts={**one.facts, "tainted_blocks": tainted}, blocks=blocks)
        made.append(one)
    open_page(save(url, run(), made), TECHNIQUES, detail=case)
    said = [piece.text for piece in records[-1].pieces if piece.kind == "words"]
    (samples,) = [each for each in said if each.startswith("9 samples in 2 blocks")]
    assert "median 50.0 ms" in samples and "1 block disturbed by other programs" in samples


def test_a_cell_opens_the_panel_of_its_case(
    open_page: Open, measured_url: str, records: list[PageRecord]
) -> None:
    case = f"{RESNET}/compile=default"
    at = open_page(measured_url, TECHNIQUES, hardware=CPU)
    queries = [parse_qs(urlsplit(each).query) for each in Links(html(at)).addresses]
    opening = [each for each in queries if each.get("detail") == [case]]
    # From the matrix, and from the table of the workload.
    assert len(opening) == 2
    opened = open_page(measured_url, TECHNIQUES, **opening[0])
    assert not opened.warning and not opened.exception
    headings = [piece.text for piece in records[-1].pieces if piece.kind == "heading"]
    assert "Processes" in headings
    typed_there = [piece.text for piece in records[-1].pieces if piece.kind == "code"]
    assert any(each.startswith(f"pyrometer run --case {case}") for each in typed_there)
    unknown = open_page(measured_url, TECHNIQUES, hardware=CPU, detail="nothing")
    assert unknown.warning[0].value.startswith("Unknown case")


def test_throughput_is_in_the_items_of_the_workload(open_page: Open, url: str) -> None:
    made = [replace(each, facts={**each.facts, "unit": "images"}) for each in outcomes(ON_CPU[:2])]
    shown = html(open_page(save(url, run(), made), TECHNIQUES))
    assert "Throughput (images/s)" in shown


@pytest.mark.parametrize("state", ["running", "interrupted"])
def test_a_run_that_is_not_complete_says_so_and_how_much_is_missing(
    state: str, open_page: Open, url: str
) -> None:
    measured = outcomes(ON_CPU[:2])
    planned = len(measured) + 43
    save(url, replace(run(), state=state, planned=planned), measured)
    shown = html(open_page(url, TECHNIQUES))
    assert f", {state}, 43 replicates not reached: 1 case" in shown
    said = text(open_page(url, TECHNIQUES))
    assert "All that ran are ok, 43 did not run" in said and "All ended well" not in said


def test_batch_curves_that_are_not_drawn_are_said_and_in_the_file(
    open_page: Open, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    techniques = ["eager", "layout=channels-last", "allocator=jemalloc", "precision=bf16"]
    techniques += [f"compile={mode}" for mode in ("default", "max-autotune", "reduce-overhead", "aot_eager")]
    cases = [
        Measured(f"resnet50/infer/batch={batch},image=64/{technique}", (10.0 * batch,) * 2, items=batch)
        for technique in techniques
        for batch in (1, 8)
    ]
    save(url, run(), outcomes(cases))
    files: dict[str, Callable[[], pd.DataFrame]] = {}

    def heading(
        _: str, frame: Callable[[], pd.DataFrame] | None = None, file: str = "", *_more: object
    ) -> None:
        if frame is not None:
            files[file] = frame

    monkeypatch.setattr(parts, "heading", heading)
    assert "6 of 8 techniques are drawn; the CSV file has all." in text(open_page(url, TECHNIQUES))
    written = files["techniques-batches.csv"]()["case"].tolist()
    assert (len(set(written)), len(written)) == (8, 16)


def test_scaling_that_is_not_drawn_is_said(open_page: Open, tmp_path: Path) -> None:
    def ways(many: int) -> str:
        cases = [
            Measured(f"{TRAIN}/bucket={mib},cpus=all,parallel=ddp{ranks}", (200.0, 201.0), items=items)
            for mib in range(1, many + 1)
            for ranks, items in (("", 128), (",ranks=2", 256))
        ]
        url = save(f"sqlite:///{tmp_path}/{many}.db", run(), outcomes(cases))
        return text(open_page(url, TECHNIQUES))

    assert "6 of 8 ways are drawn; the table has all." in ways(8)
    shown = ways(6)
    assert "Dashed: ideal" in shown and "are drawn" not in shown


def test_a_star_says_what_it_means_where_others_disturbed(open_page: Open, tmp_path: Path) -> None:
    def shown(share: float) -> str:
        made = [replace(each, facts={**each.facts, "cpu_share": share}) for each in outcomes(ON_CPU[:2])]
        return text(open_page(save(f"sqlite:///{tmp_path}/{share}.db", run(), made), TECHNIQUES))

    assert "1 disturbed (" in shown(0.5) and "▲ 2.00×*" in shown(0.5)
    assert "disturbed" not in shown(1.0) and "2.00×*" not in shown(1.0)


def test_of_two_runs_of_one_moment_the_one_stored_last_speaks(open_page: Open, url: str) -> None:
    for name, floor in (("run-b", 50.0), ("run-a", 25.0)):
        faster = Measured(f"{RESNET}/compile=default", (floor, floor * 1.01, floor), cold=10.0, warm=1.0)
        save(url, run(name), outcomes([ON_CPU[0], faster]))
    shown = html(open_page(url, TECHNIQUES))
    assert "4.00×" in shown and "2.00×" not in shown


def test_an_odd_fact_of_a_file_from_elsewhere_is_no_error(open_page: Open, tmp_path: Path) -> None:
    for place, odd in enumerate([{"tainted_blocks": 5}, {"shapes": [1]}, {"device": ["a"]}]):
        made = [replace(each, facts={**each.facts, **odd}) for each in outcomes(ON_CPU[:2])]
        url = save(f"sqlite:///{tmp_path}/{place}.db", run(), made)
        for page, query in ((TECHNIQUES, {}), (RUNS, {"run": "run-1"})):
            at = open_page(url, page, **query)
            assert not at.exception and "2.00×" in text(at)


def test_launch_bound_shares_are_shown_where_they_were_measured(open_page: Open, measured_url: str) -> None:
    shown = html(open_page(measured_url, TECHNIQUES, hardware=GPU))
    assert "Launch-bound, baseline" in shown
    assert "70\N{NO-BREAK SPACE}%" in shown and "10\N{NO-BREAK SPACE}%" in shown
    assert "No kernel ran in 70 % of a step of eager fp32: a CUDA graph saves at most that." in shown
    assert "eager fp32 is bound by memory bandwidth and reaches 65 % of that bound." in shown


def test_the_link_shows_the_same_runs_tomorrow(open_page: Open, measured_url: str) -> None:
    at = open_page(measured_url, TECHNIQUES, hardware=CPU)
    pinned = [each for each in Links(html(at)).addresses if each.startswith("/explore?")]
    assert parse_qs(urlsplit(pinned[-1]).query) == {
        "hardware": [fingerprint(CPU)[:12]],
        "preset": [preset().fingerprint[:12]],
        "version": [VERSION],
        "run": ["run-1"],
        "workload": [RESNET],
    }
    again = open_page(measured_url, TECHNIQUES, **parse_qs(urlsplit(pinned[-1]).query))
    assert not again.warning
    assert again.selectbox(key="choose-run").value == "run-1"


def test_a_run_alone_says_where_it_was_made(open_page: Open, measured_url: str) -> None:
    at = open_page(measured_url, TECHNIQUES, run="run-1")
    assert at.selectbox(key="choose-hardware").value == fingerprint(CPU)
    assert not at.warning
    other = open_page(measured_url, TECHNIQUES, run="run-1", hardware=GPU)
    assert "Run run-1 has no results of torch" in other.warning[0].value
    assert other.selectbox(key="choose-run").value == "newest"


def test_unknown_values_in_the_address_are_said(open_page: Open, measured_url: str) -> None:
    query = {"hardware": "abacus", "preset": "loud", "version": "9.9", "run": "run-77"}
    at = open_page(measured_url, TECHNIQUES, **query)
    assert len(at.warning) == 4
    assert all("the page shows a default" in each.value for each in at.warning)
    assert "Speed-up over eager fp32" in text(at)


def test_runs_beyond_those_that_count_are_said(open_page: Open, measured_url: str) -> None:
    at = open_page(measured_url, TECHNIQUES, run=",".join(["run-1"] * 9))
    assert [each.value for each in at.warning] == ["The address names 9 runs; only the first 8 are used."]


def test_a_version_goes_by_its_release_too(open_page: Open, measured_url: str) -> None:
    at = open_page(measured_url, TECHNIQUES, version="2.13.0")
    assert not at.warning
    assert at.selectbox(key="choose-version").value == VERSION


def test_another_hardware_gives_up_what_was_chosen_there(open_page: Open, measured_url: str) -> None:
    at = open_page(measured_url, TECHNIQUES, hardware=GPU, run="run-2")
    at.selectbox(key="choose-hardware").set_value(fingerprint(CPU)).run()
    assert not at.warning
    assert at.selectbox(key="choose-run").value == "newest"
    assert "Break-even (steps)" in text(at)


def test_an_empty_database_says_what_to_type(open_page: Open, empty_url: str) -> None:
    at = open_page(empty_url, TECHNIQUES)
    assert "pyrometer run --suite smoke" in text(at)


def test_runs_without_a_technique_say_what_measures_some(open_page: Open, filled_url: str, url: str) -> None:
    save(url, run(), outcomes(ON_CPU[:1]))
    shown = text(open_page(url, TECHNIQUES))
    assert "1 run stored, but none" in shown
    assert "pyrometer run --suite cpu" in shown


def test_techniques_without_their_baseline_have_no_ratio(open_page: Open, url: str) -> None:
    save(url, run(), outcomes(ON_CPU[:2], apart=True))
    shown = text(open_page(url, TECHNIQUES))
    assert "There is no ratio" in shown
    assert "the two were not measured in one session" in shown


def test_one_pair_of_each_has_no_interval_and_proves_nothing(open_page: Open, url: str) -> None:
    alone = [replace(each, floors=each.floors[:1]) for each in ON_CPU]
    shown = text(open_page(save(url, run(), outcomes(alone)), TECHNIQUES))
    assert "0 of 8 faster than eager fp32" in shown
    assert "? 2.00×</strong><small>n\N{NO-BREAK SPACE}1" in shown
    assert "one pair: no interval" in shown
    assert "Stay with eager fp32: no technique measured here is proved faster." in shown


def test_without_a_ratio_a_link_leads_to_a_run_that_has_one(open_page: Open, url: str) -> None:
    save(url, run(), outcomes(ON_CPU[:2]))
    later = run("run-2", hardware=GPU, started_at=FIRST_NIGHT + timedelta(days=1))
    save(url, later, outcomes(ON_CPU[:2], apart=True))
    at = open_page(url, TECHNIQUES, hardware=GPU)
    assert "There is no ratio" in text(at) and "These runs have no speed-up" in text(at)
    address = next(each for each in Links(html(at)).addresses if each.startswith("/explore?"))
    query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    assert query["version"] == VERSION and query["run"] == "newest"
    there = open_page(url, TECHNIQUES, **query)
    assert "There is no ratio" not in text(there) and "These runs have no speed-up" not in text(there)


def test_it_opens_on_the_newest_run_that_has_a_ratio(open_page: Open, url: str) -> None:
    """Newer are a run with all cases apart on another machine, and one of a newer PyTorch on this one."""
    save(url, run(), outcomes(ON_CPU[:2]))
    save(url, run("older", started_at=FIRST_NIGHT - timedelta(days=9)), outcomes(ON_CPU[:2]))
    days = {"run-2": (GPU, VERSION, 1), "run-3": (CPU, "2.14.0+cpu", 2)}
    for name, (where, version, day) in days.items():
        started = FIRST_NIGHT + timedelta(days=day)
        made = run(name, hardware=where, version=version, started_at=started)
        save(url, made, outcomes(ON_CPU[:2], version=version, apart=True))
    at = open_page(url, TECHNIQUES)
    chosen = {name: at.selectbox(key=f"choose-{name}").value for name in ("hardware", "version", "run")}
    assert chosen == {"hardware": fingerprint(CPU), "version": VERSION, "run": "newest"}
    assert "2.00×" in html(at) and "There is no ratio" not in text(at) and "run-1" in html(at)
    # Another machine that is chosen has its own newest, and an address its way.
    assert "There is no ratio" in text(open_page(url, TECHNIQUES, hardware=GPU))
    at = open_page(url, TECHNIQUES, version="2.14.0")
    assert at.selectbox(key="choose-version").value == "2.14.0+cpu" and not at.warning


def test_a_session_of_two_environments_is_not_read_for_ratios(open_page: Open, url: str) -> None:
    """It would say nothing but that each case was measured without its baseline."""
    save(url, run(), outcomes(ON_CPU[:2]))
    for number in range(20):
        started = FIRST_NIGHT + timedelta(days=1 + number)
        made = run(f"upgrade-{number}", hardware=GPU, started_at=started)
        made = replace(made, kind=RunKind.UPGRADE)
        save(url, made, outcomes(ON_CPU[:2], apart=True))
    assert open_page(url, TECHNIQUES).selectbox(key="choose-hardware").value == fingerprint(CPU)


def test_runs_that_are_not_read_are_counted_and_led_to(open_page: Open, url: str) -> None:
    """Each of twenty runs has a case of its own; the page reads the newest sixteen."""
    for number in range(20):
        case = f"resnet50/infer/batch={number + 1},image=64"
        pair = [Measured(f"{case}/eager", (100.0,) * 3), Measured(f"{case}/compile=default", (50.0,) * 3)]
        made = run(f"run-{number}", started_at=FIRST_NIGHT + timedelta(days=number))
        save(url, made, outcomes(pair))
    at = open_page(url, TECHNIQUES)
    assert "of 16" in text(at) and "4 older runs measured 4 cases without a ratio in these runs" in text(at)
    (address,) = [each for each in Links(html(at)).addresses if each.endswith("%2Crun-0")]
    there = open_page(url, TECHNIQUES, **parse_qs(urlsplit(address).query))
    assert "of 4" in text(there) and not there.warning and "older run" not in text(there)


def test_a_case_whose_newest_runs_have_no_ratio_is_said(open_page: Open, url: str) -> None:
    save(url, run("first"), outcomes(ON_CPU[:2]))
    for number in range(8):
        made = run(f"run-{number}", started_at=FIRST_NIGHT + timedelta(days=1 + number))
        save(url, made, outcomes(ON_CPU[:2], apart=True))
    page_text = text(open_page(url, TECHNIQUES))
    assert "1 case without a ratio in the newest 8 runs of each" in page_text


@pytest.mark.parametrize(("hardware", "device", "suite"), [(CPU, "cpu", "cpu"), (GPU, "cuda", "gpu")])
def test_what_is_advised_is_the_suite_of_the_device(
    open_page: Open, tmp_path: Path, hardware: str, device: str, suite: str
) -> None:
    made = run(hardware=hardware)
    facts = {"gpus": ["NVIDIA H200"] * 8 if device == "cuda" else []}
    made = replace(made, machine=replace(made.machine, hardware=replace(made.machine.hardware, facts=facts)))
    alone = save(f"sqlite:///{tmp_path}/alone.db", made, outcomes(ON_CPU[:2], device=device, apart=True))
    assert typed(open_page(alone, TECHNIQUES)) == [f"pyrometer run --suite {suite}"]
    eager = save(f"sqlite:///{tmp_path}/eager.db", made, outcomes(ON_CPU[:1], device=device))
    assert typed(open_page(eager, TECHNIQUES)) == [f"pyrometer run --suite {suite}"]


def test_that_link_leads_as_near_as_it_can_and_names_what_differs(open_page: Open, tmp_path: Path) -> None:
    def link_text(found: str, made: Run, version: str = VERSION) -> str:
        url = save(f"sqlite:///{tmp_path}/p.db", made, outcomes(ON_CPU[:2], version=version))
        st.cache_resource.clear()
        shown = html(open_page(url, TECHNIQUES, hardware=CPU, preset="quiet", version=VERSION))
        (link,) = [one for one in re.findall(r"<a [^>]*>(.*?)</a>", shown) if "have no speed-up" in one]
        assert found in link
        return link

    def later(days: int) -> datetime:
        return FIRST_NIGHT + timedelta(days=days)

    save(f"sqlite:///{tmp_path}/p.db", run(), outcomes(ON_CPU[:2], apart=True))
    # Each is older than the one before it, and nearer.
    link_text(
        f"other runs do, on {GPU} with torch {VERSION} →", run("run-2", hardware=GPU, started_at=later(9))
    )
    loud = run("run-3", under=preset("loud"), started_at=later(8))
    assert GPU not in link_text(f"other runs do, under preset loud with torch {VERSION} →", loud)
    own = run("run-4", version="2.12.0+cpu", started_at=later(7))
    assert "preset" not in link_text("other runs do, of torch 2.12.0+cpu →", own, "2.12.0+cpu")


def test_where_all_failed_nothing_is_made_up(open_page: Open, url: str) -> None:
    save(url, run(), outcomes(ON_CPU[:2]))
    wrong = [replace(each, status="wrong", reason="it is off") for each in outcomes(ON_CPU[:2])]
    save(url, run("run-2", started_at=FIRST_NIGHT + timedelta(days=1)), wrong)
    at = open_page(url, TECHNIQUES, run="run-2")
    shown = text(at)
    assert "it is off" in shown and "There is no ratio" in shown
    # The newest run without a number is passed over for one that has some.
    assert "2.00×" in text(open_page(url, TECHNIQUES))


def test_a_failure_on_a_gpu_is_shown_as_one(open_page: Open, url: str) -> None:
    save(url, run(hardware=GPU), outcomes(ON_GPU, device="cuda"))
    crashed = [replace(each, floors=(), status="crashed", reason="driver") for each in ON_GPU]
    later = run("run-2", hardware=GPU, started_at=FIRST_NIGHT + timedelta(days=1))
    save(url, later, outcomes(crashed, device="cuda"))
    shown = text(open_page(url, TECHNIQUES, run="run-2"))
    assert "No technique of this workload is ok" in shown
    assert "There is no ratio: see the reasons below." in shown and "without their baseline" not in shown


def test_nothing_from_the_database_becomes_markup(open_page: Open, url: str) -> None:
    reason = f"{NASTY} [a](http://x.y) `*`"
    hostile = Measured(f"{RESNET}/compile=tensorrt", (), status="crashed", reason=reason)
    named = f"m{NASTY.translate(str.maketrans('', '', ' =/'))}/infer/batch=8"
    graphs = Measured(f"{named}/eager", (9.0, 9.0)), Measured(f"{named}/graph=capture", (4.0, 4.0))
    cases = (*ON_CPU[:3], hostile, *graphs)
    made = run(hardware=f"{NASTY} cores", version="2.13.0+cpu", suite=NASTY)
    at = open_page(save(url, made, outcomes(cases)), TECHNIQUES)
    assert "img" not in Links(html(at)).tags
    assert "&lt;img" in html(at)
    assert not any("<img" in each.value for each in (*at.caption, *at.warning))
