"""Case keys: the text is the identity, so nothing may be spelled like something else."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.execution.compile_cache import file_name
from runner.worker.case_key import AXES, PHASES, Axis, CaseKey, CaseKeyError, Value

names = st.text(string.ascii_letters + string.digits + "_-.", min_size=1)
values = (
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(
        ["1", "1.0", "True", "inf", "nan", "1_0", " 1", "a/b", "a,b", "a=b", "-", "", "x y", "١"]
    )
)


def values_of(axis: Axis) -> st.SearchStrategy[str]:
    """What an axis admits: its words, and whole numbers where it counts."""
    words = st.sampled_from(axis.values) if axis.values else st.nothing()
    return words | st.integers(1, 10**6 - 1).map(str) if axis.counts else words


techniques = st.fixed_dictionaries({}, optional={name: values_of(axis) for name, axis in AXES.items()})


def typed(key: CaseKey) -> list[tuple[str, type, str]]:
    """The parameters with their types: True equals 1 in Python, but not here."""
    return [(name, type(value), repr(value)) for name, value in key.parameters]


@given(names, st.sampled_from(PHASES), st.dictionaries(names, values, max_size=4), techniques)
def test_a_key_is_refused_or_comes_back_as_what_it_was(
    name: str, phase: str, parameters: dict[str, Value], technique: dict[str, str]
) -> None:
    try:
        key = CaseKey.of(name, phase, parameters, technique)
    except CaseKeyError as error:
        assert any(isinstance(value, str) for value in parameters.values()), error
        return
    again = CaseKey.parse(str(key))
    assert again == key
    assert typed(again) == typed(key)
    assert str(again) == str(key)
    assert again.workload == key.workload
    for axis in AXES:
        assert again.axis(axis) == technique.get(axis, AXES[axis].default)


@given(st.text())
def test_any_text_is_a_key_or_refused_with_a_sentence(text: str) -> None:
    try:
        key = CaseKey.parse(text)
    except CaseKeyError as error:
        assert str(error)
        return
    assert CaseKey.parse(str(key)) == key


@pytest.mark.parametrize(
    "value",
    ["1", "-3", "1.5", "1e3", "inf", "nan", "True", "False", "1_000", "a/b", "a,b", "a=b", "", " ", "a b"],
)
def test_texts_that_would_come_back_as_something_else_are_refused(value: str) -> None:
    with pytest.raises(CaseKeyError, match="cannot be part of a case key"):
        CaseKey.of("mlp", "infer", {"size": value}, {})


@pytest.mark.parametrize(
    ("value", "spelled"),
    [(1, "1"), (1.0, "1.0"), (1e16, "1e+16"), (True, "True"), (False, "False"), ("fp8_e4m3", "fp8_e4m3")],
)
def test_values_keep_their_type(value: Value, spelled: str) -> None:
    key = CaseKey.of("mlp", "infer", {"size": value}, {})
    assert str(key) == f"mlp/infer/size={spelled}/eager"
    ((_, back),) = CaseKey.parse(str(key)).parameters
    assert (type(back), back) == (type(value), value)


def test_defaults_are_never_spelled_and_order_does_not_matter() -> None:
    one = CaseKey.of("m", "infer", {"b": 1, "a": 2}, {"compile": "none", "precision": "amp-bf16"})
    assert str(one) == "m/infer/a=2,b=1/precision=amp-bf16"
    assert CaseKey.parse("m/infer/b=1,a=2/precision=amp-bf16,compile=none") == one
    assert str(CaseKey.of("m", "train", {}, {})) == "m/train/-/eager"
    assert one.workload == "m/infer/a=2,b=1"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mlp", "expected name/phase/parameters/technique"),
        ("mlp/fly/-/eager", "unknown phase 'fly': one of infer, train"),
        ("mlp/infer/-/colour=red", "unknown technique 'colour': one of compile, dynamic"),
        ("mlp/infer/-/compil=default", "unknown technique 'compil': did you mean 'compile'? one of compile"),
        ("mlp/infer/-/compile=defalt", "unknown compile 'defalt': did you mean 'default'? one of none"),
        ("mlp/infer/-/compile=fast", "unknown compile 'fast': one of none, default"),
        ("mlp/infer/batch/eager", "'batch' is not name=value"),
        ("mlp/infer/batch=1,/eager", "'' is not name=value"),
        ("mlp/infer/batch=1,batch=2/eager", "batch is given twice"),
        ("mlp/infer//eager", "'' is not name=value"),
        ("/infer/-/eager", "'' is no name"),
        ("m l p/infer/-/eager", "'m l p' is no name"),
    ],
)
def test_what_is_no_key_is_refused_with_a_reason(text: str, complaint: str) -> None:
    with pytest.raises(CaseKeyError) as caught:
        CaseKey.parse(text)
    assert complaint in str(caught.value)


def test_a_key_names_a_file_of_bearable_length() -> None:
    assert file_name("mlp/infer/batch=1/eager") == "mlp__infer__batch=1__eager"
    long = "mlp/infer/text=" + "x" * 400 + "{}/eager"
    one, other = file_name(long.format(1)), file_name(long.format(2))
    assert one != other
    assert len(one.encode()) <= 180
    assert len(file_name("mlp/infer/text=" + "ö" * 400 + "/eager").encode()) <= 180


@pytest.mark.parametrize("value", ["0", "-1", "01", "1.0", "١", "", "many"])
def test_a_counting_axis_takes_whole_numbers_above_zero_only(value: str) -> None:
    with pytest.raises(CaseKeyError, match="whole number above 0"):
        CaseKey.of("mlp", "train", {}, {"ranks": value})


def test_the_baseline_of_a_case_is_the_same_workload_without_a_technique() -> None:
    key = CaseKey.parse("mlp/train/batch=4/compile=default,precision=amp-bf16,ranks=2")
    assert str(key.eager) == "mlp/train/batch=4/eager"
    assert str(key.with_technique(ranks="1")) == "mlp/train/batch=4/compile=default,precision=amp-bf16"
    assert key.count("ranks") == 2
