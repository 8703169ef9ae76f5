"""One record of the OSS benchmark database, version 3: only its metric has to be there."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from analysis.metrics import Better

from ..errors import BadFile, SourcePlace
from ..foreign_runs import ForeignOrigin, case_key, plain
from ..source_file import Value, moment, moment_in
from ..units import slug, slug_apart
from .dynamo_table import AS_GIVEN, column_of

NAME = "oss-v3"

#: The members of the tuples, in the order in which the database writes them where they come as lists.
_TUPLES = {
    "benchmark": ("name", "mode", "dtype", "extra_info"),
    "model": ("name", "type", "backend", "origins", "extra_info"),
    "metric": ("name", "benchmark_values", "target_value", "extra_info"),
}
#: Members that identify the measured change, and the job.
_JOB = (
    *("repo", "head_branch", "head_sha", "name", "workflow_id", "run_attempt", "job_id", "schema_version"),
    *("servicelab_experiment_id", "servicelab_trial_id"),
)
_PHASES = {"training": "train", "train": "train", "inference": "infer", "infer": "infer", "eval": "infer"}
#: Entries of an `extra_info` that make no other case: words for people, and what an exporter says of a value.
_ABOUT_VALUE = frozenset({"description", "unit", "better", "title", "benchmark_values"})
#: Longer values stand in a case key by their digest.
_LONGEST = 60
#: Where the name of a metric ends with one of these, less is better.
_TIMES = frozenset({"s", "ms", "us", "µs", "ns", "sec", "seconds"})
#: The benchmark whose metrics are the columns of dynamo's tables.
_DYNAMO = "TorchInductor"

Members = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class FileTime:
    """The time for a record that has none: the file's, how that is known, and what identifies the file."""

    made_at: datetime
    note: str
    dated: bool
    identity: str


@dataclass(frozen=True, slots=True)
class MetricMeaning:
    """The name and meaning of a metric here: its numbers divided by `divisor` are in its unit."""

    metric: str
    unit: str
    better: Better
    title: str
    positive: bool = False
    divisor: int = 1


