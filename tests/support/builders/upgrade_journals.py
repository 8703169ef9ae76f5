"""Made-up upgrades, as their journals hold them: cases of every kind, in turns, pair by pair."""

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.comparison.screening import FIRST_FULL, SHORT_PAIRS, Screen, as_evidence
from analysis.decision.comparison import Comparison
from records.environments import Environment
from records.kinds import RunKind
from records.outcomes import Outcome, PlannedReplicate
from runner.journal import Journal
from support.builders.journals import CANARY, SONG, a_header, environment_body, machine_body
from support.builders.run_records import a_machine, an_environment
from support.sqlite_files import open_with_tables
from workflows.ingest import ingest
from workflows.session_queue import pairs_planned

OLD, NEW = an_environment("2.13.0+cpu", name="2.13.0"), an_environment("2.15.0+cpu", name="2.15.0")
RUN = "20261121-144620-57a7"
BEGUN = datetime(2026, 11, 21, 14, 46, 20, 123457, tzinfo=UTC)

RESNET = "resnet50/infer/batch=8,image=224/eager"
RESNET_COMPILED = "resnet50/infer/batch=8,image=224/compile=default"
BERT = "bert_base/infer/batch=4,tokens=128/eager"
BERT_COMPILED = "bert_base/infer/batch=4,tokens=128/compile=default"
GPT = "gpt2_small/train/batch=2,tokens=128/eager"
GPT_COMPILED = "gpt2_small/train/batch=2,tokens=128/compile=default"
#: What each case takes in the old environment (ms), new / old, and the noise of a process.
KINDS = {
    RESNET: (48.0, 1.07, 0.001),
    RESNET_COMPILED: (31.0, 0.88, 0.002),
    BERT: (33.0, 1.0, 0.001),
    BERT_COMPILED: (29.0, 1.004, 0.03),
    GPT: (113.0, 1.001, 0.001),
    GPT_COMPILED: (90.0, 1.0, 0.001),
}


#: Pairs that were measured, one more of the case with a pair that does not count; no further was needed.
PAIRS = {**dict.fromkeys(KINDS, 6), GPT: 7}


#: Kernels of a step: name, calls and microseconds.
OLD_KERNELS = [["gemm<float, 8>", 2.0, 60.0], ["copy", 1.0, 20.0]]
NEW_KERNELS = [["gemm<float, 8>", 2.0, 90.0], ["split_k_reduce", 2.0, 6.0]]


@dataclass(frozen=True)
class Story:
    """What happens in an upgrade: its run, its policy, what breaks in the new environment, and why.

    `unfinished` leaves the second half of the pairs out of the journal. `hardware` is a label and `machine` a
    name, those of `builders.a_machine` where empty. `still`: no case is slower or faster. `memory` is new /
    old of the peak memory, `compile` of what compiling takes with a warm cache, which is not known without
    it. `screened`: in two short pairs before the others every case was slower by 30 %.
    """

    run: str = RUN
    policy: Policy = field(default_factory=Policy)
    broken: tuple[str, ...] = ()
    reason: str = "RuntimeError: the API is gone"
    confirms: bool = False
    command: str = "pyrometer upgrade 2.13.0 2.15.0 --suite cpu"
    kind: RunKind = RunKind.UPGRADE
    begun: datetime = BEGUN
    sides: tuple[Environment, Environment] = (OLD, NEW)
    unfinished: bool = False
    notes: tuple[str, ...] = ("the CPU's frequency is not readable",)
    suite: str = "cpu"
    hardware: str = ""
    machine: str = ""
    still: bool = False
    memory: float = 1.09
    compile: float | None = None
    screened: bool = False
    kernels: bool = False

    @property
    def comparison(self) -> Comparison:
        """What the run compares."""
        old, new = self.sides
        names = (old.name, new.name)
        options = ("--suite", self.suite, "--pairs", "12")
        sides = (old.fingerprint, new.fingerprint)
        screen = Screen() if self.screened else None
        return Comparison(*sides, Plan(), self.policy, names, options, screen=screen)


