"""The CPU of a machine with GPUs is measured as a CPU, and compared with others of its kind."""

import dataclasses

from builders import a_run

from cli.preparing import gpus_in_use
from dashboard.again import reproduce_command
from runner import machine
from runner.environment import Environment
from runner.suites.built_in import built_in

ENVIRONMENT = Environment(
    "default",
    "python",
    {"fingerprint": "f", "devices": [{"name": "NVIDIA H200", "memory_mib": 143771}]},
    (),
    {},
)


def test_a_run_on_the_cpu_joins_no_series_of_the_gpu() -> None:
    on_cpu, on_gpu = (machine.describe(gpus_in_use(ENVIRONMENT, d)) for d in ("cpu", "auto"))
    assert on_gpu.hardware_label == "1 x NVIDIA H200"
    assert on_cpu.hardware_fingerprint == machine.describe([]).hardware_fingerprint
    assert on_cpu.hardware_fingerprint != on_gpu.hardware_fingerprint


def test_a_resumed_run_is_compared_by_the_device_it_began_on() -> None:
    assert gpus_in_use(ENVIRONMENT, "cuda:0") == ENVIRONMENT.gpus
    assert gpus_in_use(ENVIRONMENT, "cpu") == []


def test_the_cpu_suite_is_about_the_cpu_of_any_machine() -> None:
    assert {name for name, suite in built_in().items() if suite.device == "cpu"} == {"cpu"}


def test_the_device_is_part_of_what_reproduces_a_case() -> None:
    run = dataclasses.replace(a_run(), command="pyrometer run --case mlp --device cpu")
    assert "--device cpu" in reproduce_command(run, "mlp/infer/-/eager", "default")
