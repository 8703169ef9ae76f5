"""The schema of `pyrometer.toml`: one frozen model for each table; descriptions name the expected values."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from .dashboard import DashboardSettings
from .database_url import usable
from .environments import EnvironmentSettings
from .fields import (
    COUNT,
    SECONDS,
    SHARE,
    Address,
    Change,
    ConfigTable,
    Count,
    Name,
    PathText,
    Positive,
    Rate,
    Seconds,
    Share,
    SomeSeconds,
    Text,
    Texts,
    Variable,
    Words,
    no_bool,
)
from .schedules import Labels, ScheduleSettings, ZoneName

#: The built-in presets.
Base = Literal["quiet", "as-it-comes"]
BASES: tuple[Base, ...] = get_args(Base)
#: The built-in policy.
POLICY = "default"


#: The largest processor number; a range is expanded into its members, so it has to be bounded.
_LAST_CPU = 65_535


def _cpu_list(text: str) -> str:
    for part in text.split(","):
        bounds = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip(), re.ASCII)
        first, last = (int(bounds[1]), int(bounds[2] or bounds[1])) if bounds else (1, 0)
        if not first <= last <= _LAST_CPU:
            raise ValueError("not a list of processors")
    return text.replace(" ", "")


class PresetSettings(ConfigTable):
    """`[presets.NAME]`: a measurement preset, as changes to its base.

    `environment` is passed to the measured process; without `threads` or `cpus` those of the base apply.
    """

    base: Base = Field(default="quiet", description='"quiet" or "as-it-comes"')
    environment: Mapping[Variable, str] = Field(
        default_factory=dict[str, str], description="a table of texts, one for each environment variable"
    )
    threads: Count | None = Field(default=None, description=COUNT)
    cpus: Annotated[str, AfterValidator(_cpu_list)] | None = Field(
        default=None, description='a list of processors like "0-3,8"'
    )


class MatrixSettings(BaseModel):
    """`[[suites.NAME.matrix]]`: workloads times techniques.

    Every other key is an axis of a technique with a list of its values (`pyrometer cases techniques` lists
    them). `include` adds techniques (`compile=default,precision=bf16`) or whole case keys, `exclude` takes
    away what its globs match, `why` says what the block is for.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Words] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    workloads: Annotated[Texts, Field(min_length=1)]
    include: Texts = ()
    exclude: Texts = ()
    why: Text | None = None


class SuiteSettings(ConfigTable):
    """`[suites.NAME]`: a suite, or changes to an existing one, which provides the other fields.

    `cases` are case keys or globs over them, `matrix` makes keys, `include` takes in other suites, `exclude`
    takes away what its globs match. `budget_seconds` bounds the whole run, `measure_seconds` the timed part
    of one replicate (up to four times as long for a pair whose rounds disagree), `max_seconds` the time for
    collecting enough blocks, `warm_up_max_seconds` its warm-up, and `deadline_seconds` the whole process.
    `observe_seconds` is the telemetry window of the first replicate of a case; 0 for none. `device` is "cpu"
    for a suite that measures the CPU of any machine, "cuda" for one that requires a GPU.
    """

    summary: Text | None = Field(default=None, description="a sentence about the purpose of the suite")
    cases: Annotated[Texts, Field(min_length=1)] | None = Field(
        default=None, description="a list of case keys or globs, at least one"
    )
    matrix: tuple[MatrixSettings, ...] | None = Field(
        default=None, description="tables [[suites.NAME.matrix]]"
    )
    include: Texts | None = Field(default=None, description="a list of suites")
    exclude: Texts | None = Field(default=None, description="a list of globs over case keys")
    device: Literal["auto", "cpu", "cuda"] | None = Field(default=None, description='"auto", "cpu" or "cuda"')
    replicates: Count | None = Field(default=None, description=COUNT)
    budget_seconds: Seconds | None = Field(default=None, description=SECONDS)
    measure_seconds: Seconds | None = Field(default=None, description=SECONDS)
    warm_up_max_seconds: Seconds | None = Field(default=None, description=SECONDS)
    max_seconds: Seconds | None = Field(default=None, description=SECONDS)
    deadline_seconds: Seconds | None = Field(default=None, description=SECONDS)
    observe_seconds: SomeSeconds | None = Field(default=None, description="a number of seconds, 0 for none")


