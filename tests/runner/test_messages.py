"""The protocol: every message survives the pipe, everything else is refused as such and never raises more."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.worker.messages import (
    PROTOCOL,
    Block,
    Described,
    Failed,
    Fingerprinted,
    Finish,
    Finished,
    Forget,
    Hello,
    Measure,
    Message,
    Nodes,
    Observe,
    Phase,
    Prepare,
    ProtocolError,
    Ready,
    TakeFingerprint,
    Trace,
    Traced,
    Unchecked,
    Window,
    parse,
)

MESSAGES: list[Message] = [
    Nodes(({"address": "10.0.0.2", "name": "second", "command": ["srun"]},), (2, 3)),
    Prepare("mlp/infer/-/eager", "cuda:1", 3, 0.5, 20, False),
    Measure(10),
    Forget(),
    Observe(1.5),
    Trace(5, "/runs/a/traces/b.json.gz"),
    TakeFingerprint("mlp/infer/-/eager", "/tmp/taken", "cuda:0", 3),
    Fingerprinted({"missing": {"mkl": "built without it"}}),
    Finish(),
    Hello(PROTOCOL, "abc", 1, 0.5, 2),
    Phase("build"),
    Ready(1, 2, {"ended": "cap"}, {"flops": None, "items": 8}),
    Block((1, 2, 3), 6, 100, 1, 2, 3),
    Block((), 0, 0),
    Window(1, 2, 3),
    Traced(({"name": "aten::addmm", "calls": 3.0},), {"steps": 5, "outside_us": 1.5}, "", "too large"),
    Unchecked({"rss_peak": 3}, {"items": 8}),
    Finished({"latency": 1.5, "rss_peak": 3}, {"check": {"wrong": ""}}),
    Failed("oom", "MemoryError", "build", "Traceback ...\nsnowman: \u2603"),
    Described({"torch": "2.13"}, ({"name": "mlp"}, {"name": "gpt"}), {"mine": "line 3: no"}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_the_pipe(message: Message) -> None:
    line = message.to_json()
    assert "\n" not in line
    assert parse(line) == message


def test_every_message_is_tried_above() -> None:
    # By name: a dataclass with slots is made of a first class that stays among the subclasses.
    tried = {type(message).__name__ for message in MESSAGES}
    assert tried == {kind.__name__ for kind in Message.__subclasses__()}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
types = st.sampled_from([type(message).__name__.lower() for message in MESSAGES]) | anything
fields = st.sampled_from(
    ["case", "iterations", "samples_ns", "wall_ns", "started_ns", "name", "facts", "metrics"]
)


@given(st.text() | anything.map(json.dumps))
def test_junk_is_refused_and_nothing_else_is_raised(line: str) -> None:
    with pytest.raises(ProtocolError):
        parse(line)


@given(st.dictionaries(fields | st.text(), anything, max_size=4), types)
def test_what_almost_is_a_message_is_one_or_refused(body: dict[str, Any], kind: Any) -> None:
    line = json.dumps({**body, "type": kind})
    try:
        message = parse(line)
    except ProtocolError:
        return
    assert parse(message.to_json()).to_json() == message.to_json()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("hello", "not JSON: 'hello'"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a message"),
        ('{"type":"greeting"}', "not a message"),
        ('{"type":["block"]}', "not a message"),
        ('{"type":"message"}', "not a message"),
        ('{"type":"phase","name":"build","colour":"red"}', "phase has unknown fields: ['colour']"),
        ('{"type":"measure"}', "measure is incomplete"),
        ('{"type":"measure","iterations":"ten"}', "measure has fields of the wrong type: ['iterations']"),
        ('{"type":"measure","iterations":true}', "measure has fields of the wrong type: ['iterations']"),
        ('{"type":"observe","seconds":null}', "observe has fields of the wrong type: ['seconds']"),
        (
            '{"type":"block","samples_ns":[1,"2"],"wall_ns":1.5,"started_ns":1}',
            "block has fields of the wrong type: ['samples_ns', 'wall_ns']",
        ),
        (
            '{"type":"finished","metrics":{"latency":"1"}}',
            "finished has fields of the wrong type: ['metrics']",
        ),
        ('{"type":"finished","metrics":[]}', "finished has fields of the wrong type: ['metrics']"),
        ('{"type":"described","environment":{},"workloads":["mlp"]}', "wrong type: ['workloads']"),
    ],
)
def test_what_is_wrong_is_said(line: str, complaint: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse(line)
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 400
