"""A machine that measures nothing: stands for `pyrometer` where a simulated night has to be written down.

Takes the same command lines as far as a scheduler types them (`run`, `upgrade`), and writes the journal that
a measured run would have left. What a case takes is made up of three parts: what PyTorch of that build makes
of it, what the machine does that night, and noise between processes. A session of two builds sees only the
first and the last, as an interleaved one does.
"""

import hashlib
import json
import math
import os
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.decision.comparison import Comparison
from records.outcomes import Outcome, Planned
from runner.environments.store import MARK, RECIPE
from runner.journal import Journal
from runner.session_plan import Timing
from workflows.run_header import Header
from workflows.session_queue import pairs_planned

FIRST = date(2026, 9, 1)
PINNED = "2.13.0"
BERT = "bert_base/train/batch=4,tokens=128/eager"
DRIFTING = "gpt2_small/infer/batch=2,tokens=256/eager"
VISION = "vit_b16/infer/batch=4,image=224/eager"
LSTM = "lstm/train/batch=16,tokens=64/eager"
RESNET = ("resnet50/infer/batch=8,image=224/eager", "resnet50/infer/batch=8,image=224/compile=default")
QUIET = ("mlp_overhead/infer/batch=8/eager", "unet_level/infer/batch=1,image=64/eager")
#: Slower by the build of the night that brings a new driver.
HIDDEN = QUIET[1]
CASES = (BERT, DRIFTING, VISION, LSTM, *RESNET, *QUIET)
#: Noise between nights and between processes: standard deviations of the logarithm.
NIGHT_NOISE, PROCESS_NOISE = 0.006, 0.004
REPLICATES = 3


def night_of(day: date) -> int:
    """The number of a night: 1 is the first."""
    return (day - FIRST).days + 1


def of_build(case: str, night: int | None) -> float:
    """What a nightly build of that night makes of a case, as a factor; None is the pinned release."""
    if night is None:
        return 1.0
    factor = 1.0
    if case == BERT:
        factor *= (1.12 if night >= 11 else 1.0) * (1.10 if night >= 20 else 1.0)
    if case in RESNET and (12 <= night < 23 or night >= 27):
        factor *= 1.08
    if case == HIDDEN and night >= 21:
        factor *= 1.08
    if case == DRIFTING:
        factor *= math.exp(0.004 * max(0, night - 5))
    return factor


def of_machine(case: str, night: int, track: str) -> float:
    """What the machine does that night: a driver from 21 on, another program at work while one track runs."""
    factor = 1.03 if night >= 21 else 1.0
    return factor * (1.06 if case == VISION and track == "nightly" and 17 <= night <= 19 else 1.0)


def driver(night: int) -> str:
    """The driver that the machine has that night."""
    return "580.65.06" if night >= 21 else "575.57.08"


