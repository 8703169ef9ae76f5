"""pyrometer_client: its clock, a served dashboard and a real database."""

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen
from xml.etree import ElementTree

import numpy as np
import pytest

from db.connection.engine import open_database
from db.runs import queries, series_queries
from support.fakes.coarse_clock import CoarseClock
from support.servers.loopback import Quiet, answering
from support.servers.ports import free_port
from support.site import ROOT

CLIENT = ROOT / "clients" / "pyrometer_client"
LABELS = {"machine": "gpu-07", "hardware": "8 x H200"}
PYROMETER = str(Path(sys.executable).with_name("pyrometer"))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The client as it is imported where it is installed."""
    monkeypatch.syspath_prepend(str(CLIENT))
    import pyrometer_client

    return pyrometer_client


def test_a_step_that_takes_much_longer_is_slower(client: Any) -> None:
    found = client.compare(lambda: time.sleep(0.002), lambda: time.sleep(0.02))
    assert found.word == "slower"
    assert found.low <= found.change <= found.high and found.pairs in (4, 6, 8, 10, 12, 16, 20)
    assert str(found).endswith(f"99% interval of {found.pairs} pairs in one process")
    assert client.compare(lambda: time.sleep(0.02), lambda: time.sleep(0.002)).word == "faster"


def test_a_comparison_renders_its_interval_as_svg(client: Any) -> None:
    found = client.StepComparison("slower", 1.2, 1.26, 0.05, 0.04, 0.06, 6, 0.99)
    html = found._repr_html_()
    sentence = "slower: +5.00% [+4.00%, +6.00%], 1.2 ms to 1.26 ms, 99% interval of 6 pairs in one process"
    picture = ElementTree.fromstring(html[html.index("<svg") :])
    assert html.startswith(f"<div>{sentence}</div>") and picture.get("aria-label") == sentence
    width = float(picture.attrib["width"])
    dot = picture.find("circle")
    assert dot is not None
    # 0 is in the middle, and the largest end of the interval a little inside.
    assert float(dot.attrib["cx"]) == pytest.approx(width / 2 * (1 + 0.05 / (1.1 * 0.06)), abs=0.1)


class UnsteadyClock:
    """In place of the module `time`: calls take what they say, times the machine's pace, which wanders."""

    def __init__(self) -> None:
        self._seconds, self._calls = 0.0, 0

    def perf_counter(self) -> float:
        """Seconds."""
        return self._seconds

    def step(self, seconds: float) -> Callable[[], None]:
        """A function that takes so long; every fifth call takes three times as long."""

        def called() -> None:
            self._calls += 1
            # Slow against a block of 10 ms, and not in step with the rounds.
            pace = 1 + 0.2 * math.sin(self._seconds / 3)
            self._seconds += seconds * pace * (3 if self._calls % 5 == 0 else 1)

        return called


