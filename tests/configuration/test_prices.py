"""`[prices]`: read whole, refused in one sentence, and handed to the dashboard."""

from pathlib import Path

import pytest

from configuration.schema import PriceSettings
from dashboard.server.settings import PRICES, Prices, ServerSettings
from support.settings_file import complaint, loaded


def test_labels_may_hold_anything(tmp_path: Path) -> None:
    found = loaded(
        tmp_path, '[prices]\ncurrency = "EUR"\nper_hour = { "8 x H200" = 31, "Xeon, 2 cores" = 0.1 }'
    ).prices
    assert found.currency == "EUR"
    assert found.per_hour == {"8 x H200": 31.0, "Xeon, 2 cores": 0.1}


def test_without_a_table_nothing_has_a_price(tmp_path: Path) -> None:
    assert loaded(tmp_path, "").prices == PriceSettings(currency="USD", per_hour={})


def test_the_currency_can_be_a_variable(tmp_path: Path) -> None:
    assert loaded(tmp_path, "", PYROMETER_PRICES__CURRENCY="CHF").prices.currency == "CHF"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[prices.per_hour]\n"a" = 0', "prices.per_hour.a is 0, expected a table of prices above 0"),
        ('[prices.per_hour]\n"a" = -1', "prices.per_hour.a is -1, expected"),
        ('[prices.per_hour]\n"a" = true', "prices.per_hour.a is true, expected"),
        ('[prices.per_hour]\n"a" = "free"', 'prices.per_hour.a is "free", expected'),
        ('[prices.per_hour]\n"a" = inf', "prices.per_hour.a is Infinity, expected"),
        ("[prices]\nper_hour = 3", "prices.per_hour is 3, expected a table of prices"),
        ('[prices]\ncurrency = ""', 'prices.currency is "", expected a word'),
        ("[prices]\nper_day = 3", 'unknown key "per_day" (valid: currency, per_hour)'),
        ("prices = 3", "prices is 3, expected a table [prices]"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in str(complaint(tmp_path, text))


def test_the_dashboard_receives_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = Prices("EUR", {'8 x "H200"': 31.5})
    monkeypatch.setenv(PRICES, prices.text)
    assert ServerSettings.from_environment().prices == prices
    monkeypatch.delenv(PRICES)
    assert ServerSettings.from_environment().prices == Prices()
