"""What five articles on PyTorch claim, and what is measured here: writes docs/claims.md.

    python benchmarks/claims/page.py [--take JOURNAL ...]

With `--take` the figures of measured runs (their journals, `.pyrometer/runs/RUN/journal.jsonl`) are kept in
`measured.json` first: of each case of `articles.toml` its latest figures.
"""

import argparse
import json
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.metrics import METRICS
from analysis.replicates import summarise
from analysis.speedups import gains
from records.outcomes import Outcome, OutcomeStatus
from records.references import Claim
from runner import journal
from runner.suites.references import all_claims, baselines

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parents[1] / "docs" / "claims.md"
MEASURED = FOLDER / "measured.json"
#: How a row is closed, by its state in the file.
STATES = {"works": "works", "gpu": "needs a GPU", "none": "cannot be measured", "open": "not yet"}
#: The figure of a row that names none: of a technique, and of a case under none.
SPEED_UP, LATENCY = "speed-up", "latency_floor"
_HEAD = """# Claims: what articles say, and what is measured here

Five articles on the performance of PyTorch stand behind this project. These are the {count} systems,
techniques and numbers in them that Pyrometer did not show in full when they were first counted. The articles
circulate without a publisher that could be found; `pyrometer suites list --markdown` lists the published
sources of single claims. Suite `articles-cpu` measures what a CPU can show;
`gpu`, `serving`, `scaling` and `articles-gpu` the rest.

{counts}

A figure is a median with its 95 % interval over n processes, a speed-up against eager fp32 in one session.
A claim for a GPU is not compared with a figure from a CPU, which says that the case runs and what it brings
there.

`benchmarks/claims/page.py` writes this page from `articles.toml` and `measured.json` in its folder.
"""
_NO_RUN = "None is kept yet: the rows that work have their cases, and no figures.\n"


def articles() -> dict[str, Any]:
    """The articles and their rows."""
    return tomllib.loads((FOLDER / "articles.toml").read_text())


def measured() -> list[dict[str, Any]]:
    """The figures that were kept; none before the first run."""
    return json.loads(MEASURED.read_text()) if MEASURED.exists() else []


def page() -> str:
    """The whole page as Markdown."""
    known, measurements = articles(), measured()
    rows: list[dict[str, Any]] = known["row"]
    numbers = {word: sum(row["state"] == state for row in rows) for state, word in STATES.items()}
    counts = "| state | rows |\n|---|---|\n" + "".join(
        f"| {word} | {n} |\n" for word, n in numbers.items() if n
    )
    text = _HEAD.format(count=len(rows), counts=counts)
    for article in known["article"]:
        text += f"\n## {article['title']}\n\n| row | what | claimed | case | here |\n|---|---|---|---|---|\n"
        text += "".join(_row(row, measurements) for row in rows if row["id"].startswith(f"{article['id']}."))
    runs = dict.fromkeys((one["run"], one["where"]) for one in measurements)
    listed = "".join(f"- {run}: {where}\n" for run, where in runs) or _NO_RUN
    return f"{text}\n## Runs\n\n{listed}"


def figures_of(row: dict[str, Any], case: str) -> list[str]:
    """What is shown of one case of a row."""
    return row.get("figures") or [LATENCY if case.endswith("/eager") else SPEED_UP]


def _row(row: dict[str, Any], kept: Sequence[dict[str, Any]]) -> str:
    claims = {claim.statement: claim for claim in all_claims()}
    claimed = [f"{one} ({_hardware(claims[one])})" for one in row.get("claims", ())]
    claimed += [row["claimed"]] if "claimed" in row else []
    cases = row.get("cases", ())
    found = [STATES[row["state"]] + (f": {row['note']}" if row["note"] else "")]
    found += [_figure(one) for case in cases for one in kept if _wanted(row, case, one)]
    listed = "<br>".join(f"`{case}`" for case in cases)
    cells = row["id"], row["what"], "<br>".join(claimed) or "-", listed or "-", "<br>".join(found)
    return f"| {' | '.join(cells)} |\n"


def _hardware(claim: Claim) -> str:
    return f"hardware {claim.hardware}" if claim.hardware == "not said" else claim.hardware


def _wanted(row: dict[str, Any], case: str, one: dict[str, Any]) -> bool:
    return one["case"] == case and one["figure"] in figures_of(row, case)


def _figure(one: dict[str, Any]) -> str:
    """A kept figure with its interval, n and run."""
    name, unit = (SPEED_UP, "x") if one["figure"] == SPEED_UP else _named(one["figure"])
    interval = "" if one["low"] is None else f" [{one['low']:.3g}, {one['high']:.3g}]"
    return (
        f"`{one['case']}`: {name} **{one['point']:.3g}**{interval} {unit}, n = {one['n']}, run {one['run']}"
    )


def _named(metric: str) -> tuple[str, str]:
    title = METRICS[metric].title
    # An abbreviation keeps its letters.
    return title if title[:2].isupper() else title[0].lower() + title[1:], METRICS[metric].unit


def take(path: Path) -> list[dict[str, Any]]:
    """The figures that the run of this journal has for cases of the articles."""
    contents = journal.read_contents(path)
    wanted: dict[str, set[str]] = defaultdict(set)
    for row in articles()["row"]:
        for case in row.get("cases", ()):
            wanted[case] |= {*figures_of(row, case)}
    header = contents.header
    torch = header["environments"][0]["facts"]["torch"]
    where = f"{header['machine']['hardware_label']}, PyTorch {torch}, {header['started_at'][:10]}"
    found = [
        (gain.case, SPEED_UP, gain.ratio, gain.low, gain.high, gain.n)
        for own in gains(contents.outcomes, baselines).values()
        for gain in own
        if gain.kind == "speed-up" and SPEED_UP in wanted[gain.case] and gain.ratio is not None
    ]
    for case, figures in wanted.items():
        for name in sorted(figures - {SPEED_UP}):
            if values := _values(contents.outcomes, case, name):
                summary = summarise(values)
                found.append((case, name, summary.point, summary.low, summary.high, summary.n))
    names = ("case", "figure", "point", "low", "high", "n")
    return [{**dict(zip(names, one, strict=True)), "run": header["run"], "where": where} for one in found]


def _values(outcomes: Sequence[Outcome], case: str, metric: str) -> list[float]:
    return [
        one.metrics[metric]
        for one in outcomes
        if one.case == case and one.status == OutcomeStatus.OK and metric in one.metrics
    ]


def main() -> None:
    """Take the figures of the runs that were named, then write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--take", nargs="+", type=Path, default=[], metavar="JOURNAL", help="measured runs")
    for path in parser.parse_args().take:
        new = take(path)
        again = {(one["case"], one["figure"]) for one in new}
        others = [one for one in measured() if (one["case"], one["figure"]) not in again]
        MEASURED.write_text(json.dumps([*others, *new], indent=1) + "\n")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
