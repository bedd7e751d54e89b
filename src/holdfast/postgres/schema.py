"""The name of the Postgres schema that holds our tables, checked once so that it is safe inside SQL."""

import re
from dataclasses import dataclass

from holdfast.errors import InvalidSchemaName, MissingPrivilege, SchemaNotFound
from holdfast.postgres.sqlstate import FORBIDDEN, UNKNOWN_NAME

_ALLOWED = re.compile(r"(?!pg_)[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema name. Forty characters leave room for the suffixes of notification channels."""

    name: str = "holdfast"

    def __post_init__(self) -> None:
        if not _ALLOWED.fullmatch(self.name):
            raise InvalidSchemaName(self.name)

    @property
    def quoted(self) -> str:
        """As an identifier. Quoted although it is checked: `user` and `order` are words of SQL."""
        return f'"{self.name}"'

    def fill(self, text: str) -> str:
        """`{schema}` becomes the quoted identifier, `{schema_name}` the bare name for use in a literal."""
        return text.replace("{schema}", self.quoted).replace("{schema_name}", self.name)


def schema_error(
    sqlstate: str | None, reason: str, schema: Schema
) -> SchemaNotFound | MissingPrivilege | None:
    """The error for a statement that failed because of the schema: missing, or without rights. Else None."""
    if sqlstate in UNKNOWN_NAME:
        return SchemaNotFound(schema=schema.name, reason=reason, sqlstate=sqlstate)
    if sqlstate == FORBIDDEN:
        advice = (
            f"its owner must grant usage on schema {schema.quoted} and rights on what is in it, as "
            "docs/how-to/least-privilege.md lists them for workers and producers"
        )
        return MissingPrivilege(schema=schema.name, reason=reason, advice=advice, sqlstate=sqlstate)
    return None
