"""Addresses of the dashboard's own views, spelled in one place."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from urllib.parse import quote_plus, urlencode

from records.fingerprints import AGAIN

#: How much of a fingerprint an address carries.
FINGERPRINT = 12
#: The parameter of an address that names the case whose panel is opened.
DETAIL = "detail"
#: The list of runs, and the series that its page opens on.
RUNS, HISTORY = "/runs", "/explore?view=history"


def short(environment: str) -> str:
    """How an address names the environment of a fingerprint: by its beginning.

    One that was compared with itself has a second fingerprint, whose end is all that sets it apart.
    """
    return environment[:FINGERPRINT] + (AGAIN if environment.endswith(AGAIN) else "")


def runs(page: int = 1, **chosen: str) -> str:
    """A page, from 1, of the list of runs, filtered by `chosen`."""
    return "/runs?" + urlencode({**chosen, "page": page})


def run(run_id: str, query: Mapping[str, Sequence[str]] | None = None) -> str:
    """The page of one run, with whatever else a `query` opens there."""
    return "/runs?" + urlencode({**(query or {}), "run": run_id}, doseq=True)


def outcomes(query: Mapping[str, Sequence[str]], page: int) -> str:
    """The page of one run as `query` has it, with another page, from 1, of its outcomes."""
    return "/runs?" + urlencode({**query, "outcomes": page}, doseq=True)


def outcome(run_id: str, case: str, environment: str, replicate: int) -> str:
    """The page of one run with one outcome opened; `environment` is a fingerprint."""
    return f"{result(run_id, case, environment)}&replicate={replicate}"


def result(run_id: str, case: str, environment: str) -> str:
    """The page of one run with the first outcome of a case opened; `environment` is a fingerprint."""
    return f"/runs?run={_quoted(run_id)}&{_opened(case, short(environment))}"


@lru_cache(maxsize=4096)
def _quoted(run_id: str) -> str:
    # The lines of one chart have their points in the same runs.
    return quote_plus(run_id)


@lru_cache(maxsize=4096)
def _opened(case: str, environment: str) -> str:
    # A chart has thousands of points and a run of thousands of outcomes, and few cases.
    return urlencode({"case": case, "environment": environment})


def windows(run_id: str, case: str, environment: str) -> str:
    """The first telemetry window of a case in a run, in the environment of that fingerprint."""
    return f"/explore?view=utilisation&run={_quoted(run_id)}&{_opened(case, short(environment))}"


def utilisation(run_id: str, case: str, environment: str, replicate: int, *devices: str) -> str:
    """The telemetry window of one replicate; without `devices` of all it has."""
    chosen = "".join(f"&device={quote_plus(device)}" for device in devices)
    opened = _opened(case, short(environment))
    return f"/explore?view=utilisation&run={quote_plus(run_id)}&{opened}&replicate={replicate}{chosen}"


def trends(metric: str, hardware: str, preset: str, *cases: str, axis: str = "date", at: str = "") -> str:
    """A view of the history of some cases; `hardware` and `preset` are fingerprints.

    `at` is a run whose points are opened.
    """
    return "/explore?" + urlencode(
        [
            ("view", "history"),
            ("metric", metric),
            ("hardware", hardware[:FINGERPRINT]),
            ("preset", preset[:FINGERPRINT]),
            ("axis", axis),
            *(("case", case) for case in cases),
            *([("at", at)] if at else ()),
        ]
    )


def history(query: Mapping[str, Sequence[str]]) -> str:
    """The history of series as `query` has it (see `dashboard.trends.view`)."""
    return f"{HISTORY}&{urlencode(query, doseq=True)}"


def upgrade(query: Mapping[str, Sequence[str]]) -> str:
    """One upgrade: its run, and what of its policy is changed (see `dashboard.upgrades.view`)."""
    return "/compare?" + urlencode(query, doseq=True)


def techniques(query: Mapping[str, Sequence[str]]) -> str:
    """The techniques of one workload: where and of what (see `dashboard.techniques.view`)."""
    return "/explore?" + urlencode(query, doseq=True)


def profile(query: Mapping[str, Sequence[str]]) -> str:
    """The operators of a traced case (see `dashboard.runs.traced_cases`)."""
    return "/explore?" + urlencode({"view": "profile", **query}, doseq=True)


def hardware(query: Mapping[str, Sequence[str]]) -> str:
    """Machines: what is compared, with what (see `dashboard.hardware.view`)."""
    return "/compare?" + urlencode({"view": "hardware", **query}, doseq=True)


def run_pair(query: Mapping[str, Sequence[str]]) -> str:
    """Two runs compared (see `dashboard.run_pairs.page`)."""
    return "/compare?" + urlencode({"view": "runs", **query}, doseq=True)


def machines(machine: str = "") -> str:
    """The machines, or one opened by its name."""
    return "/runs?" + urlencode({"view": "machines", **({"machine": machine} if machine else {})})


def schedule() -> str:
    """The schedules with what runs and waits."""
    return "/runs?view=schedule"


def findings(**chosen: str) -> str:
    """The regressions page: the list, filtered by `chosen`."""
    return "/regressions" + (f"?{urlencode(chosen)}" if chosen else "")


def finding(number: int) -> str:
    """One finding on the regressions page."""
    return findings(finding=str(number))
