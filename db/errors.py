"""The errors of the database.

* DatabaseError * DatabaseUnavailable locked, missing or full: try again later, the journal keeps everything *
  ReadOnly this account may look, and not write * SchemaTooNew written by a newer Pyrometer than this one *
  SchemaTooOld needs `pyrometer db upgrade` * BackupFailed no whole copy could be made where it was wanted *
  BadDatabaseUrl PYROMETER_DATABASE_URL is not something SQLAlchemy can open * StillReferred something rests
  on a run that was to be forgotten * DamagedSamples the stored samples of one outcome cannot be read back *
  DamagedTelemetry one stored recording cannot be read back
"""


class DatabaseError(Exception):
    """Base of all errors of this folder; the text is one sentence for users."""


class DatabaseUnavailable(DatabaseError):
    """The database is locked, missing or full; results that are not stored stay in the journal."""


class ReadOnly(DatabaseError):
    """This account may read the database but not write to it."""


class SchemaTooNew(DatabaseError):
    """The database was written by a newer Pyrometer than this one."""


class SchemaTooOld(DatabaseError):
    """The database is older than this Pyrometer and must be upgraded first."""


class BadDatabaseUrl(DatabaseError):
    """The database URL cannot be used."""


class BackupFailed(DatabaseError):
    """No complete copy could be made; an existing file of that name is unchanged."""


class StillReferred(DatabaseError):
    """Findings or tasks refer to the run that was to be deleted."""


class DamagedSamples(DatabaseError):
    """The stored samples of one outcome cannot be read; its measurements are unaffected."""


class DamagedTelemetry(DatabaseError):
    """A stored recording cannot be read; the metrics computed from it are unaffected."""
