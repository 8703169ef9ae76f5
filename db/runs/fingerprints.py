"""Dispatch fingerprints, each content stored once."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from records.dispatch import CaseFingerprint, DispatchFingerprint, FingerprintConditions

from ..connection.engine import Database
from ..connection.statements import insert_missing, insert_or_replace, rows_among
from ..schema import core_tables as tables
from .upserts import case_ids, environment_ids, hardware_id, machine_id, preset_id

_KEY = ("case_id", "environment_id", "machine_id", "hardware_id", "preset_id", "harness", "device")


def save_fingerprints(
    database: Database, conditions: FingerprintConditions, results: Sequence[CaseFingerprint]
) -> int:
    """Store the results of taking fingerprints; returns the number of new contents.

    They replace the stored ones of the same cases under the same conditions; a content that is stored already
    takes no space. Raises ValueError if the environment or the preset is stored with the same fingerprint and
    other content.
    """
    if not results:
        return 0
    with database.writing() as connection:
        environment = conditions.environment
        shared = {
            "environment_id": environment_ids(connection, [environment])[environment.fingerprint],
            "machine_id": machine_id(connection, conditions.machine),
            "hardware_id": hardware_id(connection, conditions.machine.hardware),
            "preset_id": preset_id(connection, conditions.preset),
            "harness": conditions.harness,
            "device": conditions.stored_device,
        }
        cases = case_ids(connection, {result.case for result in results})
        contents, new = _content_ids(connection, [each.fingerprint for each in results if each.fingerprint])
        rows = [
            {
                **shared,
                "case_id": cases[result.case],
                "fingerprint_id": contents[result.fingerprint.content_hash] if result.fingerprint else None,
                "status": result.status,
                "reason": result.reason,
                "taken_at": result.taken_at,
            }
            for result in results
        ]
        insert_or_replace(connection, tables.CaseFingerprintRow, rows, _KEY)
    return new


def fingerprints_under(
    database: Database, conditions: FingerprintConditions, cases: Collection[str]
) -> dict[str, CaseFingerprint]:
    """The result of taking the fingerprint of each of these cases; those never taken are missing."""
    row = tables.CaseFingerprintRow
    query = _query().where(
        tables.EnvironmentRow.fingerprint == conditions.environment.fingerprint,
        tables.MachineRow.fingerprint == conditions.machine.fingerprint,
        tables.HardwareRow.fingerprint == conditions.machine.hardware.fingerprint,
        tables.PresetRow.fingerprint == conditions.preset.fingerprint,
        row.harness == conditions.harness,
        row.device == conditions.stored_device,
    )
    with database.reading() as connection:
        found = rows_among(connection, query, tables.BenchmarkCaseRow.key, cases)
    return {row.key: _result(row) for row in found}


def fingerprints_by_environment(
    database: Database, environments: Collection[str], hardware: str, preset: str, cases: Collection[str]
) -> dict[tuple[str, str], DispatchFingerprint]:
    """The newest fingerprint of each environment and case on one kind of hardware under a preset.

    All arguments but the cases are fingerprints. Each content is read once. A machine has another hardware
    without its GPUs or with other ones.
    """
    row = tables.CaseFingerprintRow
    query = (
        select(tables.EnvironmentRow.fingerprint, tables.BenchmarkCaseRow.key, row.fingerprint_id)
        .select_from(row)
        .join(tables.EnvironmentRow, tables.EnvironmentRow.id == row.environment_id)
        .join(tables.BenchmarkCaseRow, tables.BenchmarkCaseRow.id == row.case_id)
        .join(tables.HardwareRow, tables.HardwareRow.id == row.hardware_id)
        .join(tables.PresetRow, tables.PresetRow.id == row.preset_id)
        .where(
            tables.BenchmarkCaseRow.key.in_(cases),
            tables.HardwareRow.fingerprint == hardware,
            tables.PresetRow.fingerprint == preset,
            row.fingerprint_id.is_not(None),
        )
        .order_by(row.taken_at)
    )
    content = select(tables.FingerprintRow.id, tables.FingerprintRow.content)
    with database.reading() as connection:
        found = rows_among(connection, query, tables.EnvironmentRow.fingerprint, environments)
        ids = {each.fingerprint_id for each in found}
        bodies = {
            each.id: DispatchFingerprint.from_body(each.content)
            for each in rows_among(connection, content, tables.FingerprintRow.id, ids)
        }
    return {(each.fingerprint, each.key): bodies[each.fingerprint_id] for each in found}


def _content_ids(
    connection: Connection, contents: Sequence[DispatchFingerprint]
) -> tuple[dict[str, int], int]:
    """The ids of contents by hash, inserted if missing, and the number of new ones."""
    table = tables.FingerprintRow
    bodies = {each.content_hash: each.to_body() for each in contents}

    def select_ids() -> dict[str, int]:
        rows = rows_among(connection, select(table.hash, table.id), table.hash, bodies)
        return {row.hash: row.id for row in rows}

    ids = select_ids()
    if missing := sorted(bodies.keys() - ids.keys()):
        insert_missing(connection, table, [{"hash": each, "content": bodies[each]} for each in missing])
        ids = select_ids()
    return ids, len(missing)


def _query() -> Select[*tuple[Any, ...]]:
    row = tables.CaseFingerprintRow
    return (
        select(
            tables.BenchmarkCaseRow.key, row.status, row.reason, row.taken_at, tables.FingerprintRow.content
        )
        .select_from(row)
        .join(tables.BenchmarkCaseRow, tables.BenchmarkCaseRow.id == row.case_id)
        .join(tables.EnvironmentRow, tables.EnvironmentRow.id == row.environment_id)
        .join(tables.MachineRow, tables.MachineRow.id == row.machine_id)
        .join(tables.HardwareRow, tables.HardwareRow.id == row.hardware_id)
        .join(tables.PresetRow, tables.PresetRow.id == row.preset_id)
        .outerjoin(tables.FingerprintRow, tables.FingerprintRow.id == row.fingerprint_id)
    )


def _result(row: Row[*tuple[Any, ...]]) -> CaseFingerprint:
    content = None if row.content is None else DispatchFingerprint.from_body(row.content)
    return CaseFingerprint(row.key, row.taken_at, row.status, row.reason, content)