class MadeUp:
    """One simulated command at a simulated moment, in a data folder."""

    def __init__(self, data_dir: Path, now: datetime, machine: str) -> None:
        self._data_dir, self._now, self._machine = data_dir, now, machine
        self._night = night_of(now.date())

    def run(self, track: str, run: str) -> None:
        """All cases in one environment, a few processes each."""
        night = self._night if track == "nightly" else None
        environment = self._environment(night)
        planned = [Planned(case, environment["fingerprint"], n) for n in range(REPLICATES) for case in CASES]
        header = self._header(run, "smoke", [environment], planned)
        levels = {case: self._level(case, night, track) for case in CASES}
        self._write(header, [self._outcome(one, levels[one.case], "run") for one in planned])

    def upgrade(self, old: str, new: str, cases: Sequence[str], run: str) -> None:
        """Pairs of two builds: the machine is the same for both, whatever it does."""
        sides = [self._environment(self._built(text)) for text in (old, new)]
        comparison = Comparison(
            sides[0]["fingerprint"], sides[1]["fingerprint"], Plan(), Policy(), (old, new)
        )
        planned = pairs_planned(comparison, cases)
        header = self._header(run, "chosen", sides, planned, comparison.to_body())
        nights = {
            side["fingerprint"]: night
            for side, night in zip(sides, map(self._built, (old, new)), strict=True)
        }
        outcomes = [
            self._outcome(
                one,
                10.0 * of_build(one.case, nights[one.environment]),
                "upgrade",
                # Sides take turns at starting, as in a real session.
                after=int((one.environment == comparison.old) == bool(one.replicate % 2)),
            )
            if one.replicate < comparison.plan.largest
            else Outcome(one.case, one.environment, one.replicate, "skipped", reason="not needed")
            for one in planned
        ]
        self._write(header, outcomes)

    def _level(self, case: str, night: int | None, track: str) -> float:
        wobble = random.Random(f"{self._night} {case} {track}").gauss(0.0, NIGHT_NOISE)
        return 10.0 * of_build(case, night) * of_machine(case, self._night, track) * math.exp(wobble)

    def _outcome(self, planned: Planned, level: float, kind: str, after: int = 0) -> Outcome:
        one = random.Random(f"{self._night} {kind} {planned}")
        started = self._now + timedelta(minutes=planned.replicate, seconds=after)
        about = (planned.case, planned.environment, planned.replicate)
        if planned.case == LSTM and self._night >= 25:
            why = "RuntimeError: expected a contiguous hidden state"
            return Outcome(*about, "crashed", reason=why, started_at=started, wall_seconds=5.0)
        if self._night == 28 and planned.replicate == 0:
            why = "power cap: the clocks were held down"
            return Outcome(*about, "throttled", reason=why, started_at=started, wall_seconds=9.0)
        metrics = {"latency_floor": level * math.exp(one.gauss(0.0, PROCESS_NOISE))}
        return Outcome(*about, "ok", started_at=started, wall_seconds=9.0, metrics=metrics)

    def _environment(self, night: int | None) -> dict[str, Any]:
        """A build, with the folder that an environment leaves once it was built."""
        day = None if night is None else FIRST + timedelta(days=night - 1)
        version = f"{PINNED}+cpu" if day is None else f"2.16.0.dev{day:%Y%m%d}+cpu"
        name = PINNED if day is None else f"nightly-{day}"
        fingerprint = hashlib.sha256(version.encode()).hexdigest()
        facts = {
            "torch": version,
            "python": "3.12.3",
            "torch_git": f"{night or 0:040d}",
            "fingerprint": fingerprint,
        }
        folder = self._data_dir / "environments" / f"{name}-{night or 0:08x}"
        if not (folder / MARK).exists():
            (folder / "bin").mkdir(parents=True, exist_ok=True)
            (folder / "bin" / "python").touch()
            (folder / RECIPE).write_text("{}")
            mark = {
                "label": name,
                "recipe": {},
                "facts": facts,
                "size_mib": 1,
                "seconds": 1.0,
                "built_at": 1.0,
            }
            (folder / MARK).write_text(json.dumps(mark))
        python = str(folder / "bin" / "python")
        return {"fingerprint": fingerprint, "name": name, "python": python, "facts": facts}

    def _built(self, text: str) -> int | None:
        """Which night's build the folder of an environment holds."""
        facts = json.loads((Path(text) / MARK).read_text())["facts"]
        return int(facts["torch_git"]) or None

    def _header(
        self,
        run: str,
        suite: str,
        environments: Sequence[Mapping[str, Any]],
        planned: Sequence[Planned],
        comparison: Mapping[str, Any] | None = None,
    ) -> Header:
        hardware = {"cpu": "made up", "cores": 2}
        return Header(
            run=run,
            suite=suite,
            started_at=self._now.isoformat(),
            command="pyrometer run",
            machine={
                "fingerprint": f"machine-{self._machine}",
                "name": self._machine,
                "hardware_fingerprint": "made-up",
                "hardware_label": "made up, 2 cores",
                "hardware": hardware,
                "conditions": {"driver": driver(self._night), "kernel": "6.8.0"},
            },
            environments=tuple(environments),
            preset={"fingerprint": "quiet", "name": "quiet", "settings": {}},
            harness="made-up",
            harness_path="made-up.zip",
            user_version="",
            timing=asdict(Timing()),
            device="cpu",
            budget_seconds=3600.0,
            planned=tuple((one.case, one.environment, one.replicate) for one in planned),
            comparison=comparison,
        )

    def _write(self, header: Header, outcomes: Sequence[Outcome]) -> None:
        with Journal(self._data_dir / "runs" / header.run) as journal:
            journal.header(header.to_body())
            for outcome in outcomes:
                journal.outcome(outcome)
            journal.ended({"at": (self._now + timedelta(minutes=20)).isoformat(), "state": "complete"})


def main() -> None:
    """Do what the command line says, at the moment that the clock's file says."""
    arguments = sys.argv[1:]
    clock, data_dir = Path(os.environ["MADE_UP_CLOCK"]), Path(os.environ["MADE_UP_DATA"])
    now = datetime.fromisoformat(clock.read_text()).astimezone(UTC)
    machine = MadeUp(data_dir, now, os.environ["MADE_UP_MACHINE"])
    given = dict(pairwise(arguments))
    if arguments[0] == "run":
        machine.run(given["--environment"], given["--run-id"])
    elif arguments[0] == "upgrade":
        cases = [value for name, value in pairwise(arguments) if name == "--case"]
        machine.upgrade(arguments[1], arguments[2], cases, given["--run-id"])
    else:
        sys.exit(f"a made-up machine cannot {arguments[0]}")


if __name__ == "__main__":
    main()
