"""What can go wrong with the database.

* DatabaseError
  * DatabaseUnavailable   locked, gone, full: try again later, the journal keeps everything
  * SchemaTooNew          written by a newer Pyrometer than this one
  * SchemaTooOld          needs `pyrometer db upgrade`
  * BadDatabaseUrl        PYROMETER_DATABASE_URL is not something SQLAlchemy can open
  * DamagedSamples        the stored samples of one outcome cannot be read back
  * DamagedTelemetry      one stored recording cannot be read back
"""


class DatabaseError(Exception):
    """Base of everything this folder raises; its text is one sentence for people."""


class DatabaseUnavailable(DatabaseError):
    """The database is locked, gone or full; what is not stored stays in the journal."""


class SchemaTooNew(DatabaseError):
    """The database was written by a newer Pyrometer than this one."""


class SchemaTooOld(DatabaseError):
    """The database is older than this Pyrometer and must be upgraded first."""


class BadDatabaseUrl(DatabaseError):
    """The database URL cannot be used."""


class DamagedSamples(DatabaseError):
    """The stored samples of one outcome cannot be read back; its measurements are untouched."""


class DamagedTelemetry(DatabaseError):
    """One stored recording cannot be read back; the metrics that were made of it are untouched."""
