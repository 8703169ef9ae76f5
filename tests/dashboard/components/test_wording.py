"""Numbers, times, statuses, cases and commands in words."""

import shlex
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from analysis.metrics import Better
from dashboard.components import markup, wording
from records.series import SeriesPoint
from support.builders.run_records import a_run
from support.builders.trends import a_point
from workflows.planning.reproduction import reproduce_command


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.012345, "0.0123"),
        (0.99951, "1.00"),
        (9.999, "10.0"),
        (12.345, "12.3"),
        (-12.345, "−12.3"),
        (999.6, "1,000"),
        (1234567.0, "1,230,000"),
        (0.0000012, "0.00000120"),
        (1.95e-13, "1.95e−13"),
        (4.07e15, "4.07e+15"),
        (float("inf"), "∞"),
        (float("nan"), "not a number"),
    ],
)
def test_three_significant_digits_without_exponent_where_zeros_can_be_counted(
    value: float, text: str
) -> None:
    assert wording.significant(value) == text


def test_a_count_is_exact_and_has_no_unit() -> None:
    assert wording.quantity(12345.0, "count") == "12,345"
    assert wording.quantity(1.5, "count") == "1.50"


def test_a_quantity_has_its_unit_and_a_missing_interval_a_dash() -> None:
    assert wording.quantity(12.345, "ms") == "12.3 ms"
    assert [wording.percent(each) for each in (0.0123, 0.0999, 0.331)] == ["1.2 %", "10 %", "33.1 %"]
    assert wording.percent(None) == "–"


@pytest.mark.parametrize(
    ("share", "as_number", "as_percent"),
    [
        (1.0, "1.00", "100 %"),
        (0.9996, "0.9996", "99.96 %"),
        (1.0003, "1.0003", "100.03 %"),
        (0.331, "0.331", "33.1 %"),
    ],
)
def test_no_share_reads_as_all_where_something_is_missing(
    share: float, as_number: str, as_percent: str
) -> None:
    assert (wording.number(share, "share"), wording.percent(share)) == (as_number, as_percent)


def measured(point: float, smallest: float, largest: float, n: int = 3) -> SeriesPoint:
    return replace(a_point(0, point=point), smallest=smallest, largest=largest, n=n)


TEN = measured(10.0, 9.9, 10.1)


def test_a_change_names_its_direction_only_when_the_ranges_are_apart() -> None:
    slower = wording.change(measured(11.0, 10.9, 11.1), TEN, "lower")
    assert (slower.text, slower.note) == ("+10 %", "worse, outside noise")
    faster = wording.change(measured(9.0, 8.9, 9.1), TEN, "lower")
    assert (faster.text, faster.note) == ("−10 %", "better, outside noise")
    assert wording.change(measured(11.0, 10.9, 11.1), TEN, "higher").note == "better, outside noise"
    unsure = wording.change(measured(10.1, 9.8, 10.2), TEN, "lower")
    assert (unsure.text, unsure.note) == ("+1.0 %", "within noise")
    assert wording.change(measured(1, 1, 1), measured(0, 0, 0), "lower").note == "no ratio to zero"


@pytest.mark.parametrize(
    ("latest", "previous", "expected"),
    [
        # Exact numbers of several replicates do have a range; one replicate, on either side, has none.
        (2, 2, ("+10 %", "worse, outside noise")),
        (1, 2, ("+10 %", "one replicate has no range")),
        (2, 1, ("+10 %", "one replicate has no range")),
    ],
)
def test_one_replicate_has_no_range(latest: int, previous: int, expected: tuple[str, str]) -> None:
    change = wording.change(measured(11, 11, 11, latest), measured(10, 10, 10, previous), "lower")
    assert (change.text, change.note) == expected


@pytest.mark.parametrize(
    ("latest", "previous", "better", "expected"),
    [
        (0.2, -0.1, "lower", ("–", "worse, outside noise; no ratio below zero")),
        (-0.1, 0.2, "lower", ("–", "better, outside noise; no ratio below zero")),
        (-0.1, -0.2, "lower", ("–", "worse, outside noise; no ratio below zero")),
        (-0.1, -0.2, "higher", ("–", "better, outside noise; no ratio below zero")),
        (-0.1, -0.2, "neither", ("–", "outside noise; no ratio below zero")),
        (-0.1, -0.1, "lower", ("–", "within noise; no ratio below zero")),
        (0.0, 3.0, "lower", ("−100 %", "better, outside noise")),
    ],
)
def test_below_zero_there_is_no_share_and_the_larger_number_is_the_larger(
    latest: float, previous: float, better: Better, expected: tuple[str, str]
) -> None:
    ends = measured(latest, latest, latest), measured(previous, previous, previous)
    change = wording.change(*ends, better)
    assert (change.text, change.note) == expected


def test_every_status_has_a_sign_and_unknown_ones_stand_out() -> None:
    assert wording.status("not_compiled").text == "× not compiled"
    assert wording.status("crashed").tone == "bad"
    assert wording.status("molten") == wording.Status("?", "molten", "odd")


