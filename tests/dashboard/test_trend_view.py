"""The address of the Trends page: old links stay valid, a selection comes back the same, the rest is said."""

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from analysis.detection.default_watched_metrics import HEADLINE
from dashboard.components import links
from dashboard.trends import view
from dashboard.trends.view import Trends
from records.series import SeriesKey
from support.builders.run_records import BERT, MLP, RESNET

XEON, EPYC, QUIET, NOISY = "a1" * 32, "b2" * 32, "c3" * 32, "d4" * 32
LABELS = {XEON: "Xeon, 2 cores", EPYC: "EPYC, 64 cores"}


def key(case: str, metric: str = "latency", hardware: str = XEON, preset: str = QUIET) -> SeriesKey:
    return SeriesKey(
        case, metric, hardware, LABELS[hardware], preset, "quiet" if preset == QUIET else "noisy"
    )


KEYS = [
    key(MLP),
    key(RESNET),
    key(MLP, "throughput"),
    key(RESNET, "throughput"),
    key(MLP, "latency", EPYC),
    key(BERT, "latency", EPYC, NOISY),
]
OPENING = Trends("latency", (XEON,), QUIET, "date", (MLP, RESNET))


def parsed(address: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(address).query)


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        # As they were written before lines could be of several kinds of hardware.
        (
            "/explore?view=history&metric=latency&hardware=a1a1a1a1a1a1&preset=c3c3c3c3c3c3&axis=date"
            "&case=mlp_overhead%2Finfer%2Fbatch%3D8%2Feager",
            Trends("latency", (XEON,), QUIET, "date", (MLP,)),
        ),
        (
            "/explore?view=history&metric=throughput&hardware=a1a1a1a1a1a1&preset=c3c3c3c3c3c3&axis=version"
            "&case=resnet50%2Finfer%2Fbatch%3D8%2Cimage%3D224%2Feager"
            "&case=mlp_overhead%2Finfer%2Fbatch%3D8%2Feager",
            Trends("throughput", (XEON,), QUIET, "version", (RESNET, MLP)),
        ),
        (
            "/explore?view=history&hardware=EPYC%2C+64+cores",
            Trends("latency", (EPYC,), QUIET, "date", (MLP,)),
        ),
        # As they are now.
        (
            "/explore?view=history&metric=latency&hardware=a1a1a1a1a1a1&hardware=b2b2b2b2b2b2&preset=c3c3c3c3c3c3"
            "&axis=date&scale=relative&baseline=2.13.0&case=mlp_overhead%2Finfer%2Fbatch%3D8%2Feager"
            "&track=2.13.0&track=nightly&at=run-1",
            Trends(
                metric="latency",
                hardware=(XEON, EPYC),
                preset=QUIET,
                axis="date",
                cases=(MLP,),
                tracks=("2.13.0", "nightly"),
                scale="relative",
                baseline="2.13.0",
                at="run-1",
            ),
        ),
        (
            "/explore?view=history&metric=latency&axis=date&scale=absolute&points=all",
            Trends("latency", (XEON,), QUIET, "date", (MLP, RESNET), points="all"),
        ),
    ],
)
def test_a_link_means_today_what_it_meant_when_it_was_written(address: str, meant: Trends) -> None:
    assert view.trends(parsed(address), KEYS)[::2] == (meant, [])


@pytest.mark.parametrize(
    "chosen",
    [
        replace(OPENING, metric="throughput", axis="version", cases=(RESNET,)),
        replace(OPENING, hardware=(EPYC, XEON), cases=(MLP,), tracks=("nightly", "a b&c")),
        replace(OPENING, scale="relative", baseline="2.13.0", at="20261122-002524-2a7dc338"),
        replace(OPENING, points="all"),
    ],
)
def test_a_selection_survives_the_url_in_both_spellings(chosen: Trends) -> None:
    assert view.trends(chosen.query(), KEYS)[::2] == (chosen, [])
    assert view.trends(parsed(chosen.address), KEYS)[::2] == (chosen, [])


def test_links_of_other_pages_are_understood() -> None:
    address = links.trends("latency", XEON, QUIET, RESNET, MLP, at="run-3")
    expected = replace(OPENING, cases=(RESNET, MLP), at="run-3")
    assert view.trends(parsed(address), KEYS)[::2] == (expected, [])


def test_without_a_query_the_view_is_the_latency_of_the_first_cases_where_most_is_known() -> None:
    chosen, offer, complaints = view.trends({}, KEYS)
    assert (chosen, complaints) == (OPENING, [])
    assert offer.metrics == ("latency", "throughput")
    assert dict(offer.hardware) == LABELS


