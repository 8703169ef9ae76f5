"""One case has one name, however it is typed."""

import pytest

from cli.selection import spelled


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        (
            "resnet50/infer/image=64,batch=8/precision=bf16,compile=default",
            "resnet50/infer/batch=8,image=64/compile=default,precision=bf16",
        ),
        ("mlp/infer/batch=08/compile=none", "mlp/infer/batch=8/eager"),
        ("mlp", "mlp"),
        ("mlp/infer", "mlp/infer"),
        ("mlp/infer/*/eager", "mlp/infer/*/eager"),
        ("mlp/infer/-/colour=red", "mlp/infer/-/colour=red"),
    ],
)
def test_a_whole_key_gets_its_only_spelling_and_all_else_is_left(typed: str, key: str) -> None:
    assert spelled(typed) == key