def write_upgrade(data_dir: Path, story: Story | None = None) -> Path:
    """The journal of an upgrade in a data folder, not stored anywhere."""
    story = story or Story()
    comparison = story.comparison
    planned = pairs_planned(comparison, KINDS)
    first = FIRST_FULL if story.screened else 0
    measured = [one for one in planned if first <= one.replicate < first + PAIRS[one.case]]
    short = [one for one in planned if one.replicate < SHORT_PAIRS] if story.screened else []
    with Journal(data_dir / "runs" / story.run) as journal:
        journal.header(_header(story, planned).to_body())
        for place, one in enumerate(short):
            journal.outcome(_short_outcome(story, one, place))
        for place, one in enumerate(measured):
            number = one.replicate - first
            if not (story.unfinished and number >= PAIRS[one.case] // 2):
                outcome = _outcome(story, replace(one, replicate=number), place)
                journal.outcome(replace(outcome, replicate=one.replicate))
        if not story.unfinished:
            ended = story.begun + timedelta(hours=1)
            for one in planned:
                if one not in measured and one not in short:
                    journal.outcome(_spared(one, ended))
            song = {"case": SONG, "environment": CANARY["fingerprint"], "replicate": 0, "status": "ok"}
            journal.canary(Outcome(**song, started_at=ended, metrics={"latency": 1.5}))
            journal.ended({"at": ended.isoformat(), "state": "complete"})
    return data_dir / "runs" / story.run / "journal.jsonl"


def _header(story: Story, planned: list[PlannedReplicate]) -> Any:
    packages = {"2.13.0": ["numpy==2.3.1", "torch==2.13.0+cpu"], "2.15.0": ["numpy==2.4.0", "triton==3.8.0"]}
    environments = tuple(environment_body(each, packages=packages.get(each.name, [])) for each in story.sides)
    machine = a_machine()
    known = machine_body(
        machine,
        fingerprint=f"{machine.fingerprint} {story.hardware}{story.machine}".strip(),
        name=story.machine or machine.name,
        hardware_fingerprint=f"{machine.hardware.fingerprint} {story.hardware}".strip(),
        hardware_label=story.hardware or machine.hardware.label,
    )
    return a_header(
        story.run,
        planned,
        machine=known,
        suite=story.suite,
        started_at=story.begun.isoformat(),
        command=story.command,
        environments=environments,
        comparison=story.comparison.to_body(),
        notes=story.notes,
        version="0.1.0",
        kind=RunKind.CONFIRMATION if story.confirms else story.kind,
    )


def _outcome(story: Story, planned: PlannedReplicate, place: int) -> Outcome:
    """One process; the two of a pair are alive together, and take turns at starting."""
    old = planned.environment == story.sides[0].fingerprint
    base, ratio, spread = KINDS[planned.case]
    ratio, spread = (1.0, 0.001) if story.still else (ratio, spread)
    noise = random.Random(f"{planned.case} {old} {planned.replicate}")
    # Both sides of a pair share the machine's mood; what is left is theirs alone.
    mood = 1 + 0.05 * random.Random(f"{planned.case} {planned.replicate}").random()
    floor = base * mood * (1 if old else ratio) * (1 + noise.gauss(0, spread))
    first = old == (planned.replicate % 2 == 0)
    begun = story.begun + timedelta(seconds=60 * (place // 2), milliseconds=0 if first else 750)
    about: dict[str, Any] = {
        "case": planned.case,
        "environment": planned.environment,
        "replicate": planned.replicate,
        "started_at": begun,
        "wall_seconds": 40 + noise.random() * 10,
        "facts": {"phases": {"build": 1.5}},
    }
    if planned.case in story.broken and not old:
        return Outcome(**about, status="crashed", reason=story.reason, phase="first_call", log_tail="gone")
    compiled = planned.case.endswith("compile=default")
    metrics = {
        "latency": floor * 1.02,
        "latency_floor": floor,
        "throughput": 8000 / floor,
        "rss_peak_steady": 600.0 if old else 600.0 * story.memory,
        "first_call": 0.3 + noise.random() / 50,
    }
    if compiled:
        metrics |= {"graph_breaks": 0.0 if old else 2.0, "compile_cold": 16 + noise.random()}
    if compiled and story.compile is not None:
        metrics["compile_warm"] = (1 if old else story.compile) * (3 + noise.gauss(0, 0.03))
    floors = [floor * 1e6 * (1 + noise.gauss(0, spread / 2)) for _ in range(7)]
    facts: dict[str, Any] = {"items": 8, "device": "cpu", "cpu_share": 0.99, "block_floors_ns": floors}
    if story.kernels:
        facts["kernels"] = OLD_KERNELS if old else NEW_KERNELS
    if planned.replicate == 2:
        facts["tainted_blocks"] = [{"block": 3, "by": "somebody"}]
    if planned.case == GPT and planned.replicate == 4:
        # A program beside it: this pair does not count.
        facts["cpu_share"] = 0.55
    return Outcome(**about | {"facts": about["facts"] | facts}, status="ok", metrics=metrics)


def _short_outcome(story: Story, planned: PlannedReplicate, place: int) -> Outcome:
    """A process of a short pair, the new one slower by 30 %."""
    outcome = _outcome(replace(story, still=True), planned, place)
    slower = 1.0 if planned.environment == story.sides[0].fingerprint else 1.3
    floors = [floor * slower for floor in outcome.facts["block_floors_ns"]]
    return as_evidence(replace(outcome, facts={**outcome.facts, "block_floors_ns": floors}))


def _spared(planned: PlannedReplicate, at: datetime) -> Outcome:
    return Outcome(
        planned.case,
        planned.environment,
        planned.replicate,
        "skipped",
        reason="not needed: decided",
        started_at=at,
    )


def store_upgrades(folder: Path, *stories: Story) -> str:
    """The URL of a database in a folder with these upgrades; their journals lie in `folder / "data"`."""
    url = f"sqlite:///{folder}/filled/pyrometer.db"
    with open_with_tables(url) as database:
        for story in stories or (Story(),):
            ingest(write_upgrade(folder / "data", story), database)
    return url
