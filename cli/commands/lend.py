"""`pyrometer lend`: this machine lends itself to the runs of others."""

import json
import os
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from runner import environment as environments
from runner import machine
from runner.execution import harness as harnesses
from runner.multi_node.remote_ranks import Offer
from runner.multi_node.server import Lender
from runner.worker.distributed.tcp_channel import host_and_port, listen

from ..context import Context, UsageError, context, in_one_sentence, say
from ..interrupts import Interrupts, interruptible
from ..options import CaseFiles
from ..workflows.neighbours import SecretFile, make_secret, secret_file, secret_in
from ..workflows.resolve_environment import choose_environment, refuse_two, store_of
from ..workflows.run_locally import alone, housekeeping
from ..workflows.select_cases import choose_profile

HELP = """Lend this machine to cases that are spread over several (axis nodes), until Ctrl-C or SIGTERM.

\b
pyrometer lend                                        there; it says where its secret lies
pyrometer run --suite scaling --neighbour THERE:7391  here, with a copy of that secret

Whoever knows the secret may have this machine start its own PyTorch with its own copy of a case: both sides
need the same Pyrometer, environment, profile and --cases. One run has it at a time, and nothing else measures
here meanwhile. The secret is never sent, and nothing is encrypted: lend on a network that you trust.
"""

_LISTEN = "0.0.0.0:7391"


def lend(
    environment: Annotated[
        str | None,
        typer.Option("--environment", "-e", help="a name, or a version, built if need be [default: default]"),
    ] = None,
    python: Annotated[Path | None, typer.Option(help="lend this interpreter's PyTorch instead")] = None,
    cases: CaseFiles = None,
    profile: Annotated[str | None, typer.Option(help="measurement profile [default: quiet]")] = None,
    address: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS:PORT", help="where neighbours call")
    ] = _LISTEN,
    secret: SecretFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per line on stdout")] = False,
) -> None:
    """Lend this machine (the help text is above, where its layout survives)."""
    with in_one_sentence(), interruptible() as interrupts:
        here = context()
        refuse_two(environment, python)
        where = _address(address)
        chosen = choose_profile(here.settings, profile)
        harness = harnesses.build(here.places.data_dir / "harness", tuple(cases or ()))
        file = secret_file(here, secret)
        if make_secret(file):
            say(f"made a secret in {file}: copy it to whoever may have this machine")
        key = secret_in(file)
        with alone(json=as_json):
            named = choose_environment(here, environment, python)
            described = environments.describe(*named, harness, chosen)
            offer = Offer(version("pyrometer"), described, harness, chosen, here.places.data_dir / "lent")
            _serve(here, offer, key, where, _Teller(as_json), interrupts)


def _serve(
    here: Context,
    offer: Offer,
    secret: bytes,
    address: tuple[str, int],
    tell: "_Teller",
    interrupts: Interrupts,
) -> None:
    try:
        listener = listen(address)
    except OSError as error:
        raise UsageError(f"cannot listen at {address[0]}:{address[1]}: {error.strerror or error}") from None
    python = offer.environment.python
    with listener, housekeeping(offer.profile), store_of(here).using([python]):
        host, port = listener.getsockname()[:2]
        terms = offer.terms
        tell(
            "listening",
            at=f"{host}:{port}",
            pid=os.getpid(),
            machine=machine.describe([]).name,
            environment=offer.environment.name,
            torch=terms.environment["torch"],
            profile=offer.profile.name,
            harness=terms.harness,
        )
        with interrupts.deferred():
            Lender(offer, secret, tell).serve(listener, interrupts.asked)
        tell("stopped")


def _address(text: str) -> tuple[str, int]:
    try:
        return host_and_port(text)
    except ValueError as error:
        raise UsageError(f"--listen {error}") from None


class _Teller:
    """What happens, a line each: sentences for people, or JSON. Called from several threads."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._lock = threading.Lock()

    def __call__(self, event: str, **about: Any) -> None:
        """Tell one event."""
        line = json.dumps({"event": event, **about}) if self._as_json else _sentence(event, about)
        with self._lock:
            typer.echo(line)


def _sentence(event: str, about: dict[str, Any]) -> str:
    if event == "listening":
        return "lending at {at}: environment {environment}, torch {torch}, profile {profile}".format(**about)
    if event == "refused":
        return "refused {peer}: {reason}".format(**about)
    if event == "lent":
        return "lent to run {run} of {to} ({peer})".format(**about)
    if event == "started":
        return "started for {case}".format(**about)
    if event == "ended":
        left = f"; left over: {', '.join(about['left_over'])}" if about["left_over"] else ""
        return "ended {case}: {reason}".format(**about) + left
    return "returned by run {run} of {to}".format(**about) if event == "returned" else event
