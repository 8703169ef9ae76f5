"""What must stay alike between Streamlit's theme, our style sheet and the files beside them."""

import re
import tomllib
from pathlib import Path

import dashboard
from dashboard.components import charts

FOLDER = Path(dashboard.__path__[0])
CONFIG = tomllib.loads((FOLDER / ".streamlit" / "config.toml").read_text())
STYLE = (FOLDER / "components" / "style.css").read_text()


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` (WCAG 2.2)."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_legend_and_the_chart_take_the_same_colours() -> None:
    series = re.findall(r"--py-series: light-dark\((#\w{6}), (#\w{6})\)", STYLE)
    theme = CONFIG["theme"]
    assert [light for light, _ in series] == theme["light"]["chartCategoricalColors"]
    assert [dark for _, dark in series] == theme["dark"]["chartCategoricalColors"]
    assert len(series) == charts.MAX_CASES


def test_text_links_statuses_and_lines_can_be_read_on_their_background() -> None:
    pairs = re.findall(r"--py-(?:good|bad|odd): light-dark\((#\w{6}), (#\w{6})\)", STYLE)
    assert len(pairs) == 3
    for place, name in enumerate(("light", "dark")):
        theme = CONFIG["theme"][name]
        read = [theme["textColor"], theme["linkColor"], *(pair[place] for pair in pairs)]
        assert min(contrast(colour, theme["backgroundColor"]) for colour in read) >= 4.5
        lines = theme["chartCategoricalColors"]
        assert min(contrast(colour, theme["backgroundColor"]) for colour in lines) >= 3


def test_nothing_is_fetched_from_elsewhere_and_nothing_is_reported() -> None:
    assert CONFIG["browser"]["gatherUsageStats"] is False
    assert CONFIG["server"]["address"] == "127.0.0.1"
    assert "http" not in STYLE
    for face in CONFIG["theme"]["fontFaces"]:
        name = face["url"].removeprefix("app/static/")
        assert (FOLDER / "static" / name).is_file()


def test_every_font_comes_with_its_licence() -> None:
    fonts = [path.name.partition("-latin")[0] for path in (FOLDER / "static").glob("*.woff2")]
    assert sorted(fonts) == ["inter", "jetbrains-mono"]
    for font in fonts:
        licence = (FOLDER / "static" / f"{font}-LICENSE.txt").read_text()
        assert "SIL OPEN FONT LICENSE" in licence.upper()
