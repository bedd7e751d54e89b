"""Several connections debounce the same keys while their jobs run, fail and are retried: for every key, what
was enqueued last runs last.
"""

import asyncio
import itertools
import threading
from collections import defaultdict
from contextlib import suppress
from random import Random

import psycopg
import pytest

from holdfast import App, Retry
from support.waiting import until

CALLERS, BURSTS, KEYS = 4, 60, 3


class Rolled(Exception):
    """Takes a transaction back."""


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_last_enqueue_of_every_key_runs_and_nothing_older_begins_after_it(
    app: App, dsn: str, seed: int
) -> None:
    tokens = itertools.count()
    turns: dict[int, list[tuple[int, int]]] = defaultdict(list)
    began: dict[int, list[int]] = defaultdict(list)
    luck, lock = Random(seed), threading.Lock()  # a test that can be run again

    @app.job(unique=["key"], debounce="15ms", max_wait="60ms", retry=Retry(backoff="20ms"))
    async def index(key: int, token: int) -> None:
        began[key].append(token)
        await asyncio.sleep(luck.choice([0, 0, 0.01, 0.05]))
        if luck.random() < 0.3:
            raise ValueError("again")

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create sequence turn")

    def call(number: int) -> None:
        own = Random(seed * 100 + number)  # the same
        with psycopg.connect(dsn) as connection:
            for _ in range(BURSTS):
                key, token = own.randrange(KEYS), next(tokens)
                with suppress(Rolled), connection.transaction():
                    index.using(conn=connection).enqueue_sync(key, token)
                    # The key is locked until the commit, so that turns are taken in the order of commits.
                    row = connection.execute("select nextval('turn')").fetchone()
                    assert row is not None
                    if own.random() < 0.2:
                        raise Rolled
                    with lock:
                        turns[key].append((row[0], token))

    async with app.worker():
        await asyncio.gather(*(asyncio.to_thread(call, number) for number in range(CALLERS)))
        last = {key: max(taken)[1] for key, taken in turns.items()}

        def is_over() -> bool:
            with psycopg.connect(dsn) as connection:
                active = connection.execute(
                    "select count(*) from holdfast.jobs"
                    " where state in ('ready', 'scheduled', 'running', 'waiting')"
                ).fetchone()
            return active == (0,)

        await until(is_over, lambda: f"{last} in {dict(began)}")
    assert {key: tokens[-1] for key, tokens in began.items()} == last
    written = {token for taken in turns.values() for _, token in taken}
    assert {token for tokens in began.values() for token in tokens} <= written, (
        "nothing that was rolled back ran"
    )
    assert sum(map(len, turns.values())) > len({token for tokens in began.values() for token in tokens})
    # A key may be left behind by a settle that found it locked: the next enqueue takes it over.
    assert {damage.code for damage in (await app.fsck()).damages} <= {"stale_key"}
