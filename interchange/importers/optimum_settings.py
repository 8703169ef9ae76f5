"""The settings of an optimum-benchmark run: they identify its case, its hardware and its environment."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..errors import BadFile
from ..foreign_runs import ForeignOrigin, Point, case_key
from ..source_file import Value

#: Deeper settings are refused.
MOST_LEVELS = 32

#: Names of 2023: the beginning of a path then and now.
_SINCE_2023 = (
    ("benchmark.", "scenario."),
    ("experiment_name", "name"),
    ("model", "backend.model"),
    ("device", "backend.device"),
    ("task", "backend.task"),
)
_PHASES = {"inference": "infer", "training": "train"}
#: Parameters of the case key that people look for, each with the settings that may hold it.
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "backend": ("backend.name",),
    "task": ("backend.task",),
    "device": ("backend.device",),
    "dtype": ("backend.torch_dtype", "backend.dtype"),
    "batch": (
        "scenario.input_shapes.batch_size",
        "scenario.batch_size",
        "scenario.training_arguments.per_device_train_batch_size",
    ),
    "sequence_length": ("scenario.input_shapes.sequence_length", "scenario.dataset_shapes.sequence_length"),
    "new_tokens": ("scenario.new_tokens", "scenario.generate_kwargs.max_new_tokens"),
    "quantization": (
        "backend.quantization_scheme",
        "backend.quantization_strategy",
        "backend.quantization_config.quant_method",
    ),
    "peft": ("backend.peft_type", "backend.peft_strategy"),
    "provider": ("backend.provider",),
    "threads": ("backend.intra_op_num_threads",),
}
_COMPILE = ("backend.torch_compile", "backend.torch_compile_config.mode")
#: What differs from run to run, or says nothing about what was measured: names, places, versions.
_NO_SETTING = re.compile(
    r".*\._target_|backend\.(?:version|seed|device_ids(?:\[\d+\])?|model|model_type|library|processor|image"
    r"|shm_size|ports\..*|volumes\..*|delete_cache|cache_dir)|scenario\.(?:name|training_arguments\.output_dir)"
)
_DEVICE_ID = re.compile(r"backend\.device_ids\[\d+\]")
_MEASURED = ("backend.", "scenario.", "launcher.")
_VERSION = re.compile(r"environment\.(\w+_version)")
#: How a list of names reads in a cell of a table.
_QUOTED = re.compile(r"'([^']*)'")


@dataclass(frozen=True, slots=True)
class OptimumSettings:
    """Texts by dotted path, under the current names."""

    values: Mapping[str, str]

    @classmethod
    def of(cls, values: Mapping[str, str]) -> "OptimumSettings":
        """Settings of any year; a null or empty setting counts as missing."""
        return cls({_rename_path(path): value for path, value in values.items() if value})

    def first(self, *paths: str) -> str:
        """The first of these settings that is set; empty for none."""
        return next((self.values[path] for path in paths if path in self.values), "")

    def case(self) -> str:
        """The key: what people look for in words, and a hash of every other setting that is not off.

        So a case is one configuration: no two that differ in a setting share a series.
        """
        parameters = {
            name: _normalise_value(self.first(*paths)) or None for name, paths in _PARAMETERS.items()
        }
        if parameters["device"]:
            parameters["device"] = parameters["device"].partition(":")[0]
        parameters["gpus"] = str(len(self._device_ids()) or "") or None
        reported = {path for paths in (*_PARAMETERS.values(), _COMPILE) for path in paths}
        others = {
            path: _normalise_value(value)
            for path, value in self.values.items()
            if path.startswith(_MEASURED) and path not in reported and not _NO_SETTING.fullmatch(path)
        }
        settings = sorted((path, value) for path, value in others.items() if value != "false")
        parameters["settings"] = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:8]
        return case_key(
            self.first("backend.model") or self.first("name"), self.phase(), parameters, self._technique()
        )

    def phase(self) -> str:
        """The phase of the scenario."""
        return _PHASES.get(self.first("scenario.name"), "call")

    def origin(self, format: str, made: tuple[datetime, str, bool], points: Iterable[Point]) -> ForeignOrigin:
        """The run these settings are of; its identity covers all settings and all measurements.

        `made` is when its file was, see `files.made_at`.
        """
        started_at, note, dated = made
        measured = [(point.case, point.metric, point.values) for point in points]
        content = json.dumps([sorted(self.values.items()), measured])
        backend, version = self.first("backend.name"), self.first("backend.version")
        torch_version = version if backend == "pytorch" else ""
        versions = {
            match[1]: value for path, value in self.values.items() if (match := _VERSION.fullmatch(path))
        }
        facts: dict[str, Any] = {"experiment": self.first("name"), "settings": dict(self.values)}
        return ForeignOrigin(
            format=format,
            suite=self.first("backend.task") or format,
            started_at=started_at,
            dated=dated,
            identity=hashlib.sha256(content.encode()).hexdigest(),
            hardware=self._hardware(),
            torch_version=torch_version,
            environment="" if torch_version else f"{backend} {version}".strip(),
            python_version=versions.pop("python_version", ""),
            environment_facts={"backend": backend, "backend_version": version, **versions},
            facts={**facts, "notes": [note]},
        )

    def _technique(self) -> str:
        compiled, mode = (self.first(path) for path in _COMPILE)
        return f"compile={mode or 'default'}" if _normalise_value(compiled) == "true" else "eager"

    def _hardware(self) -> str:
        """The GPUs of the machine if one was used, else its processor."""
        if not self.first("backend.device").startswith("cpu") and (gpus := self._gpus()):
            counted = Counter(_select_gpus(gpus, self._device_ids()))
            return " + ".join(name if n == 1 else f"{n} x {name}" for name, n in counted.items())
        cpu = self.first("environment.cpu", "environment.processor").strip()
        count = _normalise_value(self.first("environment.cpu_count"))
        return ", ".join(filter(None, (cpu, count and f"{count} CPUs"))) or "unknown"

    def _device_ids(self) -> list[str]:
        """Which GPUs were used, as `0,1`, as the text of a list, or as a list; none on a processor."""
        if self.first("backend.device").startswith("cpu"):
            return []
        members = (value for path, value in self.values.items() if _DEVICE_ID.fullmatch(path))
        listed = ",".join((self.first("backend.device_ids"), *members))
        return [each for each in re.split(r"[\s,\[\]'\"]+", listed) if each]

    def _gpus(self) -> list[str]:
        """A list in JSON and YAML, the text of a list in a table, or one name in the earliest files."""
        listed = [
            value
            for path, value in self.values.items()
            if re.fullmatch(r"environment\.gpus?\[\d+\]", path) and value.strip()
        ]
        text = self.first("environment.gpus", "environment.gpu")
        written = _QUOTED.findall(text) if text.startswith("[") else [text] if text else []
        return [name.strip() for name in (*listed, *written) if name.strip()]


def _select_gpus(gpus: list[str], ids: list[str]) -> list[str]:
    """The GPUs of a machine with these ids; all if the ids are unknown."""
    if ids and all(re.fullmatch(r"[0-9]{1,4}", each) and int(each) < len(gpus) for each in ids):
        return [gpus[int(each)] for each in ids]
    return gpus[:1] * len(ids) if ids and len(set(gpus)) == 1 else gpus


def flatten_json(at: Value, path: str = "", levels: int = MOST_LEVELS) -> dict[str, str]:
    """The texts of a JSON object by dotted path; raises BadFile for one that is nested too deep."""
    value = at.value
    if value is None:
        return {}
    if not isinstance(value, dict | list):
        return {path: str(value).lower() if isinstance(value, bool) else str(value)}
    if not levels:
        raise BadFile(at.place, "is nested too deep")
    found: dict[str, str] = {}
    members = at.object().items() if isinstance(value, dict) else enumerate(at.list())
    for name, member in members:
        own = f"{path}[{name}]" if isinstance(name, int) else f"{path}.{name}" if path else name
        found |= flatten_json(member, own, levels - 1)
    return found


def _rename_path(path: str) -> str:
    for before, after in _SINCE_2023:
        if path == before or (before.endswith(".") and path.startswith(before)):
            return after + path[len(before) :]
    return path


def _normalise_value(value: str) -> str:
    """One spelling of a value that JSON, YAML and a table write as `true`, `True`, `16` and `16.0`."""
    if value in ("True", "False"):
        return value.lower()
    whole, dot, rest = value.partition(".")
    return whole if dot and whole.isdigit() and rest and not rest.strip("0") else value
