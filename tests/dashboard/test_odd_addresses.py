"""Addresses that make no sense: every page says so in few words, and shows what there is."""

import pytest

from dashboard.components.query_params import unknown_parameters
from dashboard.navigation import PAGES, Page
from support.builders.run_records import RESNET
from support.pages import OVERVIEW, Open, html, text

#: Python refuses to read a number of so many digits.
DIGITS = "9" * 5000
NONSENSE = ("\0", DIGITS, "nan", "'; DROP TABLE run;--", "<script>alert(1)</script>", "x" * 100_000)
#: Each page with the names of its address of which one value counts.
NAMES = {
    OVERVIEW: ("days",),
    "app_pages/upgrade.py": ("run", "from", "to", "hardware", "metric", "threshold", "weight", "must"),
    "app_pages/trends.py": ("metric", "hardware", "preset", "axis", "scale", "baseline", "case", "at"),
    "app_pages/techniques.py": ("hardware", "preset", "version", "run", "workload", "baseline"),
    "app_pages/hardware.py": ("metric", "version", "preset", "to", "price"),
    "app_pages/utilisation.py": ("run", "case", "environment", "replicate", "device"),
    "app_pages/regressions.py": ("finding", "state", "schedule", "direction"),
    "app_pages/run_detail.py": ("run", "case", "environment", "replicate", "page", "suite", "machine"),
    "app_pages/machines.py": ("machine",),
}


@pytest.mark.parametrize("page", NAMES)
def test_nonsense_is_said_and_what_there_is_is_shown(open_page: Open, full_url: str, page: str) -> None:
    at = open_page(full_url, page)
    for wanted in NONSENSE:
        at.query_params.clear()
        for name in NAMES[page]:
            at.query_params[name] = wanted
        at.run()
        assert not at.exception, (page, wanted[:30])
        shown = text(at)
        assert "Traceback" not in shown and "<script" not in html(at)
        assert all(len(str(each.value)) < 2500 for each in at.warning)
        assert len(at.warning) <= 2 * len(NAMES[page])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path or "overview")
def test_a_parameter_that_a_page_does_not_read_is_said_in_one_line(
    open_page: Open, full_url: str, page: Page
) -> None:
    at = open_page(full_url, page.script, alnog="versions")
    (warning,) = [str(each.value).replace("\\", "") for each in at.warning]
    assert warning.startswith('Unknown parameter "alnog"') and warning.endswith("; it is ignored.")
    assert set(NAMES[page.script]) <= set(page.parameters)


def test_the_nearest_parameter_is_named() -> None:
    trends = next(page for page in PAGES if page.path == "trends")
    (warning,) = unknown_parameters({"bsaeline": ["2.13.0"], "metric": ["latency"]}, trends.parameters)
    assert 'did you mean "baseline"?' in warning
    assert unknown_parameters({}, trends.parameters) == []


@pytest.mark.parametrize("wanted", ["-3", "0", "999", "two"])
def test_a_page_that_a_list_does_not_have_is_said(open_page: Open, full_url: str, wanted: str) -> None:
    at = open_page(full_url, "app_pages/run_detail.py")
    at.query_params["page"] = wanted
    at.run()
    (warning,) = [str(each.value).replace("\\", "") for each in at.warning]
    assert f'"{wanted}" is no page' in warning


def test_a_page_of_a_list_beyond_all_numbers_is_its_last(open_page: Open, full_url: str) -> None:
    at = open_page(full_url, "app_pages/run_detail.py")
    at.query_params["page"] = DIGITS
    at.run()
    assert not at.exception and "run-0" in html(at)
    at = open_page(full_url, "app_pages/run_detail.py", run="run-11", outcomes=DIGITS)
    assert not at.exception and "Outcomes" in text(at)


def test_hundreds_of_wrong_names_are_a_few_sentences(open_page: Open, full_url: str) -> None:
    wanted = [f"nothing_{number}/infer/-/eager" for number in range(900)]
    at = open_page(full_url, "app_pages/trends.py", case=wanted)
    assert not at.exception
    assert len(at.warning) < 15
    assert str(at.warning[-1].value) == "And 192 more like these."


def test_a_right_name_with_a_sign_too_many_is_still_found(open_page: Open, full_url: str) -> None:
    at = open_page(full_url, "app_pages/run_detail.py", run="run-11\0", case=RESNET, replicate="1")
    assert not at.warning and "Measure it again:" in text(at)


@pytest.mark.parametrize("price", ["1e-320", "1e308", "0", "-1", "nan", "inf"])
def test_an_impossible_price_is_no_price(open_page: Open, full_url: str, price: str) -> None:
    at = open_page(full_url, "app_pages/hardware.py", price=[f"8 x H200:{price}", "8 x H200:2.5"])
    assert not at.exception
    assert f"8 x H200\\:{price}" in str(at.warning[0].value) and "is no price" in str(at.warning[0].value)
    at.query_params["price"] = [f"8 x H200:{price}"]
    assert not at.run().exception
