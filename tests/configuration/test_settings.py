"""Settings from real files and the real environment: precedence, defaults, paths."""

from pathlib import Path

import pydantic
import pytest

from configuration.errors import ConfigurationError, UnknownKey, UnreadableFile, WrongValue
from configuration.overrides import COMPOSED, overlaid, overrides
from configuration.schema import BASES, SCALARS, TABLES
from configuration.settings import load_settings

FULL = """
data_dir = "data"
database_url = "sqlite:///kept/numbers.db"
preset = "two-threads"

[presets.two-threads]
base = "as-it-comes"
threads = 2
cpus = "0-1, 4"
environment = { ONEDNN_MAX_CPU_ISA = "AVX2", lower_case = "" }

[presets.quiet]
threads = 1

[environments.nightly]
python = "nightly/bin/python"

[suites.smoke]
cases = ["resnet50/infer/*/eager", "lstm_lm/*"]
replicates = 5
budget_seconds = 60
measure_seconds = 0.5
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of a project without settings, with no variable of ours set."""
    (tmp_path / ".pyrometer").mkdir()
    for table in ("CONFIG", *(scalar.upper() for scalar in SCALARS)):
        monkeypatch.delenv(f"PYROMETER_{table}", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_nothing_written_gives_the_defaults(place: Path) -> None:
    settings = load_settings()
    assert settings.file is None
    assert settings.explicit == frozenset()
    assert settings.data_dir == place / ".pyrometer"
    assert settings.database_url == f"sqlite:///{place}/pyrometer.db"
    assert settings.preset == "quiet"
    assert {name: preset.base for name, preset in settings.presets.items()} == {b: b for b in BASES}
    assert settings.environments["default"].python == place / ".pyrometer/environments/default/bin/python"
    assert settings.suites == {}


def test_a_file_is_read_whole(place: Path) -> None:
    (place / "pyrometer.toml").write_text(FULL)
    settings = load_settings()
    assert settings.file == place / "pyrometer.toml"
    assert settings.data_dir == place / "data"
    assert settings.database_url == f"sqlite:///{place}/kept/numbers.db"
    chosen = settings.presets[settings.preset]
    assert (chosen.base, chosen.threads, chosen.cpus) == ("as-it-comes", 2, "0-1,4")
    assert chosen.environment == {"ONEDNN_MAX_CPU_ISA": "AVX2", "lower_case": ""}
    assert settings.environments["nightly"].python == place / "nightly/bin/python"
    assert settings.environments["default"].python == place / "data/environments/default/bin/python"
    smoke = settings.suites["smoke"]
    assert smoke.cases == ("resnet50/infer/*/eager", "lstm_lm/*")
    assert (smoke.replicates, smoke.budget_seconds, smoke.measure_seconds) == (5, 60.0, 0.5)


def test_a_built_in_preset_is_extended_and_keeps_its_base(place: Path) -> None:
    (place / "pyrometer.toml").write_text(
        "[presets.quiet]\nthreads = 3\n[presets.as-it-comes]\nthreads = 4\n"
    )
    presets = load_settings().presets
    assert (presets["quiet"].base, presets["quiet"].threads) == ("quiet", 3)
    assert (presets["as-it-comes"].base, presets["as-it-comes"].threads) == ("as-it-comes", 4)


def test_variables_win_over_the_file_and_the_file_over_defaults(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "pyrometer.toml").write_text(FULL)
    monkeypatch.setenv("PYROMETER_PRESET", "quiet")
    monkeypatch.setenv("PYROMETER_DATA_DIR", "elsewhere")
    monkeypatch.setenv("PYROMETER_SUITES__SMOKE__REPLICATES", "9")
    monkeypatch.setenv("PYROMETER_SUITES__SMOKE__MEASURE_SECONDS", "1.5")
    monkeypatch.setenv("PYROMETER_PRESETS__TWO_THREADS__THREADS", "7")
    monkeypatch.setenv("PYROMETER_PRESETS__TWO_THREADS__ENVIRONMENT__ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
    monkeypatch.setenv("PYROMETER_PRESETS__AS_IT_COMES__ENVIRONMENT__A__B", "")
    monkeypatch.setenv("PYROMETER_ENVIRONMENTS__NEW__PYTHON", "/usr/bin/python3")
    settings = load_settings()
    assert settings.preset == "quiet"
    assert settings.data_dir == place / "elsewhere"
    assert settings.suites["smoke"].replicates == 9
    assert settings.suites["smoke"].measure_seconds == 1.5
    assert settings.suites["smoke"].budget_seconds == 60
    assert settings.presets["two-threads"].threads == 7
    assert settings.presets["two-threads"].environment == {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "lower_case": "",
    }
    assert settings.presets["as-it-comes"].environment == {"A__B": ""}
    assert settings.presets["as-it-comes"].base == "as-it-comes"
    assert settings.environments["new"].python == Path("/usr/bin/python3")


def test_every_scalar_field_has_its_variable(place: Path) -> None:
    samples = {
        "data_dir": "d",
        "database_url": "sqlite:///d.db",
        "preset": "as-it-comes",
        "contention_limit": "0.5",
        "telemetry_days": "7",
        "samples_days": "400",
        "environments_gib": "9",
        "policy": "strict",
        "timezone": "Europe/Berlin",
        "machine_labels": "h200, a10",
    }
    for scalar in SCALARS:
        environ = {f"PYROMETER_{scalar.upper()}": samples[scalar]}
        needed = {"PYROMETER_POLICIES__STRICT__OVERALL": "0"} if scalar == "policy" else {}
        given = load_settings(environ=environ | needed)
        assert given.explicit - {"policies"} == {scalar}
        assert getattr(given, scalar) != getattr(load_settings(environ={}), scalar)
    fields = {
        "base": "quiet",
        "threads": "2",
        "cpus": "0",
        "python": "/p",
        "replicates": "2",
        "device": "cpu",
    }
    fields |= {"summary": "two words", "budget_seconds": "2", "measure_seconds": "2"}
    fields |= {"warm_up_max_seconds": "2", "max_seconds": "2", "deadline_seconds": "2"}
    fields |= {"torch": "2.13.1", "wheel": "/p/torch.whl", "index": "https://our/simple"}
    fields |= {"base_python": "/p", "usual_packages": "False"}
    fields |= {"metric": "throughput", "case": "0.07", "slower_share": "0.2", "overall": "-0.1"}
    fields |= {"observe_seconds": "2", "unmeasured_share": "0.3", "false_discovery_rate": "0.01"}
    fields |= {"cron": "0 1 * * *", "job": "upgrade", "enabled": "False", "suite": "cpu", "preset": "quiet"}
    fields |= {"baseline": "default", "old": "2.12.1", "new": "nightly", "nodes": "2"}
    fields |= {"lock_clocks": "1410"}
    fields |= {"policy": "default", "pairs": "8"}
    for table, model in TABLES.items():
        for key in set(model.model_fields) - COMPOSED:
            environ = {f"PYROMETER_{table.upper()}__MINE__{key.upper()}": fields[key]}
            if table == "environments" and key not in ("python", "torch", "wheel"):
                environ["PYROMETER_ENVIRONMENTS__MINE__TORCH"] = fields["torch"]
            if table == "schedules":
                environ["PYROMETER_SCHEDULES__MINE__CRON"] = fields["cron"]
            if table == "schedules" and key in ("job", "old", "new", "policy", "pairs"):
                upgrade = {"JOB": "upgrade", "OLD": fields["old"], "NEW": fields["new"]}
                environ |= {f"PYROMETER_SCHEDULES__MINE__{name}": text for name, text in upgrade.items()}
            entry = getattr(load_settings(environ=environ), table)["mine"]
            assert str(getattr(entry, key)).removesuffix(".0") == fields[key]


def test_the_file_is_the_named_one(place: Path) -> None:
    for name in ("argument", "variable", "pyrometer"):
        (place / f"{name}.toml").write_text(f'data_dir = "{name}"')
    environ = {"PYROMETER_CONFIG": "variable.toml"}
    assert load_settings(Path("argument.toml"), environ=environ).data_dir == place / "argument"
    assert load_settings(environ=environ).data_dir == place / "variable"
    assert load_settings(environ={}).data_dir == place / "pyrometer"


def test_paths_count_from_the_file_and_for_variables_from_the_current_folder(place: Path) -> None:
    (place / "sub").mkdir()
    (place / "sub" / "some.toml").write_text('[environments.one]\npython = "bin/python"\n')
    environ = {"PYROMETER_CONFIG": "sub/some.toml", "PYROMETER_DATABASE_URL": "sqlite:///here.db"}
    settings = load_settings(environ=environ)
    assert settings.data_dir == place / "sub" / ".pyrometer"
    assert settings.environments["one"].python == place / "sub" / "bin" / "python"
    assert settings.database_url == f"sqlite:///{place}/here.db"


def test_an_interpreter_that_is_a_link_stays_a_link(place: Path) -> None:
    (place / "python").symlink_to("/usr/bin/env")
    (place / "pyrometer.toml").write_text('[environments.one]\npython = "python"\n')
    assert load_settings().environments["one"].python == place / "python"


def test_paths_of_what_is_built_count_from_the_file_and_addresses_stay(place: Path) -> None:
    (place / "sub").mkdir()
    (place / "sub" / "some.toml").write_text(
        '[environments.one]\nwheel = "w/torch-2.13.0.whl"\nfind_links = ["w", "https://pages/"]\n'
        'packages = ["triton", "own/thing.whl", "./folder"]\nbase_python = "bin/python"\n'
        '[environments.two]\nwheel = "https://our/torch-2.13.0.whl"\n'
    )
    found = load_settings(Path("sub/some.toml")).environments
    sub = place / "sub"
    assert (found["one"].wheel, found["one"].python) == (f"{sub}/w/torch-2.13.0.whl", None)
    assert found["one"].find_links == (f"{sub}/w", "https://pages/")
    assert found["one"].packages == ("triton", f"{sub}/own/thing.whl", f"{sub}/folder")
    assert found["one"].base_python == sub / "bin/python"
    assert found["two"].wheel == "https://our/torch-2.13.0.whl"


def test_an_empty_variable_is_none(place: Path) -> None:
    (place / "pyrometer.toml").write_text('preset = "as-it-comes"')
    environ = {"PYROMETER_PRESET": "", "PYROMETER_CONFIG": "", "PYROMETER_SUITES__X__REPLICATES": ""}
    settings = load_settings(environ=environ)
    assert settings.preset == "as-it-comes"
    assert settings.suites == {}


def test_strangers_with_our_prefix_pass(place: Path) -> None:
    environ = {
        "PYROMETER_PORT": "tcp://10.0.0.1:8501",
        "PYROMETER_SERVICE_HOST": "10.0.0.1",
        "PYROMETER_PORT_8501_TCP_ADDR": "10.0.0.1",
        "PYROMETER_TEST_REQUIRE_ALL": "1",
    }
    assert load_settings(environ=environ) == load_settings(environ={})


def test_settings_cannot_be_changed(place: Path) -> None:
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        load_settings().preset = "other"  # type: ignore[misc]
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        load_settings().presets["quiet"].threads = 8  # type: ignore[misc]


def test_what_was_read_stays_as_it_was_under_the_variables() -> None:
    values = {"suites": {"smoke": {"replicates": 3}}}
    environ = {"PYROMETER_SUITES__SMOKE__REPLICATES": "9"}
    merged = overlaid(values, overrides(environ, values), environ)
    assert merged == {"suites": {"smoke": {"replicates": "9"}}}
    assert values == {"suites": {"smoke": {"replicates": 3}}}


def test_a_password_is_in_no_repr_and_in_no_error(place: Path) -> None:
    settings = load_settings(environ={"PYROMETER_DATABASE_URL": "postgresql://me:hunter2@host/name"})
    assert "hunter2" in settings.database_url
    assert "hunter2" not in repr(settings)
    with pytest.raises(ConfigurationError) as caught:
        load_settings(environ={"PYROMETER_DATABASE_URL": "me:hunter2@host/name"})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_file_that_is_named_must_exist(place: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"^no\.toml does not exist$"):
        load_settings(Path("no.toml"), environ={})
    with pytest.raises(UnreadableFile, match=r"^no\.toml \(PYROMETER_CONFIG\) does not exist$"):
        load_settings(environ={"PYROMETER_CONFIG": "no.toml"})


def test_a_file_that_is_there_but_cannot_be_read_is_not_passed_over(place: Path) -> None:
    (place / "pyrometer.toml").symlink_to("gone.toml")
    with pytest.raises(UnreadableFile, match=r"^pyrometer\.toml cannot be read: No such file"):
        load_settings(environ={})
    (place / "pyrometer.toml").unlink()
    (place / "pyrometer.toml").mkdir()
    with pytest.raises(UnreadableFile, match=r"^pyrometer\.toml cannot be read: Is a directory$"):
        load_settings(environ={})


def test_a_file_that_only_opens_brackets_is_refused(place: Path) -> None:
    (place / "pyrometer.toml").write_text("x = " + "[" * 100_000)
    with pytest.raises(UnreadableFile, match=r"^pyrometer\.toml: too many brackets within brackets$"):
        load_settings(environ={})


def test_an_address_in_the_place_of_a_name_is_repeated_without_its_password(place: Path) -> None:
    (place / "pyrometer.toml").write_text('[environments."https://me:hunter2@host"]\ntorch = "2.13.0"\n')
    with pytest.raises(ConfigurationError, match="https://host") as caught:
        load_settings(environ={})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("begin", ["", "[", "x = {"])
def test_a_key_of_thousands_of_parts_is_refused(place: Path, begin: str) -> None:
    (place / "pyrometer.toml").write_text(begin + ".".join("a" * 5000))
    with pytest.raises(UnreadableFile, match=r"^pyrometer\.toml: a key of more than 100 parts$"):
        load_settings(environ={})


@pytest.mark.parametrize(
    "key", ["environments.w.python", "environments.w.base_python", "alerts.targets_file"]
)
def test_an_address_in_the_place_of_a_path_is_not_repeated(place: Path, key: str) -> None:
    torch = 'environments.w.torch = "2.13.0"\n' if "base" in key else ""
    (place / "pyrometer.toml").write_text(f'{torch}{key} = "https://me:hunter2@host/python"\n')
    with pytest.raises(WrongValue) as caught:
        load_settings(environ={})
    assert "hunter2" not in str(caught.value) and key.rpartition(".")[2] in str(caught.value)


def test_an_unknown_preset_is_found_when_the_file_is_read(place: Path) -> None:
    (place / "pyrometer.toml").write_text('preset = "quite"\n')
    with pytest.raises(UnknownKey, match=r'^pyrometer\.toml: unknown preset "quite": did you mean "quiet"'):
        load_settings(environ={})
    with pytest.raises(UnknownKey, match=r'^PYROMETER_PRESET: unknown preset "quieter"'):
        load_settings(environ={"PYROMETER_PRESET": "quieter"})
