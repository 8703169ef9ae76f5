"""What techniques bring, as numbers: break-even, which run speaks for a case, columns, charts."""

import re
from dataclasses import replace
from functools import partial

import altair as alt
import pytest

from dashboard.components import charts as shared
from dashboard.components import markup, wording
from dashboard.exports.page_recorder import frame_of
from dashboard.techniques import break_even, charts, columns, frames, ranking, sections
from dashboard.techniques.ranking import WorkloadRanking
from dashboard.techniques.results import TechniqueResult, TechniqueRun, best_of, claims_of, read_techniques
from reports.text.verdict_text import refusal
from runner.worker.case_key import CaseKey
from support.builders.run_records import measurements_for
from support.builders.technique_runs import (
    BERT,
    MLP,
    ON_CPU,
    ON_GPU,
    RESNET,
    TRAIN,
    VERSION,
    Measured,
    environment,
    gain,
    outcomes,
    reading,
    run,
)

DEFAULT, TUNED = f"{RESNET}/compile=default", f"{RESNET}/compile=max-autotune"


READ = reading(outcomes(ON_CPU))
CASES = {case.case: case for case in best_of([READ])}


def test_whatever_a_gain_proves_has_a_word_of_its_own() -> None:
    found = [
        gain(2.0, 1.5, 3.0),
        gain(0.5, 0.4, 0.6),
        gain(1.0, 0.9, 1.1),
        gain(2.0),
        replace(gain(2.0), n=1),
    ]
    words = [columns.status(each)[1] for each in found]
    assert len(set(words)) == len(words)


def test_a_run_is_read_in_the_environment_of_the_version_alone() -> None:
    other = replace(ON_CPU[1], floors=(25.0, 25.0, 25.0))
    both = [*outcomes(ON_CPU[:2]), *outcomes([ON_CPU[0], other], version="2.14.0+cpu")]
    made = replace(run(), environments=(environment(), environment("2.14.0+cpu")))
    measured = measurements_for(both)
    ratios = [
        read_techniques(made, version, both, measured).brought[0].speed_up
        for version in (VERSION, "2.14.0+cpu")
    ]
    assert [found.ratio for found in ratios if found is not None] == [pytest.approx(2), pytest.approx(4)]


def test_the_newest_run_with_a_ratio_speaks_for_a_case() -> None:
    # As an upgrade does it: each case in a session of its own, so that nothing pairs with its baseline.
    upgrade = reading(outcomes(ON_CPU[:2], apart=True), "upgrade", night=3)
    assert upgrade.brought[0].speed_up is None
    newer = reading(outcomes([ON_CPU[0], replace(ON_CPU[1], floors=(80.0, 80.0, 80.0))]), "newer", night=2)
    found = {case.case: case for case in best_of([upgrade, newer, READ])}
    assert found[DEFAULT].run == "newer"
    assert found[TUNED].run == "run-1"
    assert refusal(best_of([upgrade])[0].gains["speed-up"].reason).endswith("not measured in one session")


@pytest.mark.parametrize(
    ("status", "left", "shown"),
    [
        ("wrong", 0, ("newer", ("wrong", "no"))),
        ("crashed", 0, ("newer", ("crashed", "no"))),
        # One wrong answer is enough, one crash is not; and what was skipped says nothing.
        ("wrong", 2, ("newer", ("wrong", "1 of 3 replicates: no"))),
        ("crashed", 2, ("newer", None)),
        ("skipped", 0, ("run-1", None)),
    ],
)
def test_what_does_not_work_any_more_has_no_speed_up_of_an_older_run(
    status: str, left: int, shown: tuple[str, tuple[str, str] | None]
) -> None:
    ended = [
        each
        if each.case != DEFAULT or each.replicate < left
        else replace(each, status=status, reason="no", metrics={})
        for each in outcomes(ON_CPU[:2])
    ]
    (found,) = [one for one in best_of([reading(ended, "newer", night=1), READ]) if one.case == DEFAULT]
    assert (found.run, found.failed) == shown
    assert found.has_ratio == (found.failed is None)


def test_a_later_run_without_a_ratio_does_not_bring_back_what_was_wrong() -> None:
    wrong = [replace(each, status="wrong", reason="no", metrics={}) for each in outcomes(ON_CPU[1:2])]
    skipped = [replace(each, status="skipped", reason="budget", metrics={}) for each in wrong]
    later = [reading(skipped, "later", night=2), reading(wrong, "newer", night=1), READ]
    assert {one.case: one.run for one in best_of(later)}[DEFAULT] == "newer"


