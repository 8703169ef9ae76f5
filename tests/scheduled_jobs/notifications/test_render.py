"""A digest as text, Markdown and JSON: the worst first, and nothing in it is markup but ours."""

import json
import math
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from analysis.staleness import LostCase, Outage
from records.evidence import evidence_of
from reports.text.staleness_text import silence
from scheduled_jobs.detection.border_levels import BorderChange, border_change_of
from scheduled_jobs.notifications.digest import DigestData, UpgradeDecision, digest
from scheduled_jobs.notifications.render import (
    digest_json,
    digest_markdown,
    digest_text,
    stored_digest_json,
    subject,
    tone,
)
from support.builders.notifications import BEFORE, DUE, a_finding, a_night, a_ran
from support.builders.run_records import BERT, MLP, RESNET
from support.golden import Golden

SILENT = Outage("machine", "a10", BEFORE, timedelta(hours=9))
REFUSED = UpgradeDecision("2.13.0", "2.14.0", "no-go", "h200", "run-5", ("resnet50 is 12 % slower",))

#: Tries to be a heading, a mention, a link, a picture, an issue number, HTML and a control character.
NASTY = (
    "x\n# y a@everyone @b <!channel> <b>z</b> [a](https://e.example) ![p](http://e) www.e `c` #12 | "
    "\x1b[31m\u202e"
)


def subject_of(**changes: object) -> str:
    return subject(digest(a_night(**changes)))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "all 34 cases as before on 2 machines"),
        ({"not_ok": 2}, "all 34 cases as before on 2 machines, 2 of them not ok"),
        ({"ran": [a_ran(cases=1)], "cases": 1}, "1 case as before on 1 machine"),
        ({"ran": [], "cases": 0}, "nothing was due"),
        ({"ran": [a_ran(cases=0)], "cases": 0}, "nothing was measured"),
        (
            {"findings": [a_finding(1, direction="better", change=-0.1)]},
            f"1 improvement, largest -9.5 % {RESNET} on h200",
        ),
        (
            {"findings": [a_finding(1), a_finding(2, MLP, change=0.2)], "outages": [SILENT]},
            f"2 regressions, largest +22.1 % {MLP} on h200; {silence(SILENT)}",
        ),
        (
            {"upgrades": [REFUSED], "outages": [SILENT]},
            f"{silence(SILENT)}; upgrade 2.13.0 to 2.14.0: no-go",
        ),
        ({"findings": [a_finding(1, state="candidate")]}, "1 candidate to be measured again"),
        ({"ran": [a_ran(state="running")]}, "1 task not done yet"),
        # Two tracks of one night are one night, and each is named.
        (
            {"ran": [a_ran(state="failed"), a_ran(part="2.13.0@h200", state="lost")]},
            "1 missing night: nightly@h200, nightly (2.13.0@h200)",
        ),
        (
            {"ran": [a_ran(n, state="failed", due_at=DUE - timedelta(days=int(n))) for n in "01234"]},
            "5 missing nights: nightly@0, nightly@1, nightly@2 and 2 more",
        ),
        (
            {"findings": [a_finding(1, state="machine")]},
            f"1 change with the machine, largest +10.5 % {RESNET} on h200",
        ),
    ],
)
def test_the_subject_says_the_worst_first(changes: dict[str, object], line: str) -> None:
    assert subject_of(**changes) == f"Pyrometer 2026-11-22: {line}"


def test_a_long_subject_is_cut_at_its_end() -> None:
    silent = [replace(SILENT, name=f"m{n} " * 30) for n in range(1)]
    line = subject_of(findings=[a_finding(1)], outages=silent, upgrades=[REFUSED])
    assert len(line) == 200 and line.startswith("Pyrometer 2026-11-22: 1 regression") and line.endswith("...")


@pytest.mark.parametrize(
    ("changes", "loud"),
    [
        ({}, "success"),
        ({"findings": [a_finding(1)]}, "failure"),
        ({"outages": [SILENT]}, "failure"),
        ({"upgrades": [REFUSED]}, "failure"),
        ({"upgrades": [replace(REFUSED, decision="go")]}, "success"),
        ({"lost_cases": [LostCase("nightly", "", MLP, "oom", "")]}, "warning"),
        ({"findings": [a_finding(1, state="candidate")]}, "info"),
    ],
)
def test_it_is_as_loud_as_its_worst_part(changes: dict[str, object], loud: str) -> None:
    assert tone(digest(a_night(**changes))) == loud


def a_full_night(name: str = "resnet50/infer/-/eager", error: str = "no index answers") -> DigestData:
    moved = [a_finding(n, f"{name}{n}", change=0.01 * n) for n in range(1, 8)]
    moved += [a_finding(20, name, direction="better", shape="drift", low=None, high=None, machine=error)]
    waits = a_finding(21, BERT, state="candidate", evidence=evidence_of({"waits": error}))
    return a_night(
        ran=[a_ran(), a_ran("a10", state="failed", error=error)],
        findings=[*moved, a_finding(22, MLP, returns_of=3, at_run="run-7", at=DUE), waits],
        open=12,
        outages=[replace(SILENT, name=f"a10 {error}")],
        lost_cases=[LostCase("nightly", "nightly@h200", name, "crashed", error)],
        upgrades=[replace(REFUSED, reasons=(error,))],
        notices=[f"torch 2.14.0 {error}"],
    )


