"""Alembic runs this; the connection, inside its transaction, comes from whence.store.database."""

from alembic import context

from whence.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, transactional_ddl=True)
context.run_migrations()