def test_what_left_its_cpus_is_refused_and_no_older_run_speaks_for_it() -> None:
    strayed = [
        replace(each, facts={**each.facts, "launch": {"held": False}}) for each in outcomes(ON_CPU[:2])
    ]
    (found,) = best_of([reading(strayed, "newer", night=1), reading(outcomes(ON_CPU[:2]))])
    assert (found.run, found.failed) == ("newer", None)
    assert refusal(found.gains["speed-up"].reason) == "3 of 3 replicates left the CPUs they were given"


def test_all_ended_well_only_if_every_replicate_did() -> None:
    def card(status: str) -> str:
        one = [
            replace(each, status=status, reason="no") if (each.case, each.replicate) == (DEFAULT, 1) else each
            for each in outcomes(ON_CPU[:2])
        ]
        readings = [reading(one)]
        return sections.endings_text(best_of(readings), readings)

    assert "All ended well." in card("ok")
    assert "1 replicate not ok" in card("crashed")
    assert "see the reasons below" in card("wrong")


def test_a_claim_is_held_against_the_run_that_speaks_for_the_case() -> None:
    claimed = f"{RESNET.replace('batch=8', 'batch=32')}"
    pair = (Measured(f"{claimed}/eager", (10.0, 10.0)), Measured(f"{claimed}/compile=default", (5.0, 5.0)))
    slower = (pair[0], Measured(f"{claimed}/compile=default", (8.0, 8.0)))
    readings = [reading(outcomes(slower), "newer", night=1), reading(outcomes(pair))]
    found = claims_of(readings, best_of(readings))
    fast = next(measured for claim, measured in found.items() if "2.3 times" in claim.statement)
    assert [(case, value.point) for case, _, value in fast] == [(f"{claimed}/compile=default", 1.25)]


def test_a_column_without_a_number_is_left_out_and_one_with_any_stays() -> None:
    names = (columns.CASE, columns.metric("error"), columns.metric("rss_peak_steady"), columns.PAYS)
    eager_and_compiled = [CASES[DEFAULT], CASES[f"{RESNET}/allocator=jemalloc"]]
    table = columns.table("Some", names, eager_and_compiled, "2.13.0")
    html = table.html()
    assert "Peak RSS, steady (MiB)" in html and "Break-even" in html
    assert "Error" not in html
    frame = frame_of(table)
    assert frame.loc[0, "pays_after_steps"] == pytest.approx(200)
    assert frame.loc[0, "rss_peak_steady_n"] == 3
    assert "error" not in frame


def ranked(workload: str = RESNET, *readings: TechniqueRun) -> WorkloadRanking:
    return ranking.ranking(readings or [READ], best_of(readings or [READ]), workload)


def test_techniques_of_a_workload_are_ranked_and_the_baseline_is_among_them() -> None:
    found = ranked()
    names = [case.case.rpartition("/")[2] for case in found.cases]
    assert names == [
        "compile=max-autotune",
        "cpus=all,instances=2",
        "compile=default",
        "cpus=all",
        "allocator=jemalloc",
        "compile=aot_eager",
    ]
    assert found.base is not None and found.base.own["latency_floor"].point == 100.0
    # Those of several ranks are more hardware; what did not end well has no rank.
    assert [case.case for case in ranked(TRAIN).cases] == [f"{TRAIN}/cpus=all,parallel=ddp"]
    assert [case.failed for case in ranked(BERT).ended] == [("wrong", "error 0.4 is more than 0.05")]


def test_two_runs_have_no_baseline_in_common() -> None:
    tuned = reading(outcomes([ON_CPU[0], ON_CPU[2]]), "older", night=-1)
    found = ranked(RESNET, reading(outcomes(ON_CPU[:2])), tuned)
    assert {case.run for case in found.cases} == {"run-1", "older"} and found.base is None


def test_the_grid_has_every_case_once_and_combinations_last() -> None:
    both = Measured(f"{RESNET}/compile=default,precision=bf16", (20.0, 20.2, 20.0))
    found = ranking.grid(best_of([reading(outcomes([*ON_CPU, both]))]))
    assert found.workloads == (BERT, TRAIN, MLP, RESNET)
    names = [name for name, _ in found.lines]
    assert names.index("precision=bf16") < names.index("compile=default,precision=bf16")
    cells = {name: cells for name, cells in found.lines}["compile=default"]
    assert [cell and cell.case for cell in cells] == [None, None, None, DEFAULT]
    assert sum(cell is not None for _, cells in found.lines for cell in cells) == len(ON_CPU) - 3 + 1


