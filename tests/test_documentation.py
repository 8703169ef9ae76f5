"""The documentation: bounded in size, generated where it repeats the program, and without broken links."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.reference import COMMAND, pages
from cli.registry import app

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

README_BYTES = 8 * 1024
DOCS_BYTES = 110 * 1024
#: Pages that are nothing but a table of facts, as long as the facts are many: outside the bound on purpose.
TABLES = ("coverage.md", "claims.md")
DECISION_BYTES = 3584
GLOSSARY_ENTRIES = 40

PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])


def prose(page: Path) -> str:
    """A page without its code, in which brackets and hashes mean other things."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """The names of the page's headings as GitHub makes them."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    broken: list[str] = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        found = target.exists() and (not anchor or anchor in anchors(target))
        if not found:
            broken.append(link)
    assert broken == []


def test_readme_and_pages_are_short() -> None:
    sizes = {page: page.stat().st_size for page in DOCS.rglob("*.md") if page.name not in TABLES}
    long = [page.name for page in DOCS.glob("decisions/*.md") if sizes[page] > DECISION_BYTES]
    assert long == []
    assert sum(sizes.values()) <= DOCS_BYTES
    assert (ROOT / "README.md").stat().st_size <= README_BYTES


def test_the_glossary_is_short_and_names_each_term_once() -> None:
    terms = re.findall(r"^\*\*(.+?)\*\*:", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert 0 < len(terms) == len(set(terms)) <= GLOSSARY_ENTRIES


def test_generated_pages_are_what_the_program_says() -> None:
    outdated = [page.name for page, text in pages(DOCS).items() if page.read_text() != text]
    assert outdated == [], f"write them again: {COMMAND}"


def test_every_page_is_linked_from_another() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        if "://" not in link
    }
    single = {page for page in DOCS.glob("*.md") if page not in linked}
    assert sorted(page.name for page in single) == []


def documented_calls(page: Path) -> list[list[str]]:
    """The arguments of every call of `pyrometer` in the page's shell blocks, up to a pipe."""
    calls: list[list[str]] = []
    for block in re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            for at, word in enumerate(words[:-1]):
                before = words[at - 1] if at else ""
                if word == "pyrometer" and (
                    not at or before == "scheduler" or before.startswith("PYROMETER_")
                ):
                    rest = words[at + 1 :]
                    calls.append(rest[: rest.index("|")] if "|" in rest else rest)
    return calls


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_shell_blocks_call_commands_with_options_that_exist(page: Path) -> None:
    for words in documented_calls(page):
        shown = CliRunner().invoke(app, [*words, "--help"])
        assert shown.exit_code == 0, f"pyrometer {shlex.join(words)}: {shown.output}"
        for option in (word for word in words if word.startswith("--")):
            assert option.split("=")[0] in shown.output, f"pyrometer {shlex.join(words)}"


@pytest.mark.parametrize("name", ["guarantees.md", "failure-modes.md"])
def test_places_that_enforce_a_guarantee_exist(name: str) -> None:
    text = (DOCS / name).read_text()
    files = re.findall(r"`((?:\w+/)+[\w.-]+\.\w+)`", text)
    missing = [file for file in files if not (ROOT / file).exists()]
    named = re.findall(r"`(\w+)` in `((?:\w+/)+\w+\.py)`", text)
    missing += [
        f"{name} in {file}"
        for name, file in named
        if not re.search(rf"\b{name}\b", (ROOT / file).read_text())
    ]
    assert missing == []
