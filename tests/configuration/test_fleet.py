"""`[fleet]`: read whole, and refused in one sentence."""

from pathlib import Path

import pytest

from configuration.schema import host_and_port
from support.settings_file import complaint, loaded


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
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
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in str(complaint(tmp_path, text))
