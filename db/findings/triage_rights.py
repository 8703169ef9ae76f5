"""May this account say something of a finding? Asked before people are offered to."""

from sqlalchemy import insert, literal, select, update

from ..connection.engine import Database
from ..errors import DatabaseUnavailable, ReadOnly
from ..schema import finding_tables

_FINDING, _TRIAGE = finding_tables.Finding, finding_tables.Triage


def triage_refused(database: Database) -> str:
    """Why this account cannot triage, in one sentence; empty where it can. Nothing is changed."""
    columns = (_TRIAGE.finding_id, _TRIAGE.at, _TRIAGE.who, _TRIAGE.action, _TRIAGE.text)
    nothing = select(_FINDING.id, _FINDING.found_at, literal(""), literal("note"), literal("")).where(
        _FINDING.id < 0
    )
    try:
        with database.writing() as connection:
            # Rights are looked at before rows are, so that no row has to be there.
            connection.execute(
                update(_FINDING).where(_FINDING.id < 0).values(link="", triage="open", muted_until=None)
            )
            connection.execute(insert(_TRIAGE).from_select([column.key for column in columns], nothing))
    except ReadOnly as refusal:
        return str(refusal)
    except DatabaseUnavailable:
        # Locked for a moment: whoever then says something hears what became of it.
        return ""
    return ""
