"""Ratios between machines: which way they go, what is in their mean, what is refused, what an item costs."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import altair as alt
import pytest

from analysis.detection.default_watched_metrics import rules_of
from analysis.metrics import METRICS, Better
from dashboard.components.query_params import public
from dashboard.hardware import charts, load, normalisation, tables, view
from dashboard.hardware.normalisation import HardwareColumn, HardwareValue
from records.kinds import EnvironmentKind
from records.runs import RunPreset
from records.series import Headline, MeasurementConditions, ReleasePoint, SeriesKey, SeriesPoint
from support.builders.technique_runs import CPU, GPU, fingerprint, preset

NOW = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
A, B, C = "a/infer/-/eager", "b/infer/-/eager", "c/infer/-/eager"
OLD, NEW = "2.13.0+cpu", "2.14.0+cpu"


def cell(value: float, version: str = OLD, *harnesses: str) -> HardwareValue:
    return HardwareValue(value, value, value, 3, "replicate", NOW, version, "run-1", harnesses or ("h",))


def column(label: str, **values: float) -> HardwareColumn:
    named = {"a": A, "b": B, "c": C}
    return HardwareColumn(
        fingerprint(label), label, "preset", 1, {named[name]: cell(v) for name, v in values.items()}
    )


@pytest.mark.parametrize(
    ("value", "reference", "better", "expected"),
    [
        (10.0, 20.0, "lower", 2.0),
        (20.0, 10.0, "lower", 0.5),
        (20.0, 10.0, "higher", 2.0),
        (10.0, 20.0, "higher", 0.5),
        (10.0, 10.0, "lower", 1.0),
        (10.0, 20.0, "neither", None),
        (0.0, 20.0, "lower", None),
        (10.0, 0.0, "higher", None),
        (-1.0, 20.0, "lower", None),
        (math.inf, 20.0, "lower", None),
        (10.0, math.nan, "higher", None),
    ],
)
def test_above_one_is_better_whichever_way_a_metric_goes(
    value: float, reference: float, better: Better, expected: float | None
) -> None:
    assert normalisation.ratio(value, reference, better) == expected


def test_the_mean_is_geometric_over_the_cases_that_both_have() -> None:
    reference, other = column("slow", a=10.0, b=10.0, c=7.0), column("fast", a=5.0, b=2.5)
    found = normalisation.overall(other, reference, "lower")
    # Twice and four times as fast.
    assert found.ratio == pytest.approx(math.sqrt(8))
    assert (found.smallest, found.largest, found.n) == (2.0, 4.0, 2)
    assert found.left_out == ((C, "not measured on fast"),)
    back = normalisation.overall(reference, other, "lower")
    assert back.ratio is not None and found.ratio is not None
    assert back.ratio * found.ratio == pytest.approx(1)
    assert back.left_out == ((C, "not measured on fast"),)


def test_what_is_no_number_above_zero_is_left_out_with_a_reason() -> None:
    found = normalisation.overall(column("x", a=0.0, b=1.0), column("y", a=1.0, b=1.0), "lower")
    assert (found.n, found.ratio) == (1, 1.0)
    assert found.left_out == ((A, "one of the two is not a number above 0"),)
    nothing = normalisation.overall(column("x", a=1.0), column("y", b=1.0), "lower")
    assert (nothing.n, nothing.ratio) == (0, None)
    assert dict(nothing.left_out) == {A: "not measured on y", B: "not measured on x"}


def test_a_million_items_cost_what_the_hours_for_them_cost() -> None:
    # 1,000 items/s do a million in 1,000 s, which is 1/3.6 of an hour.
    assert normalisation.cost(3.6, 1000.0) == pytest.approx(1.0)
    assert normalisation.cost(7.2, 1000.0) == pytest.approx(2.0)
    assert normalisation.cost(3.6, 2000.0) == pytest.approx(0.5)
    assert [normalisation.cost(1.0, rate) for rate in (0.0, -1.0, math.nan, math.inf)] == [None] * 4


DDP = "a/train/batch=8/parallel=ddp,ranks=4"
INSTANCES = "a/infer/batch=8/instances=4"


@pytest.mark.parametrize(
    ("gpus", "machines", "case", "charged"),
    [
        # A machine of 8 GPUs at 24 an hour: 3 per GPU-hour, times the GPUs of the case.
        (8, 1, A, 3.0),
        (8, 1, DDP, 12.0),
        (8, 1, INSTANCES, 3.0),
        (8, 1, "a tool's own name", 3.0),
        (1, 1, A, 24.0),
        # A case cannot use four of two GPUs.
        (2, 1, DDP, 24.0),
        # Without GPUs the machine as a whole, and of two machines the one that it ran on.
        (0, 1, A, 24.0),
        (0, 1, DDP, 24.0),
        (0, 2, A, 12.0),
        (0, 2, "a/train/batch=8/nodes=2,parallel=ddp,ranks=2", 24.0),
    ],
)
def test_a_case_is_charged_for_the_gpus_that_it_uses(
    gpus: int, machines: int, case: str, charged: float
) -> None:
    where = HardwareColumn("f", "8 x H100", "p", 1, {case: cell(129_000.0)}, gpus, machines)
    (row,) = charts.costs([where], {"f": 24.0}, "USD").to_dict("records")
    assert row["cost_per_million_items"] == pytest.approx(charged / 3600 / 129_000 * 1e6)
    both = normalisation.cheapest(
        [where, HardwareColumn("g", "1 x H100", "p", 1, {case: cell(129_000.0)}, 1)],
        {"f": 24.0, "g": charged},
    )
    assert both[1][1] == pytest.approx(1.0)


def test_the_cheaper_hardware_is_named_over_the_cases_that_both_have() -> None:
    slow, fast = column("slow", a=100.0, b=100.0), column("fast", a=400.0, b=1600.0, c=1.0)
    # Four times the price; four times and sixteen times the items.
    found = normalisation.cheapest([slow, fast], {slow.hardware: 1.0, fast.hardware: 4.0})
    assert [(each.label, pytest.approx(ratio), n) for each, ratio, n in found] == [
        ("slow", 1.0, 2),
        ("fast", 0.5, 2),
    ]
    assert normalisation.cheapest([slow, fast], {}) == []


def test_runs_apart_are_compared_by_their_median() -> None:
    assert normalisation.relative_distance(10.0, 11.0) == pytest.approx(0.1)
    assert normalisation.relative_distance(0.0, 11.0) is None
    quiet, loud = column("x", a=1.0, b=1.0, c=1.0), column("y")
    cells = {
        case: HardwareValue(1.0, 1.0, 1.0, 2, "run", NOW, OLD, "r", "h", apart)
        for case, apart in ((A, 0.01), (B, 0.03), (C, 0.5))
    }
    assert normalisation.noise([HardwareColumn("f", "x", "p", 1, cells), loud]) == (0.03, 3)
    assert normalisation.noise([quiet, loud]) is None


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (2.0, "▲ 2.00×"),
        (0.5, "▼ 0.500×"),
        (1.001, "1.00×"),
        (0.999, "0.999×"),
        (1.03, "1.03×"),
        (1.04, "▲ 1.04×"),
        (1 / 1.03, "0.971×"),
        (1 / 1.04, "▼ 0.962×"),
        (None, "–"),
    ],
)
def test_only_what_is_beyond_the_noise_has_a_direction(ratio: float | None, text: str) -> None:
    assert charts.times(ratio, 0.0374) == text


def test_the_noise_is_what_runs_show_or_what_is_taken_for_it() -> None:
    latency, alone = "latency_floor", column("x", a=1.0)
    assert normalisation.threshold([alone], latency) == normalisation.UNKNOWN_NOISE

    def twice(apart: float) -> list[HardwareColumn]:
        return [HardwareColumn("f", "x", "p", 1, {A: replace(cell(1.0), apart=apart)}), alone]

    assert normalisation.threshold(twice(0.0374), latency) == 0.0374
    # Two runs that happen to agree prove no difference of 0.1 %.
    assert normalisation.threshold(twice(0.0001), latency) == rules_of(latency).floor > 0.01
    assert all(
        normalisation.threshold([alone], name) > 0 for name, one in METRICS.items() if one.better != "neither"
    )


def test_a_case_whose_runs_lie_far_apart_has_no_arrow_at_a_small_difference() -> None:
    reference = HardwareColumn("x", "x", "p", 1, {A: replace(cell(10.0), apart=0.2), B: cell(10.0)})
    other = HardwareColumn("y", "y", "p", 1, {A: cell(9.0), B: cell(9.0)})
    html = tables.cases([reference, other], METRICS["latency"], 0.05).html()
    assert html.count("▲") == 1 and html.count("1.11×") == 2


def point(case: str, value: float, version: str = OLD, environment: str = "e", n: int = 3) -> SeriesPoint:
    return SeriesPoint(
        *(case, "run-1", NOW, environment, version, "m", "h"), value, None, None, value, value, None, n
    )


def key(case: str, hardware: str, metric: str = "latency") -> SeriesKey:
    return SeriesKey(case, metric, hardware, hardware, "p", "quiet")


SIDES = (HardwareColumn("x", "x", "p", 1), HardwareColumn("y", "y", "p", 4))


def test_a_version_is_the_median_of_its_runs_and_one_run_its_replicates() -> None:
    releases = [
        ReleasePoint(key(A, "x"), OLD, 3, 11.0, 10.0, 12.0),
        ReleasePoint(key(A, "y"), OLD, 1, 5.0, 5.0, 5.0),
        ReleasePoint(key(A, "elsewhere"), OLD, 1, 5.0, 5.0, 5.0),
    ]
    points = [(key(A, "x"), point(A, 12.0)), (key(A, "y"), point(A, 5.0, n=5))]
    first, second = load.of_version(releases, points, {("x", "p"): ("h", "older")}, SIDES)
    assert (first.cells[A].value, first.cells[A].n, first.cells[A].of) == (11.0, 3, "run")
    assert first.cells[A].apart == pytest.approx(0.2)
    assert (first.cells[A].harnesses, second.cells[A].harnesses) == (("h", "older"), ("h",))
    assert (second.cells[A].value, second.cells[A].n, second.cells[A].of) == (5.0, 5, "replicate")
    assert (second.cpus, second.cells[A].apart) == (4, None)


def test_the_newest_point_shows_noise_only_against_one_of_its_own_environment() -> None:
    again = Headline(key(A, "x"), point(A, 10.0), point(A, 11.0))
    other = Headline(key(B, "x"), point(B, 10.0), point(B, 20.0, environment="other"))
    first, second = load.of_newest([again, other], SIDES)
    assert first.cells[A].apart == pytest.approx(0.1)
    assert first.cells[B].apart is None
    assert not second.cells


def test_the_canary_is_left_out_and_what_names_no_pytorch_is_not() -> None:
    unnamed = point(A, 10.0, version="")
    foreign = replace(unnamed, environment_kind=EnvironmentKind.FOREIGN)
    canary = replace(unnamed, case=C, environment_kind=EnvironmentKind.CANARY)
    first, _ = load.of_newest(
        [Headline(key(A, "x"), foreign, None), Headline(key(C, "x"), canary, None)], SIDES
    )
    # The canary measures the machine and not PyTorch.
    assert {case: each.value for case, each in first.cells.items()} == {A: 10.0}


def place(hardware: str, made: RunPreset, run: str = "run-1") -> MeasurementConditions:
    return MeasurementConditions(
        fingerprint(hardware), hardware, made.fingerprint, made.name, made.settings, run, NOW
    )


PLACES = [place(GPU, preset(pinned=30)), place(CPU, preset())]
PLACE_KEYS = [(fingerprint(each.hardware_label), each.preset) for each in PLACES]


def test_how_many_cpus_a_preset_pins_is_the_machines_own_and_all_else_is_not() -> None:
    assert normalisation.unlike(preset(pinned=30).settings, preset().settings) == ""
    capped = preset(ONEDNN_MAX_CPU_ISA="AVX2").settings
    assert normalisation.unlike(capped, preset().settings) == "ONEDNN_MAX_CPU_ISA"
    assert normalisation.unlike({**preset().settings, "threads": 4}, capped) == "ONEDNN_MAX_CPU_ISA, threads"


def test_hardware_under_other_settings_of_the_preset_is_refused() -> None:
    other = place("Cray", preset(OMP_WAIT_POLICY="active"))
    _, offer, _ = view.hardware({"to": [CPU]}, [*PLACES, other], frozenset(), {})
    assert [side.label for side in offer.sides] == [CPU, GPU]
    assert offer.refused == (("Cray", "OMP_WAIT_POLICY"),)
    # An older preset of the same name, alike the reference's, is compared.
    _, offer, _ = view.hardware({"to": [CPU]}, [other, *PLACES, place("Cray", preset())], frozenset(), {})
    assert [side.label for side in offer.sides] == [CPU, GPU, "Cray"]
    assert offer.refused == ()


def test_it_opens_on_the_newest_version_that_most_hardware_has() -> None:
    (gpu, gpus), (cpu, cpus) = PLACE_KEYS
    spread = frozenset({(OLD, gpu, gpus), (OLD, cpu, cpus), (NEW, gpu, gpus)})
    chosen, offer, complaints = view.hardware({}, PLACES, spread, {})
    assert (chosen.version, chosen.metric, chosen.preset) == (public(OLD), "latency_floor", "quiet")
    assert offer.versions == {public(NEW): 1, public(OLD): 2}
    assert {side.build for side in offer.sides} == {OLD}
    assert not complaints
    # No two share one: of each the newest.
    apart = frozenset({(OLD, cpu, cpus), (NEW, gpu, gpus)})
    assert view.hardware({}, PLACES, apart, {})[0].version == view.NEWEST
    assert view.hardware({}, PLACES[:1], frozenset({(NEW, gpu, gpus)}), {})[0].version == public(NEW)


def test_builds_of_one_release_are_one_version_that_machines_share() -> None:
    """Each machine has the wheel of its own CUDA; a newer release is on one of them only."""
    (gpu, gpus), (cpu, cpus) = PLACE_KEYS
    of_gpu, of_cpu, newer = "2.15.0+cu130", "2.15.0+cpu", "2.16.0+cu130"
    spread = frozenset(
        {(of_gpu, gpu, gpus), ("2.15.0+cu126", gpu, gpus), (of_cpu, cpu, cpus), (newer, gpu, gpus)}
    )
    chosen, offer, complaints = view.hardware({}, PLACES, spread, {})
    assert (chosen.version, offer.versions) == ("2.15.0", {"2.16.0": 1, "2.15.0": 2})
    assert {side.label: side.build for side in offer.sides} == {GPU: of_gpu, CPU: of_cpu}
    # An address may mean one build.
    chosen, offer, more = view.hardware({"version": ["2.15.0+cu126"]}, PLACES, spread, {})
    assert chosen.version == "2.15.0+cu126" and offer.versions["2.15.0+cu126"] == 1
    assert {side.label: side.build for side in offer.sides} == {GPU: "2.15.0+cu126", CPU: ""}
    assert complaints == more == []


def test_two_commits_are_two_versions() -> None:
    (gpu, gpus), (cpu, cpus) = PLACE_KEYS
    mine, theirs = "2.15.0a0+git4f0a1c2", "2.15.0a0+git5b1c9d2"
    spread = frozenset({(mine, gpu, gpus), (theirs, cpu, cpus), (OLD, gpu, gpus), (OLD, cpu, cpus)})
    chosen, offer, _ = view.hardware({}, PLACES, spread, {})
    assert chosen.version == public(OLD) and (offer.versions[mine], offer.versions[theirs]) == (1, 1)
    _, offer, _ = view.hardware({"version": [mine]}, PLACES, spread, {})
    assert {side.label: side.build for side in offer.sides} == {GPU: mine, CPU: ""}


def test_it_opens_on_a_reference_that_has_the_version() -> None:
    places = [*PLACES, place("1 x board", preset())]
    place_keys = [(fingerprint(each.hardware_label), each.preset) for each in places]
    spread = frozenset({(NEW, *place_keys[0]), (NEW, *place_keys[1]), (OLD, *place_keys[2])})
    chosen, offer, complaints = view.hardware({}, places, spread, {})
    assert (chosen.version, chosen.to) == (public(NEW), fingerprint(GPU))
    assert offer.versions == {public(NEW): 2, public(OLD): 1}
    assert [side.label for side in offer.sides] == [GPU, "1 x board", CPU] and not complaints
    # An address has its way, and where no version is chosen the first by name is the reference.
    assert view.hardware({"to": ["1 x board"]}, places, spread, {})[0].to == fingerprint("1 x board")
    assert view.hardware({"version": ["newest"]}, places, spread, {})[0].to == fingerprint("1 x board")
    # What it would be compared under as the reference must be what the version was measured under.
    later = [place(GPU, preset(OMP_WAIT_POLICY="active")), *places]
    assert view.hardware({}, later, spread, {})[0].to == fingerprint(CPU)


def test_it_opens_on_the_reference_that_shares_most_cases() -> None:
    (gpu, gpus), (cpu, cpus) = PLACE_KEYS
    spread = frozenset({(NEW, gpu, gpus), (NEW, cpu, cpus)})
    for version in (public(NEW), view.NEWEST):
        for shared, expected in (({}, GPU), ({cpu: 1}, CPU), ({gpu: 2, cpu: 1}, GPU)):
            chosen, offer, _ = view.hardware({"version": [version]}, PLACES, spread, shared)
            assert chosen.to == fingerprint(expected) == offer.sides[0].hardware
    # An address has its way.
    assert view.hardware({"to": [GPU]}, PLACES, spread, {cpu: 1})[0].to == gpu


def test_prices_in_an_address_are_those_that_were_given() -> None:
    chosen, _, _ = view.hardware({"price": [f"{GPU}:1234567.25"]}, PLACES, frozenset(), {})
    assert chosen.query()["price"] == [f"{fingerprint(GPU)[:12]}:1234567.25"]


def test_hardware_that_measured_nothing_is_no_reference_of_costs() -> None:
    bare, slow, fast = column("bare"), column("slow", a=100.0), column("fast", a=400.0)
    prices = {each.hardware: 1.0 for each in (bare, slow, fast)}
    found = normalisation.cheapest([bare, slow, fast], prices)
    assert [(each.label, ratio) for each, ratio, _ in found] == [("slow", 1.0), ("fast", pytest.approx(0.25))]


def test_the_address_holds_the_whole_view() -> None:
    query = {
        "metric": ["throughput"],
        "version": ["newest"],
        "preset": ["quiet"],
        "to": [fingerprint(CPU)[:12]],
        "price": [f"{fingerprint(GPU)[:12]}:31.25"],
    }
    chosen, _, complaints = view.hardware(query, PLACES, frozenset(), {})
    assert chosen.query() == query
    assert not complaints
    by_label = view.hardware({**query, "price": [f"{GPU}:31.25"]}, PLACES, frozenset(), {})[0]
    assert by_label == chosen


@pytest.mark.parametrize(
    "price", ["8 x H200", "8 x H200:0", "8 x H200:-3", "8 x H200:free", "8 x H200:nan", ":2"]
)
def test_a_price_that_is_none_is_said(price: str) -> None:
    chosen, _, complaints = view.hardware({"price": [price]}, PLACES, frozenset(), {})
    assert chosen.prices == () and len(complaints) == 1


def test_a_price_of_unknown_hardware_names_the_nearest() -> None:
    _, _, complaints = view.hardware({"price": ["8 x H20:2"]}, PLACES, frozenset(), {})
    assert 'did you mean "8 x H200"' in complaints[0]


def test_the_address_overrides_the_configured_price() -> None:
    chosen, offer, _ = view.hardware({"price": [f"{GPU}:2"]}, PLACES, frozenset(), {})
    configured = {GPU: 31.0, CPU: 0.1, "another": 7.0}
    assert view.prices(offer, chosen, configured) == {fingerprint(GPU): 2.0, fingerprint(CPU): 0.1}


def test_columns_of_other_versions_and_harnesses_say_so() -> None:
    reference = HardwareColumn("x", "x", "p", 1, {A: cell(10.0)})
    other = HardwareColumn("y", "y", "p", 1, {A: cell(5.0, NEW, "other")})
    html = tables.cases([reference, other], METRICS["latency"], 0.05).html()
    assert f"torch {NEW}" in html and "other harness" in html
    assert html.count("2.00×") == 1
    # A median over runs of two harnesses, of which one is the reference's.
    mixed = HardwareColumn("z", "z", "p", 1, {A: cell(5.0, OLD, "h", "other")})
    html = tables.cases([reference, mixed], METRICS["latency"], 0.05).html()
    assert "harness partly another" in html and "other harness" not in html


def test_very_many_cases_leave_the_chart_to_bars_and_means() -> None:
    cases = {f"m{number}/infer/-/eager": cell(1.0 + number) for number in range(1000)}
    both = [HardwareColumn("x", "x", "p", 1, cases), HardwareColumn("y", "y", "p", 1, cases)]
    latency = METRICS["latency"]
    drawn = charts.overall(both, [normalisation.overall(each, both[0], "lower") for each in both], 0.05)
    assert len(drawn) == 2
    assert charts.dots(both, drawn, latency).empty
    assert len(charts.cells(both, latency)) == 2000
    table = tables.cases(both, latency, 0.05)
    assert (table.html().count("<tr>"), table.hidden_rows) == (
        1 + tables.MOST_CASES,
        1000 - tables.MOST_CASES,
    )


def test_the_spec_is_vega_lite() -> None:
    spec = charts.machines(3, "Latency", dark=True)
    assert alt.LayerChart.from_dict(spec).to_dict()["layer"]
    # A row each, and the axis below.
    assert spec["height"] - charts.machines(2, "Latency", dark=True)["height"] == 32
