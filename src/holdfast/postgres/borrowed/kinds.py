"""Which library an object is from, told by the names of its classes, so that no library is imported to ask.

What cannot be run on is refused here, before anything is sent, with what to pass instead.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from holdfast.errors import WrongConnection

AwaitedLibrary: TypeAlias = Literal["psycopg", "asyncpg", "sqlalchemy"]
BlockingLibrary: TypeAlias = Literal["psycopg", "sqlalchemy", "django"]
ClassName: TypeAlias = tuple[str, str]
"""The package at the root of a class's module, and its name: modules inside a library move, these stay."""

AWAITED: Mapping[ClassName, AwaitedLibrary] = {
    ("psycopg", "AsyncConnection"): "psycopg",
    ("asyncpg", "Connection"): "asyncpg",
    ("asyncpg", "PoolConnectionProxy"): "asyncpg",
    ("sqlalchemy", "AsyncConnection"): "sqlalchemy",
    ("sqlalchemy", "AsyncSession"): "sqlalchemy",
    ("sqlalchemy", "async_scoped_session"): "sqlalchemy",
}

BLOCKING: Mapping[ClassName, BlockingLibrary] = {
    ("psycopg", "Connection"): "psycopg",
    ("sqlalchemy", "Connection"): "sqlalchemy",
    ("sqlalchemy", "Session"): "sqlalchemy",
    ("sqlalchemy", "scoped_session"): "sqlalchemy",
    ("django", "ConnectionProxy"): "django",
    ("django", "BaseDatabaseWrapper"): "django",
}

INSTEAD_OF_AWAITED: Mapping[AwaitedLibrary, str] = {
    "psycopg": "pass a psycopg.Connection",
    "asyncpg": "pass a psycopg.Connection (asyncpg has no blocking one)",
    "sqlalchemy": "pass SQLAlchemy's Connection or Session (inside run_sync you are given one)",
}

INSTEAD_OF_BLOCKING: Mapping[BlockingLibrary, str] = {
    "psycopg": "pass a psycopg.AsyncConnection",
    "sqlalchemy": "pass SQLAlchemy's AsyncConnection or AsyncSession",
    "django": "wrap the blocking call in sync_to_async, as Django asks for its own queries",
}

_OPENED = "pass a connection that is taken from it and open"

NOT_CONNECTIONS: Mapping[ClassName, str] = {
    ("builtins", "NoneType"): "pass the connection that your transaction is open on",
    ("builtins", "str"): "a DSN has no transaction: open a connection and pass that",
    ("builtins", "coroutine"): "await it first",
    ("psycopg", "BaseCursor"): "pass its connection",
    ("psycopg_pool", "BasePool"): f'{_OPENED}: "with pool.connection() as connection"',
    ("psycopg2", "connection"): "use psycopg 3, or psycopg2 through SQLAlchemy or Django",
    ("asyncpg", "Pool"): f'{_OPENED}: "async with pool.acquire() as connection"',
    ("asyncpg", "PoolAcquireContext"): 'write "async with pool.acquire() as connection", or await it',
    ("sqlalchemy", "Engine"): f'{_OPENED}: "with engine.begin() as connection"',
    ("sqlalchemy", "AsyncEngine"): f'{_OPENED}: "async with engine.begin() as connection"',
    ("sqlalchemy", "sessionmaker"): f'{_OPENED}: "with make_session.begin() as session"',
    ("sqlalchemy", "async_sessionmaker"): f'{_OPENED}: "async with make_session.begin() as session"',
    ("django", "BaseConnectionHandler"): 'pass one of them, such as connections["default"]',
}

_KNOWN = "pass an open connection of psycopg, asyncpg, SQLAlchemy (or a Session) or Django"


def awaited(connection: object) -> AwaitedLibrary:
    """The library of a connection whose calls are awaited."""
    for name in _class_names(connection):
        if name in AWAITED:
            return AWAITED[name]
        if name in BLOCKING:
            raise WrongConnection(
                f"{described(connection)} is blocking: call the method that ends in _sync, or "
                f"{INSTEAD_OF_BLOCKING[BLOCKING[name]]}"
            )
    raise not_a_connection(connection)


def blocking(connection: object) -> BlockingLibrary:
    """The library of a connection whose calls block."""
    for name in _class_names(connection):
        if name in BLOCKING:
            return BLOCKING[name]
        if name in AWAITED:
            raise WrongConnection(
                f"{described(connection)} is awaited: call the method without _sync, or "
                f"{INSTEAD_OF_AWAITED[AWAITED[name]]}"
            )
    raise not_a_connection(connection)


def check_known(connection: object) -> None:
    """Raise `WrongConnection` unless it is a connection, async or blocking, of a driver that we know."""
    if not any(name in AWAITED or name in BLOCKING for name in _class_names(connection)):
        raise not_a_connection(connection)


def described(connection: object) -> str:
    """Its class and nothing of its content: a DSN may hold a password."""
    cls = type(connection)
    return "None" if connection is None else f"a {cls.__module__}.{cls.__qualname__}"


def closed(connection: object) -> WrongConnection:
    return WrongConnection(
        f"{described(connection)} is closed: pass the connection that your transaction is open on"
    )


def not_a_connection(connection: object) -> WrongConnection:
    advice = (NOT_CONNECTIONS[name] for name in _class_names(connection) if name in NOT_CONNECTIONS)
    return WrongConnection(f"cannot run on {described(connection)}: {next(advice, _KNOWN)}")


def _class_names(connection: object) -> Iterator[ClassName]:
    # Tracers wrap connections in proxies that show the real class as `__class__`, not as their type.
    for cls in (*type(connection).__mro__, *connection.__class__.__mro__):
        yield cls.__module__.partition(".")[0], cls.__name__