def test_an_address_of_cases_alone_opens_their_hardware() -> None:
    """As the search links them: it finds cases of any hardware, preset and metric."""
    odd = key(RESNET, "tool.odd", EPYC, NOISY)
    opening = [(XEON, QUIET), (EPYC, QUIET), (EPYC, NOISY)]
    for case, metric, place in (
        (MLP, "latency", ((XEON,), QUIET)),
        (BERT, "latency", ((EPYC,), NOISY)),
        ("rare/infer/-/eager", "tool.odd", ((EPYC,), NOISY)),
    ):
        keys = [*KEYS, odd, key("rare/infer/-/eager", "tool.odd", EPYC, NOISY)]
        for places in (opening, []):
            chosen, _, complaints = view.trends({"case": [case]}, keys, places)
            assert (chosen.cases, chosen.metric, complaints) == ((case,), metric, [])
            assert (chosen.hardware, chosen.preset) == place or not places


def test_it_opens_on_the_newest_run_where_nothing_is_our_own() -> None:
    def of(metric: str, hardware: str) -> SeriesKey:
        return SeriesKey("a/infer/-/eager", metric, hardware, hardware, "preset", "preset")

    keys = [of("latency", "old"), of("latency", "older"), of("tool.x", "new"), of("tool.y", "new")]
    newest = [("nothing", "measured"), ("new", "preset"), ("old", "preset")]
    chosen, _, complaints = view.trends({}, keys, newest)
    assert (chosen.metric, chosen.hardware, complaints) == ("tool.x", ("new",), [])
    assert view.trends({"metric": ["latency"]}, keys, newest)[0].hardware == ("old",)
    assert view.trends({}, keys)[0].metric == "latency"


@pytest.mark.parametrize(
    ("query", "near"),
    [
        ({"metric": ["latncy"]}, "latency"),
        ({"hardware": ["Xeon, 3 cores"]}, "Xeon, 2 cores"),
        ({"preset": ["quite"]}, "quiet"),
        ({"axis": ["versions"]}, "version"),
        ({"scale": ["relativ"]}, "relative"),
        ({"points": ["al"]}, "all"),
        ({"case": ["resnet5"]}, RESNET),
    ],
)
def test_an_unknown_slug_is_one_sentence_with_the_nearest_and_the_view_falls_back(
    query: dict[str, list[str]], near: str
) -> None:
    chosen, _, (sentence,) = view.trends(query, KEYS)
    assert chosen == OPENING
    assert near in sentence and next(iter(query.values()))[0] in sentence
    assert "\n" not in sentence


def test_a_case_without_the_metric_is_dropped_and_said_and_the_others_stay() -> None:
    query = {"hardware": [EPYC[:12]], "preset": ["quiet"], "case": [MLP, RESNET]}
    chosen, _, complaints = view.trends(query, KEYS)
    assert chosen.cases == (MLP,)
    assert len(complaints) == 1


def test_cases_times_hardware_are_lines_and_hardware_without_any_is_said() -> None:
    chosen, _, complaints = view.trends({"hardware": [XEON, EPYC], "case": [RESNET, MLP]}, KEYS)
    assert chosen.lines(KEYS) == (key(RESNET), key(MLP), key(MLP, "latency", EPYC))
    assert complaints == []
    chosen, _, complaints = view.trends({"hardware": [XEON, EPYC], "case": [RESNET]}, KEYS)
    assert chosen.lines(KEYS) == (key(RESNET),)
    assert complaints == ["EPYC, 64 cores has none of these cases under preset quiet."]


def test_more_lines_than_colours_are_cut_and_said() -> None:
    many = [f"mlp_overhead/infer/batch={n}/eager" for n in range(8)]
    chosen, _, (sentence,) = view.trends({"case": many}, [key(case) for case in many])
    assert chosen.cases == tuple(many[:6]) and "6 lines: it shows the first of 8 cases" in sentence
    both = [key(case, "latency", hardware) for case in many[:4] for hardware in (XEON, EPYC)]
    chosen, _, (sentence,) = view.trends({"case": many[:4], "hardware": [XEON, EPYC]}, both)
    assert "6 lines: only the first of 8" in sentence
    assert chosen.lines(both) == tuple(both[:6])


