"""The name of the Postgres schema that holds our tables, checked once so that it is safe inside SQL."""

import re
from dataclasses import dataclass

from holdfast.errors import InvalidSchemaName

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


NOT_FOUND = frozenset(
    {
        "3F000",  # schema
        "42P01",  # table, also when the whole schema is missing
        "42703",  # column
        "42704",  # type
        "42883",  # function
    }
)
"""The SQLSTATEs of a statement that names what is not there, as in a database that was never migrated."""