def test_bars_reach_from_one_to_all_ratios_and_no_further_than_twice() -> None:
    wide = replace(CASES[DEFAULT], gains={"speed-up": gain(2.0, 0.001, 4000.0)})
    none = replace(CASES[TUNED], gains={"speed-up": gain(4.0)})
    assert frames.axis([none, wide]) == (0.5, 8.0)
    assert frames.axis([none]) == (1.0, 4.0)
    bar = markup.bar(2.0, 0.001, 4000.0, (0.5, 8.0))
    assert "left: 0.0%; width: 100.0%" in bar, "an interval beyond the axis ends at its ends"
    assert '<b style="left: 6.7%; width: 13.3%">' in bar, "from 1 to 2 on 0.5 to 8"


def test_what_another_beats_in_both_is_not_named() -> None:
    def of(technique: str, fast: float, small: float) -> TechniqueResult:
        made = replace(
            CASES[DEFAULT], case=f"{RESNET}/{technique}", key=CaseKey.parse(f"{RESNET}/{technique}")
        )
        memory = replace(gain(small, small, small), kind="memory")
        return replace(made, gains={"speed-up": gain(fast, fast, fast), "memory": memory})

    cases = [
        of("precision=bf16", 4.5, 0.53),
        of("precision=amp-bf16", 3.4, 0.71),
        of("compile=default,precision=bf16", 5.9, 0.55),
        of("checkpoint=on", 0.8, 0.3),
    ]
    best = ranking.pareto(cases)
    assert [case.case.rpartition("/")[2] for case in best] == [
        "precision=bf16",
        "compile=default,precision=bf16",
        "checkpoint=on",
    ]
    rows = frames.pareto(cases, best)
    assert list(rows["label"]) == [
        "precision=bf16",
        "",
        "compile=default precision=bf16",
        "checkpoint=on",
    ]
    assert list(rows["left"]) == [False, False, False, True]


def test_what_to_use_is_said_with_what_it_costs() -> None:
    without = reading(outcomes([each for each in ON_CPU if "instances" not in each.case]))
    first, plain, pays, sooner = ranking.advice(ranked(RESNET, without))
    assert first == "compile=max-autotune is the fastest: 2.50× (2.49× to 2.51×)."
    assert plain == "cpus=all alone gives 1.67× (1.65× to 1.68×), with nothing to compile."
    # 60 s / (40 ms x 1.5) against eager, 60 s / (60 - 40 ms) against what compiles nothing.
    assert pays == (
        "Compiling takes 1 min 00 s with an empty cache; against eager fp32 it has paid after 1,000 steps "
        "(1 min 40 s of work; 34 steps with a filled cache), against cpus=all after 3,000."
    )
    # 10 s / (50 ms x 1) against eager, 50 s more / (50 - 40 ms) between the two modes.
    assert sooner == (
        "compile=default has paid after 200 steps; compile=max-autotune is ahead of it from 5,000 on."
    )
    _, several, of_one, _ = ranking.advice(ranked())
    assert several.startswith("cpus=all instances=2 alone gives 2.22×")
    assert of_one.endswith("with a filled cache)."), "a step of several processes has other items"
    (quantised,) = ranking.advice(ranked(BERT))
    assert quantised.endswith("2.00× (2.00× to 2.00×), error 2.7 %.")


def test_what_pairs_cannot_tell_apart_is_not_called_the_fastest_alone() -> None:
    alike = Measured(TUNED, (44.0, 55.0, 50.0), cold=60.0, warm=1.0)
    lines = ranking.advice(ranked(RESNET, reading(outcomes([*ON_CPU[:2], alike]))))
    assert "is among the fastest, with compile=" in lines[0]
    assert not any("ahead of it" in line for line in lines)


def test_against_a_technique_that_compiles_only_the_rest_is_to_be_paid() -> None:
    measured = outcomes(ON_CPU)
    found = read_techniques(run(), VERSION, measured, measurements_for(measured), "compile=default")
    cases = {case.case: case for case in found.brought}
    assert DEFAULT not in cases
    eager, tuned = cases[f"{RESNET}/eager"].speed_up, cases[TUNED].speed_up
    assert eager is not None and eager.ratio == pytest.approx(0.5)
    assert tuned is not None and tuned.ratio == pytest.approx(1.25)
    # 50 s more of compiling, and 10 ms saved in a step.
    paid = break_even.of(cases[TUNED])
    assert paid is not None and paid.steps == pytest.approx(5000)
    assert found.claimed == {}, "claims are about eager fp32"


def test_scaling_is_drawn_from_one_rank_against_the_ideal() -> None:
    curves = frames.rank_curves(list(CASES.values()))
    assert curves is not None and curves.names == (f"{TRAIN}/cpus=all,parallel=ddp",)
    assert list(curves.points["ranks"]) == [1, 2]
    # 80 % of two ranks.
    assert list(curves.points["times"]) == [1.0, pytest.approx(1.6)]
    assert list(frames.ideal(curves)["times"]) == [1, 2]
    assert frames.rank_curves([CASES[DEFAULT]]) is None


