"""The wheel in a virtual environment without the checkout, called in an empty folder as `uvx` does."""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support.servers.browser import a_context
from support.servers.ports import free_port
from support.site import LOCK_FOLDER, PATIENCE_SECONDS, ROOT, Done, unavailable

UV = Path(sys.executable).with_name("uv")
CASE = "mlp_overhead/infer/batch=64/eager"
#: A release whose CPU wheel is small; the program builds it as its environment `default`.
TORCH = "2.13.0"
#: The numbers are none of these tests' concern.
SHORT = {
    f"PYROMETER_SUITES__SMOKE__{name}": text
    for name, text in (("MEASURE_SECONDS", "0.1"), ("WARM_UP_MAX_SECONDS", "0.3"), ("OBSERVE_SECONDS", "0"))
}


@dataclass(frozen=True)
class Installed:
    """The program in an environment of its own, an empty folder, and the home of a user."""

    command: Path
    folder: Path
    home: Path

    def environ(self) -> dict[str, str]:
        """This process's variables without the program's settings and without the checkout."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYROMETER_", "XDG_", "PYTHON"))}
        quiet = {"PYROMETER_CONTENTION_LIMIT": "1", LOCK_FOLDER: str(self.home)}
        # Byte code of all of PyTorch would be a third of the time of a build.
        places = {"HOME": str(self.home), "TMPDIR": str(self.home / "tmp"), "PIP_NO_COMPILE": "1"}
        return {**kept, **quiet, **places, **SHORT}

    def call(self, *arguments: str, folder: Path | None = None) -> Done:
        """Run `pyrometer` to its end."""
        done = subprocess.run(
            [self.command, *arguments],
            cwd=folder or self.folder,
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def serve(self, *arguments: str) -> tuple[subprocess.Popen[str], str]:
        """A command that serves the dashboard, and its address once it answers."""
        process = subprocess.Popen(
            [self.command, *arguments, "--port", str(free_port())],
            cwd=self.folder,
            env=self.environ(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        return process, next(line.split()[1] for line in process.stdout if line.startswith("Dashboard: "))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The wheel, built and installed with what it depends on; what it builds is removed afterwards."""
    place = tmp_path_factory.mktemp("wheel")
    if not UV.exists():
        unavailable("no uv beside this Python: run `make setup`")
    subprocess.run([UV, "build", "--quiet", "--offline", "--wheel", "--out-dir", place, ROOT], check=True)
    (wheel,) = place.glob("pyrometer-*-py3-none-any.whl")
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, place / "venv"], check=True)
    install = [UV, "pip", "install", "--quiet", "--python", place / "venv/bin/python", wheel]
    done = subprocess.run(install, capture_output=True, text=True, cwd=place)
    if done.returncode != 0:
        unavailable(f"the wheel's dependencies cannot be installed: {done.stderr.strip()[-500:]}")
    for name in ("empty", "home", "home/tmp"):
        (place / name).mkdir()
    yield Installed(place / "venv/bin/pyrometer", place / "empty", place / "home")
    shutil.rmtree(place)


def test_an_upgrade_builds_measures_and_leaves_its_report_alone(installed: Installed) -> None:
    # The budget has room for the first pair.
    arguments = ("upgrade", TORCH, TORCH, "--suite", "smoke", "--case", CASE)
    done = installed.call(*arguments, "--budget", "1", "--no-fingerprint", "--report", "v.html")
    if "cannot be built" in done.err:
        unavailable(done.err.strip()[-500:])
    assert done.code == 3, done
    page = installed.folder / "v.html"
    assert f"{TORCH}" in page.read_text() and CASE in page.read_text()
    assert list(installed.folder.iterdir()) == [page]
    page.unlink()

    assert (installed.home / ".local/state/pyrometer/pyrometer.db").exists()

    # The default environment is the same one: it is not built again.
    run = installed.call("run", "--suite", "smoke", "--case", CASE, "--replicates", "1", "--json")
    assert run.code == 0, run
    assert run.run in installed.call("report", "--json").out
    (built,) = (installed.home / ".cache/pyrometer/environments").glob(f"{TORCH}-*/built.json")
    assert json.loads(built.read_text())["size_mib"] > 100

    # What made that number, and the same again, in the environment that is still there.
    printed = json.loads(installed.call("reproduce", f"{run.run}:{CASE}", "--json").out)
    (lock,) = printed["environments"]
    assert f"torch=={TORCH}" in " ".join(lock["packages"]) and Path(lock["python"]).exists()
    assert printed["harness"] == printed["own_harness"]
    again = installed.call("reproduce", f"{run.run}:{CASE}", "--run")
    assert again.code == 0 and lock["python"] in again.err, again
    assert json.loads(installed.call("reproduce", "latest", "--json").out)["run"] != run.run
    assert list(installed.folder.iterdir()) == []


def test_what_a_wheel_carries(installed: Installed) -> None:
    suites = json.loads(installed.call("suites", "list", "--json").out)
    assert {"smoke", "cpu", "gpu"} <= {each["name"] for each in suites}
    code = "import dashboard, runner; print(runner.__path__[0], dashboard.__path__[0])"
    where = subprocess.run(
        [installed.command.with_name("python"), "-P", "-c", code],
        cwd=installed.folder,
        env=installed.environ(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert all(Path(each).is_relative_to(installed.command.parents[1]) for each in where)


def test_the_dashboard_is_served_from_an_empty_folder(installed: Installed) -> None:
    # Which starts `pyrometer dashboard`, as a process of its own.
    process, url = installed.serve("serve", "--no-measuring")
    try:
        for path, inside in (("/readyz", b"ready"), ("/", b"<title>"), ("/app/static/icon.png", b"PNG")):
            with urllib.request.urlopen(url + path, timeout=PATIENCE_SECONDS) as answer:
                assert inside in answer.read()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_SECONDS)
    assert list(installed.folder.iterdir()) == []


def test_the_demonstration_says_on_every_page_what_it_is(installed: Installed, chromium: Browser) -> None:
    process, url = installed.serve("demo")
    try:
        page = a_context(chromium).new_page()
        for path in (
            "",
            "compare",
            "compare?view=hardware",
            "explore",
            "explore?view=history",
            "regressions",
            "runs",
        ):
            page.goto(f"{url}/{path}")
            expect(page.get_by_text("Made-up data: nothing on this page was measured.")).to_be_visible()
            expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.goto(f"{url}/regressions")
        expect(page.get_by_text("bert_base").first).to_be_visible()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_SECONDS)
    assert list(installed.home.glob("tmp/pyrometer-demo-*")) == []


def test_settings_for_this_machine_are_written_once(installed: Installed, tmp_path: Path) -> None:
    done = installed.call("init", folder=tmp_path)
    file = tmp_path / "pyrometer.toml"
    assert done.code == 0 and done.out.startswith(f"{file}: settings")
    assert list(tmp_path.iterdir()) == [file]
    before = file.read_text()
    assert installed.call("init", folder=tmp_path).one_sentence().endswith("is not changed")
    assert file.read_text() == before
    found = json.loads(installed.call("doctor", "--json", folder=tmp_path).out)
    assert found["data_dir"] == str(tmp_path / ".pyrometer")
    assert found["environments"] == {"default": "not built: `pyrometer environments build default`"}
