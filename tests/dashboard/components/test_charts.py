"""Charts as data: what is drawn from which column, and how rows are made of records."""

import itertools

import numpy as np
import pandas as pd
import pytest

from dashboard.components import charts, frames


@pytest.mark.parametrize("spec", [charts.samples_in_order(), charts.distribution()])
def test_specs_hold_no_data_and_are_drawn_as_svg(spec: charts.Spec) -> None:
    assert "datasets" not in spec
    assert spec["usermeta"]["embedOptions"]["renderer"] == "svg"


def test_data_travels_apart_from_a_spec_that_stays_as_it_was() -> None:
    spec = charts.distribution()
    frame = frames.histogram(np.array([1.0, 2.0, 3.0]))
    filled = charts.with_data(spec, bins=frame)
    assert filled["datasets"]["bins"] is frame
    assert "datasets" not in spec


def test_no_label_of_a_chart_steers_a_page() -> None:
    odd, plain = "H100\u202e\x1b]0;x\x07", "H100  ]0;x "
    frame = pd.DataFrame({"label": [odd, "A100"], "value": [1.0, 2.0]})
    spec: charts.Spec = {"encoding": {"color": {"scale": {"domain": [odd, "A100"]}}}, "width": 5}
    filled = charts.with_data(spec, rows=frame)
    assert filled["datasets"]["rows"]["label"].tolist() == [plain, "A100"]
    assert filled["encoding"]["color"]["scale"]["domain"] == [plain, "A100"] and filled["width"] == 5
    assert frame["label"][0] == odd, "the data that others hold are as they were"


def test_versions_are_ordered_as_versions_and_dev_builds_by_date() -> None:
    shuffled = [
        "2.9.1",
        "2.14.0",
        "2.14.0.dev20260907+cpu",
        "nonsense",
        "2.13.0+cpu",
        "2.14.0.dev20260906+cpu",
    ]
    assert sorted(shuffled, key=frames.version_order) == [
        "2.9.1",
        "2.13.0+cpu",
        "2.14.0.dev20260906+cpu",
        "2.14.0.dev20260907+cpu",
        "2.14.0",
        "nonsense",
    ]


def test_nightlies_leave_the_releases_in_reach_of_who_chooses_a_version() -> None:
    nightlies = [f"2.16.0.dev202611{day:02d}+cu130" for day in range(1, 26)]
    choices = frames.version_choices(["2.14.0+cu130", *nightlies, "2.15.0+cu130", "2.15.0rc2"])
    assert list(choices)[:6] == [*nightlies[:-4:-1], "2.15.0+cu130", "2.15.0rc2", "2.14.0+cu130"]
    assert list(choices)[6:] == nightlies[-4::-1]
    assert choices[nightlies[23]] == "nightly 24 Nov · 2.16.0.dev20261124+cu130"
    assert choices["2.15.0rc2"] == "2.15.0rc2"


def test_samples_keep_their_order_and_blocks() -> None:
    blocks = [(1_000_000, 2_000_000), (3_000_000,)]
    frame = frames.samples(blocks)
    assert frame.to_dict("list") == {
        "iteration": [1, 2, 3],
        "block": [1, 1, 2],
        "milliseconds": [1.0, 2.0, 3.0],
        "counts": [True, True, True],
    }
    assert frames.block_starts(blocks)["iteration"].tolist() == [2.5]


def test_thinning_keeps_every_spike() -> None:
    values = [1_000_000] * 10_000
    values[4_321] = 9_000_000
    values[7_000] = 500_000
    frame = frames.thin_samples([tuple(values)])
    assert len(frame) <= frames.MAX_SAMPLES
    assert frame["milliseconds"].max() == 9.0
    assert frame["milliseconds"].min() == 0.5
    assert frame["iteration"].is_monotonic_increasing
    assert frame.loc[frame["milliseconds"] == 9.0, "iteration"].tolist() == [4_322]


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.0, 5.0], list(np.linspace(1, 9, 1000))])
def test_a_histogram_counts_every_sample_once(values: list[float]) -> None:
    bins = frames.histogram(np.array(values))
    assert bins["count"].sum() == len(values)
    assert all(a == b for (_, a), (b, _) in itertools.pairwise(zip(bins["low"], bins["high"], strict=True)))


def test_a_histogram_is_cut_only_where_few_samples_would_take_the_axis() -> None:
    even = np.linspace(1, 2, 1000)
    assert len(frames.bulk(even)) == 1000
    spiked = np.append(even, [50.0, 60.0])
    assert frames.bulk(spiked).max() <= 2.0
    assert len(frames.bulk(spiked)) >= 0.98 * len(spiked)
    assert frames.bulk(np.array([5.0, 5.0])).tolist() == [5.0, 5.0]
