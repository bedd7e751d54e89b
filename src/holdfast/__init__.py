"""Durable jobs for Python on the Postgres you already have."""

__version__ = "0.0.1"
