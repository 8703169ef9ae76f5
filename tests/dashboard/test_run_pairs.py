"""Two runs compared: what differs by more than its noise, and that nothing of it is proved."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.run_pairs import tables
from dashboard.run_pairs.comparison import RunSide, candidate, compare, metrics
from dashboard.run_pairs.page import RunPairView, run_pair
from records.kinds import RunSource, RunState
from records.outcomes import Measurement, MetricDefinition, Outcome
from records.runs import RunSummary
from support.builders.run_records import (
    BERT,
    FIRST_NIGHT,
    MLP,
    RESNET,
    RESNET_COMPILED,
    a_machine,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)
from support.builders.technique_runs import save
from support.pages import RUN_PAIR, TECHNIQUES, Open, html, text, typed

OLD, NEW = an_environment("2.13.0+cpu"), an_environment("2.14.0+cpu")


def outcomes(environment: object, slower: float = 1.0, crashed: bool = False) -> list[Outcome]:
    """Three processes of each of four cases; one takes so many times as long, one may crash."""
    found: list[Outcome] = []
    for replicate in range(3):
        noise = 1 + replicate / 1000
        for case, latency in ((MLP, 2.0), (RESNET, 48.0 * slower), (RESNET_COMPILED, 31.0)):
            found.append(
                an_outcome(case, environment=environment, replicate=replicate, latency=latency * noise)
            )
        status = "crashed" if crashed else "ok"
        reason = "<b>SIGSEGV</b>" if crashed else ""
        metrics = {} if crashed else None
        found.append(
            an_outcome(
                BERT,
                environment=environment,
                replicate=replicate,
                status=status,
                reason=reason,
                metrics=metrics,
                latency=210.0 * noise,
            )
        )
    return found


def side(id: str, environment: object, measured: Sequence[Outcome]) -> RunSide:
    made = a_run(id, environments=[environment])
    return RunSide(made, environment, measured, measurements_for([o for o in measured if o.status == "ok"]))


A = side("a", OLD, outcomes(OLD))
B = side("b", NEW, outcomes(NEW, 1.08, crashed=True))


def test_what_broke_comes_first_then_what_differs_by_more_than_its_noise() -> None:
    found = compare(A, B, "latency")
    assert [(one.case, one.status) for one in found.cases] == [
        (BERT, "broke"),
        (RESNET, "outside"),
        (MLP, "within"),
        (RESNET_COMPILED, "within"),
    ]
    assert found.cases[1].ratio == pytest.approx(1.08)
    # Three cases have a ratio, two of them 1.
    assert found.mean == pytest.approx(1.08 ** (1 / 3))
    over = "over 3 cases (geomean), lower is better"
    assert tables.headline(found) == f"1 case broke; latency +2.6 % {over}; 1 outside noise."


def test_one_process_has_no_range_and_other_cases_are_counted() -> None:
    alone = [each for each in outcomes(NEW) if each.replicate == 0 and each.case != MLP]
    found = compare(A, side("b", NEW, alone), "latency")
    assert {one.status for one in found.cases} == {"no interval"}
    assert "outside noise" not in tables.headline(found)
    assert (found.only_a, found.only_b) == (1, 0)


def counted(one: RunSide, **breaks: float) -> RunSide:
    """A run with so many graph breaks in each of three processes of some cases."""
    cases = {"mlp": MLP, "resnet": RESNET}
    made: list[Measurement] = []
    for name, many in breaks.items():
        about: dict[str, Any] = {"metric": "graph_breaks", "point": many, "smallest": many, "largest": many}
        latency = next(each for each in one.measurements if each.case == cases[name])
        made.append(replace(latency, low=None, high=None, **about))
    return replace(one, measurements=made)


@pytest.mark.parametrize(
    ("old", "new", "status"), [(0, 3, "outside"), (3, 0, "outside"), (0, 0, "within"), (3, 3, "within")]
)
def test_a_count_of_none_has_a_range_too(old: float, new: float, status: str) -> None:
    found = compare(counted(A, mlp=old), counted(B, mlp=new), "graph_breaks")
    assert [one.status for one in found.cases if one.case == MLP] == [status]


def test_what_moved_from_none_moved_furthest() -> None:
    found = compare(counted(A, mlp=10, resnet=0), counted(B, mlp=20, resnet=1), "graph_breaks")
    assert [one.case for one in found.with_status("outside")] == [RESNET, MLP]


@pytest.mark.parametrize("status", ["skipped", "contended", "lost"])
def test_what_a_run_does_not_know_neither_broke_nor_was_mended(status: str) -> None:
    """Where a case was not measured, it may have worked or not."""
    unknown = [replace(one, status=status, metrics={}) if one.case == BERT else one for one in outcomes(OLD)]
    before = side("a", OLD, unknown)
    found = compare(before, B, "latency")
    assert found.with_status("broke", "fixed") == []
    (bert,) = found.with_status("not measured")
    assert (bert.case, bert.old_status, bert.new_status) == (BERT, status, "crashed")
    assert "broke" not in tables.headline(found)
    assert compare(B, before, "latency").with_status("broke", "fixed") == []
    # Of one that works, but was not measured in a run, there is no number and not one of a single process.
    (bert,) = (one for one in compare(A, before, "latency").cases if one.case == BERT)
    assert bert.status == "not measured" and bert.old is not None and bert.new is None
    assert "one replicate" not in str(tables.changes(found, "", found.cases).html())


def test_runs_of_one_technique_each_are_compared_by_workload() -> None:
    compiled = [
        replace(one, case=one.case.replace("/eager", "/compile=default"))
        for one in outcomes(NEW, 0.5)
        if one.case in (RESNET, MLP)
    ]
    eager = [one for one in outcomes(OLD) if one.case in (RESNET, MLP)]
    found = compare(side("a", OLD, eager), side("b", NEW, compiled), "latency")
    assert found.techniques == ("eager", "compile=default") and (found.only_a, found.only_b) == (0, 0)
    first = found.cases[0]
    assert (first.old_case, first.case) == (RESNET, RESNET_COMPILED) and first.ratio == pytest.approx(0.5)
    # With the technique the PyTorch differs, which an upgrade would not separate.
    versions = "PyTorch (2.13.0+cpu → 2.14.0+cpu)"
    assert tables.differences(found) == ["technique (eager → compile=default)", versions]
    assert tables.paired_command(found) == ""
    assert "case=resnet50%2Finfer" in str(tables.changes(found, "", found.cases).html())
    # Kernels, too, are of the case in either technique.
    kernels = [
        side(
            one.run.id,
            one.environment,
            [replace(each, facts={"kernels": [["gemm", 1.0, us]]}) for each in one.outcomes],
        )
        for one, us in ((found.a, 30.0), (found.b, 20.0))
    ]
    known = {one.case: one.changes[0] for one in compare(*kernels, "latency").kernels}
    assert RESNET_COMPILED in known and known[RESNET_COMPILED].difference_us == -10.0
    # Where any case is in both, or a run has several techniques, cases are compared as they are called.
    assert compare(A, B, "latency").techniques is None
    assert compare(A, side("b", NEW, compiled), "latency").cases[0].case == RESNET_COMPILED


def test_imported_runs_of_two_techniques_are_offered_under_techniques(
    open_page: Open, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/imports.db"
    eager = [one for one in outcomes(OLD) if one.case in (RESNET, MLP)]
    compiled = [replace(one, case=one.case.replace("/eager", "/compile=default")) for one in eager]
    apart = [replace(one, case=f"other/infer/b=1/{name}") for one, name in ((eager[0], "precision=bf16"),)]
    # Compiled came first, and a run on another machine shares nothing.
    for run, measured in (("b", compiled), ("a", eager), ("c", apart)):
        own = replace(a_run(run, environments=[OLD]), source=RunSource.IMPORTED, source_format="torchbench")
        save(url, own, measured)
    at = open_page(url, TECHNIQUES)
    shown = html(at)
    assert shown.count("/compare?view=runs") == 1 and "compile=default against eager: 2 workloads" in shown
    assert 'href="/compare?view=runs&amp;a=a&amp;b=b"' in shown
    own = save(f"sqlite:///{tmp_path}/own.db", a_run("own", environments=[OLD]), outcomes(OLD))
    assert "/compare?view=runs" not in html(open_page(own, TECHNIQUES))


def test_techniques_of_one_pytorch_are_offered_before_more_workloads_of_two(
    open_page: Open, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/imports.db"
    eager = [one for one in outcomes(OLD) if one.case in (RESNET, MLP)]
    compiled = [replace(one, case=one.case.replace("/eager", "/compile=default")) for one in eager]
    later = [replace(one, environment=NEW.fingerprint) for one in compiled]
    runs = (("a", OLD, eager), ("b", OLD, compiled[:1]), ("c", NEW, later))
    for run, environment, measured in runs:
        own = a_run(run, environments=[environment])
        save(url, replace(own, source=RunSource.IMPORTED, source_format="torchbench"), measured)
    shown = html(open_page(url, TECHNIQUES))
    assert "compile=default against eager: 1 workload on" in shown
    assert 'href="/compare?view=runs&amp;a=a&amp;b=b"' in shown


def test_metrics_of_files_are_offered_too() -> None:
    own, other = ([replace(each, metric="tool.speed") for each in one.measurements] for one in (A, B))
    defined = {"tool.speed": MetricDefinition("tool.speed", "Their speed", "samples/s", "higher")}
    a, b = replace(A, measurements=own), replace(B, measurements=other)
    assert metrics(a, b, defined) == {"tool.speed": "Their speed"} and metrics(a, b) == {}
    found = compare(a, b, "tool.speed")
    assert "their speed 0 % over 3 cases (geomean), higher is better" in tables.headline(found, defined)


def test_only_metrics_of_both_are_offered() -> None:
    other = replace(B, measurements=[each for each in B.measurements if each.metric != "latency"])
    assert "latency" in metrics(A, B) and "latency" not in metrics(A, other)


def test_the_candidate_of_a_run_of_two_environments_speaks() -> None:
    assert candidate(a_run(environments=[OLD, NEW, an_environment("", name="canary")])) == NEW


def test_conditions_that_differ_are_named_and_only_versions_can_be_measured_in_turns() -> None:
    found = compare(A, B, "latency")
    assert tables.differences(found) == []
    assert tables.paired_command(found) == "pyrometer upgrade 2.13.0 2.14.0 --suite smoke"
    chosen = compare(A, replace(B, run=replace(B.run, suite="chosen")), "latency")
    assert shlex.split(tables.paired_command(chosen))[2:] == [
        *("2.13.0", "2.14.0"),
        *(part for one in chosen.cases for part in ("--case", one.case)),
    ]
    traced = compare(A, replace(B, run=replace(B.run, kind="trace")), "latency")
    assert tables.paired_command(traced) == ""
    elsewhere = replace(B, run=replace(B.run, machine=a_machine("bench-2", "8 x H200"), harness="other"))
    found = compare(A, elsewhere, "latency")
    assert tables.differences(found) == ["hardware", "machine", "harness"]
    assert tables.paired_command(found) == ""
    assert tables.paired_command(compare(A, side("b", OLD, outcomes(OLD)), "latency")) == ""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with both runs, and an older one of another suite. Tests only read it."""
    url = f"sqlite:///{tmp_path_factory.mktemp('two')}/p.db"
    save(url, a_run("other", suite="gpu", environments=[OLD]), outcomes(OLD))
    for days, one in ((1, A), (2, B)):
        save(url, replace(one.run, started_at=FIRST_NIGHT + timedelta(days=days)), one.outcomes)
    return url


