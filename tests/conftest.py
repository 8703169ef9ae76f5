"""What several rooms' tests share."""

import gc
import os
import pickle
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, expect, sync_playwright

from support.fakes.nvml import Shim, build
from support.golden import Golden
from support.made_once import made_once
from support.site import PATIENCE_SECONDS, Done, Site, one_site, unavailable

pytest_plugins = ["support.servers.databases", "support.builders.finished_journal"]

# Started in the background, interrupts may be ignored, and child processes would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Output goes to pipes here; a test process that pytest-xdist starts has 80 columns in its environment.
os.environ.pop("COLUMNS", None)

# The same examples every time, however busy the machine is.
settings.register_profile("house", deadline=None, derandomize=True, database=None)
settings.load_profile("house")


#: Files that take minutes, the longest first, and folders of such: begun last, one of them would keep one
#: process busy and the others idle.
_SLOWEST_FIRST = (
    "end_to_end/test_upgrade.py",
    "end_to_end/test_wheel.py",
    "runner/test_nodes.py",
    "cli/test_files_that_want_much.py",
    "fleet/test_ray.py",
    "runner/test_rank_group.py",
    "end_to_end/test_step.py",
    "runner/census/test_census.py",
    "cli/commands/test_fingerprint.py",
    "dashboard/test_accessibility.py",
    "cli/commands/test_record.py",
    "runner/cases/test_families.py",
    "dashboard/test_dashboard_benchmark.py",
    "runner/cases/test_cases.py",
    "dashboard/test_journeys.py",
    "dashboard/test_in_browser.py",
    "dashboard/test_fixed_days.py",
    "end_to_end",
    "fleet",
    "runner",
    "cli",
    "workflows",
    "scheduled_jobs",
    "dashboard",
)


#: The slow tier: folders, marks and fixtures of tests that need a browser, a cluster or a measured PyTorch.
_SLOW_FOLDERS, _SLOW_MARKS = {"end_to_end", "slow"}, ("browser", "torch")
_SLOW_FIXTURES = {"chromium", "cluster"}


def _is_slow(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    return bool(
        _SLOW_FOLDERS.intersection(item.path.relative_to(item.config.rootpath).parts)
        or _SLOW_FIXTURES & fixtures
        or any(map(item.get_closest_marker, _SLOW_MARKS))
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that rewrites golden files."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files of these tests")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave modules and tests, which stay to the end, out of every later garbage collection.

    Streamlit collects after each run of a page, and would look through all of it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tier, and begin with what takes longest (with `--no-loadscope-reorder`, whole files).

    `tryfirst`: pytest deselects by markers in the same hook.
    """
    for item in items:
        if _is_slow(item):
            item.add_marker("slow")
    slow = {path: place for place, path in enumerate(_SLOWEST_FIRST)}

    def place_of(item: pytest.Item) -> int:
        path = item.path.relative_to(Path(__file__).parent)
        return min(slow.get(one.as_posix(), len(slow)) for one in (path, *path.parents))

    items.sort(key=place_of)


@pytest.fixture(scope="session", autouse=True)
def user_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Outside a project folder data and environments go to folders of the user: for tests, other ones.

    Installers keep their own caches, so that large wheels are not fetched again.
    """
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    with pytest.MonkeyPatch.context() as patch:
        for name, folder in (("UV_CACHE_DIR", "uv"), ("PIP_CACHE_DIR", "pip")):
            patch.setenv(name, os.environ.get(name) or str(usual / folder))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def bare_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This test's own folder as the current one, with no variable of Pyrometer's set."""
    for name in [name for name in os.environ if name.startswith("PYROMETER_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The golden files of the test's folder."""
    return Golden(request.path.parent / "golden", update=request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Shim:
    """The library of a present NVIDIA driver, whose devices tests script."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A folder of this test's own in which the real command can measure."""
    yield from one_site(tmp_path)


@pytest.fixture(scope="session")
def measured_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Done]:
    """A complete run of suite `mixed`, for tests that only look at one."""

    def measure(folder: Path) -> None:
        for place in one_site(folder):
            (folder / "done.pickle").write_bytes(pickle.dumps((place, place.run("mixed", "--json"))))

    folder = made_once(tmp_path_factory, "measured", measure)
    found: tuple[Site, Done] = pickle.loads((folder / "done.pickle").read_bytes())
    return found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A real browser; skips the test where there is none, fails it where all must run."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        unavailable("no Chromium on PATH")
    # For what must show up sooner or later, on a machine that may be busy with other tests.
    expect.set_options(timeout=1000 * PATIENCE_SECONDS)
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()
