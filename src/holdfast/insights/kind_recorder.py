"""Stores what this worker's code declares of its kinds, once, when the worker starts, and learns what other
versions of the code have declared to be secret.
"""

import asyncio
import logging
from contextlib import suppress

from holdfast.domain.redaction import Redaction
from holdfast.errors import DatabaseError
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.storage.kinds import DeclaredKind, put_kinds
from holdfast.worker.job_kind import Kinds

_AGAIN_SECONDS = 5.0
_PATIENCE_SECONDS = 5.0

_log = logging.getLogger("holdfast.worker")


class KindRecorder:
    """A service of every worker. Jobs wait for its first try, and for no other: while a kind is unknown, its
    arguments are masked whole.
    """

    def __init__(self, database: Database, schema: Schema, kinds: Kinds, *, version: str) -> None:
        self._database = database
        self._schema = schema
        self._kinds = kinds
        self._version = version
        self._is_stored = False

    async def prepare(self) -> None:
        """Before the first claim: what another version of the code has called secret must not be told by this
        one. If the database does not answer, `run` tries again.
        """
        if self._is_stored:
            return
        with suppress(DatabaseError, TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self.once()

    async def run(self) -> None:
        failures = FailureLog(_log, "storing what is declared of this worker's kinds")
        while not self._is_stored:
            try:
                await self.once()
            except DatabaseError as error:
                failures.failed(error)
                await asyncio.sleep(_AGAIN_SECONDS)
        failures.worked()

    async def once(self) -> None:
        declared = [
            DeclaredKind(
                kind.policy,
                kind.style,
                kind.signature.json_schema(),
                kind.signature.redaction,
                () if kind.limits is None else kind.limits.stored,
            )
            for kind in self._kinds.values()
        ]
        for stored in await self._database.run(put_kinds(self._schema, declared, version=self._version)):
            self._kinds[stored.name].signature.remember(Redaction.of(stored.secrets))
        self._is_stored = True
