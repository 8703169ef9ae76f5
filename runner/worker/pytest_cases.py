"""The tests of a project as cases: each is run by pytest up to its call of the fixture, which is measured.

A test is run in a thread of its own and stays there at the call, so that its fixtures remain set up while
this process measures the function that it handed over.
"""

import importlib
import os
import queue
import re
import sys
import threading
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from .case import case
from .prepared_case import UnknownCase, UnsupportedCase

#: The fixtures that hand a function over: that of pytest-pyrometer, and that of pytest-benchmark.
FIXTURES = ("pyrometer", "benchmark")
#: `addopts` may start other processes or need plugins that are not there. The first two blocked plugins bring
#: fixtures of these names.
_OPTIONS = (
    *("-q", "-s", "--no-header", "-o", "addopts="),
    *("-p", "no:pyrometer", "-p", "no:benchmark", "-p", "no:cacheprovider", "-p", "no:faulthandler"),
)
_NO_TESTS = 5

Step = Callable[[], object]


@dataclass(frozen=True, slots=True)
class HandedStep:
    """A function that a test hands over, and what PyTorch keeps for each thread: here those of the test's.

    `device` is the default one, None where this PyTorch does not say.
    """

    step: Step
    threads: int
    device: torch.device | None

    @staticmethod
    def of(step: Step) -> "HandedStep":
        """The step as this thread would run it."""
        get_device = getattr(torch, "get_default_device", None)
        return HandedStep(
            _under_this_mode(step), torch.get_num_threads(), get_device() if get_device else None
        )

    def take_over(self) -> Step:
        """The step, after this thread has become like that of the test."""
        if self.threads != torch.get_num_threads():
            torch.set_num_threads(self.threads)
        if self.device is not None and self.device != torch.get_default_device():
            torch.set_default_device(self.device)
        return self.step


#: What comes of a test: its step, or how it ended without one.
Handed = queue.SimpleQueue[HandedStep | BaseException]


def register(module: str, folder: str, arguments: Sequence[str]) -> None:
    """Collect the tests that `arguments` (paths, node ids) name from `folder`, and register each as a case.

    `module` is the file of cases that they come with. A case is called as its test,
    `tests.perf.test_step:test_forward:8`; tests without one of the fixtures are left out. Raises
    UnsupportedCase without pytest, UnknownCase where nothing is collected, or two tests are called alike.
    """
    os.chdir(folder)
    if folder not in sys.path:
        # As `python -m pytest` does.
        sys.path.insert(0, folder)
    for name, test in _collect_tests(arguments).items():
        case()(_builder(module, name, test))


def _builder(module: str, name: str, test: str) -> Callable[[], Step]:
    def build() -> Step:
        return _build(test)

    build.__module__, build.__name__ = module, name
    return build


def _build(test: str) -> Step:
    """The function that a test hands to the fixture; raises what the test raises before."""
    handed: Handed = queue.SimpleQueue()
    threading.Thread(target=_run, args=(test, handed), daemon=True, name="pytest").start()
    found = handed.get()
    if isinstance(found, HandedStep):
        return found.take_over()
    # pytest's own outcomes are no Exceptions.
    raise found if isinstance(found, Exception) else RuntimeError(f"{test}: {found}")


def _run(test: str, handed: Handed) -> None:
    pytest = _pytest()
    problem: list[BaseException] = []

    def pytest_runtest_makereport(item: Any, call: Any) -> None:
        if call.excinfo is not None:
            skipped = isinstance(call.excinfo.value, pytest.skip.Exception)
            error = (
                UnsupportedCase(f"the test is skipped: {call.excinfo.value}")
                if skipped
                else call.excinfo.value
            )
            problem.append(error)

    plugin = _plugin(pytest, handed)
    plugin.pytest_runtest_makereport = pytest_runtest_makereport  # type: ignore[attr-defined]
    code = pytest.main([test, *_OPTIONS], plugins=[plugin])
    ended = UnknownCase(f"{test} ended without a call of its fixture (pytest: exit code {int(code)})")
    handed.put(problem[0] if problem else ended)