class LimitsSettings(ConfigTable):
    """Limits of compile time or peak memory; missing keys are those of the built-in policy.

    At most `slower_share` of the cases may be worse by the share `case` or more, none by more than `worst`,
    the geomean by no more than `mean`. Exceeding a limit that `blocks` names is a no-go; exceeding another is
    a warning.
    """

    case: Positive | None = Field(default=None, description="a share above 0")
    worst: Positive | None = Field(default=None, description="a share above 0")
    mean: Positive | None = Field(default=None, description="a share above 0")
    blocks: tuple[Literal["case", "worst", "mean"], ...] | None = Field(
        default=None, description='a list of "case", "worst", "mean"'
    )


class PolicySettings(ConfigTable):
    """`[policies.NAME]`: when an upgrade is a go; missing keys are those of the built-in policy.

    Shares are 0.10 for 10 %. `metric` decides; `thresholds` are the smallest changes that matter, by metric,
    and so set the precision of the pairs. Cases of `must_not_regress` may not be worse, cases of `may_break`
    may stop working; both are globs over case keys, and a case that matches both may not stop working.
    `weights` map globs to the weights of cases. At most `slower_share` of the cases may be slower by `case`
    or more, no single case by more than `worst` (by metric), the geomean by no more than `overall`. If more
    than `unmeasured_share` of the cases have no number, the upgrade is unclear.
    """

    metric: Text | None = Field(default=None, description="the name of a metric")
    thresholds: Mapping[Text, Share] | None = Field(
        default=None, description="a table of shares from 0 to 1, one for each metric"
    )
    must_not_regress: Texts | None = Field(default=None, description="a list of globs over case keys")
    may_break: Texts | None = Field(default=None, description="a list of globs over case keys")
    weights: Mapping[Text, Positive] | None = Field(
        default=None, description="a table of weights above 0, one for each glob over case keys"
    )
    case: Positive | None = Field(default=None, description="a share above 0")
    slower_share: Share | None = Field(default=None, description=SHARE)
    worst: Mapping[Text, Positive] | None = Field(
        default=None, description="a table of shares above 0, one for each metric"
    )
    overall: Change | None = Field(default=None, description="a share above -1, below 0 for a gain")
    compile_time: LimitsSettings | None = Field(default=None, description="a table of limits")
    peak_memory: LimitsSettings | None = Field(default=None, description="a table of limits")
    unmeasured_share: Share | None = Field(default=None, description=SHARE)
    false_discovery_rate: Rate | None = Field(default=None, description="a share above 0 and below 0.5")


#: The default port of the head's engine.
PORT = 6379


def host_and_port(text: str) -> tuple[str, int]:
    """The two parts of HOST:PORT; raises ValueError for anything else."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError("not HOST:PORT")
    if any(sign in host for sign in ":/@[] "):
        # Also refuses IPv6 addresses, which are not tested.
        raise ValueError("not HOST:PORT")
    return host, int(port)


def _address(text: str) -> str:
    host_and_port(text)
    return text


class FleetSettings(ConfigTable):
    """`[fleet]`: the engine that connects machines, "none" for a single machine; for "slurm" see also
    `[slurm]`.

    `address` is where the head listens, reachable from all machines of the fleet. `token_file` contains the
    shared secret (default: `fleet/token` in the data folder), with which any program can be run on all of
    them.
    """

    engine: Literal["none", "ray", "slurm"] = Field(default="none", description='"none", "ray" or "slurm"')
    address: Annotated[str, AfterValidator(_address)] | None = Field(
        default=None, description=f'HOST:PORT of the head such as "10.0.0.5:{PORT}"'
    )
    token_file: PathText | None = Field(default=None, description="the path of a file with the fleet's token")

    def token(self, data_dir: Path) -> Path:
        """The file that holds the token."""
        return self.token_file or data_dir / "fleet" / "token"


def _absolute(value: Path) -> Path:
    if not value.is_absolute():
        raise ValueError("a relative path would mean another file on every machine")
    return value


class SlurmSettings(ConfigTable):
    """`[slurm]`: the nodes to use and the settings of jobs.

    Only nodes of `partition` are used (default: all), and jobs are charged to `account`. `folder` is on a
    file system that all nodes see at the same path (default: `fleet/slurm` in the data folder). `python` is
    the interpreter with Pyrometer on the nodes (default: the head's). `arguments` are passed to sbatch; the
    variables in `environment` are passed to a job.
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


class PriceSettings(ConfigTable):
    """`[prices]`: what an hour of hardware costs, all in one `currency`; nothing is converted.

    `per_hour` maps labels of hardware, as the page Hardware shows them, to the price of an hour of all that
    the label names: of `8 x H200` the price of the machine with its eight GPUs. A case costs the share of
    the GPUs that it uses.
    """

    currency: Text = Field(default="USD", description='a word such as "EUR"')
    per_hour: Mapping[Text, Positive] = Field(
        default_factory=dict[str, float],
        description="a table of prices above 0, one for each label of hardware",
    )


Target = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+.-]+://")]