@dataclass(frozen=True, slots=True)
class OssRecord:
    """A record, its tuples taken apart; members that are missing are so in `top` and in the tuples."""

    place: SourcePlace
    top: Members
    benchmark: Members
    model: Members
    metric: Members

    @staticmethod
    def of(at: Value) -> "OssRecord":
        """The record; raises BadFile for one without a metric, or with a tuple that is none."""
        top = {name: member for name, member in at.object().items() if member.value is not None}
        if isinstance(top.get("metric", at).value, str) and {"actual", "target"} & top.keys():
            raise BadFile(at.place, "is of version 2 of the format, which is not read")
        if "metric" not in top:
            raise BadFile(at.place.at("metric"), "is missing")
        return OssRecord(
            at.place, top, *(_tuple(top.get(name), members) for name, members in _TUPLES.items())
        )

    @property
    def is_ours(self) -> bool:
        """Whether our own exporter wrote it."""
        return extra_text(self.benchmark, "source") == "Pyrometer"

    @property
    def preset(self) -> tuple[str, str]:
        """The fingerprint and the name of the preset, if we exported it; in exports of 0.1.0 a `profile`."""
        known = extra(self.benchmark)
        name = "profile" if "profile" in known else "preset"
        return extra_text(self.benchmark, f"{name}_fingerprint"), extra_text(self.benchmark, name)

    @property
    def hardware_fingerprint(self) -> str:
        """What our exports add to the label, which other hardware may share; empty for other tools."""
        found = [extra_text(each, "hardware_fingerprint") for each in self._runners()] if self.is_ours else []
        return "+".join(filter(None, found))

    def case(self) -> str:
        """The key of its case; ours has the one it was exported with."""
        if self.is_ours and _is_case(key := extra_text(self.model, "case")):
            return key
        mode = text(self.benchmark, "mode")
        parameters: dict[str, str | None] = {
            "benchmark": text(self.benchmark, "name") or None,
            "dtype": text(self.benchmark, "dtype") or None,
            "mode": None if mode in _PHASES else mode or None,
            "inputs": brief(self.top["inputs"].value) if "inputs" in self.top else None,
        }
        parameters |= {name: brief(each.value) for name, each in _distinguishing_members(self.benchmark)}
        parameters |= {
            f"model.{name}": brief(each.value) for name, each in _distinguishing_members(self.model)
        }
        parameters |= {
            f"metric.{name}": brief(each.value) for name, each in _distinguishing_members(self.metric)
        }
        backend = text(self.model, "backend")
        technique = f"backend={plain(backend)}" if backend not in ("", "eager") else "eager"
        name = text(self.model, "name") or text(self.benchmark, "name")
        return case_key(name, _PHASES.get(mode, "call"), parameters, technique)

    def meaning(self) -> MetricMeaning:
        """What its metric means; raises BadFile for one without a name."""
        name = self.metric["name"].text() if "name" in self.metric else ""
        if not name:
            raise BadFile(self.place.at("metric").at("name"), "is missing")
        unit, better = extra_text(self.metric, "unit"), _better(extra_text(self.metric, "better"))
        title = extra_text(self.metric, "title") or name
        # Our own may have no unit, and say so.
        if (
            self.is_ours
            and "unit" in extra(self.metric)
            and better
            and re.fullmatch(r"[a-z0-9][a-z0-9._]*", name)
        ):
            return MetricMeaning(name, unit, better, title)
        own = f"oss.{slug_apart(name, 'value')}"
        if unit:
            # Others may give the same name to the same metric in another unit.
            return MetricMeaning(f"{own}.{slug_apart(unit, 'unit')}", unit, better or "neither", title)
        device = extra_text(self.benchmark, "device")
        column = column_of(name, device) if text(self.benchmark, "name") == _DYNAMO else None
        if column:
            own = f"oss.{column.name}" if column.name else own
            return MetricMeaning(
                own, column.unit, column.better, column.title, column.positive, column.divisor
            )
        if name.endswith("instruction_count"):
            return MetricMeaning(own, "instructions", "lower", title, True)
        if match := re.fullmatch(r".*\(([^()]+)\)\s*", name):
            unit = match[1].strip()
            return MetricMeaning(own, unit, "lower" if unit in _TIMES else "neither", title)
        return MetricMeaning(own, AS_GIVEN, "neither", title)

    def origin(self, file: FileTime) -> ForeignOrigin:
        """The run it belongs to; raises BadFile for a time that is none."""
        job = {name: self.top[name].value for name in _JOB if name in self.top}
        started, note = self._start_time(file)
        undated = note == file.note and not file.dated
        dependencies = self.top["dependencies"].object() if "dependencies" in self.top else {}
        about = {name: _version(each) for name, each in dependencies.items()}
        torch = about.get("torch") or about.get("pytorch") or {}
        sha, repo = text(self.top, "head_sha"), text(self.top, "repo")
        runners, exported = self._runners(), self._export_facts()
        identity = [exported or job, about, file.identity if note == file.note else ""]
        tested = {"repo": repo, "head_sha": sha} if sha and not self.is_ours else {}
        return ForeignOrigin(
            format=NAME,
            suite=f"oss.{slug(text(self.benchmark, 'name')) or 'unnamed'}",
            started_at=started,
            dated=not undated,
            identity=json.dumps(identity, sort_keys=True),
            machine=next((host for each in runners if (host := extra_text(each, "hostname"))), "unknown"),
            hardware=self._hardware(runners),
            torch_version=torch.get("version", ""),
            environment=torch.get("environment") or (f"{repo}@{sha[:12]}" if tested else ""),
            python_version=torch.get("python_version", ""),
            environment_facts={**tested, "dependencies": about} if tested or about else {},
            facts={**job, **exported, "notes": [note]},
        )

    def _export_facts(self) -> dict[str, str]:
        """Our own run, its preset and hardware; nothing for a record of another tool."""
        # A run is identified by these very names, so that what was imported before is not imported twice.
        own = {"exported_run": extra_text(self.benchmark, "run"), "exported_profile": self.preset[0]}
        found = own if self.is_ours else {}
        hardware = self.hardware_fingerprint
        return {**found, "exported_hardware": hardware} if hardware else found

    def _start_time(self, file: FileTime) -> tuple[datetime, str]:
        if self.is_ours and (own := extra(self.benchmark).get("started_at")):
            return moment_in(own), "the time is that of the run that was exported"
        stamp = self.top.get("timestamp")
        if stamp is None or stamp.value == 0:
            return file.made_at, file.note
        if stamp.number() < 0:
            raise stamp.wrong("a time since 1970")
        return moment(stamp, stamp.number()), "the time is that of the upload, not of the measuring"

    def _runners(self) -> list[Members]:
        return [each.object() for each in self.top["runners"].list()] if "runners" in self.top else []

    def _hardware(self, runners: Iterable[Members]) -> str:
        names = [
            text(each, "type") if self.is_ours else ", ".join(filter(None, _runner(each))) for each in runners
        ]
        return " + ".join(filter(None, names)) or "unknown"


