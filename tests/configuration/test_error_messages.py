"""Every mistake in a file or a variable ends as one sentence that says where, what, and what instead."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configuration.errors import ConfigurationError, UnknownKey, UnreadableFile, WrongValue
from configuration.schema import TABLES, SettingsFile
from configuration.settings import Settings, load_settings
from support.settings_file import complaint


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("preset = 'quiet'\n\nthreads\n", "pyrometer.toml, line 3: expected '='"),
        ("preset = 'quiet", "pyrometer.toml, line 1: "),
        ("[suites.smoke]\ncases = [\n  'a',\n", "pyrometer.toml, line 4: "),
        ("preset = 'a'\npreset = 'b'\n", "pyrometer.toml, line 2: cannot overwrite a value"),
        (b"preset = 'quiet'\n# \xff\n", "pyrometer.toml, line 2: not UTF-8"),
        pytest.param(
            "#" * ((1 << 20) + 1), "pyrometer.toml cannot be read: it is larger than 1,024 KiB", id="large"
        ),
    ],
)
def test_malformed_toml_names_the_line(tmp_path: Path, text: str | bytes, start: str) -> None:
    error = complaint(tmp_path, text)
    assert isinstance(error, UnreadableFile)
    assert str(error).startswith(start)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "pyrometer.toml").write_bytes(b"\xef\xbb\xbfpreset = 'as-it-comes'\r\n")
    assert load_settings(cwd=tmp_path, environ={}).preset == "as-it-comes"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (
            'databse_url = "x"',
            'pyrometer.toml: unknown key "databse_url": did you mean "database_url"?',
        ),
        ("[suite.smoke]", 'pyrometer.toml: unknown key "suite": did you mean "suites"?'),
        (
            "[suites.smoke]\nreplicate = 3",
            'pyrometer.toml: suites.smoke: unknown key "replicate": did you mean "replicates"?',
        ),
        (
            "[presets.mine]\nthread = 3",
            'pyrometer.toml: presets.mine: unknown key "thread": did you mean "threads"?',
        ),
        (
            '[environments.new]\npyton = "x"',
            'pyrometer.toml: environments.new: unknown key "pyton": did you mean "python"?',
        ),
    ],
)
def test_unknown_keys_at_each_level(tmp_path: Path, text: str, start: str) -> None:
    error = complaint(tmp_path, text)
    assert isinstance(error, UnknownKey)
    assert str(error).startswith(start)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("preset = 3", "preset is 3, expected the name of a preset"),
        ("data_dir = ''", 'data_dir is "", expected the path of a folder'),
        ("telemetry_days = 0", "telemetry_days is 0, expected a whole number, 1 or more"),
        ("samples_days = 0", "samples_days is 0, expected a whole number, 1 or more"),
        ("suites = 3", "suites is 3, expected tables [suites.NAME]"),
        ("suites.smoke = 'x'", 'suites.smoke is "x", expected a table [suites.smoke]'),
        (
            "suites.x.replicates = 'three'",
            'suites.x.replicates is "three", expected a whole number, 1 or more',
        ),
        ("contention_limit = 5", "contention_limit is 5, expected a share from 0 to 1 of a block"),
        ("contention_limit = true", "contention_limit is true, expected a share from 0 to 1 of a block"),
        ("suites.x.observe_seconds = -1", "suites.x.observe_seconds is -1, expected a number of seconds"),
        ("policies.x.case = 0", "policies.x.case is 0, expected a share above 0"),
        ("policies.x.worst.latency = 0", "policies.x.worst.latency is 0, expected a table of shares above 0"),
        (
            "policies.x.compile_time.worst = 0",
            "policies.x.compile_time.worst is 0, expected a table of limits",
        ),
        (
            "policies.x.false_discovery_rate = 0",
            "policies.x.false_discovery_rate is 0, expected a share above 0 and below 0.5",
        ),
        ("suites.x.replicates = true", "suites.x.replicates is true, expected a whole number, 1 or more"),
        ("suites.x.replicates = 0", "suites.x.replicates is 0, expected a whole number, 1 or more"),
        (
            "suites.x.budget_seconds = inf",
            "suites.x.budget_seconds is Infinity, expected a number of seconds",
        ),
        ("suites.x.cases = []", "suites.x.cases is an empty list, expected a list of case keys or globs"),
        ("suites.x.matrix = [{}]", 'suites.x.matrix.0: "workloads" is missing, expected a list of texts'),
        (
            "suites.x.matrix = [{workloads = ['a'], compile = 'none'}]",
            'suites.x.matrix.0.compile is "none", expected a list of texts in quotes',
        ),
        (
            "suites.x.matrix = [{workloads = ['a'], ranks = [1, true]}]",
            "suites.x.matrix.0.ranks.1 is true, expected a list of texts in quotes",
        ),
        (
            "presets.x.cpus = '1-99999999999'",
            'presets.x.cpus is "1-99999999999", expected a list of processors like "0-3,8"',
        ),
        ("presets.x.cpus = '3-1'", 'presets.x.cpus is "3-1", expected a list of processors like "0-3,8"'),
        ("presets.x.base = 'quite'", 'presets.x.base is "quite", expected "quiet" or "as-it-comes"'),
        ("presets.x.environment.A = 4", "presets.x.environment.A is 4, expected a text in quotes"),
        ("presets.quiet.base = 'as-it-comes'", 'presets.quiet.base is "as-it-comes", expected "quiet"'),
        ("presets.x.environment.'A=' = ''", 'presets.x.environment: "A=" is not a variable\'s name'),
        ("suites.'a/b' = {}", 'suites: "a/b" is not a name of letters, digits'),
        ("environments.x = {}", "environments.x: nothing says which PyTorch; expected one of python, torch"),
        (
            "environments.x = {python = '/p', torch = '2.13.0'}",
            "environments.x: python and torch are given; expected one of python, torch, wheel",
        ),
        (
            "environments.x = {python = '/p', packages = ['triton']}",
            "environments.x: packages is for building an environment, but python names an existing "
            "interpreter",
        ),
        ("environments.x.torch = '2.13.x'", 'environments.x.torch is "2.13.x", expected a version such as'),
        ("environments.x.torch = 'nightly today'", 'environments.x.torch is "nightly today", expected a ver'),
        (
            "environments.x.wheel = 'torch.zip'",
            'environments.x.wheel is "torch.zip", expected the path or URL',
        ),
        (
            "environments.x.wheel = 'https://u:hunter2@h/torch.zip'",
            "environments.x.wheel is not usable, expected the path or URL",
        ),
        (
            "environments.x = {torch = '2.13.0', index = 'u:hunter2@h/simple'}",
            "environments.x.index is not usable, expected the URL of a package index",
        ),
        ("environments_gib = -1", "environments_gib is -1, expected a number of GiB, 0 or more"),
    ],
)
def test_wrong_values_say_which_what_and_what_is_expected(tmp_path: Path, text: str, sentence: str) -> None:
    error = complaint(tmp_path, text)
    assert isinstance(error, WrongValue)
    assert str(error).startswith(f"pyrometer.toml: {sentence}")


@pytest.mark.parametrize(
    ("variable", "value", "start"),
    [
        ("PYROMETER_SUITES__X__REPLICATES", "x", 'PYROMETER_SUITES__X__REPLICATES is "x", expected a whole'),
        (
            "PYROMETER_SUITES__X__REPLICATE",
            "3",
            'PYROMETER_SUITES__X__REPLICATE: unknown key "replicate": did',
        ),
        ("PYROMETER_SUITES__X__CASES", "a", 'PYROMETER_SUITES__X__CASES is "a", expected a list'),
        (
            "PYROMETER_DATABSE_URL",
            "x",
            'unknown variable "PYROMETER_DATABSE_URL": did you mean "PYROMETER_DATABAS',
        ),
        (
            "PYROMETER_PRESETS",
            "x",
            'unknown variable "PYROMETER_PRESETS": did you mean "PYROMETER_PRESET"?',
        ),
        (
            "PYROMETER_SUITE__X__REPLICATES",
            "3",
            'unknown variable "PYROMETER_SUITE__X__REPLICATES": did you mean',
        ),
        ("PYROMETER_PRESET__X", "3", 'unknown variable "PYROMETER_PRESET__X"'),
    ],
)
def test_a_wrong_variable_is_named_itself(tmp_path: Path, variable: str, value: str, start: str) -> None:
    assert str(complaint(tmp_path, "", **{variable: value})).startswith(start)


def test_a_variable_under_a_key_that_is_no_table_blames_the_file(tmp_path: Path) -> None:
    error = complaint(tmp_path, "suites = 3", PYROMETER_SUITES__X__REPLICATES="3")
    assert str(error) == "pyrometer.toml: suites is 3, expected tables [suites.NAME]"


def test_several_problems_are_counted_and_a_misspelt_key_comes_first(tmp_path: Path) -> None:
    two = complaint(tmp_path, "[environments.x]\ndevice = 'tpu'\npyton = 'y'")
    assert str(two).endswith("; and 1 more problem")
    assert '"pyton"' in str(two)
    three = complaint(tmp_path, "preset = 1\ndata_dir = 2\ndatabase_url = 3")
    assert str(three).startswith("pyrometer.toml: data_dir is 2")
    assert str(three).endswith("; and 2 more problems")


def test_the_file_is_called_as_people_call_it(tmp_path: Path) -> None:
    inside, outside = tmp_path / "here" / "sub", tmp_path / "there"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
        (folder / "p.toml").write_text("preset = 1")
    with pytest.raises(WrongValue, match=r"^sub/p\.toml: preset is 1"):
        load_settings(inside / "p.toml", cwd=tmp_path / "here", environ={})
    with pytest.raises(WrongValue, match=f"^{re.escape(str(outside))}/p.toml: preset is 1"):
        load_settings(outside / "p.toml", cwd=tmp_path / "here", environ={})


scalars = st.one_of(
    st.booleans(), st.integers(-3, 9), st.floats(-1, 9), st.text(alphabet="aq-0,/ ", max_size=6)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["A", "cases", ""]), inner),
    max_leaves=4,
)
tables = {
    table: st.dictionaries(
        st.sampled_from(["quiet", "x", "a b"]),
        st.dictionaries(st.sampled_from([*model.model_fields, "other"]), values, max_size=3) | values,
        max_size=2,
    )
    | values
    for table, model in TABLES.items()
}
files = st.fixed_dictionaries(
    {}, optional={name: tables.get(name, values) for name in [*SettingsFile.model_fields, "other"]}
)


def toml(value: Any) -> str:
    """A value in TOML's inline spelling."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(below)}" for key, below in value.items()) + "}"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.slow
@settings(derandomize=True, database=None, deadline=None, max_examples=300)
@given(content=files)
def test_whatever_a_file_holds_it_loads_or_is_refused_in_one_sentence(
    folder: Path, content: dict[str, Any]
) -> None:
    (folder / "pyrometer.toml").write_text(
        "".join(f"{key} = {toml(value)}\n" for key, value in content.items())
    )
    try:
        loaded = load_settings(cwd=folder, environ={})
    except ConfigurationError as error:
        assert str(error).startswith("pyrometer.toml")
        assert "\n" not in str(error)
    else:
        assert isinstance(loaded, Settings)
        assert loaded.preset in loaded.presets
        assert set(content) <= set(SettingsFile.model_fields)
