"""A small made-up history for `pyrometer demo`: nights of one machine, a regression and an upgrade."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

from analysis.comparison.plan import Plan
from analysis.comparison.policy import Policy
from analysis.decision.comparison import Comparison
from analysis.dispatch_difference import CaseDifference, DispatchChange, DispatchDifference, DispatchWarning
from db.connection.engine import Database, open_database
from db.findings import store as findings
from db.queue import commands as queue
from db.runs import series_queries
from records.dispatch import DispatchPart
from records.evidence import Confirmation, Detection, Evidence, PairVerdict
from records.findings import FindingState, NewFinding
from records.kinds import RunKind
from records.outcomes import Outcome, OutcomeStatus, PlannedReplicate
from records.tasks import NewTask, TaskState
from runner.journal import Journal
from runner.session_plan import Timing

from .ingest import ingest
from .run_header import Header
from .session_queue import pairs_planned

#: The name of the machine on every page.
MACHINE = "made-up"
_HARDWARE = "made-up machine, 8 cores"
_NIGHTS, _REPLICATES, _PAIRS = 21, 3, 6
_METRIC, _SCHEDULE, _TRACK = "latency_floor", "nightly", "nightly"
_SLOWER = "bert_base/train/batch=4,tokens=128/eager"
#: The night, counted from 0, whose PyTorch makes `_SLOWER` slower, and by what factor.
_BORDER, _FACTOR = 17, 1.09
#: When a night is due after midnight, and when it has certainly ended, in UTC.
_DUE, _FINISHED = timedelta(hours=2, minutes=30), timedelta(hours=4)
#: Standard deviations of the logarithm, from night to night and from process to process.
_NIGHT_NOISE, _PROCESS_NOISE = 0.004, 0.003


@dataclass(frozen=True, slots=True)
class _Case:
    """A case: times of a step and of compiling, items, ratio new / old of the upgrade, MiB at the peak,
    unit.
    """

    key: str
    milliseconds: float
    items: int
    compile_seconds: float = 0.0
    ratio: float = 1.0
    memory: float = 900.0
    unit: str = "tokens"


_CASES = (
    _Case("resnet50/infer/batch=8,image=224/eager", 48.0, 8, unit="images"),
    _Case("resnet50/infer/batch=8,image=224/compile=default", 31.0, 8, 22.0, 0.9, 960.0, "images"),
    _Case("resnet50/infer/batch=8,image=224/precision=amp-bf16", 25.0, 8, memory=640.0, unit="images"),
    _Case(_SLOWER, 210.0, 512, ratio=1.03),
    _Case("bert_base/train/batch=4,tokens=128/compile=default", 172.0, 512, 38.0, 0.97),
    _Case("bert_base/train/batch=4,tokens=128/precision=amp-bf16", 141.0, 512, memory=690.0),
    _Case(
        "bert_base/train/batch=4,tokens=128/compile=default,precision=amp-bf16",
        118.0,
        512,
        44.0,
        memory=710.0,
    ),
    _Case("gpt2_small/infer/batch=2,tokens=256/eager", 113.0, 512),
    _Case("gpt2_small/infer/batch=2,tokens=256/compile=default", 92.0, 512, 19.0),
)


#: The kernels of the normal and of the slower nights.
_OTHER_KERNEL = DispatchChange(
    DispatchPart.ONEDNN,
    "inner_product fp32 512x768:768x3072 by brgemm:avx2",
    "inner_product fp32 512x768:768x3072 by gemm:ref",
    12,
    12,
    DispatchWarning.REFERENCE_KERNEL,
)


def write(folder: Path, now: datetime) -> str:
    """Write the history that ends with the last night before `now` (aware); returns the database's URL.

    The `folder` is empty; the journals lie in `folder/runs`. The same moment gives the same history.
    """
    url = f"sqlite:///{folder}/pyrometer.db"
    last = datetime.combine((now.astimezone(UTC) - _FINISHED).date(), time.min, UTC) + _DUE
    first = last - timedelta(days=_NIGHTS - 1)
    with open_database(url) as database:
        nights = [_night(folder, database, night, first + timedelta(days=night)) for night in range(_NIGHTS)]
        _regression(database, nights, first + timedelta(days=_BORDER, hours=2))
        _upgrade(folder, database, last - timedelta(hours=16))
    return url


def _night(folder: Path, database: Database, night: int, due: datetime) -> str:
    """Make up the run of one night as its schedule would measure it."""
    environment = _environment(f"nightly-{due:%Y-%m-%d}", f"2.16.0.dev{due:%Y%m%d}+cpu")
    planned = [
        PlannedReplicate(case.key, environment["fingerprint"], replicate)
        for replicate in range(_REPLICATES)
        for case in _CASES
    ]
    header = _header(f"{due:%Y%m%d-%H%M%S}-demo", due, [environment], planned)
    sessions = list(dict.fromkeys(map(_session, planned)))
    outcomes = [
        _outcome(
            one, due + timedelta(seconds=90 * sessions.index(_session(one))), _night_factor(one.case, night)
        )
        for one in planned
    ]
    task = NewTask(_TRACK, "measure", {"track": _TRACK, "suite": header.suite})
    queue.plan_run(database, _SCHEDULE, due, "timetable", [task], due)
    queue.claim(database, owner=MACHINE, labels=[], jobs=["measure"], token=header.run, now=due)
    _store(folder, database, header, outcomes)
    queue.set_run(database, header.run, header.run)
    queue.finish(database, header.run, TaskState.DONE, {}, "", due + timedelta(minutes=40))
    return header.run


def _session(planned: PlannedReplicate) -> tuple[int, str]:
    """The techniques of a workload are alive together, once for each replicate."""
    return planned.replicate, planned.case.rpartition("/")[0]


def _night_factor(case: str, night: int) -> float:
    """The factor of a case's time in that night."""
    noise = random.Random(f"{case} {night}").gauss(0.0, _NIGHT_NOISE)
    return math.exp(noise) * (_FACTOR if case == _SLOWER and night >= _BORDER else 1.0)


