"""A module whose annotations are text, and name what is defined below them or only for type checkers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codec.support import Context
    from codec.test_signatures import OnlyForCheckers


async def ship(ctx: Context, parcel: Parcel, to: Office.Counter | None = None) -> Parcel:
    return parcel


async def lose(ctx: Context, parcel: OnlyForCheckers) -> None: ...


class Office:
    @dataclass
    class Counter:
        number: int

    def open(self, counter: Counter) -> Counter:
        return counter

    def __call__(self, counter: Office.Counter) -> None: ...

    @staticmethod
    def close(counter: Counter) -> None: ...


@dataclass
class Parcel:
    weight: int
    inner: Parcel | None = None
