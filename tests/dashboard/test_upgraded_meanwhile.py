"""A database that a newer Pyrometer upgrades while the dashboard is open: nothing more is read or written."""

import sqlite3
from contextlib import closing

import pytest
import streamlit as st

from dashboard.server import database
from db.connection.engine import open_database
from db.errors import SchemaTooNew
from db.schema import version as schema
from support.builders.detection_nights import Nights, a_regression
from support.pages import REGRESSIONS, Open, save_button, text
from support.sqlite_files import sqlite_file


def upgrade_elsewhere(url: str) -> None:
    """Leave the database as a newer Pyrometer does, and wait until what was asked before is forgotten."""
    with closing(sqlite3.connect(sqlite_file(url))) as connection, connection:
        connection.execute(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'")
    st.cache_resource.clear()


@pytest.fixture
def finding(url: str) -> int:
    with open_database(url) as opened:
        Nights(opened).add(range(4))
        return a_regression(opened).id


def test_an_open_page_says_so_and_writes_no_more(open_page: Open, url: str, finding: int) -> None:
    page = open_page(url, REGRESSIONS, finding=str(finding))
    page.text_input(key="triage-text").input("too late")
    page.text_input(key="triage-who").input("ada")
    upgrade_elsewhere(url)
    save_button(page).click().run()
    assert not page.exception
    assert "The database cannot be read" in text(page) and "newer" in text(page)
    with closing(sqlite3.connect(sqlite_file(url))) as connection:
        assert connection.execute("SELECT count(*) FROM triage").fetchone() == (0,)


def test_readiness_ends_with_it(url: str, finding: int) -> None:
    database.check(url)
    upgrade_elsewhere(url)
    with pytest.raises(SchemaTooNew, match="newer"):
        database.check(url)
