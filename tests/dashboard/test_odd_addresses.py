"""Addresses that make no sense: every page says so in few words, and shows what there is."""

from urllib.parse import parse_qs, urlsplit

import pytest

from dashboard.components.query_params import unknown_parameters
from dashboard.navigation import page_at
from support.builders.run_records import RESNET
from support.pages import (
    HARDWARE,
    HISTORY,
    MACHINES,
    PROFILE,
    REGRESSIONS,
    RUN_PAIR,
    RUNS,
    SCHEDULE,
    TECHNIQUES,
    TODAY,
    UPGRADE,
    UTILISATION,
    Open,
    html,
    text,
)

#: Python refuses to read a number of so many digits.
DIGITS = "9" * 5000
NONSENSE = ("\0", DIGITS, "nan", "'; DROP TABLE run;--", "<script>alert(1)</script>", "x" * 100_000)
#: Each page with the names of its address of which one value counts.
NAMES = {
    TODAY: ("days",),
    UPGRADE: ("run", "from", "to", "hardware", "metric", "threshold", "weight", "must", "shown"),
    HISTORY: ("metric", "hardware", "preset", "axis", "scale", "baseline", "case", "at"),
    TECHNIQUES: ("hardware", "preset", "version", "run", "workload", "baseline"),
    HARDWARE: ("metric", "version", "preset", "to", "price"),
    RUN_PAIR: ("a", "b", "metric"),
    UTILISATION: ("run", "case", "environment", "replicate", "device"),
    PROFILE: ("run", "case", "against"),
    REGRESSIONS: ("finding", "state", "schedule", "direction"),
    RUNS: ("run", "case", "environment", "replicate", "page", "suite", "machine"),
    MACHINES: ("machine",),
}


@pytest.mark.parametrize("page", NAMES)
def test_nonsense_is_said_and_what_there_is_is_shown(open_page: Open, full_url: str, page: str) -> None:
    at = open_page(full_url, page)
    for wanted in NONSENSE:
        for name in NAMES[page]:
            at.query_params[name] = wanted
        at.run()
        assert not at.exception, (page, wanted[:30])
        shown = text(at)
        assert "Traceback" not in shown and "<script" not in html(at)
        assert all(len(str(each.value)) < 2500 for each in at.warning)
        assert len(at.warning) <= 2 * len(NAMES[page])


@pytest.mark.parametrize("address", [*NAMES, SCHEDULE])
def test_a_parameter_that_a_view_does_not_read_is_said_in_one_line(
    open_page: Open, full_url: str, address: str
) -> None:
    at = open_page(full_url, address, alnog="versions")
    (warning,) = [str(each.value).replace("\\", "") for each in at.warning]
    assert warning.startswith('Unknown parameter "alnog"') and warning.endswith("; it is ignored.")


@pytest.mark.parametrize("address", NAMES)
def test_the_parameters_of_every_view_are_known(address: str) -> None:
    parts = urlsplit(address)
    known = page_at(parts.path.strip("/")).parameters(parse_qs(parts.query))
    assert set(NAMES[address]) <= set(known)


@pytest.mark.parametrize("path", ["compare", "explore", "runs"])
def test_an_unknown_view_is_said_and_the_first_one_is_shown(
    open_page: Open, full_url: str, path: str
) -> None:
    at = open_page(full_url, f"/{path}", view="upgraed")
    (warning,) = [str(each.value).replace("\\", "") for each in at.warning]
    assert warning.startswith('Unknown view "upgraed"')
    assert at.button_group(key="choose-view").value == page_at(path).views[0].name


def test_the_nearest_parameter_is_named() -> None:
    query = {"view": ["history"], "bsaeline": ["2.13.0"], "metric": ["latency"]}
    known = page_at("explore").parameters(query)
    (warning,) = unknown_parameters(query, known)
    assert 'did you mean "baseline"?' in warning
    assert unknown_parameters({}, known) == []


@pytest.mark.parametrize("wanted", ["-3", "0", "999", "two"])
def test_a_page_that_a_list_does_not_have_is_said(open_page: Open, full_url: str, wanted: str) -> None:
    at = open_page(full_url, RUNS)
    at.query_params["page"] = wanted
    at.run()
    (warning,) = [str(each.value).replace("\\", "") for each in at.warning]
    assert f'"{wanted}" is not a page' in warning


def test_a_page_of_a_list_beyond_all_numbers_is_its_last(open_page: Open, full_url: str) -> None:
    at = open_page(full_url, RUNS)
    at.query_params["page"] = DIGITS
    at.run()
    assert not at.exception and "run-0" in html(at)
    at = open_page(full_url, RUNS, run="run-11", outcomes=DIGITS)
    assert not at.exception and "Outcomes" in text(at)


def test_hundreds_of_wrong_names_are_a_few_sentences(open_page: Open, full_url: str) -> None:
    wanted = [f"nothing_{number}/infer/-/eager" for number in range(900)]
    at = open_page(full_url, HISTORY, case=wanted)
    assert not at.exception
    assert len(at.warning) < 15
    assert str(at.warning[-1].value) == "And 192 more like these."


def test_a_right_name_with_a_sign_too_many_is_still_found(open_page: Open, full_url: str) -> None:
    at = open_page(full_url, RUNS, run="run-11\0", case=RESNET, replicate="1")
    assert not at.warning and "Measure it again:" in text(at)


@pytest.mark.parametrize("price", ["1e-320", "1e308", "0", "-1", "nan", "inf"])
def test_an_impossible_price_is_no_price(open_page: Open, full_url: str, price: str) -> None:
    at = open_page(full_url, HARDWARE, price=[f"8 x H200:{price}", "8 x H200:2.5"])
    assert not at.exception
    assert f"8 x H200\\:{price}" in str(at.warning[0].value) and "is not a price" in str(at.warning[0].value)
    at.query_params["price"] = [f"8 x H200:{price}"]
    assert not at.run().exception
