"""Talking to Postgres: connections, statements, notifications, migrations, a private server; no jobs."""
