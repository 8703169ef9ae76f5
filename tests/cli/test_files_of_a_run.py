"""`pyrometer run --report` of a real run: each file has the numbers that the database has."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup

from db.connection.engine import open_database
from db.runs import queries
from reports import wording
from reports.run_report import COLUMNS, RUN_FORMATS
from support.site import ADD, Site

pytestmark = pytest.mark.torch


def of_the_page(file: Path) -> dict[str, str]:
    """The cells of the only case, by their headings."""
    cells = BeautifulSoup(file.read_text(), "html.parser").select("td[data-title]")
    return {str(cell["data-title"]): cell.get_text() for cell in cells}


def of_the_markdown(file: Path) -> dict[str, str]:
    """As `of_the_page`."""
    lines = [line for line in file.read_text().splitlines() if line.startswith("|")]
    (at,) = (place for place, line in enumerate(lines) if ADD in line.split("|")[1])
    headings, cells = ([cell.strip() for cell in lines[row].split("|")] for row in (at - 2, at))
    return dict(zip(headings, cells, strict=True))


def test_each_file_has_the_numbers_that_are_stored(site: Site) -> None:
    files = {suffix: site.folder / f"run{suffix}" for suffix in RUN_FORMATS}
    reports = [word for file in files.values() for word in ("--report", str(file))]
    done = site.call("run", "--suite", "quick", "--cases", "cases.py", "--case", ADD, "--json", *reports)
    assert done.code == 0, done
    with open_database(site.url) as database:
        stored = queries.measurements_of_run(database, done.run, cases=[ADD])
    points = {each.metric: each.point for each in stored}
    shown = {metric: heading for metric, heading in COLUMNS if metric in points}
    assert {"latency", "throughput", "rss_peak"} <= shown.keys()

    body = json.loads(files[".json"].read_text())
    (case,) = body["cases"]
    assert (body["run"]["id"], body["decision"]) == (done.run, "passed")
    assert (case["case"], case["status"], case["ok"], case["replicates"]) == (ADD, "ok", 2, 2)
    assert {metric: case[metric] for metric in shown} == {metric: points[metric] for metric in shown}

    expected = {heading: wording.number(metric, points[metric]) for metric, heading in shown.items()}
    assert expected.items() <= of_the_page(files[".html"]).items()
    assert expected.items() <= of_the_markdown(files[".md"]).items()

    of_case = ElementTree.parse(files[".xml"]).find(f".//testcase[@name='{ADD}']/system-out")
    quantities = {wording.quantity(metric, points[metric]) for metric in shown}
    assert of_case is not None and of_case.text is not None
    assert {part for part in quantities if part not in of_case.text} == set()
