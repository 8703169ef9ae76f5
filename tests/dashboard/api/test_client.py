"""pyrometer_client: its statistics against scipy's, a served dashboard and a real database."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

import pytest

from analysis import distributions
from db.connection.engine import open_database
from db.runs import queries, series_queries
from support.fakes.coarse_clock import CoarseClock
from support.servers.loopback import Quiet, answering
from support.servers.ports import free_port
from support.site import ROOT

CLIENT = ROOT / "clients" / "pyrometer_client"
PYROMETER = str(Path(sys.executable).with_name("pyrometer"))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The client as it is imported where it is installed."""
    monkeypatch.syspath_prepend(str(CLIENT))
    import pyrometer_client

    return pyrometer_client


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 19, 30, 199])
def test_the_quantiles_are_those_of_scipy(client: Any, degrees: int) -> None:
    from pyrometer_client.statistics import quantile

    for share in (0.75, 0.975, 0.995):
        assert quantile(degrees, share) == pytest.approx(
            float(distributions.quantile(degrees, share)), rel=1e-9
        )


def test_a_step_that_takes_much_longer_is_slower(client: Any) -> None:
    # So many pairs that some in which a busy machine held the short one up change nothing.
    found = client.compare(lambda: time.sleep(0.002), lambda: time.sleep(0.02))
    assert found.word == "slower"
    assert found.low <= found.change <= found.high and found.pairs == 20
    assert str(found).endswith("Student's 99% interval of 20 pairs in one process")
    html = found._repr_html_()
    assert "<svg" in html and str(found) in html
    assert client.compare(lambda: time.sleep(0.02), lambda: time.sleep(0.002)).word == "faster"


def test_a_batch_is_long_enough_for_the_clock(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyrometer_client import comparison

    clock = CoarseClock(slow_calls=4)
    monkeypatch.setattr(comparison, "time", clock)
    found = client.compare(clock.step, clock.step)
    assert (found.a_ms, found.b_ms) == (pytest.approx(0.003, rel=0.03), pytest.approx(0.003, rel=0.03))


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(-0.004, 0.006, "same"), (0.02, 0.05, "slower"), (-0.3, -0.1, "faster"), (-0.05, 0.05, "unclear")],
)
def test_the_words_of_an_interval(client: Any, low: float, high: float, word: str) -> None:
    assert client.StepComparison(1.0, 1.0, (low + high) / 2, low, high, 8, 0.99).word == word


def test_numbers_that_cannot_be_are_refused(client: Any) -> None:
    for wrong in ({"pairs": 1}, {"confidence": 1.0}):
        with pytest.raises(ValueError, match="2 pairs or more"):
            client.compare(int, int, **wrong)


def test_series_are_those_of_the_database(client: Any, serve: Callable[..., Any], full_url: str) -> None:
    served = serve(full_url)
    with open_database(full_url) as database:
        key = next(one for one in series_queries.series_keys(database) if one.metric == "latency_floor")
        stored = series_queries.series(database, [key])
    found = client.series(served.url + "/", key.case, hardware=key.hardware)
    mine = [one for one in found if one["preset_name"] == key.preset_name]
    assert [one["point"] for one in mine] == [one.point for one in stored] != []
    assert {one["case"] for one in mine} == {key.case}
    frame = client.series(served.url, key.case, hardware=key.hardware, frame=True)
    assert len(frame) == len(found) and {"started_at", "point", "torch_version"} <= set(frame.columns)
    assert client.series(served.url, "no/infer/-/such") == []
    with pytest.raises(client.ClientError, match="answers no JSON"):
        client.series(served.url + "/elsewhere", key.case)


def test_no_point_of_a_long_series_is_left_out(client: Any) -> None:
    """A server gives a page and names the next one."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            key = {"case": "a", "metric": "latency", "hardware": "h", "preset": "p"}
            rows = [{**key, "hardware_label": "H", "preset_name": "P"}]
            if address.path.endswith("/points"):
                offset = int(parse_qs(address.query).get("offset", ["0"])[0])
                rows = [{"point": float(night)} for night in range(2500)][offset : offset + 1000]
            self.send_response(200)
            if address.path.endswith("/points") and offset + 1000 < 2500:
                following = f"{address.path}?case=a&offset={offset + 1000}"
                self.send_header("link", f'<{following}>; rel="next"')
            self.end_headers()
            self.wfile.write(json.dumps(rows).encode())

    with answering(Handler) as port:
        found = client.series(f"http://127.0.0.1:{port}", "a", "latency")
    assert [one["point"] for one in found] == [float(night) for night in range(2500)]


def test_a_server_that_is_not_there_is_one_sentence(client: Any) -> None:
    with pytest.raises(client.ClientError, match="Connection refused"):
        client.series("http://127.0.0.1:9", "mlp/infer/-/eager")


@pytest.mark.slow
def test_results_are_submitted(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyrometer.toml").touch()
    monkeypatch.chdir(tmp_path)
    result = {"suite": "mine", "case": "my_model/train/batch=8", "metrics": {"latency": {"value": 12.5}}}
    client.submit(result, command=PYROMETER)
    with open_database(f"sqlite:///{tmp_path}/pyrometer.db") as database:
        (run,) = queries.recent_runs(database)
        (stored,) = queries.measurements_of_run(database, run.id)
    assert (run.suite, stored.case, stored.point) == ("mine", "my_model/train/batch=8/eager", 12.5)
    with pytest.raises(client.ClientError, match="metrics"):
        client.submit({**result, "metrics": {}}, command=PYROMETER)
    with pytest.raises(client.ClientError, match="no-such-program: No such file"):
        client.submit(result, command="no-such-program")


@pytest.mark.slow
def test_results_are_posted_to_a_server(client: Any, full_url: str, tmp_path: Path) -> None:
    shutil.copy(full_url.removeprefix("sqlite:///"), tmp_path / "pyrometer.db")
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