def text(members: Members, name: str) -> str:
    """A member as text, a number too; empty where there is none."""
    value = members[name].value if name in members else None
    return value if isinstance(value, str) else json.dumps(value) if value is not None else ""


def extra(members: Members) -> Members:
    """The entries of a tuple's `extra_info`; none where there is none. Raises BadFile where it is none."""
    found = members.get("extra_info")
    if found is None or found.value in (None, ""):
        return {}
    return {name: each for name, each in found.object().items() if each.value is not None}


def extra_text(members: Members, name: str) -> str:
    """An entry of a tuple's `extra_info` as text; empty where there is none."""
    return text(extra(members), name)


def brief(value: Any) -> str:
    """A value as part of a case key: as it is, or by its digest where it is long or has parts."""
    text_of_value = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    if len(text_of_value) <= _LONGEST and not isinstance(value, dict | list):
        return text_of_value
    return f"sha256:{hashlib.sha256(text_of_value.encode(errors='replace')).hexdigest()[:12]}"


def _tuple(at: Value | None, names: tuple[str, ...]) -> Members:
    if at is None:
        return {}
    if isinstance(at.value, list):
        elements = at.list()
        if len(elements) > len(names):
            raise at.wrong(f"at most {len(names)} elements")
        members = dict(zip(names, elements, strict=False))
    else:
        members = at.object()
    return {name: member for name, member in members.items() if member.value is not None}


def _distinguishing_members(members: Members) -> list[tuple[str, Value]]:
    return [(name, each) for name, each in extra(members).items() if name not in _ABOUT_VALUE]


def _better(word: str) -> Better | None:
    words: tuple[Better, ...] = ("lower", "higher", "neither")
    return next((each for each in words if each == word), None)


def _is_case(key: str) -> bool:
    parts = key.split("/")
    return len(parts) == 4 and all(parts) and key.isprintable() and not re.search(r"\s", key)


def _runner(members: Members) -> tuple[str, str, str]:
    """The names that describe a runner's hardware: how many GPUs, its name and its type."""
    count = text(members, "gpu_count")
    return (
        f"{count} GPUs" if count not in ("", "0", "1") else "",
        text(members, "name"),
        text(members, "type"),
    )


def _version(at: Value) -> dict[str, str]:
    """A dependency: which version it is, and for ours the environment it was in."""
    members = at.object()
    names = ("repo", "branch", "sha", "version")
    version = {name: found for name in names if (found := text(members, name))}
    more = ("environment", "environment_fingerprint", "python_version")
    return version | {name: found for name in more if (found := extra_text(members, name))}
