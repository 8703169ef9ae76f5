"""`[alerts]`, `[fleet]` and `[prices]`: read whole, and refused in one sentence that repeats no password."""

from pathlib import Path

import pytest

from configuration.schema import PriceSettings, host_and_port
from configuration.settings import load_settings
from dashboard.server.settings import PRICES, Prices, ServerSettings
from support.settings_file import complaint, loaded

ALERTS = """
[alerts]
targets = ["mailto://user:hunter2@mail.example.org", "json://hooks.example.org/x"]
targets_file = "secrets/alerts"
dashboard_url = "https://pyrometer.example.org"
quiet = "skip"
silent_minutes = 5
overdue_hours = 3
disturbed_share = 0.2
"""


def test_alerts_are_read_whole(tmp_path: Path) -> None:
    alerts = loaded(tmp_path, ALERTS).alerts
    assert len(alerts.targets) == 2
    assert alerts.targets_file == tmp_path / "secrets/alerts"
    assert (alerts.quiet, alerts.silent_minutes, alerts.overdue_hours) == ("skip", 5, 3)
    assert (alerts.dashboard_url, alerts.disturbed_share) == ("https://pyrometer.example.org", 0.2)


def test_without_a_file_there_are_no_recipients(tmp_path: Path) -> None:
    alerts = load_settings(cwd=tmp_path, environ={}).alerts
    assert (alerts.targets, alerts.targets_file, alerts.quiet) == ((), None, "send")


def test_variables_override_alerts_and_their_paths_count_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/p.toml").write_text(ALERTS)
    environ = {"PYROMETER_ALERTS__QUIET": "send", "PYROMETER_ALERTS__TARGETS_FILE": "mine"}
    alerts = load_settings(Path("sub/p.toml"), cwd=tmp_path, environ=environ).alerts
    assert (alerts.quiet, alerts.targets_file) == ("send", tmp_path / "mine")


def test_no_password_is_in_what_settings_show(tmp_path: Path) -> None:
    assert "hunter2" not in repr(loaded(tmp_path, ALERTS))


def test_a_variable_that_is_nearly_ours_is_refused(tmp_path: Path) -> None:
    problem = complaint(tmp_path, "", PYROMETER_ALERTS__QUIETS="skip", PYROMETER_ALERTS__QIET__X="1")
    assert "PYROMETER_ALERTS__QUIET" in str(problem)


def test_a_machine_is_by_itself_where_nothing_is_said(tmp_path: Path) -> None:
    found = loaded(tmp_path, "").fleet
    assert (found.engine, found.address) == ("none", None)
    assert found.token(tmp_path) == tmp_path / "fleet" / "token"


def test_paths_count_from_the_file_or_from_the_folder(tmp_path: Path) -> None:
    text = '[fleet]\nengine = "ray"\naddress = "gpu-head:6380"\ntoken_file = "secrets/fleet"'
    found = loaded(tmp_path, text).fleet
    assert found.token(tmp_path / "elsewhere") == tmp_path / "secrets/fleet"
    assert host_and_port(str(found.address)) == ("gpu-head", 6380)
    # Read again by a variable alone.
    variables = {"PYROMETER_FLEET__TOKEN_FILE": "mine", "PYROMETER_FLEET__ENGINE": "none"}
    by_variable = loaded(tmp_path, text, **variables).fleet
    assert (by_variable.engine, by_variable.token_file) == ("none", tmp_path / "mine")


def test_labels_of_prices_may_hold_anything(tmp_path: Path) -> None:
    found = loaded(
        tmp_path, '[prices]\ncurrency = "EUR"\nper_hour = { "8 x H200" = 31, "Xeon, 2 cores" = 0.1 }'
    ).prices
    assert found.currency == "EUR"
    assert found.per_hour == {"8 x H200": 31.0, "Xeon, 2 cores": 0.1}


def test_without_a_table_nothing_has_a_price(tmp_path: Path) -> None:
    assert loaded(tmp_path, "").prices == PriceSettings(currency="USD", per_hour={})


def test_the_currency_can_be_a_variable(tmp_path: Path) -> None:
    assert loaded(tmp_path, "", PYROMETER_PRICES__CURRENCY="CHF").prices.currency == "CHF"


def test_the_dashboard_receives_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = Prices("EUR", {'8 x "H200"': 31.5})
    monkeypatch.setenv(PRICES, prices.text)
    assert ServerSettings.from_environment().prices == prices
    monkeypatch.delenv(PRICES)
    assert ServerSettings.from_environment().prices == Prices()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[alerts]\ntargets = "json://u:hunter2@h"', "alerts.targets is not usable, expected a list"),
        ('[alerts]\ntargets = ["u:hunter2@h"]', "alerts.targets.0 is not usable, expected a list"),
        ('alerts = "json://u:hunter2@h"', "alerts is not usable, expected a table [alerts]"),
        ('[alerts]\nquiet = "never"', 'alerts.quiet is "never", expected "send" or "skip"'),
        ("[alerts]\nsilent_minutes = 0", "alerts.silent_minutes is 0, expected a whole number"),
        ('[alerts]\ntarget = ["json://u:hunter2@h"]', 'alerts: unknown key "target"'),
        ('[fleet]\nengine = "rayon"', 'fleet.engine is "rayon", expected "none", "ray" or "slurm"'),
        ('[fleet]\nengine = "ray"', 'fleet: "address" is missing: engine "ray" needs it'),
        ('[fleet]\naddress = "head"', 'fleet.address is "head", expected HOST:PORT of the head such as'),
        ('[fleet]\naddress = ":6379"', 'fleet.address is ":6379", expected HOST:PORT'),
        ('[fleet]\naddress = "head:0"', 'fleet.address is "head:0", expected HOST:PORT'),
        ('[fleet]\naddress = "head:65536"', 'fleet.address is "head:65536", expected HOST:PORT'),
        ('[fleet]\naddress = "ray://head:1"', 'fleet.address is "ray://head:1", expected HOST:PORT'),
        ('[fleet]\naddress = "[::1]:6379"', 'fleet.address is "[::1]:6379", expected HOST:PORT'),
        ('[fleet]\ntoken_file = ""', 'fleet.token_file is "", expected the path of a file'),
        ('[fleet]\ntokens = "x"', 'unknown key "tokens": did you mean "token_file"?'),
        ("fleet = 3", "fleet is 3, expected a table [fleet]"),
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
def test_a_mistake_is_one_sentence_that_repeats_no_secret(tmp_path: Path, text: str, sentence: str) -> None:
    message = str(complaint(tmp_path, text))
    assert sentence in message and "hunter2" not in message
