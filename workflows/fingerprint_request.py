"""The fingerprints that the command line asks for: environments and cases by name."""

from dataclasses import dataclass
from pathlib import Path

from common.interrupts import Interrupts
from runner.execution import harness as harnesses

from .app_context import AppContext
from .errors import NothingToMeasure
from .fingerprints import Fingerprints, take_all
from .planning.plan_run import Chosen, ask, check_alike, check_device
from .planning.resolve_environment import make_ready, store_of
from .planning.select_cases import canonical_key, choose_cases, choose_preset, choose_suite
from .run_locally import exclusive_machine


@dataclass(frozen=True, slots=True)
class FingerprintRequest:
    """Which cases of which environments; None: the default of the settings. `deadline` is in seconds.

    With `again` also those are taken that are stored.
    """

    environments: tuple[str, ...]
    cases: tuple[str, ...] = ()
    suite: str | None = None
    case_files: tuple[Path, ...] = ()
    preset: str | None = None
    device: str | None = None
    deadline: float | None = None
    again: bool = False


def fingerprints_of(
    app: AppContext, request: FingerprintRequest, interrupts: Interrupts
) -> tuple[Fingerprints, ...]:
    """The fingerprints of every environment of the request, taken where none is stored.

    Environments are built if need be. Raises UsageError, RunnerError, JobError or RunInterrupted.
    """
    preset = choose_preset(app.settings, request.preset)
    suite = choose_suite(app.settings, request.suite, list(request.cases), bool(request.case_files))
    harness = harnesses.build(app.places.data_dir / "harness", request.case_files)
    with exclusive_machine(app.reporter):
        ready = make_ready(app, list(request.environments))
        probed = ask(Chosen(preset, suite, harness), ready)
        described = probed.environments
        device = request.device or suite.device
        check_alike(described, device)
        check_device(probed, device)
        cases = choose_cases(
            suite, [canonical_key(pattern) for pattern in request.cases], described[0], app.settings
        )
        if not cases:
            raise NothingToMeasure("no case is selected")
        deadline = request.deadline or suite.timing.deadline_seconds
        with store_of(app).lock_interpreters([one.python for one in described]), interrupts.defer_signals():
            return tuple(
                take_all(app, one, preset, harness, device, cases, deadline, interrupts, again=request.again)
                for one in described
            )
