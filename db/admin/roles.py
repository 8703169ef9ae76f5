"""Who may do what on a Postgres server, as SQL: an owner, those who measure, those who look."""

from dataclasses import dataclass

from ..errors import BadRole
from ..schema import core_tables as tables
from ..schema import version as schema

#: Tables in which rows are deleted by whoever writes: raw rows and what the queue did go when they are old,
#: schedulers when they stop.
_DELETED_FROM = ("telemetry", "samples", "attempt", "task", "fire", "scheduler")
#: The table that people add to from the dashboard, and what of a finding they change by that.
_TRIAGE = "triage"
_TRIAGED, _TRIAGE_COLUMNS = "finding", ("triage", "muted_until", "link")

#: Bytes of a name; Postgres cuts off what is longer, and two names could then be one.
_NAME_BYTES = 63


OWNER, WRITER, READER = "pyrometer_owner", "pyrometer_writer", "pyrometer_reader"


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of the three roles; raises BadRole for one that can be none."""

    owner: str = OWNER
    writer: str = WRITER
    reader: str = READER

    def __post_init__(self) -> None:
        names = (self.owner, self.writer, self.reader)
        for name in names:
            if not name or "\0" in name or not 0 < len(name.encode(errors="replace")) <= _NAME_BYTES:
                raise BadRole(f"{name!r} is no name for a role: 1 to {_NAME_BYTES} bytes, none of them NUL.")
            if name.startswith("pg_") or name in ("public", "none"):
                raise BadRole(f"{name!r} is a name that Postgres keeps for itself.")
        if len({*names}) < len(names):
            raise BadRole("The three roles need three names.")


def roles_sql(roles: Roles) -> str:
    """The statements that make the roles where they are missing, and give each what it needs and no more.

    For a superuser, in the database of Pyrometer. Run again, they change nothing, and give what a table that
    came since needs.
    """
    table_names = sorted([*tables.Base.metadata.tables, schema.VERSION_TABLE])
    body = _BODY.format(
        owner=_text(roles.owner),
        writer=_text(roles.writer),
        reader=_text(roles.reader),
        tables=_texts(table_names),
        deleted_from=_texts(_DELETED_FROM),
        triage=_text(_TRIAGE),
        triaged=_text(_TRIAGED),
        triage_columns=_texts(_TRIAGE_COLUMNS),
        version_table=_text(schema.VERSION_TABLE),
    )
    tag = "roles"
    while f"${tag}$" in body:
        tag += "_"
    return f"{_HEAD}DO ${tag}$\n{body}${tag}$;\n"


def _text(value: str) -> str:
    """A text constant, read the same whatever the server makes of backslashes."""
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


def _texts(values: tuple[str, ...] | list[str]) -> str:
    return f"ARRAY[{', '.join(map(_text, values))}]::text[]"


_HEAD = """\
-- Roles of Pyrometer: run as a superuser in its database, after `pyrometer db upgrade` has made the tables,
-- and once more after each later upgrade. A password is given afterwards, with psql's \\password ROLE.
-- The owner runs `pyrometer db upgrade`, the writer `pyrometer run`, the reader `pyrometer dashboard`.
"""

_BODY = """\
DECLARE
    owner CONSTANT text := {owner};
    writer CONSTANT text := {writer};
    reader CONSTANT text := {reader};
    ours CONSTANT text[] := {tables};
    deleted_from CONSTANT text[] := {deleted_from};
    triage CONSTANT text := {triage};
    triaged CONSTANT text := {triaged};
    triage_columns CONSTANT text[] := {triage_columns};
    place CONSTANT text := current_schema();
    one text;
BEGIN
    FOREACH one IN ARRAY ARRAY[owner, writer, reader] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = one) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', one);
        END IF;
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), one);
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', place, one);
    END LOOP;

    -- Before Postgres 15 everybody could make tables here.
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', place);
    EXECUTE format('GRANT CREATE ON SCHEMA %I TO %I', place, owner);

    -- What the owner makes later can be read and written at once.
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I '
        'GRANT SELECT ON TABLES TO %I, %I', owner, place, writer, reader);
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I '
        'GRANT INSERT, UPDATE ON TABLES TO %I', owner, place, writer);
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I '
        'GRANT SELECT ON SEQUENCES TO %I, %I', owner, place, writer, reader);
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I '
        'GRANT USAGE ON SEQUENCES TO %I', owner, place, writer);

    FOREACH one IN ARRAY ours LOOP
        CONTINUE WHEN to_regclass(format('%I.%I', place, one)) IS NULL;
        EXECUTE format('ALTER TABLE %I.%I OWNER TO %I', place, one, owner);
        EXECUTE format('GRANT SELECT ON %I.%I TO %I, %I', place, one, writer, reader);
        IF one <> {version_table} THEN
            EXECUTE format('GRANT INSERT, UPDATE ON %I.%I TO %I', place, one, writer);
        ELSE
            -- Which schema there is, only the owner decides.
            EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON %I.%I FROM %I', place, one, writer);
        END IF;
        IF one = ANY (deleted_from) THEN
            EXECUTE format('GRANT DELETE ON %I.%I TO %I', place, one, writer);
        END IF;
        IF one = triage THEN
            EXECUTE format('GRANT INSERT ON %I.%I TO %I', place, one, reader);
            EXECUTE format('GRANT USAGE ON SEQUENCE %s TO %I',
                pg_get_serial_sequence(format('%I.%I', place, one), 'id'), reader);
        ELSIF one = triaged THEN
            EXECUTE format('GRANT UPDATE (%s) ON %I.%I TO %I',
                array_to_string(triage_columns, ', '), place, one, reader);
        END IF;
    END LOOP;

    -- Those that count the ids of our tables.
    FOR one IN
        SELECT counter.relname FROM pg_class AS counter
        JOIN pg_depend AS link ON link.objid = counter.oid AND link.deptype IN ('a', 'i')
        JOIN pg_class AS counted ON counted.oid = link.refobjid
        WHERE counter.relkind = 'S' AND counted.relname = ANY (ours)
            AND counter.relnamespace = quote_ident(place)::regnamespace
            AND counted.relnamespace = counter.relnamespace
    LOOP
        EXECUTE format('GRANT SELECT ON SEQUENCE %I.%I TO %I, %I', place, one, writer, reader);
        EXECUTE format('GRANT USAGE ON SEQUENCE %I.%I TO %I', place, one, writer);
    END LOOP;
END
"""
