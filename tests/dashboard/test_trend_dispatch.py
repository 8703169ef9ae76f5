"""What runs differently along a trend: where it is marked, and in which words."""

from collections.abc import Mapping

from dashboard.trends import lines, marks
from dashboard.trends.load import changes_along
from records.dispatch import DispatchFingerprint
from records.runs import RunChange
from support.builders.run_records import a_case_fingerprint
from support.builders.trends import a_line, a_point

JIT, REF = (f"matmul src:f32:ab by {name}" for name in ("jit:avx512_core", "ref:any"))


def a_fingerprint(**parts: Mapping[str, int]) -> DispatchFingerprint:
    found = a_case_fingerprint(**parts).fingerprint
    assert found is not None
    return found


def test_a_change_is_marked_at_the_first_night_that_has_it_and_says_what_it_is() -> None:
    points = [a_point(night, f"2.14.0.dev{night}") for night in range(5)]
    fast, slow = a_fingerprint(onednn={JIT: 9}), a_fingerprint(onednn={REF: 9})
    # The third night has none, and the first two have the same.
    known = dict(zip([each.environment for each in points], [fast, fast, None, slow, slow], strict=True))
    line = a_line(points)
    found = changes_along(line, {name: one for name, one in known.items() if one is not None})
    place = lines.place_of(points[3])
    ((key, (change,)),) = found.items()
    assert key == ("A", place)
    assert (change.kind, change.before, change.after) == ("dispatch", f"9x {JIT}", f"9x {REF}")
    assert change.name.startswith("oneDNN of ")
    numpy = RunChange("environment", "numpy", "2.3.1", "2.4.0")
    (step,) = marks.steps([line], {place: [numpy]}, dispatch=found)
    assert step.changes == (change, numpy)
    (tick,) = marks.ticks([step]).to_dict("records")
    assert tick["what"] == f"{change.name} 9x {JIT} → 9x {REF}; numpy 2.3.1 → 2.4.0"
    assert tick["x"] == points[3].started_at


def test_other_tracks_and_machines_are_not_compared_and_generated_code_is_one_line() -> None:
    points = [a_point(0, "1"), a_point(1, "2", machine="bench-2"), a_point(2, "3")]
    codes = [a_fingerprint(code={f"graph {number}": 1, "graph x": number + 1}) for number in range(3)]
    known = dict(zip([each.environment for each in points], codes, strict=True))
    ((key, (change,)),) = changes_along(a_line(points), known).items()
    assert key == ("A", lines.place_of(points[2]))
    assert (change.name.partition(" of ")[0], change.after) == ("generated code", "differs")


def test_many_changes_of_a_case_are_counted() -> None:
    points = [a_point(0, "1"), a_point(1, "2")]
    counts = {f"aten::op{number}(fp32)": 1 for number in range(9)}
    known = {
        points[0].environment: a_fingerprint(operators={}),
        points[1].environment: a_fingerprint(operators=counts),
    }
    ((_, changes),) = changes_along(a_line(points), known).items()
    assert [change.after for change in changes][-1] == "differ" and len(changes) == 5
    assert changes[-1].name.startswith("5 more of ")
