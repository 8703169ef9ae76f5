"""The addresses of all views of the dashboard."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from records.fingerprints import AGAIN

#: The number of characters of a fingerprint in an address.
FINGERPRINT = 12
#: The parameter of an address that names the case whose panel is opened.
DETAIL = "detail"
#: The addresses of views without a selection.
UPGRADE, HARDWARE, RUN_PAIR = "/compare", "/compare?view=hardware", "/compare?view=runs"
TECHNIQUES, HISTORY = "/explore", "/explore?view=history"
UTILISATION, PROFILE = "/explore?view=utilisation", "/explore?view=profile"
RUNS, MACHINES, SCHEDULE = "/runs", "/runs?view=machines", "/runs?view=schedule"


def short(environment: str) -> str:
    """The name of an environment in an address: the beginning of its fingerprint.

    An environment that is compared with itself has a second fingerprint, which differs only at its end.
    """
    return environment[:FINGERPRINT] + (AGAIN if environment.endswith(AGAIN) else "")


def runs(page: int = 1, **filters: str) -> str:
    """A page, from 1, of the list of runs, filtered by `filters`."""
    return "/runs?" + urlencode({**filters, "page": page})


def run(run_id: str, query: Mapping[str, Sequence[str]] | None = None) -> str:
    """The page of one run with the parameters of `query`."""
    return "/runs?" + urlencode({**(query or {}), "run": run_id}, doseq=True)


def outcomes(query: Mapping[str, Sequence[str]], page: int) -> str:
    """The page of one run as `query` has it, with another page, from 1, of its outcomes."""
    return "/runs?" + urlencode({**query, "outcomes": page}, doseq=True)


def outcome(run_id: str, case: str, environment: str, replicate: int) -> str:
    """The page of one run with one outcome opened; `environment` is a fingerprint."""
    return f"{result(run_id, case, environment)}&replicate={replicate}"


def result(run_id: str, case: str, environment: str) -> str:
    """The page of one run with the first outcome of a case opened; `environment` is a fingerprint."""
    return "/runs?" + urlencode({"run": run_id, "case": case, "environment": short(environment)})


def point(run_id: str, case: str, environment: str) -> str:
    """The parameters that open the panel of a point's case in its run, for an address of the history."""
    return urlencode({"at": run_id, DETAIL: case, "environment": short(environment)})


def windows(run_id: str, case: str, environment: str) -> str:
    """The first telemetry window of a case in a run, in the environment of that fingerprint."""
    return view(UTILISATION, {"run": [run_id], "case": [case], "environment": [short(environment)]})


def utilisation(run_id: str, case: str, environment: str, replicate: int) -> str:
    """The telemetry window of one replicate, of all devices that it has."""
    return f"{windows(run_id, case, environment)}&replicate={replicate}"


def trends(metric: str, hardware: str, preset: str, *cases: str, axis: str = "date", at: str = "") -> str:
    """A view of the history of some cases; `hardware` and `preset` are fingerprints.

    `at` is a run whose points are opened.
    """
    place = {"hardware": [hardware[:FINGERPRINT]], "preset": [preset[:FINGERPRINT]]}
    return view(
        HISTORY, {"metric": [metric], **place, "axis": [axis], "case": cases, "at": [at] if at else []}
    )


def view(address: str, query: Mapping[str, Sequence[str]]) -> str:
    """One of the addresses above with the parameters of `query`."""
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query, doseq=True)}"


def machine(name: str) -> str:
    """A machine opened."""
    return view(MACHINES, {"machine": [name]})


def findings(**filters: str) -> str:
    """The regressions page: the list, filtered by `filters`."""
    return "/regressions" + (f"?{urlencode(filters)}" if filters else "")


def finding(number: int) -> str:
    """One finding on the regressions page."""
    return findings(finding=str(number))
