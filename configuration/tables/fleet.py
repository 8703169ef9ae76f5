"""`[fleet]`: whether several machines work for one head, and where they meet."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ..fields import ConfigTable, PathText

#: The default address of the head's engine.
PORT = 6379


def host_and_port(text: str) -> tuple[str, int]:
    """The two parts of HOST:PORT; raises ValueError for anything else."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError("not HOST:PORT")
    if any(sign in host for sign in ":/@[] "):
        # An IPv6 address among them, which is not tested.
        raise ValueError("not HOST:PORT")
    return host, int(port)


def _address(text: str) -> str:
    host_and_port(text)
    return text


class FleetSettings(ConfigTable):
    """`[fleet]`: what joins machines, "none" for a machine by itself; for "slurm" see also `[slurm]`.

    `address` is where the head listens, reachable from all machines of the fleet. `token_file` holds the
    secret that they share (default: `fleet/token` in the data folder); with it one may run anything on
    all of them.
    """

    engine: Literal["none", "ray", "slurm"] = Field(default="none", description='"none", "ray" or "slurm"')
    address: Annotated[str, AfterValidator(_address)] | None = Field(
        default=None, description=f'HOST:PORT of the head such as "10.0.0.5:{PORT}"'
    )
    token_file: PathText | None = Field(default=None, description="the path of a file with the fleet's token")

    def token(self, data_dir: Path) -> Path:
        """The file that holds the token."""
        return self.token_file or data_dir / "fleet" / "token"