class FunctionFixture:
    """What both fixtures are: it hands over the first function it is called with, and does not return.

    As of pytest-benchmark there are `pedantic` and the attributes that tests set, and read before the call.
    """

    enabled, disabled, stats = True, False, None

    def __init__(self, handed: Handed, node: Any) -> None:
        self._handed = handed
        self.extra_info: dict[str, Any] = {}
        mark = node.get_closest_marker("benchmark")
        self.group: str | None = mark.kwargs.get("group") if mark else None
        self.name, self.fullname = node.name, node.nodeid
        parameters = getattr(node, "callspec", None)
        self.param, self.params = (parameters.id, parameters.params) if parameters else (None, None)

    def __call__(self, function: Callable[..., object], *arguments: Any, **named: Any) -> object:
        self._handed.put(HandedStep.of(partial(function, *arguments, **named)))
        # The process ends while the test is here.
        threading.Event().wait()
        return None

    def pedantic(
        self,
        target: Callable[..., object],
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        setup: Callable[[], object] | None = None,
        teardown: Callable[..., object] | None = None,
        **_: Any,
    ) -> object:
        """Hand over `target`; how often it is called is for the harness to decide."""
        if setup is not None or teardown is not None:
            raise UnsupportedCase(
                "pedantic with setup or teardown is not supported: it would be in the number"
            )
        return self(target, *args, **(kwargs or {}))

    def weave(self, *_: Any, **__: Any) -> object:
        """Raise UnsupportedCase: functions are not replaced from here."""
        raise UnsupportedCase("benchmark.weave is not supported: call benchmark(function, ...)")

    patch = weave


def _under_this_mode(step: Step) -> Step:
    """The step under the modes of this thread, which the thread that measures does not have."""
    if any(map(_autocast, ("cpu", "cuda"))):
        raise UnsupportedCase("the fixture is called under autocast: enter it within the measured function")
    if torch.is_inference_mode_enabled():
        return torch.inference_mode()(step)
    return step if torch.is_grad_enabled() else torch.no_grad()(step)


def _autocast(device: str) -> bool:
    try:
        return bool(torch.is_autocast_enabled(device))
    except TypeError:
        # Before PyTorch 2.4 it takes no device.
        return bool(torch.is_autocast_cpu_enabled() if device == "cpu" else torch.is_autocast_enabled())


def _collect_tests(arguments: Sequence[str]) -> dict[str, str]:
    """By the name of its case each test that has one of the fixtures, as pytest takes it from any folder."""
    pytest = _pytest()
    found: dict[str, str] = {}
    alike: list[str] = []

    def pytest_collection_modifyitems(items: Sequence[Any]) -> None:
        for item in items:
            if set(FIXTURES).intersection(getattr(item, "fixturenames", ())):
                name, test = case_name(item.nodeid), f"{item.path}::{item.nodeid.partition('::')[2]}"
                if found.setdefault(name, test) != test:
                    alike.append(f"{found[name]} and {test} are both called {name}: give one another id")

    plugin = _plugin(pytest, queue.SimpleQueue())
    plugin.pytest_collection_modifyitems = pytest_collection_modifyitems  # type: ignore[attr-defined]
    code = pytest.main([*arguments, "--collect-only", *_OPTIONS], plugins=[plugin])
    if int(code) not in (0, _NO_TESTS):
        raise UnknownCase(f"pytest cannot collect {' '.join(arguments)} (exit code {int(code)})")
    if alike:
        # The number of one would stand for the other.
        raise UnknownCase(alike[0])
    if not found:
        raise UnknownCase(f"no test in {' '.join(arguments)} uses the fixture {' or '.join(FIXTURES)}")
    return found


def case_name(test: str) -> str:
    """What a case is called that is the test of this node id: `tests.test_a:TestB.test_c:8-True`."""
    file, _, inside = test.partition("::")
    function, _, parameters = inside.partition("[")
    parts = (
        file.removesuffix(".py").replace("/", "."),
        function.replace("::", "."),
        parameters.removesuffix("]"),
    )
    return re.sub(r"[^A-Za-z0-9_.+:-]", "-", ":".join(filter(None, parts)))


def _plugin(pytest: Any, handed: Handed) -> types.ModuleType:
    """A plugin that brings the fixtures, which put the function of a test into `handed`."""
    plugin = types.ModuleType("pyrometer_fixtures")

    def pytest_configure(config: Any) -> None:
        config.addinivalue_line("markers", "benchmark(**options): of pytest-benchmark; changes nothing")

    plugin.pytest_configure = pytest_configure  # type: ignore[attr-defined]
    for name in FIXTURES:

        def fixture(request: Any) -> FunctionFixture:
            return FunctionFixture(handed, request.node)

        setattr(plugin, name, pytest.fixture(name=name)(fixture))
    return plugin


def _pytest() -> Any:
    try:
        return importlib.import_module("pytest")
    except ModuleNotFoundError as error:
        if error.name != "pytest":
            raise
        raise UnsupportedCase("tests need pytest, which this environment lacks: --package pytest") from error