def _regression(database: Database, nights: Sequence[str], found_at: datetime) -> None:
    """Store the finding that detection would have made of the slower nights, with its confirmation."""
    (key,) = (
        each
        for each in series_queries.series_keys(database)
        if (each.case, each.metric) == (_SLOWER, _METRIC)
    )
    change, half = math.log(_FACTOR), 0.004
    old, new = (_environment_of(nights[night]) for night in (_BORDER - 1, _BORDER))
    before = next(case.milliseconds for case in _CASES if case.key == _SLOWER)
    detection = Detection(
        nights=_BORDER + 1, noise=_NIGHT_NOISE, smallest=0.02, before=before, after=before * _FACTOR
    )
    finding = NewFinding(
        key,
        schedule=_SCHEDULE,
        track=_TRACK,
        label="",
        direction="worse",
        shape="step",
        at_run=nights[_BORDER],
        before_run=nights[_BORDER - 1],
        old_environment=old,
        new_environment=new,
        change=change,
        evidence=Evidence(detected=detection),
    )
    (stored,) = findings.save_findings(database, [finding], found_at)
    verdict = PairVerdict(
        metric=_METRIC,
        unit="ms",
        word="slower",
        pairs=_PAIRS,
        old=before,
        new=before * _FACTOR,
        change=change,
        low=change - half,
        high=change + half,
        confidence=0.99,
        smallest=0.01,
    )
    sides = [f"nightly-{_day(nights[night]):%Y-%m-%d}" for night in (_BORDER - 1, _BORDER)]
    confirmation = Confirmation(
        reason="the pairs show the change too",
        verdict=verdict,
        reproduce=f"pyrometer upgrade {' '.join(sides)} --case {_SLOWER}",
        dispatch=CaseDifference(_SLOWER, DispatchDifference((_OTHER_KERNEL,), {})).to_body(),
    )
    limits = (change, change - half, change + half)
    findings.decide(
        database, stored.id, FindingState.CONFIRMED, *limits, confirmation, found_at + timedelta(hours=1)
    )


def _environment_of(run: str) -> str:
    """The fingerprint of the environment of a night's run."""
    day = _day(run)
    return _environment(f"nightly-{day:%Y-%m-%d}", f"2.16.0.dev{day:%Y%m%d}+cpu")["fingerprint"]


def _day(run: str) -> datetime:
    return datetime.strptime(run[:8], "%Y%m%d")


