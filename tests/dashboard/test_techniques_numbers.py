"""What techniques bring, as numbers: break-even, which run speaks for a case, columns, charts."""

from dataclasses import replace
from functools import partial

import altair as alt
import pytest
from jsonschema import ValidationError

from dashboard.components import charts as shared
from dashboard.components import wording
from dashboard.exports.page_recorder import frame_of
from dashboard.techniques import break_even, categories, charts, columns, frames, sections
from dashboard.techniques.results import TechniqueResult, best_of, claims_of, eager_of, read
from reports.text.gain_text import refusal
from runner.worker.case_key import CaseKey
from support.builders.run_records import measurements_for
from support.builders.technique_runs import (
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


@pytest.mark.parametrize("dark", [False, True])
def test_whatever_a_gain_proves_has_a_colour_and_a_shape(dark: bool) -> None:
    found = [
        gain(2.0, 1.5, 3.0),
        gain(0.5, 0.4, 0.6),
        gain(1.0, 0.9, 1.1),
        gain(2.0),
        replace(gain(2.0), n=1),
    ]
    words = [columns.status(each)[1] for each in found]
    assert len(set(words)) == len(words)
    drawn = [
        each["encoding"]
        for each in charts.speed_ups(5, dark=dark)["layer"]
        if each["encoding"].get("color", {}).get("field") == "status"
    ]
    assert len(drawn) == 2
    for scale in [each[name]["scale"] for each in drawn for name in ("color", "shape") if name in each]:
        assert set(words) <= set(scale["domain"]) and len(scale["domain"]) == len(scale["range"])


@pytest.mark.parametrize(
    ("technique", "subject"),
    [
        ("compile=default,dynamic=mark", "compile"),
        ("precision=bf16", "precision"),
        ("graph=capture", "graphs"),
        ("cpus=all,instances=2,threads=4", "pinning"),
        ("cpus=all,parallel=ddp,ranks=2", "scaling"),
        ("compile=default,parallel=ddp,ranks=2", "scaling"),
        ("allocator=jemalloc", "others"),
        ("export=onnxruntime", "others"),
        ("compile=default,precision=bf16", "together"),
    ],
)
def test_every_technique_has_one_subject(technique: str, subject: str) -> None:
    assert categories.subject(CaseKey.parse(f"{RESNET}/{technique}")) == subject


def test_a_run_is_read_in_the_environment_of_the_version_alone() -> None:
    other = replace(ON_CPU[1], floors=(25.0, 25.0, 25.0))
    both = [*outcomes(ON_CPU[:2]), *outcomes([ON_CPU[0], other], version="2.14.0+cpu")]
    made = replace(run(), environments=(environment(), environment("2.14.0+cpu")))
    measured = measurements_for(both)
    ratios = [read(made, version, both, measured).brought[0].speed_up for version in (VERSION, "2.14.0+cpu")]
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
        return sections.row(best_of(readings), readings)

    assert "all ended well" in card("ok")
    assert "1 replicate did not end well" in card("crashed")
    assert "the reasons stand below" in card("wrong")


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
    assert "Peak RSS, steady (MiB)" in html and "Pays after" in html
    assert "Error" not in html
    frame = frame_of(table)
    assert frame.loc[0, "pays_after_steps"] == pytest.approx(200)
    assert frame.loc[0, "rss_peak_steady_n"] == 3
    assert "error" not in frame


def test_the_chart_of_speed_ups_has_the_fastest_first_and_every_interval() -> None:
    drawn = frames.drawn(list(CASES.values()))
    rows = frames.speed_ups(drawn)
    assert list(rows["ratio"]) == sorted(rows["ratio"], reverse=True)
    assert all(row["low"] <= row["ratio"] <= row["high"] for row in rows.to_dict("records"))
    named = dict(zip(rows["label"], rows["status"], strict=True))
    assert named["compile=aot_eager · resnet50 infer batch=8 image=64"] == "slower"
    assert named["allocator=jemalloc · resnet50 infer batch=8 image=64"] == "unclear"
    assert list(rows["row"]) == list(range(len(rows)))
    assert not any("ranks=2" in label for label in rows["label"])


def test_an_interval_far_beyond_all_ratios_is_cut_where_it_is_drawn() -> None:
    wide = replace(CASES[DEFAULT], gains={"speed-up": gain(2.0, 0.001, 4000.0)})
    none = replace(CASES[TUNED], gains={"speed-up": gain(4.0)})
    rows = frames.speed_ups([none, wide])
    assert list(rows["from"]) == [4.0, 1.0] and list(rows["to"]) == [4.0, 8.0]
    assert (rows["low"][1], rows["high"][1]) == (0.001, 4000.0)


def test_of_very_many_cases_those_furthest_from_one_are_drawn() -> None:
    def like(ratio: float) -> TechniqueResult:
        found = replace(CASES[DEFAULT], case=f"{RESNET.replace('8', str(ratio))}/compile=default")
        return replace(found, gains={"speed-up": gain(ratio, ratio, ratio)})

    many = [like(1 + place / 100) for place in range(60)]
    drawn = frames.drawn([*many, like(0.2)])
    assert len(drawn) == frames.MOST_DRAWN
    assert drawn[-1].speed_up is not None and drawn[-1].speed_up.ratio == 0.2
    assert drawn[0].speed_up is not None and drawn[0].speed_up.ratio == pytest.approx(1.59)


def test_scaling_is_drawn_from_one_rank_against_the_ideal() -> None:
    curves = frames.scaled(list(CASES.values()))
    assert curves is not None and curves.names == (f"{TRAIN}/cpus=all,parallel=ddp",)
    assert list(curves.points["ranks"]) == [1, 2]
    # 80 % of two ranks.
    assert list(curves.points["times"]) == [1.0, pytest.approx(1.6)]
    assert list(frames.ideal(curves)["times"]) == [1, 2]
    assert frames.scaled([CASES[DEFAULT]]) is None


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
    shown = sections.row(brought, readings)
    # Max-autotune is faster still, by pairs that may be anything.
    assert "▲ 2.00×" in shown and "* 1 disturbed" in shown and "2.50×" not in shown
    (said,) = break_even.advice(brought)
    assert "then compile=default" in said and "ahead of it" not in said
    assert "compile=max-autotune (2.50×, 2.49× to 2.51×): others took part of a core" in said
    rows = frames.speed_ups(frames.drawn(brought)).to_dict("records")
    assert [(row["text"], row["disturbed"]) for row in rows] == [("▲ 2.50×*", 3), ("▲ 2.00×", 0)]
    (alone,) = break_even.advice([case for case in brought if case.case == TUNED])
    assert "stay with eager" not in alone and "measure again when the machine is quiet" in alone


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
    found = read(made, VERSION, measured, measurements_for(measured))
    assert not found.on_cpu and READ.on_cpu
    assert {each.environment for each in eager_of([found])} == {environment().fingerprint}
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
    [partial(charts.speed_ups, 5, dark=False), partial(charts.scaling, 2, 8), partial(charts.batches, 6)],
    ids=lambda made: made.func.__name__,
)
def test_every_spec_is_vega_lite(made: partial[shared.Spec]) -> None:
    spec = made()
    assert alt.LayerChart.from_dict(spec).to_dict()["layer"]
    assert spec["usermeta"] == shared.RENDERED["usermeta"]
    with pytest.raises(ValidationError):
        alt.LayerChart.from_dict({**spec, "height": "tall"})
