"""Dispatch fingerprints in the database: each content once, looked up by what they depend on."""

from dataclasses import replace

import pytest
from sqlalchemy import func, select

from db.connection.engine import Database
from db.runs.fingerprints import (
    fingerprints_by_environment,
    fingerprints_under,
    save_fingerprints,
)
from db.runs.store import save_run
from db.schema.core_tables import CaseFingerprintRow, FingerprintRow
from records.dispatch import CaseFingerprint, DispatchFingerprint
from records.machines import Hardware
from records.outcomes import OutcomeStatus
from support.builders.run_records import (
    BERT,
    MLP,
    RESNET,
    a_case_fingerprint,
    a_machine,
    a_night,
    a_preset,
    a_run,
    an_environment,
    fingerprint_conditions,
)


def _count(database: Database, table: type[FingerprintRow] | type[CaseFingerprintRow]) -> int:
    with database.reading() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_what_was_saved_comes_back(database: Database) -> None:
    failed = CaseFingerprint(BERT, a_night(0), OutcomeStatus.TIMEOUT, "no end within 60 s")
    saved = [a_case_fingerprint(MLP), a_case_fingerprint(RESNET, mkl={"SGEMM(T,N)": 3}), failed]
    save_fingerprints(database, fingerprint_conditions(), saved)
    found = fingerprints_under(database, fingerprint_conditions(), [MLP, RESNET, BERT, "other/infer/-/eager"])
    assert found == {each.case: each for each in saved}
    assert not found[BERT].is_final
    assert found[MLP].is_final


def test_a_night_in_which_nothing_changed_stores_no_content(database: Database) -> None:
    for number in range(3):
        environment = an_environment(f"2.13.{number}")
        taken = [a_case_fingerprint(taken=number)]
        new = save_fingerprints(database, fingerprint_conditions(environment), taken)
        assert new == (1 if number == 0 else 0)
    assert _count(database, FingerprintRow) == 1
    assert _count(database, CaseFingerprintRow) == 3
    assert save_fingerprints(database, fingerprint_conditions(), []) == 0
    assert _count(database, CaseFingerprintRow) == 3


def test_a_later_one_takes_the_place_of_one_that_failed(database: Database) -> None:
    failed = CaseFingerprint(MLP, a_night(0), OutcomeStatus.CRASHED, "killed by SIGILL")
    save_fingerprints(database, fingerprint_conditions(), [failed])
    taken = a_case_fingerprint(taken=1)
    save_fingerprints(database, fingerprint_conditions(), [taken])
    assert fingerprints_under(database, fingerprint_conditions(), [MLP]) == {MLP: taken}


@pytest.mark.parametrize(
    "other",
    [
        {"environment": an_environment("2.9.1")},
        {"machine": a_machine("bench-2")},
        {"machine": a_machine(hardware="Xeon 6430, 1 x H200")},
        {"preset": a_preset("as-it-comes")},
        {"harness": "harness-2"},
        {"device": "cuda:0"},
    ],
    ids=["environment", "machine", "hardware", "preset", "harness", "device"],
)
def test_under_other_conditions_there_is_none(database: Database, other: dict[str, object]) -> None:
    save_fingerprints(database, fingerprint_conditions(), [a_case_fingerprint()])
    conditions = replace(fingerprint_conditions(), **other)
    assert fingerprints_under(database, conditions, [MLP]) == {}


def test_the_newest_on_a_kind_of_hardware(database: Database) -> None:
    save_run(database, a_run())
    old, new = a_case_fingerprint(mkl={"SGEMM(T,N)": 3}), a_case_fingerprint(taken=2)
    save_fingerprints(database, replace(fingerprint_conditions(), harness="newer"), [new])
    save_fingerprints(database, fingerprint_conditions(), [old])
    failed = CaseFingerprint(MLP, a_night(3), OutcomeStatus.CRASHED, "killed by SIGILL")
    save_fingerprints(database, replace(fingerprint_conditions(), harness="newest"), [failed])
    sides = an_environment().fingerprint, a_machine().hardware.fingerprint, a_preset().fingerprint
    other, (environment, hardware, preset) = an_environment("2.9.1").fingerprint, sides
    found = fingerprints_by_environment(database, [environment, other], hardware, preset, [MLP, RESNET])
    assert found == {(environment, MLP): new.fingerprint}
    assert fingerprints_by_environment(database, [environment], "other hardware", preset, [MLP]) == {}