class AlertSettings(ConfigTable):
    """`[alerts]`: who receives reports, and when something counts as silent.

    `targets` and the lines of `targets_file` are Apprise URLs. `dashboard_url` is used for links. `quiet`
    says whether a digest without problems or changes is sent. A machine is silent after `silent_minutes`
    without a sign of life; a night is missing if it was not begun `overdue_hours` after it was due.
    `disturbed_share` is the share of throttled and contended outcomes that is reported.
    """

    targets: tuple[Target, ...] = Field(default=(), description="a list of Apprise URLs", repr=False)
    targets_file: PathText | None = Field(
        default=None, description="the path of a file with an Apprise URL a line"
    )
    dashboard_url: Address | None = Field(default=None, description="the URL of the dashboard")
    quiet: Literal["send", "skip"] = Field(default="send", description='"send" or "skip"')
    silent_minutes: Count = Field(default=30, description=COUNT)
    overdue_hours: Count = Field(default=12, description=COUNT)
    disturbed_share: Share = Field(default=0.05, description=SHARE)


class SettingsFile(ConfigTable):
    """The whole file, before defaults that depend on where it lies."""

    data_dir: PathText = Field(default=Path(".pyrometer"), description="the path of a folder")
    database_url: Annotated[str, AfterValidator(usable)] = Field(
        default="sqlite:///pyrometer.db",
        description="a URL such as sqlite:///pyrometer.db or postgresql://user@host/name",
        repr=False,
    )
    preset: Text = Field(default="quiet", description="the name of a preset")
    contention_limit: Share = Field(
        default=0.05, description="a share from 0 to 1 of a block that others may take, 1 for any"
    )
    telemetry_days: Count = Field(default=90, description=COUNT)
    samples_days: Count | None = Field(default=None, description=COUNT)
    presets: Mapping[Name, PresetSettings] = Field(
        default_factory=dict[str, PresetSettings], description="tables [presets.NAME]"
    )
    environments: Mapping[Name, EnvironmentSettings] = Field(
        default_factory=dict[str, EnvironmentSettings], description="tables [environments.NAME]"
    )
    environments_gib: Annotated[float, BeforeValidator(no_bool), Field(ge=0, allow_inf_nan=False)] = Field(
        default=60, description="a number of GiB, 0 or more"
    )
    suites: Mapping[Name, SuiteSettings] = Field(
        default_factory=dict[str, SuiteSettings], description="tables [suites.NAME]"
    )
    policy: Text = Field(default=POLICY, description="the name of a policy")
    timezone: ZoneName = Field(default="UTC", description='the name of a time zone such as "Europe/Berlin"')
    machine_labels: Labels = Field(default=(), description='a list of labels such as "h200"')
    policies: Mapping[Name, PolicySettings] = Field(
        default_factory=dict[str, PolicySettings], description="tables [policies.NAME]"
    )
    alerts: AlertSettings = Field(default=AlertSettings(), description="a table [alerts]")
    dashboard: DashboardSettings = Field(default=DashboardSettings(), description="a table [dashboard]")
    prices: PriceSettings = Field(default=PriceSettings(), description="a table [prices]")
    fleet: FleetSettings = Field(default=FleetSettings(), description="a table [fleet]")
    slurm: SlurmSettings = Field(default=SlurmSettings(), description="a table [slurm]")
    schedules: Mapping[Name, ScheduleSettings] = Field(
        default_factory=dict[str, ScheduleSettings], description="tables [schedules.NAME]"
    )


#: The tables of tables, by their key in the file.
TABLES: Mapping[str, type[ConfigTable]] = {
    "presets": PresetSettings,
    "environments": EnvironmentSettings,
    "suites": SuiteSettings,
    "policies": PolicySettings,
    "schedules": ScheduleSettings,
}
#: The tables that exist once.
SECTIONS: Mapping[str, type[ConfigTable]] = {
    "alerts": AlertSettings,
    "dashboard": DashboardSettings,
    "prices": PriceSettings,
    "fleet": FleetSettings,
    "slurm": SlurmSettings,
}
SCALARS: tuple[str, ...] = tuple(
    name for name in SettingsFile.model_fields if name not in TABLES and name not in SECTIONS
)
