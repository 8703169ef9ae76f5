"""The script that Alembic runs to migrate, on the connection and inside the transaction of `db.schema`."""

from alembic import context

from db.schema.core_tables import Base
from db.schema.version import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
