"""Versions in their order: releases as versions and not as texts, nightlies by their date."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from runner.environments.versions import age, around, date_of, is_it, nightlies, of_day, parse, sort_versions

numbers = st.integers(0, 30)
releases = st.builds(
    lambda major, minor, patch, end: f"{major}.{minor}.{patch}{end}",
    *(numbers, numbers, numbers),
    st.sampled_from(["", "", "rc1", "rc10", "a0+git0123", "+cpu", "+cu130", ".post1", ".dev7"]),
)
days = st.dates(date(2020, 1, 1), date(2035, 12, 31))
made_at_night = st.builds(
    lambda minor, day, end: f"2.{minor}.0.dev{day:%Y%m%d}{end}",
    *(numbers, days, st.sampled_from(["", "+cpu", "+cu130"])),
)
versions = st.one_of(releases, made_at_night)


@given(st.lists(releases))
def test_releases_stand_as_pep_440_has_them(texts: list[str]) -> None:
    assert [Version(text) for text in sort_versions(texts)] == sorted({Version(text) for text in texts})


@given(st.lists(made_at_night))
def test_nightlies_stand_by_their_date_whatever_their_number(texts: list[str]) -> None:
    found = [date_of(Version(text)) for text in sort_versions(texts)]
    assert None not in found
    assert found == sorted(day for day in found if day)


@given(st.lists(versions))
def test_the_order_is_one_whatever_order_they_come_in(texts: list[str]) -> None:
    assert sort_versions(texts) == sort_versions(reversed(texts))
    assert sort_versions(sort_versions(texts)) == sort_versions(texts)
    first = [bool(date_of(Version(text))) for text in sort_versions(texts)]
    assert first == sorted(first), "all releases, then all nightlies"


@given(versions, versions, versions)
def test_what_is_older_than_something_older_is_older(one: str, two: str, three: str) -> None:
    a, b, c = (age(Version(text)) for text in (one, two, three))
    assert not (a < b and b < c) or a < c
    assert (a < b) + (b < a) + (a == b) == 1


@given(versions, st.lists(versions, min_size=1, max_size=12), st.integers(1, 6))
def test_what_is_around_a_version_is_what_is_nearest(wanted: str, offered: list[str], count: int) -> None:
    known = sort_versions(offered)
    near = around(wanted, offered, count)
    assert len(near) == min(count, len(known))
    at = known.index(near[0])
    assert known[at : at + len(near)] == near, "a stretch of the list without a gap"
    older = [text for text in known if age(Version(text)) < age(Version(wanted))]
    if older and count > 1 and len(known) > len(older):
        assert older[-1] in near and known[len(older)] in near, "the neighbours on both sides"


def test_ten_is_more_than_nine_and_what_is_no_version_is_left_out() -> None:
    assert sort_versions(["2.10.0", "2.9.1", "nonsense", "2.13.0+cpu", "2.13.0", "2.13.0rc1"]) == [
        *("2.9.1", "2.10.0", "2.13.0rc1", "2.13.0", "2.13.0+cpu")
    ]
    assert parse("2.13.x") is None


def test_a_nightly_is_found_by_its_day() -> None:
    offered = ["2.13.0", "2.16.0.dev20261118+cpu", "2.15.0.dev20261120", "2.16.0.dev20261120", "2.14.0.dev1"]
    assert nightlies(offered) == ["2.16.0.dev20261118+cpu", "2.15.0.dev20261120", "2.16.0.dev20261120"]
    assert of_day(date(2026, 11, 20), offered) == "2.16.0.dev20261120"
    assert of_day(date(2026, 11, 19), offered) is None


@pytest.mark.parametrize(
    ("wanted", "installed", "same"),
    [
        ("2.13.0", "2.13.0+cpu", True),
        ("2.13", "2.13.0", True),
        ("2.13.0+cpu", "2.13.0", False),
        ("2.13.0+cpu", "2.13.0+cu130", False),
        ("2.13.0", "2.13.1", False),
        ("2.13.0", "2.13.0a0+git12", False),
    ],
)
def test_what_was_wanted_is_what_came(wanted: str, installed: str, same: bool) -> None:
    assert is_it(wanted, installed) is same