def test_nothing_of_a_case_key_is_lost() -> None:
    words = wording.case("resnet50/infer/batch=1,image=64/compile=default")
    assert (words.name, words.rest) == ("resnet50", "infer · batch=1 image=64 · compile=default")
    assert wording.case("closure/infer/-/eager").rest == "infer · eager"
    assert wording.case("my own thing").name == "my own thing"
    assert wording.common_parameters(["a/infer/batch=1/eager", "my own thing"]) == ()


@pytest.mark.parametrize(
    ("past", "text"),
    [
        (timedelta(seconds=-5), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(hours=5, minutes=59), "5 hours ago"),
        (timedelta(days=400), "1 year ago"),
    ],
)
def test_how_long_ago(past: timedelta, text: str) -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    assert wording.ago(now - past, now) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.25, "0.250 s"), (12.5, "12.5 s"), (185.2, "3 min 05 s"), (7800, "2 h 10 min")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert wording.duration(seconds) == text


def test_the_reproduce_command_survives_a_shell() -> None:
    key = "gpt/infer/kind=a b;rm/eager"
    run = replace(a_run(), suite="chosen", command="pyrometer run --cases 'my cases.py' --deadline=9")
    command = reproduce_command(run, key, "my nightly")
    wanted = ["pyrometer", "run", "--case", key, "--environment", "my nightly", "--preset", run.preset.name]
    assert shlex.split(command) == [*wanted, "--cases", "my cases.py", "--deadline", "9"]


def test_the_reproduce_command_keeps_suite_and_interpreter() -> None:
    run = replace(a_run(), suite="smoke", command="pyrometer run --python /venv/bin/python")
    key = "resnet50/infer/batch=1,image=64/compile=default"
    plain = reproduce_command(run, key, "default")
    preset = run.preset.name
    assert plain == (f"pyrometer run --case {key} --suite smoke --preset {preset} --python /venv/bin/python")


def test_a_metric_this_version_does_not_know_is_shown_under_its_own_name() -> None:
    assert wording.metric("joules").title == "joules"
    assert wording.metric_place("latency") < wording.metric_place("joules")


def test_the_caption_of_samples_says_what_is_not_drawn() -> None:
    assert wording.about_samples("9 samples", 9, 2000, 0) == "9 samples. Dashed: a new block."
    long = wording.about_samples("many", 5000, 2000, 50)
    assert "every thousandth" in long
    assert "leaves out the slowest 50 samples" in long


@pytest.mark.parametrize(
    ("label", "short"),
    [
        ("8 x NVIDIA H100 80GB HBM3", "8×H100"),
        ("1 x NVIDIA GeForce RTX 4090", "1 x NVIDIA GeForce RTX 4090"),
        ("Xeon 6430, 2 cores", "Xeon 6430, 2 cores"),
        ("<b>8 x NVIDIA H100", "<b>8 x NVIDIA H100"),
    ],
)
def test_a_hardware_is_short_where_its_name_says_enough(label: str, short: str) -> None:
    assert wording.hardware(label) == short


def test_kinds_of_hardware_keep_their_whole_names_where_the_short_ones_are_alike() -> None:
    labels = {"a": "8 x NVIDIA H100 80GB HBM3", "b": "8 x NVIDIA A100-SXM4-80GB", "c": "Xeon 6430, 2 cores"}
    assert wording.hardware_choices(labels) == {"a": "8×H100", "b": "8×A100", "c": "Xeon 6430, 2 cores"}
    alike = {"a": "8 x NVIDIA H100 80GB HBM3", "b": "8 x NVIDIA H100 PCIe"}
    assert wording.hardware_choices(alike) == alike
    assert markup.hardware(labels["a"]) == '<span title="8 x NVIDIA H100 80GB HBM3">8×H100</span>'
    assert markup.hardware(labels["c"]) == "Xeon 6430, 2 cores"


@pytest.mark.parametrize(
    ("version", "short"),
    [
        ("2.16.0.dev20261124+cu130", "nightly 24 Nov"),
        ("2.13.0+cu130", "torch 2.13.0+cu130"),
        ("2.16.0.dev20269999", "torch 2.16.0.dev20269999"),
        ("", "torch –"),
    ],
)
def test_a_build_is_short_where_it_is_a_nightly(version: str, short: str) -> None:
    assert wording.build(version) == short


@pytest.mark.parametrize(
    ("zone", "written"),
    [
        (UTC, "2026-11-24 20:30 UTC"),
        (ZoneInfo("Asia/Kolkata"), "2026-11-25 02:00 UTC+05:30"),
        (ZoneInfo("America/New_York"), "2026-11-24 15:30 UTC-05:00"),
        (ZoneInfo("Europe/London"), "2026-11-24 20:30 UTC+00:00"),
    ],
)
def test_a_moment_is_in_the_zone_of_the_page_and_for_all_readers_in_utc(zone: tzinfo, written: str) -> None:
    moment = datetime(2026, 11, 24, 20, 30, tzinfo=UTC)

    def page() -> tuple[str, str]:
        wording.show_in(zone)
        return wording.timestamp(moment), wording.utc(moment)

    assert copy_context().run(page) == (written, "2026-11-24 20:30 UTC")
    # Another page is not in the zone of that one.
    assert wording.timestamp(moment) == "2026-11-24 20:30 UTC"
