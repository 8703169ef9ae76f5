"""Which reported regressions of PyTorch a built-in case would show: writes docs/coverage.md.

python benchmarks/museum/coverage.py [FILE]
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from run import change, exhibits, is_broken, judged, reports, verdict

from common.text import plural
from runner.worker.case import FAMILIES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"
_HEAD = """# Coverage: would it have been caught?

{covered} of {count} performance regressions that were reported of PyTorch between 2023 and 2026 have a case
here that runs the same operator or model in the same number format and technique. {measured} were measured
between real releases on a CPU: {caught} were caught; {held} that others could not reproduce, or that were
mended before the release, showed no slow-down; {rest} were not seen or are undecided. The others are on the
same path, and not shown.

`benchmarks/museum/coverage.py` writes this page from `benchmarks/museum/reports.toml`, and
`benchmarks/museum/run.py` measures.

| family | reported | with a case | caught | missed | undecided |
|---|---|---|---|---|---|
"""
_WORDS = {
    "caught": "**caught**, {change}",
    "missed": "not seen here, {change}",
    "undecided": "undecided here, {change} in {pairs}",
    "held": "no slow-down here, {change}",
    "false": "called slower, {change}",
}


def evidence(report: dict[str, Any]) -> tuple[str, str]:
    """What was measured of a report, a key of `_WORDS` or "", and the sentence for it.

    Of several exhibits of a report, one that was caught counts, and else the first.
    """
    words: list[tuple[str, str]] = []
    for one in exhibits():
        if one.report != report["id"]:
            continue
        found = verdict(one)
        word = judged(one, found)
        if is_broken(one):
            words.append((word, f"**{word}**, it does not work any more"))
        elif found and word in _WORDS:
            pairs = plural(found["n"], "pair")
            words.append((word, _WORDS[word].format(change=change(found["ratio"]), pairs=pairs)))
    if not words:
        needs = next((one.needs for one in exhibits() if one.report == report["id"] and one.needs), "")
        unmeasured = f"not measured: it needs a CPU with {needs}" if needs else "not measured"
        return "", unmeasured if report.get("cases") else report["missing"]
    verdicts = [word for word, _ in words]
    return "caught" if "caught" in verdicts else verdicts[0], "; ".join(sentence for _, sentence in words)


def page() -> str:
    """The whole page as Markdown."""
    all_reports = list(reports().values())
    found = {one["id"]: evidence(one) for one in all_reports}
    covered = [one for one in all_reports if one.get("cases")]
    measured = sum(1 for word, _ in found.values() if word)
    caught, held = ([word for word, _ in found.values()].count(word) for word in ("caught", "held"))
    text = _HEAD.format(
        covered=len(covered),
        count=len(all_reports),
        measured=measured,
        caught=caught,
        held=held,
        rest=measured - caught - held,
    )
    for family in FAMILIES:
        own = [one for one in all_reports if one["family"] == family]
        if own:
            words = [found[one["id"]][0] for one in own]
            with_case = sum(1 for one in own if one.get("cases"))
            counts = [words.count(word) for word in ("caught", "missed", "undecided")]
            text += f"| {family} | {' | '.join(map(str, (len(own), with_case, *counts)))} |\n"
    text += "\n| report | what | device, releases | reported | case | here |\n|---|---|---|---|---|---|\n"
    return text + "".join(_row(one, found[one["id"]][1]) for one in all_reports)


def _row(one: dict[str, Any], sentence: str) -> str:
    releases = f"{one['device']}, {one['good']} to {one['bad']}" if one["good"] else one["device"]
    cases: Iterable[str] = one.get("cases", ())
    listed = "<br>".join(f"`{case}`" for case in cases) or "none"
    link = f"[{one['issue']}](https://github.com/{one['issue'].replace('#', '/issues/')})"
    return f"| {link} | {one['what']} | {releases} | {one['effect']} | {listed} | {sentence} |\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE).write_text(page())
