"""What code has declared of each kind of job, stored by the workers that know it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from holdfast.domain.backoff import from_json, to_json
from holdfast.domain.job import Policy, check_limit, check_name
from holdfast.domain.limit_keys import KindLimit
from holdfast.domain.limit_keys import from_json as limits_from_json
from holdfast.domain.limit_keys import to_json as limits_to_json
from holdfast.domain.redaction import Redaction, Redactions
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement


@dataclass(frozen=True, slots=True)
class DeclaredKind:
    """A kind as the code of one worker declares it."""

    policy: Policy
    style: str
    parameters: dict[str, Any]
    redaction: Redaction
    limits: tuple[KindLimit, ...] = ()


class StoredSecrets(NamedTuple):
    """What is secret in a kind, by this and by every earlier declaration."""

    name: str
    secrets: list[str]


class KindRow(NamedTuple):
    name: str
    style: str
    queue: str
    priority: int
    max_attempts: int
    backoff: str | None
    timeout: timedelta | None
    keep: timedelta | None
    parameters: str
    secrets: list[str]
    on_lost: str | None
    tags: list[str] | None
    version: str
    first_seen_at: datetime
    last_seen_at: datetime
    workers: int
    stored_limits: str | None = None

    @property
    def policy(self) -> Policy:
        """As its code declares it. What an older release has not stored is as by default."""
        return Policy(
            self.name,
            self.queue,
            self.priority,
            self.max_attempts,
            from_json(self.backoff),
            self.timeout,
            self.keep,
            "fail" if self.on_lost == "fail" else "retry",
            tuple(self.tags or ()),
        )

    @property
    def redaction(self) -> Redaction:
        return Redaction.of(self.secrets)

    @property
    def limits(self) -> tuple[KindLimit, ...]:
        return limits_from_json(self.stored_limits)


_PUT = statement("kind_put", StoredSecrets, is_repeatable=True)
_LIST = statement("kind_list", KindRow, is_repeatable=True)
_FORGET = statement("kind_forget", str)
_TAGS = statement("known_tags", str, is_repeatable=True)


def put_kinds(
    schema: Schema, kinds: Sequence[DeclaredKind], *, version: str, now: datetime | None = None
) -> Statement[StoredSecrets]:
    """Store what a worker's code declares; answers what is secret in each kind by now."""
    ordered = sorted(kinds, key=lambda kind: kind.policy.kind)
    policies = [kind.policy for kind in ordered]
    return _PUT.with_params(
        schema,
        names=[policy.kind for policy in policies],
        priorities=[policy.priority for policy in policies],
        max_attempts=[policy.max_attempts for policy in policies],
        styles=[kind.style for kind in ordered],
        queues=[policy.queue for policy in policies],
        parameters=[json.dumps(kind.parameters) for kind in ordered],
        backoffs=[to_json(policy.backoff) for policy in policies],
        timeouts=[policy.timeout for policy in policies],
        keeps=[policy.keep for policy in policies],
        secrets=[json.dumps(kind.redaction.written()) for kind in ordered],
        on_losts=[policy.on_lost for policy in policies],
        tags=[json.dumps(policy.tags) for policy in policies],
        limits=[limits_to_json(kind.limits) for kind in ordered],
        version=version,
        now=now,
    )


def kinds(
    schema: Schema,
    *,
    names: Sequence[str] | None = None,
    after: str | None = None,
    limit: int = 1_000,
    now: datetime | None = None,
) -> Statement[KindRow]:
    """What is known of kinds, by name; a page begins `after` the last name of the one before."""
    check_limit(limit)
    given = None if names is None else list(names)
    return _LIST.with_params(schema, names=given, after=after, limit=limit, now=now)


def redactions(schema: Schema, names: Iterable[str], declared: Redactions) -> Conversation[Redactions]:
    """What is secret in the arguments and results of these kinds, by what workers have stored and by what the
    caller's own code has `declared`.
    """
    wanted = sorted(set(names))
    rows = (yield from ask(kinds(schema, names=wanted, limit=len(wanted)))) if wanted else []
    return Redactions({row.name: row.redaction for row in rows}).with_all(declared, wanted)


def known_tags(schema: Schema, *, searched: int = 10_000) -> Statement[str]:
    """Tags of kinds and of the latest jobs."""
    return _TAGS.with_params(schema, searched=searched)


def forget_kind(schema: Schema, name: str) -> Statement[str]:
    check_name("kind", name)
    return _FORGET.with_params(schema, name=name)
