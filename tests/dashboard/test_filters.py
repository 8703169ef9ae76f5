"""A selection goes into the URL and comes back the same; what nobody knows is said and replaced."""

from urllib.parse import parse_qs, urlsplit

import pytest
from builders import MLP, a_run, an_environment, an_outcome

from dashboard import filters, links


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
