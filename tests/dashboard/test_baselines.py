"""Screenshots of parts of pages, compared with reviewed baselines.

`PYROMETER_TEST_NEW_BASELINES=1` takes new pictures; look at them before they are kept.
"""

import os
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, expect

from dashboard.components import links
from support.builders.run_records import RESNET
from support.servers.browser import Visitor

pytestmark = pytest.mark.browser

FOLDER = Path(__file__).parents[1] / "support/baselines"
#: A pixel differs where any of its colours does by more than this (of 255) ...
SHADES = 32
#: ... and so much of a picture may: letters have other edges on another machine.
SHARE = 0.01
LARGEST = 60 * 1024

OUTCOME = links.outcome("run-11", RESNET, "", 1)
PICTURES = {
    "samples-light": (OUTCOME, "light", "stVegaLiteChart"),
    "samples-dark": (OUTCOME, "dark", "stVegaLiteChart"),
    "finding-light": ("/regressions?finding=1", "light", ".py-cards"),
    "measurements-phone": ("/runs?run=run-11", "phone", '[aria-label="Measurements"]'),
}


def picture(visitor: Visitor, address: str, how: str, what: str) -> bytes:
    """A part of a page as a PNG file."""
    page = visitor.open(address, how)
    part: Locator = (page.locator(what) if what[0] in ".[" else page.get_by_test_id(what)).first
    expect(part).to_be_visible()
    if what == "stVegaLiteChart":
        expect(part.locator("svg .mark-symbol path").first).to_be_attached()
    page.evaluate("document.fonts.ready")
    return part.screenshot(animations="disabled", caret="hide")


def differing(one: bytes, other: bytes) -> float:
    """The share of pixels that differ; all of them where the sizes do."""
    first, second = (np.asarray(Image.open(BytesIO(png)).convert("RGB"), np.int16) for png in (one, other))
    if first.shape != second.shape:
        return 1.0
    return float((np.abs(first - second).max(axis=2) > SHADES).mean())


@pytest.mark.parametrize("name", PICTURES)
def test_it_looks_as_it_did(visitor: Visitor, chromium: Browser, name: str, tmp_path: Path) -> None:
    major = chromium.version.partition(".")[0]
    kept = FOLDER / f"{name}-chromium-{major}.png"
    if os.environ.get("PYROMETER_TEST_NEW_BASELINES") == "1":
        FOLDER.mkdir(exist_ok=True)
        for old in FOLDER.glob(f"{name}-chromium-*.png"):
            old.unlink()
        kept.write_bytes(picture(visitor, *PICTURES[name]))
    if not kept.exists():
        others = [file.stem.rpartition("-")[2] for file in FOLDER.glob(f"{name}-chromium-*.png")]
        assert others, f"no picture of {name}"
        pytest.skip(f"the picture was taken by Chromium {others[0]}, and this is {major}")
    now = picture(visitor, *PICTURES[name])
    (tmp_path / kept.name).write_bytes(now)
    assert differing(kept.read_bytes(), now) <= SHARE, f"compare {kept} with {tmp_path / kept.name}"


def test_a_changed_picture_is_detected_and_none_is_large() -> None:
    pictures = sorted(FOLDER.glob("*.png"))
    assert len(pictures) == len(PICTURES)
    assert [file.name for file in pictures if file.stat().st_size > LARGEST] == []
    light, dark = (next(FOLDER.glob(f"samples-{how}-*.png")).read_bytes() for how in ("light", "dark"))
    assert differing(light, light) == 0 and differing(light, dark) > 0.5
    # A chart that lost its dots is another picture too.
    image = np.asarray(Image.open(BytesIO(light)).convert("RGB")).copy()
    image[image.max(axis=2).astype(int) - image.min(axis=2) > SHADES] = 255
    bare = BytesIO()
    Image.fromarray(image).save(bare, "PNG")
    assert differing(light, bare.getvalue()) > SHARE