def test_a_machine_with_gpus_has_fingerprints_of_each_device(database: Database) -> None:
    """Both are runs of one host: with its GPUs, and on its CPUs alone."""
    cpu, gpu = a_machine(), a_machine(hardware="Xeon 6430, 1 x H100")
    gpu = replace(gpu, hardware=replace(gpu.hardware, facts={"gpus": ["NVIDIA H100"]}))
    on_cpu, on_gpu = a_case_fingerprint(mkl={"SGEMM(T,N)": 3}), a_case_fingerprint(taken=2)
    for machine, device, taken in ((cpu, "cpu", on_cpu), (gpu, "cuda:0", on_gpu)):
        save_run(database, replace(a_run(f"run-{device}"), machine=machine))
        save_fingerprints(
            database, replace(fingerprint_conditions(), machine=machine, device=device), [taken]
        )
    environment, preset = an_environment().fingerprint, a_preset().fingerprint
    for machine, taken in ((cpu, on_cpu), (gpu, on_gpu)):
        place = machine.hardware.fingerprint, preset
        found = fingerprints_by_environment(database, [environment], *place, [MLP])
        assert found == {(environment, MLP): taken.fingerprint}


def test_gpus_that_follow_each_other_in_one_host_have_fingerprints_of_their_own(database: Database) -> None:
    """Same machine, device and driver; the older card's fingerprint was taken last."""
    old, new = (
        replace(a_machine(), hardware=Hardware(f"hardware-{gpu}", gpu, {"gpus": [gpu]}))
        for gpu in ("NVIDIA H100", "NVIDIA H200")
    )
    on_old, on_new = a_case_fingerprint(mkl={"SGEMM(T,N)": 3}, taken=3), a_case_fingerprint(taken=2)
    for machine, taken in ((new, on_new), (old, on_old)):
        save_run(database, replace(a_run(f"run-{machine.hardware.label}"), machine=machine))
        conditions = replace(fingerprint_conditions(), machine=machine, device="cuda:0", driver="580.65")
        save_fingerprints(database, conditions, [taken])
    environment, preset = an_environment().fingerprint, a_preset().fingerprint
    for machine, taken in ((old, on_old), (new, on_new)):
        place = machine.hardware.fingerprint, preset
        found = fingerprints_by_environment(database, [environment], *place, [MLP])
        assert found == {(environment, MLP): taken.fingerprint}


def test_another_form_is_taken_again(database: Database) -> None:
    old = replace(a_case_fingerprint(), fingerprint=DispatchFingerprint({}, format=0))
    save_fingerprints(database, fingerprint_conditions(), [old])
    assert not fingerprints_under(database, fingerprint_conditions(), [MLP])[MLP].is_final


def test_another_driver_of_the_gpu_is_another_condition(database: Database) -> None:
    conditions = replace(fingerprint_conditions(), device="cuda:0", driver="580.65")
    save_fingerprints(database, conditions, [a_case_fingerprint()])
    assert set(fingerprints_under(database, conditions, [MLP])) == {MLP}
    assert fingerprints_under(database, replace(conditions, driver="590.01"), [MLP]) == {}


def test_of_several_environments_each_content_is_one_object(database: Database) -> None:
    save_run(database, a_run())
    versions = [an_environment(f"2.13.{number}") for number in range(3)]
    for number, environment in enumerate(versions):
        taken = a_case_fingerprint(taken=number, **({"mkl": {"SGEMM(T,N)": 3}} if number == 2 else {}))
        save_fingerprints(database, fingerprint_conditions(environment), [taken])
    failed = CaseFingerprint(RESNET, a_night(3), OutcomeStatus.CRASHED, "killed by SIGILL")
    save_fingerprints(database, fingerprint_conditions(versions[0]), [failed])
    names = [each.fingerprint for each in versions]
    place = a_machine().hardware.fingerprint, a_preset().fingerprint
    found = fingerprints_by_environment(database, names, *place, [MLP, RESNET])
    assert set(found) == {(name, MLP) for name in names}
    first, second, third = (found[name, MLP] for name in names)
    assert first is second and third != first
    assert fingerprints_by_environment(database, names, "other hardware", place[1], [MLP]) == {}
