"""`app.kinds`: what workers have declared, and jobs by the name of their kind."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Flow, Job, Retry, Secret
from holdfast.domain.backoff import Fixed
from holdfast.domain.parameters import KindParameter
from holdfast.errors import InvalidArguments, InvalidInput, KindNotFound
from holdfast.storage.workers import register
from support.blocking_in_a_loop import both_colours
from support.stored_kinds import store_kinds


@pytest.fixture
async def charge(app: App) -> Job[..., str]:
    @app.job(
        queue="payments",
        priority=2,
        retry=Retry(max_attempts=3, backoff="7s"),
        timeout="9m",
        keep="2h",
        on_lost="fail",
        tags=["money"],
    )
    async def charge(order: int, card: Secret[str], note: str = "") -> str:
        return f"receipt {order}"

    @app.flow
    async def ship(flow: Flow, order: int) -> None: ...

    await store_kinds(app)
    return charge


def stored(dsn: str, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(question.encode()).fetchall()


@both_colours
async def test_kinds_are_listed_by_name_with_what_was_declared(app: App, charge: Job[..., str]) -> None:
    first, second = await app.kinds.list()
    assert (first.name, second.name, second.style) == ("charge", "ship", "flow")
    assert (first.style, first.queue, first.priority, first.max_attempts) == ("coroutine", "payments", 2, 3)
    assert (first.backoff, first.timeout, first.keep) == (
        Fixed(timedelta(seconds=7)),
        timedelta(minutes=9),
        timedelta(hours=2),
    )
    assert (first.on_lost, first.tags, first.version, first.workers) == ("fail", ("money",), "1.2.3", 0)
    assert first.parameters == (
        KindParameter("order", "a whole number", is_required=True, is_secret=False),
        KindParameter("card", "text", is_required=True, is_secret=True),
        KindParameter("note", "text", is_required=False, is_secret=False),
    )
    assert app.kinds.list_sync(after="charge") == [second]
    assert app.kinds.list_sync(limit=1) == [first]
    assert app.kinds.show_sync("ship") == await app.kinds.show("ship") == second


async def test_live_workers_that_know_a_kind_are_counted(app: App, charge: Job[..., str], dsn: str) -> None:
    for number in range(3):
        await app.run(
            register(app.schema, host="h", pid=number, version="1", queues=["q"], kinds=["charge"], slots=1)
        )
    stored(dsn, "update holdfast.worker set expires_at = now() - interval '1s' where pid = 0 returning 1")
    assert [kind.workers for kind in await app.kinds.list()] == [2, 0]


@both_colours
async def test_a_forgotten_kind_leaves_an_entry_in_the_audit(
    app: App, charge: Job[..., str], dsn: str
) -> None:
    await app.kinds.forget("ship", by="ann", reason="renamed")
    app.kinds.forget_sync("charge")
    assert await app.kinds.list() == []
    assert stored(dsn, "select action, by, target, reason, counts from holdfast.audit order by id") == [
        ("forget", "ann", "kind ship", "renamed", {"forgotten": 1}),
        ("forget", "python", "kind charge", None, {"forgotten": 1}),
    ]
    with pytest.raises(KindNotFound):
        await app.kinds.forget("charge")
    assert stored(dsn, "select count(*) from holdfast.audit") == [(2,)]


async def test_an_unknown_kind_is_told_with_similar_names(app: App, charge: Job[..., str]) -> None:
    for verb in (app.kinds.show, app.kinds.forget, app.kinds.enqueue):
        with pytest.raises(KindNotFound, match=r'no worker has declared a kind "chrage".*mean "charge"'):
            await verb("chrage")
    with pytest.raises(KindNotFound, match='"nothing" to this database: start a worker'):
        await app.kinds.show("nothing")


@both_colours
async def test_a_job_by_name_has_the_policy_of_its_kind(app: App, charge: Job[..., str], dsn: str) -> None:
    done = await app.kinds.enqueue("charge", {"order": 1, "card": "4111"})
    own = await charge.enqueue(1, card="4111")
    asked = "kind, queue, priority, max_attempts, backoff, timeout, keep, on_lost, tags, args::text"
    rows = stored(dsn, f"select {asked} from holdfast.job where id in ({done.job}, {own.id})")
    assert rows[0] == rows[1]
    async with app.worker():
        assert await app.handle(done.job).result("60s") == "receipt 1"
    again = app.kinds.enqueue_sync("charge", {"order": 2, "card": "4111"}, by="ann", reason="by hand")
    assert stored(
        dsn, "select action, by, target, reason, counts from holdfast.audit order by id desc limit 1"
    ) == [("enqueue", "ann", f"job {again.job} of kind charge", "by hand", {"enqueued": 1})]


async def test_options_win_over_the_policy(app: App, charge: Job[..., str]) -> None:
    args = {"order": 1, "card": "4111"}
    at = datetime(2031, 1, 1, tzinfo=UTC)
    done = await app.kinds.enqueue(
        "charge", args, queue="bulk", priority=9, tags=["vip"], at=at, unique="one"
    )
    shown = await app.jobs.show(done.job)
    assert (shown.summary.queue, shown.summary.priority, shown.summary.tags) == ("bulk", 9, ("vip",))
    assert (shown.summary.run_at, shown.unique_key) == (at, "one")
    assert done.is_new
    assert await app.kinds.enqueue("charge", args, queue="bulk", unique="one") == (done.job, False)
    later = await app.kinds.enqueue("charge", args, delay="2h")
    assert (await app.jobs.show(later.job)).summary.state == "scheduled"


async def test_a_kind_that_is_not_declared_yet_is_enqueued_by_force(app: App) -> None:
    done = await app.kinds.enqueue("later", {"any": [1]}, force=True)
    shown = await app.jobs.show(done.job)
    assert (shown.summary.kind, shown.summary.queue, shown.args) == ("later", "default", "[secret]")


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"order": 1}, '"card" must be given; it takes order, card, note'),
        ({"order": "1", "card": "hidden"}, r"charge\(order=…\): it must be a whole number, not text"),
        ({"order": 1, "card": "hidden", "nota": ""}, 'no parameter "nota" .*mean "note"'),
        ({"order": 1, "card": ["hidden"]}, "it must be text, not a list"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused(
    app: App, charge: Job[..., str], args: dict[str, Any], problem: str, dsn: str
) -> None:
    with pytest.raises(InvalidArguments, match=problem) as raised:
        await app.kinds.enqueue("charge", args)
    assert "hidden" not in str(raised.value)
    assert stored(dsn, "select count(*) from holdfast.job") == [(0,)]


async def test_a_rerun_checks_its_edited_arguments_too(app: App, charge: Job[..., str]) -> None:
    job = (await charge.enqueue(1, card="4111")).id
    with pytest.raises(InvalidArguments, match="it must be a whole number"):
        await app.jobs.rerun(job, args={"order": "1", "card": "[secret]"})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"kind": ""}, "kind '' must be text"),
        ({"args": [1]}, "args must be a JSON object"),
        ({"args": {"order": float("nan"), "card": ""}}, "args cannot be written"),
        ({"priority": 10}, "priority"),
        ({"tags": "vip"}, "give a list"),
        ({"delay": "soon"}, "not a length of time"),
        ({"delay": "1h", "at": datetime(2031, 1, 1, tzinfo=UTC)}, "a delay or a time"),
        ({"unique": ""}, "unique key"),
        ({"by": " "}, "who does it"),
    ],
)
async def test_bad_input_is_refused(
    app: App, charge: Job[..., str], given: dict[str, Any], problem: str, dsn: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        await app.kinds.enqueue(**{"kind": "charge", "args": {"order": 1, "card": ""}, **given})
    assert stored(dsn, "select count(*) from holdfast.job") == [(0,)]
    with pytest.raises(InvalidInput):
        await app.kinds.list(limit=0)