def test_it_opens_on_the_newest_two_that_are_alike_and_says_that_it_is_a_hint(
    open_page: Open, two: str
) -> None:
    at = open_page(two, RUN_PAIR)
    assert [at.selectbox(key=f"choose-{name}").value for name in ("a", "b", "metric")] == [
        "a",
        "b",
        "latency",
    ]
    shown = html(at)
    assert "Hint</p>" in shown and "1 case broke" in shown and "not A/B interleaved" in shown
    # Nothing is proved, so nothing of a number is good or bad.
    body = shown.partition("py-verdict")[2]
    assert "py-good" not in body.replace("py-chip py-good", "") and "<b>" not in shown
    assert typed(at)[0] == "pyrometer upgrade 2.13.0 2.14.0 --suite smoke"
    assert [each.label for each in at.expander] == ["2 within noise"]
    assert "What else differs" in [each.value for each in at.header]


def test_a_run_on_offer_is_named_with_its_hardware(open_page: Open, url: str) -> None:
    """Of an import, whose id is a hash, that is what tells it apart; what is not known leaves no gap."""
    unknown = an_environment("", name="unknown")
    for name, gpu in (("hash-1", "rtx4090"), ("hash-2", "rtx3090")):
        run = a_run(name, environments=[unknown], machine=a_machine(hardware=gpu))
        save(url, run, [an_outcome(MLP, environment=unknown)])
    offered = open_page(url, RUN_PAIR).selectbox(key="choose-a").options
    assert {*offered} == {"smoke · rtx4090 · hash-1", "smoke · rtx3090 · hash-2"}


