"""`[slurm]`: how jobs are given to a Slurm cluster, for a fleet whose engine it is."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from ..fields import ConfigTable, PathText, Positive, Text, Texts, Variable


def _absolute(value: Path) -> Path:
    if not value.is_absolute():
        raise ValueError("a relative path means another file on every machine")
    return value


class SlurmSettings(ConfigTable):
    """`[slurm]`: which nodes are used, and what a job is given.

    Only nodes of `partition` are used (default: all), and jobs are charged to `account`. `folder` is on a
    file system that all nodes see at the same path (default: `fleet/slurm` in the data folder). `python`
    is the interpreter with Pyrometer on the nodes (default: the head's). `arguments` go to sbatch; the
    variables in `environment` go with a job.
    """

    partition: Text | None = Field(default=None, description="the name of a partition")
    account: Text | None = Field(default=None, description="the name of an account")
    time_limit_hours: Positive = Field(default=12, description="a number of hours above 0")
    folder: PathText | None = Field(default=None, description="the path of a folder")
    python: Annotated[PathText, AfterValidator(_absolute)] | None = Field(
        default=None, description="the absolute path of a Python interpreter"
    )
    arguments: Texts = Field(default=(), description='a list of arguments such as "--qos=low"')
    environment: tuple[Variable, ...] = Field(default=(), description="a list of names of variables")
