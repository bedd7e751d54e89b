"""A table of notes, and statements on it."""

from dataclasses import dataclass

from holdfast.postgres.statement import Statement

TABLE = "create table note (id bigint generated always as identity primary key, body text not null unique)"


@dataclass(frozen=True)
class Note:
    id: int
    body: str


def write(body: str) -> Statement[Note]:
    return Statement(
        "write", "insert into note (body) values (%(body)s::text) returning id, body", {"body": body}, Note
    )


def write_silently(body: str) -> Statement[object]:
    return Statement("write", "insert into note (body) values (%(body)s::text)", {"body": body}, object)


def read() -> Statement[str]:
    return Statement("read", "select body from note order by id", {}, str)


def ask(question: str, **params: object) -> Statement[tuple[object, ...]]:
    return Statement("ask", question, params, lambda *columns: columns)