def test_hiccups_and_the_pace_of_the_machine_are_in_no_ratio(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyrometer_client import comparison

    clock = UnsteadyClock()
    monkeypatch.setattr(comparison, "time", clock)
    found = client.compare(clock.step(0.002), clock.step(0.0021))
    assert (found.word, found.change) == ("slower", pytest.approx(0.05, abs=2e-3))
    assert found.low <= 0.05 <= found.high
    same = client.compare(clock.step(0.002), clock.step(0.002))
    assert (same.word, same.change) == ("same", pytest.approx(0.0, abs=2e-3))


def test_a_batch_is_long_enough_for_the_clock(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyrometer_client import comparison

    clock = CoarseClock(slow_calls=4)
    monkeypatch.setattr(comparison, "time", clock)
    found = client.compare(clock.step, clock.step)
    assert (found.a_ms, found.b_ms) == (pytest.approx(0.003, rel=0.03), pytest.approx(0.003, rel=0.03))


def test_numbers_that_cannot_be_are_refused(client: Any) -> None:
    for wrong in ({"pairs": 3}, {"confidence": 1.0}, {"confidence": 0.5}):
        with pytest.raises(ValueError, match="4 pairs or more"):
            client.compare(int, int, **wrong)


def test_series_are_those_of_the_database(client: Any, serve: Callable[..., Any], full_url: str) -> None:
    served = serve(full_url)
    with open_database(full_url) as database:
        key = next(one for one in series_queries.series_keys(database) if one.metric == "latency_floor")
        stored = series_queries.series(database, [key])
    found = client.series(served.url + "/", key.case, hardware=key.hardware)
    mine = [one for one in found if one["preset_name"] == key.preset_name]
    assert [one["point"] for one in mine] == [one.point for one in stored] != []
    assert {(one["case"], one["unit"]) for one in mine} == {(key.case, "ms")}
    frame = client.series(served.url, key.case, hardware=key.hardware, frame=True)
    assert list(frame["point"]) == [one["point"] for one in found]
    assert list(frame["started_at"][frame["preset_name"] == key.preset_name]) == [
        one.started_at for one in stored
    ]
    assert client.series(served.url, "no/infer/-/such") == []
    none = client.series(served.url, "no/infer/-/such", frame=True)
    assert len(none) == 0 and list(none.columns) == list(frame.columns)
    with pytest.raises(client.ClientError, match="answers no JSON"):
        client.series(served.url + "/elsewhere", key.case)


class PagesOfPoints(Quiet, BaseHTTPRequestHandler):
    """An older server (it has no unit) of a series of 2,500 points; `/proxied/` leads to it as well."""

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        path = address.path.removeprefix("/proxied")
        key = {"case": "a", "metric": "latency", "hardware": "h", "preset": "p"}
        rows: list[dict[str, Any]] = [{**key, "hardware_label": "H", "preset_name": "P"}]
        link = '</style.css>; rel="preload"'
        if path.endswith("/points"):
            offset = int(parse_qs(address.query).get("offset", ["0"])[0])
            rows = [a_point(night) for night in range(2500)][offset : offset + 1000]
            if offset + 1000 < 2500:
                link += f', <{path}?case=a&offset={offset + 1000}>; rel="next"'
        self.send_response(200 if path.startswith("/api/v1/") else 404)
        self.send_header("link", link)
        self.end_headers()
        self.wfile.write(json.dumps(rows).encode())


def a_point(night: int) -> dict[str, Any]:
    """A point as the API answers: one process has no interval."""
    fraction = ".500000" if night % 2 else ""
    started = f"2026-01-01T00:{night // 60:02}:{night % 60:02}{fraction}Z"
    return {"started_at": started, "point": float(night), "low": None, "high": None, "n": 1}


@pytest.mark.parametrize("under", ["", "/proxied"])
def test_no_point_of_a_long_series_is_left_out(client: Any, under: str) -> None:
    """A server gives a page and names the next one, as its proxy does not know it."""
    with answering(PagesOfPoints) as port:
        url = f"http://127.0.0.1:{port}{under}"
        found = client.series(url, "a", "latency")
        frame = client.series(url, "a", "latency", frame=True)
    assert [one["point"] for one in found] == [float(night) for night in range(2500)]
    assert {one["unit"] for one in found} == {""}
    assert found[0]["low"] is None and frame["low"].isna().all()
    # Numbers without any known, and times with and without a fraction.
    assert (frame["point"] - frame["low"]).isna().all()
    assert frame["started_at"].is_monotonic_increasing
    assert str(frame["started_at"][1]) == "2026-01-01 00:00:01.500000+00:00"


def test_answers_that_are_no_rows_are_one_sentence(client: Any) -> None:
    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/hangs-up"):
                return
            refuses = self.path.startswith("/refuses")
            self.send_response(503 if refuses else 200)
            self.end_headers()
            self.wfile.write(json.dumps({"detail": "the database is away"}).encode())

    with answering(Handler) as port:
        url = f"http://127.0.0.1:{port}"
        for address, said in (
            (url, "answers no rows"),
            (f"{url}/refuses", "503 .*the database is away"),
            (f"{url}/hangs-up", "closed connection"),
            ("127.0.0.1", "unknown url type"),
        ):
            with pytest.raises(client.ClientError, match=said):
                client.series(address, "a")


def test_results_and_token_follow_no_redirection(client: Any) -> None:
    seen: list[str] = []

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(302)
            self.send_header("location", "/login")
            self.end_headers()

        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<p>Log in</p>")

    with answering(Handler) as port, pytest.raises(client.ClientError, match="redirects to /login"):
        client.submit({"suite": "mine"}, url=f"http://127.0.0.1:{port}", token="submits", **LABELS)
    assert seen == []


def lost(
    client: Any, monkeypatch: pytest.MonkeyPatch, answers: list[int], calls: int = 1
) -> tuple[list[Any], str]:
    """The results that came where a server answers so, 0 by hanging up, and what the last call returns."""
    from pyrometer_client import server

    monkeypatch.setattr(server, "_PAUSE_SECONDS", 0.0)
    seen: list[Any] = []

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            if status := answers[len(seen) - 1]:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(b'{"detail": "for want of space"}')

    said = ""
    with answering(Handler) as port:
        place = {"url": f"http://127.0.0.1:{port}", "machine": "m", "hardware": "h"}
        for _ in range(calls):
            try:
                said = client.submit({"suite": "mine", "case": "a/infer"}, **place)
            except client.ClientError as error:
                said = str(error)
    return seen, said


def test_results_whose_answer_is_lost_are_sent_again_as_the_same(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server takes what it has stored for the same, by the time of the run."""
    seen, said = lost(client, monkeypatch, [0, 504, 200])
    assert len(seen) == 3 and seen[0] == seen[1] == seen[2] and "started_at" in seen[0][0]
    assert json.loads(said) == {"detail": "for want of space"}


def test_results_that_a_caller_submits_again_are_the_same_until_they_are_answered(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, _ = lost(client, monkeypatch, [0, 0, 0, 0, 200, 200], calls=3)
    assert len(seen) == 6 and all(one == seen[0] for one in seen[:5])
    assert seen[5][0]["started_at"] > seen[0][0]["started_at"]


def test_a_refusal_is_not_repeated_and_no_answer_names_the_time_to_repeat_with(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status in (403, 409, 422, 500):
        seen, said = lost(client, monkeypatch, [status])
        assert len(seen) == 1 and "for want of space" in said and "started_at" not in said
    seen, said = lost(client, monkeypatch, [0, 0, 0])
    assert len(seen) == 3 and said.endswith(f'"started_at": "{seen[0][0]["started_at"]}"')


def test_a_token_goes_to_no_other_host(client: Any) -> None:
    """As a proxy sends whom it does not know to the page of its login."""
    seen: list[tuple[str, str | None]] = []

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers["authorization"]))
            if self.path.startswith("/api"):
                host = "localhost" if "case=elsewhere" in self.path else "127.0.0.1"
                self.send_response(302)
                self.send_header("location", f"http://{host}:{self.server.server_address[1]}/login")
            else:
                self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

    token = {"Authorization": "Bearer secret"}
    with answering(Handler) as port:
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(client.ClientError, match="302 it redirects to http://localhost"):
            client.series(url, "elsewhere", headers=token)
        assert len(seen) == 1
        for brought in ({"headers": token}, {"token": "secret\n"}):
            assert client.series(url, "here", **brought) == []
            assert seen[-1] == ("/login", "Bearer secret")


def test_a_token_of_a_file_is_taken_without_its_end_and_no_error_shows_a_secret(client: Any) -> None:
    seen: list[str] = []

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            seen.append(self.headers["authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    with answering(Handler) as port:
        url = f"http://127.0.0.1:{port}"
        client.submit({"suite": "mine"}, url=url, token="secret\n", **LABELS)
        with pytest.raises(client.ClientError) as refusal:
            client.submit({"suite": "mine"}, url=url, token="sec\nret", **LABELS)
        assert "ret" not in str(refusal.value)
        with pytest.raises(client.ClientError) as refusal:
            client.series(url, "a", headers={"Authorization": "Bearer secret\n"})
        assert "secret" not in str(refusal.value) and "Authorization" in str(refusal.value)
        with pytest.raises(client.ClientError) as refusal:
            client.series(f"http://ada:secret@127.0.0.1:{port}", "a")
        assert "secret" not in str(refusal.value) and "headers" in str(refusal.value)
    assert seen == ["Bearer secret"]


def test_a_server_that_is_not_there_is_one_sentence(client: Any) -> None:
    with pytest.raises(client.ClientError, match="Connection refused"):
        client.series("http://127.0.0.1:9", "mlp/infer/-/eager")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"detail": "no run is named a"}', "422 no run is named a"),
        (
            b'{"detail": [{"loc": ["query", "case"], "msg": "Field required"}]}',
            "422 query.case: Field required",
        ),
        (b'{"detail": {"a": 1}}', '422 {"detail": {"a": 1}}'),
        (b'{"detail": [1]}', '422 {"detail": [1]}'),
        (b'["a"]', '422 ["a"]'),
    ],
)
def test_a_refusal_of_the_api_is_read_as_its_sentence(client: Any, body: bytes, said: str) -> None:
    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(422)
            self.end_headers()
            self.wfile.write(body)

    with answering(Handler) as port, pytest.raises(client.ClientError) as caught:
        client.series(f"http://127.0.0.1:{port}", "a")
    assert str(caught.value).endswith(f": {said}")


def test_without_labels_nothing_is_posted(client: Any) -> None:
    for labels in ({}, {"machine": "a"}, {"machine": "a", "hardware": " "}):
        with pytest.raises(client.ClientError, match="machine and hardware"):
            client.submit({"suite": "mine"}, url="http://127.0.0.1:9", **labels)


def test_the_reason_of_a_refusal_is_what_was_set_aside(client: Any, tmp_path: Path) -> None:
    (tmp_path / "submit.py").write_text(
        "import sys; sys.stdin.read(); print('set aside: stdin: it is stored as 1.0')\n"
        "print('note: data goes to another folder', file=sys.stderr); sys.exit(1)\n"
    )
    with pytest.raises(client.ClientError, match="set aside: stdin: it is stored"):
        client.submit({"suite": "mine"}, command=f"{sys.executable} {tmp_path}/submit.py")


@pytest.mark.slow
def test_results_are_submitted(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyrometer.toml").touch()
    monkeypatch.chdir(tmp_path)
    measured = {"value": np.float32(12.5)}
    result = {"suite": "mine", "case": "my_model/train/batch=8", "metrics": {"latency": measured}}
    when = datetime(2026, 11, 1, 12, tzinfo=UTC)
    labels = {"machine": "gpu-07", "hardware": "8 x H200"}
    client.submit({**result, "started_at": when}, command=PYROMETER, **labels)
    with open_database(f"sqlite:///{tmp_path}/pyrometer.db") as database:
        (run,) = queries.recent_runs(database)
        (stored,) = queries.measurements_of_run(database, run.id)
    assert (run.suite, stored.case, stored.point) == ("mine", "my_model/train/batch=8/eager", 12.5)
    assert (run.started_at, run.machine, run.hardware) == (when, *labels.values())
    with pytest.raises(client.ClientError, match="no JSON: set is neither"):
        client.submit({**result, "facts": {"a": {1}}}, command=PYROMETER)
    with pytest.raises(client.ClientError, match="metrics"):
        client.submit({**result, "metrics": {}}, command=PYROMETER)
    with pytest.raises(client.ClientError, match="no-such-program: No such file"):
        client.submit(result, command="no-such-program")


@pytest.mark.slow
def test_results_are_posted_to_a_server(client: Any, full_copy: str, tmp_path: Path) -> None:
    (tmp_path / "pyrometer.toml").write_text(
        '[dashboard]\nsubmit_token = "submits"\ntrigger_token = "triggers"\n'
        '[schedules.weekly]\ncron = "0 3 * * 1"\nenvironments = ["2.13.0"]\n'
    )
    port = str(free_port())
    program = subprocess.Popen(
        [PYROMETER, "dashboard", "--port", port], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        assert program.stdout
        url = next(line.split()[-1] for line in program.stdout if line.startswith("Dashboard: "))
        result = {"suite": "mine", "case": "my_model/train/batch=8", "metrics": {"latency": {"value": 12.5}}}
        place = {"url": url, "machine": "gpu-07", "hardware": "8 x H200"}
        (run,) = json.loads(client.submit(result, token="submits", **place))["runs"]
        with open_database(f"sqlite:///{tmp_path}/pyrometer.db") as database:
            stored = queries.run_record(database, run)
            assert stored and stored.machine.name == "gpu-07"
            count = queries.count_runs(database)
            for wrong, said in (
                ({**place, "token": "triggers"}, "submit_token"),
                ({**place, "token": ""}, "submit_token"),
                ({**place, "token": "submits", "machine": ""}, "machine"),
                ({**place, "token": "submits", "url": url + "/elsewhere"}, "older"),
            ):
                with pytest.raises(client.ClientError, match=said):
                    client.submit(result, **wrong)
            with pytest.raises(client.ClientError, match="nothing was stored"):
                client.submit({**result, "newer": 1}, token="submits", **place)
            assert queries.count_runs(database) == count
        trigger = Request(f"{url}/api/v1/schedules/weekly/trigger", b"", {"Authorization": "Bearer triggers"})
        with urlopen(trigger) as answer:
            assert (answer.status, json.load(answer)["queued"]) == (202, True)
    finally:
        program.terminate()
        program.communicate()


def test_it_imports_the_standard_library_alone() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules)\n"
        "import pyrometer_client\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'pyrometer_client'}))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, CLIENT], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
