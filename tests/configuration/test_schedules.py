"""Schedules as pyrometer.toml has them: what is built in, and each mistake in one sentence with its line."""

from pathlib import Path

import pytest

from configuration.schedules import BUILT_IN
from support.settings_file import complaint, loaded

FULL = """timezone = "Europe/Berlin"
machine_labels = ["h200", "gpu"]

[schedules.nightly]
cron = "30 2 * * *"
suite = "cpu"
environments = ["2.13.0", "latest", "nightly"]
baseline = "2.13.0"
machines = ["h200", "a10"]
watch = ["latency"]

[schedules.move]
cron = "0 3 1 * *"
job = "upgrade"
old = "2.12.1"
new = "latest"

[schedules.tidy]
cron = "0 4 * * 0"
job = "prune"
enabled = false
"""

#: A schedule of an upgrade, to which a key is added.
UPGRADE = '[schedules.n]\ncron = "0 0 * * *"\njob = "upgrade"\nold = "2.12.1"\nnew = "latest"\n'


def test_without_a_word_only_the_built_in_ones_are_there(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "")
    assert settings.schedules == BUILT_IN
    assert settings.built_in_schedules == {"digest", "discover", "check", "prune"}
    assert (settings.timezone, settings.machine_labels) == ("UTC", ())


def test_what_is_written_comes_first_and_takes_the_place_of_its_job(tmp_path: Path) -> None:
    settings = loaded(tmp_path, FULL)
    assert list(settings.schedules) == ["nightly", "move", "tidy", "digest", "discover", "check"]
    assert settings.built_in_schedules == {"digest", "discover", "check"}
    nightly = settings.schedules["nightly"]
    assert (nightly.job, nightly.environments) == ("measure", ("2.13.0", "latest", "nightly"))
    assert (nightly.machines, nightly.watch) == (("h200", "a10"), ("latency",))
    assert settings.schedules["tidy"].enabled is False
    assert settings.machine_labels == ("h200", "gpu")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            'timezone = "Europe/Berlim"',
            'timezone is "Europe/Berlim", expected the name of a time zone',
        ),
        ('machine_labels = ["a b"]', 'machine_labels.0 is "a b", expected a list of labels'),
        (
            '[schedules.n]\nsuite = "cpu"',
            'schedules.n: "cron" is missing, expected a cron expression',
        ),
        ('[schedules.n]\ncron = "30 2 * *"', 'schedules.n.cron is "30 2 * *", expected a cron expr'),
        ('[schedules.n]\ncron = "0 30 2 * * *"', "schedules.n.cron is"),
        ('[schedules.n]\ncron = "61 2 * * *"', "schedules.n.cron is"),
        ('[schedules.n]\ncron = "0 0 31 2 *"', "schedules.n.cron is"),
        ('[schedules.n]\ncron = "0 0 * * *"\njob = "mesure"', "schedules.n.job is"),
        (
            '[schedules.n]\ncron = "0 0 * * *"\nenviroments = ["2.13.0"]',
            'schedules.n: unknown key "enviroments": did you mean "environments"?',
        ),
        (
            '[schedules.n]\ncron = "0 0 * * *"\nenvironments = []',
            "schedules.n.environments is an empty",
        ),
        (
            '[schedules.n]\ncron = "0 0 * * *"\nenvironments = ["a", "a"]',
            'schedules.n.environments has "a" twice',
        ),
        (
            '[schedules.n]\ncron = "0 0 * * *"\nbaseline = "2.13.0"',
            'schedules.n.baseline is "2.13.0", expected one of its environments (default)',
        ),
        (
            '[schedules.n]\ncron = "0 0 * * *"\njob = "prune"\nsuite = "cpu"',
            "schedules.n.suite is not a key of job prune (it takes cron, enabled, job)",
        ),
        (
            '[schedules.n]\ncron = "0 0 * * *"\njob = "upgrade"\nold = "2.12.1"',
            'schedules.n: "new" is missing: job upgrade compares',
        ),
        (f"{UPGRADE}pairs = 5", "schedules.n.pairs is 5, expected an even number from 4 to 10000"),
        (f"{UPGRADE}pairs = 2", "schedules.n.pairs is 2, expected an even number from 4 to 10000"),
        (f'{UPGRADE}policy = "strct"', 'schedules.n.policy: unknown policy "strct"'),
        (f'{UPGRADE}waive = {{ "mlp/*" = " " }}', "expected a table of reasons, one for each glob"),
        (f'{UPGRADE}waive = ["mlp/*"]', "schedules.n.waive is a list, expected a table of reasons"),
        (
            '[schedules.n]\ncron = "0 0 * * *"\npolicy = "default"',
            "schedules.n.policy is not a key of job measure",
        ),
        (
            '[schedules.check]\ncron = "0 0 * * *"',
            "schedules.check: its job is measure, but the built-in schedule for check has this name",
        ),
        ('[schedules."a b"]\ncron = "0 0 * * *"', "is not a name of letters"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_key(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in str(complaint(tmp_path, text))
