"""Kinds as a worker stores them at its start, without a worker."""

from holdfast import App
from holdfast.storage.kinds import DeclaredKind, put_kinds


async def store_kinds(app: App) -> None:
    declared = [
        DeclaredKind(
            kind.policy,
            kind.style,
            kind.signature.json_schema(),
            kind.signature.redaction,
            () if kind.limits is None else kind.limits.stored,
        )
        for kind in app.declared_kinds.values()
    ]
    await app.run(put_kinds(app.schema, declared, version="1.2.3"))
