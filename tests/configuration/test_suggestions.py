"""The nearest valid name, and the sentence that offers it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configuration.suggestions import SHOWN, nearest, unknown

KEYS = ["resnet50/infer/batch=1/eager", "resnet50/train/batch=8/eager", "lstm_lm/infer/batch=1/eager"]

names = st.lists(st.text(alphabet="abcXYZ-_/=0", min_size=1, max_size=12), max_size=12)
deterministic = settings(derandomize=True, database=None, deadline=None)


@pytest.mark.parametrize(
    ("name", "valid", "expected"),
    [
        ("smok", ["cpu", "smoke"], "smoke"),
        ("SMOKE", ["cpu", "smoke"], "smoke"),
        ("latncy", ["latency", "latency_p10", "throughput"], "latency"),
        ("peak", ["latency", "rss_peak", "rss_peak_steady"], "rss_peak"),
        ("resnt50", KEYS, "resnet50/infer/batch=1/eager"),
        ("resnet50/trian", KEYS, "resnet50/train/batch=8/eager"),
        ("lstm_lm/infer/batch=2/eager", KEYS, "lstm_lm/infer/batch=1/eager"),
        ("zzz", ["cpu", "smoke"], None),
        ("", ["cpu", "smoke"], None),
        ("cpu", [], None),
    ],
)
def test_the_nearest_name(name: str, valid: list[str], expected: str | None) -> None:
    assert nearest(name, valid) == expected


@deterministic
@given(names, st.data())
def test_a_valid_name_is_nearest_to_itself_but_for_case(valid: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(valid)) if valid else "a"
    found = nearest(name, valid)
    assert (found is None) == (not valid)
    assert found is None or found.casefold() == name.casefold()


@deterministic
@given(st.text(max_size=12), names)
def test_what_is_offered_is_valid_and_does_not_depend_on_order(name: str, valid: list[str]) -> None:
    found = nearest(name, valid)
    assert found is None or found in valid
    assert found == nearest(name, reversed(valid))


def test_the_sentence_offers_the_nearest_and_lists_the_valid() -> None:
    sentence = unknown("suite", "smok", ["smoke", "cpu"])
    assert sentence == 'unknown suite "smok": did you mean "smoke"? (valid: cpu, smoke)'


def test_the_sentence_without_anything_near() -> None:
    assert unknown("suite", "zzz", ["smoke", "cpu"]) == 'unknown suite "zzz" (valid: cpu, smoke)'


def test_the_sentence_when_there_is_nothing_to_choose() -> None:
    assert unknown("environment", "new", []) == 'unknown environment "new": none exists'


def test_a_long_list_is_cut_and_counted() -> None:
    sentence = unknown("case", "zzz", [f"name{n}" for n in range(SHOWN + 3)])
    assert sentence.count("name") == SHOWN
    assert sentence.endswith(" and 3 more)")


def test_of_runs_the_newest_are_named() -> None:
    runs = [f"202609{day:02}-020000-aaaa" for day in range(1, 31)]
    sentence = unknown("run", "zzz", [*runs, "latest"], newest_first=True)
    assert sentence.startswith(f'unknown run "zzz" (valid: latest, {runs[-1]}, {runs[-2]}, ')
    assert sentence.endswith(" more)") and runs[0] not in sentence