def test_an_address_names_both_runs_and_unknown_ones_are_said(open_page: Open, two: str) -> None:
    at = open_page(two, RUN_PAIR, a="b", b="other")
    assert [at.selectbox(key=f"choose-{name}").value for name in ("a", "b")] == ["b", "other"]
    assert not at.warning and 'href="/compare?view=runs&amp;a=b&amp;b=other&amp;metric=latency"' in html(at)
    at = open_page(two, RUN_PAIR, a="nowhere", metric="beauty")
    warnings = " ".join(each.value for each in at.warning)
    assert "nknown run" in warnings and "nknown metric" in warnings
    at.selectbox(key="choose-a").set_value("other").run()
    assert dict(at.query_params) == {"view": "runs", "a": "other", "b": "b"}


def test_one_run_has_nothing_to_be_compared_with(open_page: Open, url: str, empty_url: str) -> None:
    save(url, a_run("only", environments=[OLD]), outcomes(OLD))
    assert "1 run stored, but none to compare it with" in text(open_page(url, RUN_PAIR))
    assert "Nothing measured yet" in html(open_page(empty_url, RUN_PAIR))


def test_runs_without_a_number_in_common_are_within_no_noise(open_page: Open, url: str) -> None:
    for name, case in (("first", MLP), ("second", RESNET)):
        known = [an_outcome(case, metrics={"latency": 1.0})]
        save(url, a_run(name, environments=[OLD]), known)
    shown = html(open_page(url, RUN_PAIR, a="first", b="second", metric="latency"))
    assert "No case has a number in both runs" in shown and "more than its noise" not in shown


