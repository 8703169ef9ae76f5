"""The verdict of an upgrade that was measured: on the terminal, as an event, in files."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from common.atomic_file import write_whole
from reports.body import upgrade_json
from reports.upgrade_report import FORMATS, JudgedUpgrade
from workflows.errors import UsageError
from workflows.load_run import judge_run
from workflows.measure import RunResult
from workflows.run_header import Header

from .progress import JsonWatcher
from .reporter import concluding, say
from .upgrade_report import print_upgrade


def check_reports(files: Sequence[Path]) -> None:
    """Refuse files that no report can be written to, before an hour is spent on measuring."""
    for file in files:
        if file.suffix not in FORMATS:
            raise UsageError(f"{file}: a report is a file that ends in {', '.join(FORMATS)}")
        there = file.exists()
        try:
            with file.open("a"):
                pass
            if not there:
                file.unlink()
        except OSError as error:
            raise UsageError(f"{file}: no file can be written there ({error.strerror})") from None


def tell(console: Console, found: JudgedUpgrade, *, as_json: bool, here: bool = True) -> None:
    """Print the verdict, or one event; `here` is the journal of the run."""
    if as_json:
        JsonWatcher(console).concluded(upgrade_json(found.subject, found.results, found.upgrade))
    else:
        print_upgrade(console, found.subject, found.results, found.upgrade, here=here)


class UpgradeConclusion:
    """Prints the verdict at the end of a run, or one event, and writes the reports; keeps the `decision`."""

    def __init__(self, files: Sequence[Path] = (), *, as_json: bool = False) -> None:
        self.decision = ""
        self._files = files
        self._as_json = as_json
        self._conclude = concluding(self._show, as_json=as_json)

    def __call__(self, header: Header, result: RunResult) -> None:
        """Conclude a run."""
        self._conclude(header, result)

    def _show(self, console: Console, header: Header, result: RunResult) -> None:
        found = judge_run(header, result)
        self.decision = found.upgrade.decision
        tell(console, found, as_json=self._as_json)
        # Where one cannot be written the verdict stands all the same, and `pyrometer report` tells it again.
        write_reports(found, self._files)


def write_reports(found: JudgedUpgrade, files: Sequence[Path]) -> bool:
    """Write each that can be written, and say of all what became of them; whether there are all."""
    failed = False
    for file in files:
        try:
            write_whole(file, FORMATS[file.suffix](found))
        except OSError as error:
            failed = True
            say(f"pyrometer: {file} could not be written: {error.strerror or error}")
        else:
            say(f"report: {file}")
    return not failed
