"""A selection goes into the URL and comes back the same; what nobody knows is said and replaced."""

from urllib.parse import parse_qs, urlsplit

import pytest
from builders import MLP, RESNET, a_run, an_environment, an_outcome

from dashboard import filters, links
from db.records import SeriesKey

XEON, EPYC, QUIET = "a1" * 32, "b2" * 32, "c3" * 32


def key(case: str, metric: str = "latency", hardware: str = XEON, profile: str = QUIET) -> SeriesKey:
    label = {XEON: "Xeon, 2 cores", EPYC: "EPYC, 64 cores"}[hardware]
    return SeriesKey(case, metric, hardware, label, profile, "quiet")


KEYS = [
    key(MLP),
    key(RESNET),
    key(MLP, "throughput"),
    key(RESNET, "throughput"),
    key(MLP, "latency", EPYC),
]


def test_without_a_query_the_view_is_the_latency_of_the_first_cases_where_most_is_known() -> None:
    chosen, offer, complaints = filters.trends({}, KEYS)
    assert chosen == filters.Trends("latency", XEON, QUIET, "date", (MLP, RESNET))
    assert complaints == []
    assert offer.metrics == ("latency", "throughput")
    assert dict(offer.hardware) == {XEON: "Xeon, 2 cores", EPYC: "EPYC, 64 cores"}


@pytest.mark.parametrize(
    "chosen",
    [
        filters.Trends("throughput", XEON, QUIET, "version", (RESNET,)),
        filters.Trends("latency", EPYC, QUIET, "date", (MLP,)),
        filters.Trends("latency", XEON, QUIET, "date", (RESNET, MLP)),
    ],
)
def test_a_selection_survives_the_url_in_both_spellings(chosen: filters.Trends) -> None:
    assert filters.trends(chosen.query(), KEYS)[::2] == (chosen, [])
    assert filters.trends(parse_qs(urlsplit(chosen.address).query), KEYS)[::2] == (chosen, [])


def test_hardware_can_be_typed_by_its_label() -> None:
    chosen, _, complaints = filters.trends({"hardware": ["EPYC, 64 cores"]}, KEYS)
    assert (chosen.hardware, complaints) == (EPYC, [])


@pytest.mark.parametrize(
    ("query", "near"),
    [
        ({"metric": ["latncy"]}, "latency"),
        ({"hardware": ["Xeon, 3 cores"]}, "Xeon, 2 cores"),
        ({"profile": ["quite"]}, "quiet"),
        ({"axis": ["versions"]}, "version"),
        ({"case": ["resnet5"]}, RESNET),
    ],
)
def test_an_unknown_slug_is_one_sentence_with_the_nearest_and_the_view_falls_back(
    query: dict[str, list[str]], near: str
) -> None:
    chosen, _, complaints = filters.trends(query, KEYS)
    assert chosen == filters.trends({}, KEYS)[0]
    (sentence,) = complaints
    assert near in sentence
    assert next(iter(query.values()))[0] in sentence
    assert "\n" not in sentence


def test_a_case_without_the_metric_is_dropped_and_said_and_the_others_stay() -> None:
    chosen, _, complaints = filters.trends({"hardware": [EPYC[:12]], "case": [MLP, RESNET]}, KEYS)
    assert chosen.cases == (MLP,)
    assert len(complaints) == 1


def test_more_cases_than_colours_are_cut_and_said() -> None:
    many = [f"mlp_overhead/infer/batch={n}/eager" for n in range(8)]
    chosen, _, complaints = filters.trends({"case": many}, [key(case) for case in many])
    assert chosen.cases == tuple(many[:6])
    assert "6" in complaints[0]


def test_labels_that_two_fingerprints_share_are_told_apart() -> None:
    other = SeriesKey(MLP, "latency", EPYC, "Xeon, 2 cores", QUIET, "quiet")
    _, offer, _ = filters.trends({}, [key(MLP), other])
    assert len(set(offer.hardware.values())) == 2


def test_an_outcome_is_found_by_what_its_link_says() -> None:
    run = a_run()
    environment = an_environment("2.14.0", name="b")
    outcomes = [an_outcome(MLP, replicate=r, environment=environment) for r in (0, 1)]
    address = links.outcome(run.id, MLP, environment.fingerprint, 1)
    found, complaints = filters.outcome(parse_qs(urlsplit(address).query), run, outcomes)
    assert (found, complaints) == (outcomes[1], [])
    assert filters.outcome({}, run, outcomes) == (None, [])
    missing, (sentence,) = filters.outcome({"case": [MLP], "replicate": ["7"]}, run, outcomes)
    assert missing is None
    assert "replicate 7" in sentence
    _, (sentence,) = filters.outcome({"case": ["mlp"]}, run, outcomes)
    assert MLP in sentence


@pytest.mark.parametrize(
    ("wanted", "page"), [(None, 1), ("2", 2), ("9", 3), ("0", 1), ("-1", 1), ("two", 1), ("²", 1)]
)
def test_a_page_is_always_one_that_exists(wanted: str | None, page: int) -> None:
    query = {} if wanted is None else {"page": [wanted]}
    assert filters.page(query, rows=101, per_page=50) == page
