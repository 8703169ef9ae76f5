"""A command of `pyrometer` in the test's own process, for what would show nothing more in one of its own."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.registry import app
from support.site import Done, Site


def called(folder: Path, environ: Mapping[str, str], *arguments: str) -> Done:
    """A command in a folder with these variables and no others; to start one takes longer than most do.

    A traceback is the test's own. What only a process has, its exit code and its signals, some test beside
    must look at with a real one.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in os.environ.keys() - environ.keys():
            patch.delenv(name)
        for name, value in environ.items():
            patch.setenv(name, value)
        patch.setattr(tempfile, "tempdir", environ.get("TMPDIR"))
        result = CliRunner().invoke(app, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def typed(place: Site, *arguments: str, **variables: str) -> Done:
    """What `place.call` does, in this process."""
    return called(place.folder, place.environ(variables), *arguments)
