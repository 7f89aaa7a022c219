"""Alembic's way in: the open connection is handed over by orchestrator.db.migrate; there is no ini file."""

from alembic import context

from orchestrator.db.models import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    transactional_ddl=True,
)
context.run_migrations()
