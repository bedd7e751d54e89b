"""Several statements of which each may depend on the answers before: written once, held by whoever has a
connection, blocking or not.

    def cancel(...) -> Conversation[Answer]:
        rows = yield from ask(statement)
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Protocol, TypeVar

from holdfast.postgres.statement import Statement

T = TypeVar("T")
R = TypeVar("R")

Conversation = Generator[Statement[Any], list[Any], R]


class Holder(Protocol):
    """Who has connections: holds a conversation on the caller's, or in a transaction of its own."""

    async def hold(self, conversation: Conversation[R], conn: object) -> R: ...
    def hold_sync(self, conversation: Conversation[R], conn: object) -> R: ...


def ask(statement: Statement[T]) -> Conversation[list[T]]:
    """Put one statement, get its rows."""
    rows: list[T] = yield statement
    return rows


async def hold(conversation: Conversation[R], run: Callable[[Statement[Any]], Awaitable[list[Any]]]) -> R:
    """Carry a conversation through. An error of a statement is raised at its `yield`."""
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


def hold_blocking(conversation: Conversation[R], run: Callable[[Statement[Any]], list[Any]]) -> R:
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
