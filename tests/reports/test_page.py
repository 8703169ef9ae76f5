"""The page as text: well formed, self-contained, escaped, readable without sight or colour."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from analysis.comparison.policy import Policy
from reports.page import upgrade_html
from reports.report_context import JudgedUpgrade
from support.builders.upgrade_reports import (
    NASTY,
    UPGRADES,
    a_mixed_upgrade,
    a_result,
    dispatched,
    every_kind,
    reported,
    upgrade_of,
)

VOID = {"meta", "link", "br", "wbr", "img", "rect", "line", "circle", "path"}


class Page(HTMLParser):
    """A page taken apart: elements with attributes, in order, and the text outside style and script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def page(which: str) -> Page:
    return Page(upgrade_html(upgrade_of(which)))


@pytest.mark.parametrize("which", UPGRADES)
def test_it_is_well_formed_and_loads_nothing(which: str) -> None:
    text = upgrade_html(upgrade_of(which))
    found = Page(text)
    assert found.open == []
    assert not {"img", "link", "iframe", "object"} & {tag for tag, _ in found.elements}
    assert not [attrs for _, attrs in found.elements if {"src", "href", "srcset"} & set(attrs)]
    assert not re.search(r"@import|url\(", text)
    assert not [name for _, attrs in found.elements for name in attrs if name.startswith("on")]
    assert [tag for tag, _ in found.elements].count("script") == 1
    assert not re.search(r"\bnan\b|\binf\b|significant", text, re.IGNORECASE)


@pytest.mark.parametrize("which", UPGRADES)
def test_it_can_be_read_without_sight(which: str) -> None:
    text = upgrade_html(upgrade_of(which))
    found = Page(text)
    for tag, attrs in found.elements:
        if tag == "th":
            assert attrs.get("scope") in ("col", "row")
        if tag == "svg" and "x" not in attrs:
            assert attrs.get("aria-hidden") == "true" or (
                attrs.get("role") == "img" and attrs.get("aria-label")
            )
    pictures = [attrs for tag, attrs in found.elements if tag == "svg" and attrs.get("role") == "img"]
    assert text.count("<title>") == 1 + len(pictures)


@pytest.mark.parametrize("which", UPGRADES)
def test_every_case_and_every_exclusion_is_in_it(which: str) -> None:
    subject, results, upgrade = upgrade_of(which)
    text = page(which).text
    for result in results:
        # In the plot, in the table, and as a command.
        assert text.count(result.case) >= 3
        assert " ".join(subject.reproduce(result.case).split()) in text
    apart = len(results) - upgrade.overall.cases - len(upgrade.exclusions)
    assert text.count("Every case is in the geomean") == (not apart and not upgrade.exclusions)
    assert text.count("Cases in no geomean: ") == bool(upgrade.exclusions)
    assert text.count(f"and not listed here: {apart} screened") == bool(apart)


def test_what_a_case_says_is_text_and_nothing_else() -> None:
    assert " ".join(NASTY.replace("\x1b", " ").split()) in page("mixed").text
    assert "\x1b" not in upgrade_html(upgrade_of("mixed"))
    names = a_result("<u>odd</u>/infer/-/\"x\" onload='y'")
    found = Page(upgrade_html(reported([names], notes=("<script>alert(1)</script>",), suite="</style><u>")))
    assert found.open == []
    assert "u" not in {tag for tag, _ in found.elements}
    assert [tag for tag, _ in found.elements].count("script") == 1


def test_the_plot_has_an_interval_for_each_case_that_has_one() -> None:
    upgrade = upgrade_of("mixed").upgrade
    text = upgrade_html(upgrade_of("mixed"))
    lines = re.findall(r'<line class="whisker" x1="([\d.]+)%" x2="([\d.]+)%"', text)
    known = [verdict for verdict in upgrade.verdicts.values() if verdict.low is not None]
    # One more is the geomean's.
    assert len(lines) == len(known) + 1
    assert all(0 <= float(left) <= float(right) <= 100 for left, right in lines)
    # In the plot, in the grid, in the table.
    assert text.count("broken: new ended crashed") == 3


def test_one_wild_case_leaves_the_others_an_axis() -> None:
    cases = [a_result(f"case{n}/infer/-/eager", 2.0 + n) for n in range(8)]
    wild = a_result("wild/infer/-/eager", 900.0, noise=0.1)
    text = upgrade_html(reported([*cases, wild], Policy(weights={"wild": 1e-3})))
    places = [float(place) for place in re.findall(r'<svg x="([\d.]+)%" y="50%"', text)]
    assert max(places) == 98.0 and 'class="beyond"' in text
    assert len({round(place) for place in places}) > 8


@pytest.mark.parametrize("state", ["complete", "interrupted", "running"])
def test_one_that_is_not_over_says_so_at_its_head(state: str) -> None:
    subject, results, upgrade = a_mixed_upgrade()
    html = upgrade_html(JudgedUpgrade(replace(subject, state=state), results, upgrade))
    assert ("this is the verdict so far" in html) == (state != "complete") == ('id="so-far"' in html)
    assert (f"pyrometer upgrade --resume {subject.run}" in html) == (state == "interrupted")
    assert html.find('id="so-far"') < html.index('id="reasons"')


def test_a_metric_of_counts_has_a_range_and_no_confidence() -> None:
    text = page("counts").text
    assert "Lines: range of the pairs." in text
    assert "Lines: 99 % interval." in page("mixed").text
    assert "0 → 2" in text


def test_the_grid_is_shown_where_it_fits() -> None:
    assert "By workload and technique" in page("mixed").text
    assert "By workload and technique" not in page("go").text
    many = [a_result(f"{w}/infer/-/mode={n}") for n in range(9) for w in "ab"]
    assert "By workload and technique" not in Page(upgrade_html(reported(many))).text


def test_the_rows_of_a_table_have_as_many_cells_as_its_head() -> None:
    text = upgrade_html(reported(every_kind()))
    for table in re.findall(r"<table.*?</table>", text):
        head, *rows = re.findall(r"<tr.*?</tr>", table)
        for row in rows:
            cells = len(re.findall(r"<t[hd][ >]", row)) + row.count('colspan="2"')
            assert cells == len(re.findall(r"<th[ >]", head))


def test_what_runs_differently_has_a_section_where_it_is_known() -> None:
    page = upgrade_html(dispatched())
    assert 'id="dispatch"' in page
    assert "ref:any instead of jit:avx512_core" in page
    assert 'id="dispatch"' not in upgrade_html(a_mixed_upgrade())
