"""Several statements, each of which may depend on the answers before: written once, for a connection that
is awaited and for one that blocks.

    def cancel(...) -> Conversation[Answer]:
        rows = yield from ask(statement)
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Protocol, TypeVar

from holdfast.postgres.statement import Statement

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")

Conversation = Generator[Statement[Any], list[Any], R]


class Holder(Protocol):
    """Has connections: holds a conversation on the caller's, or in a transaction of its own. One that only
    reads, for an operator, is looked up by `look`: apart from what enqueues, and within a bound of time.
    """

    async def hold(self, conversation: Conversation[R], conn: object) -> R: ...
    def hold_sync(self, conversation: Conversation[R], conn: object) -> R: ...
    async def look(self, conversation: Conversation[R], conn: object) -> R: ...
    def look_sync(self, conversation: Conversation[R], conn: object) -> R: ...
    def chosen(self, conn: object) -> object:
        """The caller's connection, given or around it; None if there is none."""


def ask(statement: Statement[T]) -> Conversation[list[T]]:
    """Put one statement, get its rows."""
    rows: list[T] = yield statement
    return rows


async def hold(conversation: Generator[S, Any, R], run: Callable[[S], Awaitable[Any]]) -> R:
    """Carry a conversation through. An error of a statement is raised at its `yield`.

    The pools hold theirs in the same way, with steps in place of statements.
    """
    try:
        statement = next(conversation)
        while True:
            try:
                rows = await run(statement)
            except Exception as error:  # noqa: BLE001  # handed to the conversation, which raises it again
                statement = conversation.throw(error)
            else:
                statement = conversation.send(rows)
    except StopIteration as end:
        answer: R = end.value
        return answer
    finally:
        conversation.close()


def hold_blocking(conversation: Generator[S, Any, R], run: Callable[[S], Any]) -> R:
    """The same for a caller without an event loop."""
    try:
        statement = next(conversation)
        while True:
            try:
                rows = run(statement)
            except Exception as error:  # noqa: BLE001  # handed to the conversation, which raises it again
                statement = conversation.throw(error)
            else:
                statement = conversation.send(rows)
    except StopIteration as end:
        answer: R = end.value
        return answer
    finally:
        conversation.close()