def _upgrade(folder: Path, database: Database, begun: datetime) -> None:
    """Store an upgrade between two releases, measured in pairs."""
    old, new = (_environment(version, f"{version}+cpu") for version in ("2.13.0", "2.15.0"))
    sides = (old["fingerprint"], new["fingerprint"])
    comparison = Comparison(*sides, Plan(), Policy(), ("2.13.0", "2.15.0"), ("--suite", "cpu"))
    every = pairs_planned(comparison, [case.key for case in _CASES])
    planned = [one for one in every if one.replicate < _PAIRS]
    ratios = {case.key: case.ratio for case in _CASES}
    outcomes = [
        _outcome(one, _turn(begun, number, one), ratios[one.case] if one.environment == sides[1] else 1.0)
        for number, one in enumerate(planned)
    ]
    header = _header(f"{begun:%Y%m%d-%H%M%S}-demo", begun, [old, new], planned, comparison)
    _store(folder, database, header, outcomes)


def _turn(begun: datetime, number: int, planned: PlannedReplicate) -> datetime:
    """When a process of a pair starts: both are alive together, and take turns at starting first."""
    first = number % 2 == planned.replicate % 2
    return begun + timedelta(minutes=number // 2, milliseconds=0 if first else 750)


def _outcome(planned: PlannedReplicate, started_at: datetime, factor: float) -> Outcome:
    """The outcome of one process that takes `factor` times as long as the case."""
    case = next(each for each in _CASES if each.key == planned.case)
    noise = random.Random(f"{started_at} {planned}")
    floor = case.milliseconds * factor * math.exp(noise.gauss(0.0, _PROCESS_NOISE))
    metrics = {
        "latency": floor * 1.02,
        "latency_floor": floor,
        "throughput": 1000.0 * case.items / floor,
        "rss_peak_steady": case.memory + 2.0 * noise.random(),
        "first_call": 0.3 + 0.02 * noise.random(),
    }
    if case.compile_seconds:
        name, share = ("compile_warm", 0.1) if planned.replicate else ("compile_cold", 1.0)
        metrics[name] = case.compile_seconds * share * math.exp(noise.gauss(0.0, 0.01))
    floors = [floor * 1e6 * math.exp(abs(noise.gauss(0.0, _PROCESS_NOISE))) for _ in range(7)]
    return Outcome(
        planned.case,
        planned.environment,
        planned.replicate,
        OutcomeStatus.OK,
        started_at=started_at,
        wall_seconds=25.0,
        metrics=metrics,
        facts={
            "items": case.items,
            "unit": case.unit,
            "device": "cpu",
            "cpu_share": 0.99,
            "block_floors_ns": floors,
        },
    )


def _environment(name: str, torch: str) -> dict[str, Any]:
    facts = {"torch": torch, "python": "3.12.3", "packages": [f"torch=={torch}"]}
    return {
        "fingerprint": f"{MACHINE} {torch}",
        "name": name,
        "python": "/made-up/bin/python",
        "facts": facts,
    }


def _header(
    run: str,
    begun: datetime,
    environments: Sequence[Mapping[str, Any]],
    planned: Sequence[PlannedReplicate],
    comparison: Comparison | None = None,
) -> Header:
    names = " ".join(str(each["name"]) for each in environments)
    return Header(
        run=run,
        suite="cpu",
        started_at=begun.isoformat(),
        command=f"pyrometer upgrade {names} --suite cpu" if comparison else "pyrometer run --suite cpu",
        machine={
            "fingerprint": MACHINE,
            "name": MACHINE,
            "hardware_fingerprint": MACHINE,
            "hardware_label": _HARDWARE,
            "hardware": {"cpu": "made up", "cores": 8},
            "conditions": {"kernel": "6.8.0"},
        },
        environments=tuple(environments),
        preset={"fingerprint": MACHINE, "name": "quiet", "settings": {}},
        harness=MACHINE,
        harness_path=MACHINE,
        user_version="",
        timing=asdict(Timing()),
        device="cpu",
        budget_seconds=3600.0,
        planned=tuple((one.case, one.environment, one.replicate) for one in planned),
        notes=("made-up data: nothing was measured",),
        comparison=comparison.to_body() if comparison else None,
        kind=RunKind.UPGRADE if comparison else RunKind.RUN,
    )


def _store(folder: Path, database: Database, header: Header, outcomes: Sequence[Outcome]) -> None:
    path = folder / "runs" / header.run
    begun = datetime.fromisoformat(header.started_at)
    with Journal(path) as journal:
        journal.header(header.to_body())
        for outcome in outcomes:
            journal.outcome(outcome)
        journal.ended({"at": (begun + timedelta(minutes=40)).isoformat(), "state": "complete"})
    ingest(journal.path, database)
