"""A program that is started with two pipes: it dies with us, and it reports to us."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def start_held(
    command: Callable[[int, int], Sequence[str]],
    variables: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> tuple[subprocess.Popen[bytes], int, int]:
    """A program in a session of its own, where its report is read, and our end of its lifeline.

    `command` gets the descriptors that the program has: its end of the lifeline, which closes when we die or
    close ours, and the one it reports on. `variables` are its whole environment, and `folder` is where it
    starts; None is ours.
    """
    reader, reporter = os.pipe()
    held, lifeline = os.pipe()
    try:
        program = subprocess.Popen(
            list(command(held, reporter)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=None if variables is None else dict(variables),
            cwd=folder,
            pass_fds=(held, reporter),
            start_new_session=True,
        )
    except BaseException:
        os.close(lifeline)
        os.close(reader)
        raise
    finally:
        os.close(held)
        os.close(reporter)
    return program, reader, lifeline
