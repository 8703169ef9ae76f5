"""Machines beside this one: the secret that both sides know, and having them for the length of a run."""

import os
import secrets
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from configuration.secret_files import one_line
from runner import machine
from runner.environment import Environment
from runner.execution.harness import Harness
from runner.multi_node.client import Neighbours
from runner.multi_node.handshake import terms_of
from runner.profile import Profile
from runner.worker.case_key import CaseKey
from runner.worker.distributed.tcp_channel import host_and_port

from ..context import Context, UsageError

#: Names the file with the secret. The secret itself stands in no variable: those are shown and inherited.
SECRET_VARIABLE = "PYROMETER_LENDING_SECRET_FILE"
#: Of hexadecimal digits: 256 bits.
_SECRET_BYTES = 32
#: What is shorter can be guessed.
_LEAST_LETTERS = 16

Beside = Annotated[
    list[str] | None,
    typer.Option(
        "--neighbour",
        metavar="HOST:PORT",
        help="a machine that runs `pyrometer lend`, for cases with axis nodes (repeatable)",
    ),
]

SecretFile = Annotated[
    Path | None,
    typer.Option(
        "--secret-file",
        envvar=SECRET_VARIABLE,
        help="the secret that both machines know [default: lending/secret in the data folder]",
    ),
]


@dataclass(frozen=True, slots=True)
class Side:
    """What a run measures with on this side, and whether on GPUs; a neighbour has to have the same."""

    harness: Harness
    environment: Environment
    profile: Profile
    on_gpus: bool


def secret_file(here: Context, chosen: Path | None) -> Path:
    """Where the secret lies."""
    return chosen.absolute() if chosen is not None else here.places.data_dir / "lending" / "secret"


def secret_in(file: Path) -> bytes:
    """The secret in a file; raises UsageError where there is none, or one that can be guessed."""
    if not file.exists():
        raise UsageError(
            f"there is no secret in {file}: copy the file that `pyrometer lend` made on the neighbour"
        )
    secret = one_line(file, str(file), "a secret")
    if len(secret) < _LEAST_LETTERS:
        raise UsageError(f"the secret in {file} has fewer than {_LEAST_LETTERS} letters: it can be guessed")
    return secret.encode()


def make_secret(file: Path) -> bool:
    """Write a new secret, for its owner alone, unless there is one; answers whether it did."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with open(descriptor, "w") as made:
        made.write(secrets.token_hex(_SECRET_BYTES) + "\n")
    return True


def check_addresses(addresses: Sequence[str]) -> None:
    """Raise UsageError for what is no HOST:PORT, or stands there twice."""
    for address in addresses:
        try:
            host_and_port(address)
        except ValueError as error:
            raise UsageError(f"--neighbour {error}") from None
    if len({*addresses}) < len(addresses):
        raise UsageError("--neighbour names one machine twice")


def check_needed(cases: Iterable[str], addresses: Sequence[str]) -> None:
    """Raise UsageError for more neighbours than any case is spread over: they would stand idle, locked."""
    most = max((CaseKey.parse(case).count("nodes") for case in cases), default=1) - 1
    if len(addresses) <= most:
        return
    if most == 0:
        raise UsageError("--neighbour: no case of this run is spread over several machines (axis nodes)")
    raise UsageError(f"--neighbour: no case of this run needs more than {most} of them")


@contextmanager
def borrowed(
    here: Context, addresses: Sequence[str], file: Path | None, run: str, cases: Iterable[str], side: Side
) -> Generator[Neighbours | None]:
    """The neighbours at `addresses`, lent to `run` for the block; None where none are asked for.

    `cases` are those of the run. Raises UsageError, and NeighbourFailed for the first that lends nothing.
    """
    if not addresses:
        yield None
        return
    keys = [key for key in map(CaseKey.parse, cases) if key.count("nodes") > 1]
    each = max((key.count("ranks") // key.count("nodes") for key in keys), default=1)
    gpus = each if side.on_gpus else 0
    name = machine.describe([]).name
    terms = terms_of(version("pyrometer"), side.harness, side.environment, side.profile, gpus, run, name)
    with Neighbours(addresses, secret_in(secret_file(here, file)), terms) as neighbours:
        yield neighbours
