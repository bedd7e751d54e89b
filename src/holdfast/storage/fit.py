"""Whether this code may work with a database: asked when an App or a worker opens its connections."""

from holdfast.domain.schema_version import check_base, judge
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.migrations.version import explained, read_version
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import known_version, packaged


def check_fit(schema: Schema) -> Conversation[None]:
    """Return, or raise what to do: migrate it, upgrade here, ask for rights. Writes and locks nothing."""
    known = known_version()
    with explained(schema, known=known):
        [found] = yield from ask(read_version(schema))
    check_base(found, packaged()[0].name, schema.name)
    judge(found, known=known, schema=schema.name)