def every_digest() -> dict[str, DigestData]:
    """Nights that say all there is to say."""
    noted = {"change": 0.2, "run": "run-9", "night": DUE.isoformat(), "noted_at": DUE.isoformat()}
    better = a_finding(
        2, MLP, direction="better", change=-0.1, evidence=evidence_of({"goes_on": noted | {"change": -0.3}})
    )
    largest = ((RESNET, math.log(1.11)), (MLP, math.log(1.03)))
    level = BorderChange(
        "bench-1", "nightly", "latency_floor", "driver: 575 to 580", 1, 8, math.log(1.041), largest
    )
    same = {"old_torch_version": "2.14.0", "new_torch_version": "2.14.0"}
    return {
        "A full night": a_full_night(),
        "A quiet night": a_night(),
        "Findings of before": a_night(
            findings=[
                a_finding(9, shape="drift", evidence=evidence_of({"began_as": 3})),
                a_finding(8, state="machine", old_environment="e-1", new_environment="e-2", **same),
                a_finding(
                    7, state="machine", old_environment="e-1", new_environment="e-1", label="a10", **same
                ),
            ],
            still=[a_finding(1, evidence=evidence_of({"goes_on": noted})), better],
            reported=[1, 2],
        ),
        "Another machine": a_night(changed=["machine h200: driver: 575.57 to 580.65"], crossed=[level]),
        "Nothing was due": a_night(ran=[], cases=0),
    }


def test_the_whole_digest(golden: Golden) -> None:
    made = {title: digest(night) for title, night in every_digest().items()}
    golden.check_terminal(
        "digest_text.md", {title: f"{subject(one)}\n\n{digest_text(one)}" for title, one in made.items()}
    )
    address = "https://pyrometer.example.org/"
    golden.check(
        "digest_markdown.md",
        "\n".join(f"## {title}\n\n{digest_markdown(one, address)}" for title, one in made.items()),
    )


def test_a_regression_that_goes_on_is_reported_with_its_size_now() -> None:
    noted = {"change": 0.2, "run": "run-9", "night": DUE.isoformat(), "noted_at": DUE.isoformat()}
    better = a_finding(
        2, MLP, direction="better", change=-0.1, evidence=evidence_of({"goes_on": noted | {"change": -0.3}})
    )
    still = [a_finding(1, evidence=evidence_of({"goes_on": noted})), better]
    one = digest(a_night(still=still, reported=[1, 2]))
    assert subject(one).endswith(f"1 regression goes on, largest now about +22.1 % {RESNET} on h200")
    assert tone(one) == "failure"
    assert tone(digest(a_night(still=[better], reported=[2]))) == "success"


def test_another_machine_is_reported_and_is_not_a_quiet_night() -> None:
    assert not digest(a_night(changed=["machine h200: driver: 575.57 to 580.65"])).quiet


def test_times_are_local() -> None:
    night = replace(a_full_night(), timezone="Europe/Berlin")
    assert "due Sun 2026-11-22 03:30" in digest_text(digest(night))


def test_links_lead_to_the_dashboard_where_there_is_one() -> None:
    one = digest(a_full_night())
    url = "https://pyrometer.example.org/"
    assert "[finding 7](https://pyrometer.example.org/regressions?finding=7)" in digest_markdown(one, url)
    assert "run run-5 (https://pyrometer.example.org/runs?run=run-5)" in digest_text(one, url)
    assert "://" not in digest_text(one) + digest_markdown(one)


def test_no_text_of_a_case_is_more_than_text() -> None:
    one = digest(a_full_night(NASTY, NASTY))
    plain, marked = f"{subject(one)}\n{digest_text(one)}", digest_markdown(one)
    for sign in ("<", ">", "`c`", "](", "://", "www.", "@everyone", " @b", "\x1b", "\u202e"):
        assert sign not in plain
    # Outside of code, where Markdown takes everything as it is.
    outside = re.sub(r"(`+) ?.*? ?\1(?!`)", "", marked)
    for sign in ("<", "@", "](", "://", "www.", "\x1b", "`", " #12"):
        assert sign not in outside
    clean_text = digest_text(digest(a_full_night()))
    assert len(digest_text(one).splitlines()) == len(clean_text.splitlines())
    assert len(marked.splitlines()) == len(digest_markdown(digest(a_full_night())).splitlines())


def test_the_json_has_the_numbers_as_they_are() -> None:
    body = json.loads(json.dumps(digest_json(digest(a_full_night())), allow_nan=False))
    assert body["night"] == "2026-11-22" and not body["quiet"]
    assert body["until"] == (BEFORE + timedelta(days=1)).isoformat()
    largest = body["regressions"][0]["top"][0]
    assert (largest["finding"], largest["change"], largest["low"]) == (22, 0.1, 0.08)
    assert sorted(body["ids"]) == [*range(1, 8), 20, 22]


def test_a_digest_that_an_earlier_program_stored_has_the_names_of_today() -> None:
    facts = digest_json(digest(a_full_night())) | {"going_on": [{"finding": 1, "reported": 0.1}]}
    assert facts["problems"] and facts["notices"], "or the test shows nothing"
    renamed = {"problems": "troubles", "notices": "news"}
    old = {renamed.get(name, name): value for name, value in facts.items()}
    old["going_on"] = [{"finding": 1, "told": 0.1}]
    assert stored_digest_json(old) == stored_digest_json(facts) == facts


def test_levels_across_a_border_are_in_the_digest_and_are_no_regression() -> None:
    largest = ((RESNET, math.log(1.11)), (MLP, math.log(1.03)))
    about = BorderChange(
        "bench-1", "nightly", "latency_floor", "driver: 575 to 580", 1, 8, math.log(1.041), largest
    )
    made = digest(a_night(crossed=[about]))
    assert not made.quiet
    body = digest_json(made)["crossed"]
    assert border_change_of(body[0]) == about and json.loads(json.dumps(body)) == body