def test_another_run_gives_up_the_metric() -> None:
    assert RunPairView("a", "b", "latency").after("b", "c") == RunPairView("a", "c")
    assert run_pair({}, [], lambda _: False, anything) == (None, [])


def anything(one: str, other: str) -> bool:
    """Whether two runs have cases to compare, where each two do."""
    return True


def summary(run: str) -> RunSummary:
    return RunSummary(run, "s", FIRST_NIGHT, None, "complete", "m", "h", (), "p", 1, {})


def test_two_ticked_runs_are_compared_the_older_as_the_baseline() -> None:
    newest = [summary("new"), summary("middle"), summary("old")]
    chosen, complaints = run_pair({"run": ["new", "old"]}, newest, lambda run: True, anything)
    assert (chosen, complaints) == (RunPairView("old", "new"), [])
    chosen, complaints = run_pair({"run": ["new", "middle", "old"]}, newest, lambda run: True, anything)
    assert chosen == RunPairView("middle", "new") and complaints[0].startswith(
        "Only two runs can be compared"
    )
    assert run_pair({"run": ["middle"]}, newest, lambda run: True, anything)[0] == RunPairView(
        "old", "middle"
    )
    assert run_pair({}, newest, lambda run: True, anything)[0] == RunPairView("middle", "new")


def test_a_run_that_goes_on_is_not_proposed_where_two_are_over() -> None:
    newest = [replace(summary("new"), state=RunState.RUNNING), summary("middle"), summary("old")]
    chosen, _ = run_pair({}, newest, lambda run: True, anything)
    assert chosen == RunPairView("old", "middle")
    chosen, _ = run_pair({}, newest[:2], lambda run: True, anything)
    assert chosen == RunPairView("middle", "new")


@pytest.mark.parametrize(
    ("query", "alike", "expected"),
    [
        ({}, {"new", "old"}, ("old", "new")),
        ({}, {"middle", "old"}, ("old", "middle")),
        ({"a": ["old"]}, {"middle", "old"}, ("old", "middle")),
        ({"b": ["new"]}, {"new", "old"}, ("old", "new")),
        ({}, set[str](), ("middle", "new")),
    ],
)
def test_runs_without_a_case_in_common_are_not_proposed(
    query: dict[str, list[str]], alike: set[str], expected: tuple[str, str]
) -> None:
    newest = [summary("new"), summary("middle"), summary("old")]
    chosen, _ = run_pair(query, newest, lambda run: True, lambda one, other: {one, other} == alike)
    assert chosen == RunPairView(*expected)


def test_the_page_opens_on_runs_with_a_case_in_common(open_page: Open, url: str) -> None:
    for days, (name, case) in enumerate((("first", MLP), ("second", RESNET), ("third", MLP))):
        run = a_run(name, environments=[OLD], started_at=FIRST_NIGHT + timedelta(days=days))
        save(url, run, [an_outcome(case, environment=OLD)])
    at = open_page(url, RUN_PAIR)
    assert [at.selectbox(key=f"choose-{side}").value for side in ("a", "b")] == ["first", "third"]
