"""What the Today page says of findings in the morning: of new ones, older ones, those that people know."""

import re
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qsl

import streamlit as st

from db.connection.engine import Database
from db.findings import store as findings
from support.builders.run_records import BERT, MLP, RESNET
from support.builders.schedule_nights import Mornings, a_finding, confirm
from support.pages import REGRESSIONS, TODAY, Open, html, text

HOUR = timedelta(hours=1)


def test_the_older_ones_and_the_list_they_lead_to_are_as_many(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    runs = mornings.nights([3, 2, 1, 0])
    for case in (MLP, RESNET, BERT):
        confirm(database, mornings, a_finding(database, mornings, runs[:-1], case), 50 * HOUR)
    confirm(database, mornings, a_finding(database, mornings, runs[:-1], MLP, "better"), 50 * HOUR)
    findings.triage(database, 2, "expected", "ann", "", None, mornings.now)
    findings.triage(database, 3, "mute", "ann", "", mornings.now + 50 * HOUR, mornings.now)
    for new, sentence in (
        (None, "1 older regression open →"),
        (MLP, "1 older regression open, 2 with the new →"),
    ):
        if new:
            confirm(database, mornings, a_finding(database, mornings, runs, new))
            st.cache_resource.clear()
        found = re.search(
            rf'href="/regressions\?([^"]*)" target="_self">{sentence}<', html(open_page(url, TODAY))
        )
        assert found is not None
        query = dict(parse_qsl(unescape(found[1])))
        page = open_page(url, REGRESSIONS, **query)
        assert page.header[0].value.startswith("2 " if new else "1 ") and not page.warning


def test_what_people_know_is_not_said_to_be_nothing(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    runs = mornings.nights([2, 1, 0])
    confirm(database, mornings, a_finding(database, mornings, runs))
    a_finding(database, mornings, runs, RESNET)
    findings.triage(database, 1, "acknowledge", "ann", "", None, mornings.now)
    page = open_page(url, TODAY)
    assert "1 finding triaged or muted" in html(page)
    findings.triage(database, 2, "mute", "ann", "", mornings.now + 50 * HOUR, mornings.now)
    st.cache_resource.clear()
    page = open_page(url, TODAY)
    assert "2 findings triaged or muted" in html(page)
    sentence = "Nothing new but 2 findings that are triaged or muted."
    assert sentence in text(page) and "Nothing was confirmed" not in text(page)


def test_a_quiet_morning_has_the_card_of_what_is_still_open(
    open_page: Open, url: str, database: Database, mornings: Mornings
) -> None:
    runs = mornings.nights([3, 2, 1, 0])
    for case, age in ((MLP, 50), (RESNET, 60)):
        confirm(database, mornings, a_finding(database, mornings, runs[:-1], case), age * HOUR)
    findings.triage(database, 2, "expected", "ann", "", None, mornings.now)
    page = open_page(url, TODAY)
    assert "Evidence: finding 1" in html(page) and "Evidence: finding 2" not in html(page)
    assert [each for each in page.button if "triage-1" in str(each.key)]
    confirm(database, mornings, a_finding(database, mornings, runs, BERT))
    st.cache_resource.clear()
    # What is new comes first; what is older is then a line in the list.
    shown = html(open_page(url, TODAY))
    assert "Evidence: finding 3" in shown and "Evidence: finding 1" not in shown