def test_labels_that_two_fingerprints_share_are_distinguished() -> None:
    other = SeriesKey(MLP, "latency", EPYC, "Xeon, 2 cores", QUIET, "quiet")
    _, offer, _ = view.trends({}, [key(MLP), other])
    assert len(set(offer.hardware.values())) == 2


def test_what_only_points_can_tell_is_resolved_with_them() -> None:
    wanted = replace(OPENING, tracks=("nightly", "x"), scale="relative", baseline="2.12.9", at="gone")
    chosen, complaints = view.resolve_selection(
        wanted, ["nightly", "other"], ["2.12.0", "2.13.0"], "2.13.0", ["run-1"]
    )
    assert (chosen.tracks, chosen.baseline, chosen.at) == (("nightly",), "2.13.0", "")
    assert len(complaints) == 3
    assert 'track "x"' in complaints[0] and 'did you mean "2.12.0"?' in complaints[1]
    assert complaints[2] == "Run gone has no point in this selection."


@pytest.mark.parametrize("baseline", ["2.12.0", "2.13.0+cpu", "run-1"])
def test_a_version_with_or_without_its_local_part_and_a_run_can_be_the_baseline(baseline: str) -> None:
    wanted = replace(OPENING, scale="relative", baseline=baseline, at="run-1")
    known = ["2.12.0", "2.13.0", "2.13.0+cpu"]
    assert view.resolve_selection(wanted, [], known, "2.13.0", ["run-1"]) == (wanted, [])


def test_the_baseline_that_is_taken_by_default_is_pinned_in_the_address() -> None:
    chosen, _ = view.resolve_selection(replace(OPENING, scale="relative"), [], ["2.13.0"], "2.13.0", [])
    assert "baseline=2.13.0" in chosen.address
    chosen, _ = view.resolve_selection(OPENING, [], ["2.13.0"], "2.13.0", [])
    assert "baseline" not in chosen.address


def test_a_choice_of_other_lines_gives_up_what_was_theirs() -> None:
    chosen = replace(OPENING, tracks=("nightly",), at="run-1")
    assert chosen.after("metric", "throughput") == replace(chosen, metric="throughput")
    assert chosen.after("cases", (MLP,)) == replace(chosen, cases=(MLP,), at="")
    assert chosen.after("hardware", (EPYC,)) == replace(chosen, hardware=(EPYC,), tracks=(), at="")


def test_a_view_opens_on_the_metric_that_nights_watch() -> None:
    keys = [*KEYS, key(MLP, "latency_floor"), key(MLP, "rss_peak")]
    assert view.trends({}, keys)[0].metric == HEADLINE
    # Where it was not measured, as the catalogue lists them.
    assert view.trends({}, [*KEYS, key(MLP, "rss_peak")])[0].metric == "latency"
    assert view.trends({"metric": ["throughput"]}, keys)[0].metric == "throughput"


COMPILED = RESNET.removesuffix("eager") + "compile=default"
RESNETS = RESNET.removesuffix("/eager")


def test_a_workload_limits_history_to_its_cases() -> None:
    keys = [*KEYS, key(COMPILED), key(COMPILED, "latency", EPYC, NOISY)]
    chosen, offer, complaints = view.trends({"workload": [RESNETS]}, keys)
    assert (chosen.cases, offer.cases, complaints) == ((COMPILED, RESNET), (COMPILED, RESNET), [])
    assert RESNETS in offer.workloads and len(offer.workloads) == 2
    assert view.trends(parsed(chosen.address), keys)[::2] == (chosen, [])
    # Another workload has cases of its own, and cases of several are of none.
    assert chosen.after("workload", "mlp_overhead/infer/batch=8").cases == ()
    assert chosen.after("cases", (RESNET, MLP)).workload == "" == chosen.after("workload", "").workload
    assert chosen.after("workload", "").cases == chosen.cases
    assert chosen.after("cases", (RESNET,)).workload == RESNETS


def test_cases_of_an_address_count_before_a_workload_that_they_are_not_of() -> None:
    chosen, offer, complaints = view.trends({"workload": [RESNETS], "case": [MLP]}, KEYS)
    assert (chosen.cases, chosen.workload, len(complaints)) == ((MLP,), "", 1)
    assert RESNET in offer.cases


def test_a_workload_opens_where_it_was_measured() -> None:
    bert = BERT.rpartition("/")[0]
    chosen, _, complaints = view.trends({"workload": [bert]}, KEYS, [(XEON, QUIET), (EPYC, NOISY)])
    assert (chosen.hardware, chosen.preset, chosen.cases, complaints) == ((EPYC,), NOISY, (BERT,), [])
