"""Addresses of the dashboard's own views, spelled in one place."""

from urllib.parse import urlencode

#: How much of a fingerprint an address carries.
FINGERPRINT = 12


def run(run_id: str) -> str:
    """The page of one run."""
    return "/run?" + urlencode({"run": run_id})


def outcome(run_id: str, case: str, environment: str, replicate: int) -> str:
    """The page of one run with one outcome opened; `environment` is a fingerprint."""
    query = {"run": run_id, "case": case, "environment": environment[:FINGERPRINT], "replicate": replicate}
    return "/run?" + urlencode(query)


def utilisation(run_id: str, case: str, environment: str, replicate: int, *devices: str) -> str:
    """The telemetry window of one replicate; without `devices` of all it has."""
    named = {"run": run_id, "case": case, "environment": environment[:FINGERPRINT], "replicate": replicate}
    return "/utilisation?" + urlencode([*named.items(), *(("device", device) for device in devices)])


def trends(metric: str, hardware: str, profile: str, *cases: str, axis: str = "date") -> str:
    """A view of the trends page; `hardware` and `profile` are fingerprints."""
    return "/trends?" + urlencode(
        [
            ("metric", metric),
            ("hardware", hardware[:FINGERPRINT]),
            ("profile", profile[:FINGERPRINT]),
            ("axis", axis),
            *(("case", case) for case in cases),
        ]
    )


def findings(**chosen: str) -> str:
    """The regressions page: the list, filtered by `chosen`."""
    return "/regressions" + (f"?{urlencode(chosen)}" if chosen else "")


def finding(number: int) -> str:
    """One finding on the regressions page."""
    return findings(finding=str(number))
