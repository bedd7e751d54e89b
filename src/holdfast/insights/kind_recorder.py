"""Stores what this worker's code declares of its kinds, once, when the worker starts."""

import asyncio
import logging

from holdfast.errors import DatabaseError
from holdfast.postgres.database import Database
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.storage.kinds import DeclaredKind, put_kinds
from holdfast.worker.job_kind import Kinds

_AGAIN_SECONDS = 5.0

_log = logging.getLogger("holdfast.worker")


class KindRecorder:
    """A service of every worker. Jobs do not wait for it: while a kind is unknown, its arguments are masked
    whole.
    """

    def __init__(self, database: Database, schema: Schema, kinds: Kinds, *, version: str) -> None:
        self._database = database
        self._schema = schema
        self._kinds = kinds
        self._version = version

    async def run(self) -> None:
        failures = FailureLog(_log, "storing what is declared of this worker's kinds")
        is_stored = False
        while not is_stored:
            try:
                await self.once()
                is_stored = True
            except DatabaseError as error:
                failures.failed(error)
                await asyncio.sleep(_AGAIN_SECONDS)
        failures.worked()

    async def once(self) -> None:
        declared = [
            DeclaredKind(kind.policy, kind.style, kind.signature.json_schema(), kind.signature.redaction)
            for kind in self._kinds.values()
        ]
        await self._database.run(put_kinds(self._schema, declared, version=self._version))