def test_a_batch_curve_needs_several_batches_in_one_run() -> None:
    def at(batch: int, floor: float) -> Measured:
        return Measured(f"vit_b/infer/batch={batch},image=224/eager", (floor, floor), items=batch)

    several = reading(outcomes([at(1, 10.0), at(16, 80.0), at(4, 25.0), *ON_CPU]))
    (curve,) = frames.batch_curves([several])
    assert curve.title == "vit_b infer image=224"
    assert list(curve.points["batch"]) == [1, 4, 16]
    assert list(curve.points["throughput"]) == [pytest.approx(100), pytest.approx(160), pytest.approx(200)]
    assert list(curve.points["last"]) == [False, False, True]
    apart = [reading(outcomes([at(1, 10.0)]), "a"), reading(outcomes([at(4, 10.0)]), "b")]
    assert frames.batch_curves(apart) == []


@pytest.mark.parametrize("status", ["wrong", "not_compiled"])
def test_no_batch_curve_of_a_case_that_was_wrong_or_ran_something_else(status: str) -> None:
    made = outcomes(
        [
            Measured(f"vit_b/infer/batch={batch},image=224/{how}", (10.0 * batch,) * 3, items=batch)
            for how in ("eager", "compile=default")
            for batch in (1, 4)
        ]
    )
    assert frames.batch_curves([reading(made)])[0].lines == 2
    made = [
        replace(each, status=status) if "compile" in each.case and each.replicate == 1 else each
        for each in made
    ]
    (curve,) = frames.batch_curves([reading(made)])
    assert curve.names == ("vit_b/infer/image=224/eager",)


def test_what_others_disturbed_is_neither_the_fastest_nor_advised() -> None:
    made = [
        replace(each, facts={**each.facts, "cpu_share": 0.5 if each.case == TUNED else 1.0})
        for each in outcomes(ON_CPU[:3])
    ]
    readings = [reading(made)]
    brought = best_of(readings)
    assert "1 disturbed (*)" in sections.summary(brought, readings)
    # Max-autotune is faster still, by pairs that may be anything.
    said = " ".join(ranking.advice(ranked(RESNET, *readings)))
    assert said.startswith("compile=default is the fastest: 2.00×") and "max-autotune" not in said
    shown = columns.speed_up("Speed-up", (1.0, 3.0))[0]
    texts = [re.sub("<[^>]*>", " ", shown.cell(case)) for case in ranked(RESNET, *readings).cases]
    assert "▲ 2.50×*" in texts[0] and "3 disturbed" in texts[0] and "▲ 2.00×  " in texts[1]


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0, "1.00×"),
        (1.0004, "1.0004×"),
        (0.9996, "0.9996×"),
        (1.002, "1.002×"),
        (1 + 1e-12, "1.00×"),
        (2, "2.00×"),
    ],
)
def test_only_one_reads_as_one(ratio: float, text: str) -> None:
    assert wording.times(ratio) == text
    assert wording.gain(gain(ratio)) == text


def test_without_an_interval_nothing_else_than_one_pair_is_called_one() -> None:
    assert columns.status(gain(2.0))[:2] == ("?", "no interval")
    assert columns.status(replace(gain(2.0), n=1))[:2] == ("?", "one pair")


def test_launch_bound_shares_of_all_machines_are_in_one_table() -> None:
    made = run(hardware="8 x H200")
    measured = outcomes(ON_GPU, device="cuda")
    found = read_techniques(made, VERSION, measured, measurements_for(measured))
    assert not found.on_cpu and READ.on_cpu
    assert {each.environment for each in found.brought} == {environment().fingerprint}
    (case,) = (case for case in found.brought if case.case == f"{MLP}/graph=capture")
    assert (case.base["launch_bound"].point, case.own["launch_bound"].point) == (0.7, 0.1)
    # On a device, memory is what its allocator holds.
    memory = case.ratio("memory")
    assert memory is not None and (memory.metric, memory.ratio) == ("cuda_peak_allocated", 1.2)


def test_if_all_processes_crashed_the_device_is_unknown() -> None:
    crashed = [replace(each, status="crashed", reason="driver", metrics={}) for each in outcomes(ON_CPU[:2])]
    assert not reading(crashed).on_cpu


@pytest.mark.parametrize(
    "made",
    [partial(charts.pareto, dark=False), partial(charts.scaling, 2, 8), partial(charts.batches, 6)],
    ids=lambda made: made.func.__name__,
)
def test_every_spec_is_vega_lite(made: partial[shared.Spec]) -> None:
    spec = made()
    assert alt.LayerChart.from_dict(spec).to_dict()["layer"]
    assert spec["usermeta"] == shared.RENDERED["usermeta"]
