"""What a turn of the admitter lets pass: totals over keys, turns, weights, rates, breakers, closed limits."""

from datetime import timedelta

import pytest

from storage.limits.gates import Gate
from support.engine import Engine


@pytest.fixture
def gate(engine: Engine) -> Gate:
    engine.worker()
    return Gate(engine)


def test_a_total_over_keys_is_never_passed(gate: Gate) -> None:
    gate.declare(total=3, per_key=2)
    jobs = gate.arrive(["a", "a", "a", "b", "b", "c"])
    assert gate.settle_down() == 3
    assert gate.total() == 3
    assert sum(gate.held().values()) == 3
    assert max(gate.held().values()) <= 2
    [claimed] = gate.engine.claim(1, limit=1)
    assert claimed.job == jobs[0]
    gate.end(jobs[0], "a")
    assert gate.settle_down() == 1
    assert gate.total() == 3


def test_every_job_passes_in_the_end(gate: Gate) -> None:
    gate.declare(total=4, per_key=2)
    keys = [key for key in "abcde" for _ in range(7)]
    gate.arrive(keys)
    ran: list[int] = []
    while True:
        gate.settle_down()
        claimed = gate.engine.claim(1, limit=3)
        if not claimed:
            break
        for row in claimed:
            assert row.job is not None
            ran.append(row.job)
            gate.end(row.job, keys[row.job - 1])
    assert sorted(ran) == list(range(1, 36))
    assert gate.total() == 0
    assert gate.held() == {}
    gate.settle_down()
    assert gate.engine.connection.execute("select count(*) from holdfast.lane").fetchall() == [(0,)]


def test_keys_take_turns_however_many_jobs_one_of_them_has(gate: Gate) -> None:
    gate.declare(total=4, is_fair=True)
    gate.arrive(["big"] * 50)
    gate.settle_down()
    newcomer = gate.arrive(["small"])[0]
    ran: list[int] = []
    while newcomer not in ran:
        for row in gate.engine.claim(1, limit=1):
            assert row.job is not None
            ran.append(row.job)
            gate.end(row.job, "small" if row.job == newcomer else "big")
        gate.settle_down()
        assert len(ran) <= 13
    assert len(ran) <= 9, "two windows of four"


def test_a_key_with_a_larger_weight_gets_a_larger_share(gate: Gate) -> None:
    gate.declare(total=1, is_fair=True)
    gate.set_key("vip", weight=3)
    keys = ["vip"] * 40 + ["other"] * 40
    gate.arrive(keys)
    ran: list[str] = []
    for _ in range(40):
        gate.settle_down()
        [row] = gate.engine.claim(1, limit=1)
        assert row.job is not None
        ran.append(keys[row.job - 1])
        gate.end(row.job, ran[-1])
    assert 28 <= ran.count("vip") <= 32


def test_inside_a_key_the_most_urgent_come_first(gate: Gate) -> None:
    gate.declare(total=1, per_key=1)
    gate.arrive(["a"], priority=5)
    urgent = gate.arrive(["a"], priority=1)
    gate.settle_down()
    assert [row.job for row in gate.engine.claim(1)] == urgent


def test_a_job_that_becomes_urgent_behind_the_last_one_admitted_is_seen(gate: Gate) -> None:
    gate.declare(total=1, is_fair=True)
    first, second = gate.arrive(["a", "a"], priority=5)
    gate.settle_down()
    urgent = gate.arrive(["a"], priority=0)
    gate.engine.claim(1)
    gate.end(first, "a")
    gate.settle_down()
    assert [row.job for row in gate.engine.claim(1)] == urgent
    gate.end(urgent[0], "a")
    gate.settle_down()
    assert [row.job for row in gate.engine.claim(1)] == [second]


def test_a_rate_lets_its_burst_pass_and_then_one_by_one(gate: Gate) -> None:
    gate.declare(rate=10, rate_per=timedelta(seconds=10), burst=3)
    gate.arrive([""] * 20)
    assert gate.settle_down() == 3
    assert len(gate.engine.claim(1)) == 3
    turn = gate.turn()
    assert turn.admitted == 0
    gate.later(1)
    assert gate.settle_down() == 1
    gate.later(10)
    assert gate.settle_down() == 2, "with the one that nobody has claimed yet, never more than the burst"
    assert len(gate.engine.claim(1)) == 3
    gate.later(10)
    assert gate.settle_down() == 3


def test_a_rate_says_exactly_when_to_look_again(gate: Gate) -> None:
    gate.declare(rate=10, rate_per=timedelta(seconds=10), burst=1)
    gate.arrive(["", ""])
    assert gate.settle_down() == 1
    gate.engine.claim(1)
    gate.later(0.25)
    turn = gate.turn()
    assert turn.admitted == 0
    assert turn.again_in == pytest.approx(0.75)


def test_what_nobody_claims_never_becomes_a_burst(gate: Gate) -> None:
    gate.declare(rate=1, rate_per=timedelta(seconds=1), burst=2)
    gate.arrive([""] * 50)
    for _ in range(20):
        gate.settle_down()
        gate.later(30)
    assert len(gate.engine.claim(1, limit=50)) == 2


def test_a_strict_rate_is_kept_in_any_window(gate: Gate) -> None:
    gate.declare(rate=5, rate_per=timedelta(seconds=10), is_strict=True)
    gate.arrive([""] * 50)
    starts: list[float] = []
    for tenth in range(400):
        gate.settle_down()
        starts += [tenth / 10 for _ in gate.engine.claim(1, limit=50)]
        gate.later(0.1)
    assert len(starts) >= 20
    for start in starts:
        assert len([other for other in starts if start <= other < start + 10]) <= 5


def test_a_run_that_was_retried_before_anybody_looked_counts_as_a_start(gate: Gate) -> None:
    gate.declare(rate=2, rate_per=timedelta(seconds=10), is_strict=True)
    gate.arrive([""] * 6)
    assert gate.settle_down() == 2
    for row in gate.engine.claim(1):
        assert row.job is not None
        gate.engine.connection.execute(
            "with gone as (delete from holdfast.lease where job = %s returning *),"
            " told as (insert into holdfast.ledger"
            " (job, run, started_at, finished_at, worker, outcome, attempt, is_final, queue, kind)"
            " select job, run, started_at, %s, worker, 'retried', attempt, false, queue, kind from gone)"
            " insert into holdfast.ready"
            " (job, ready_at, attempt, priority, segment, queue, kind, limit_name, limit_key)"
            " select job, %s, 1, 5, 8, queue, kind, 'stripe', '' from gone",
            [row.job, gate.engine.now, gate.engine.now],
        )
        gate.knock("", given=1)
    gate.later(1)
    assert gate.settle_down() == 0


def test_a_rate_of_each_key_holds_back_only_that_key(gate: Gate) -> None:
    gate.declare(key_rate=1, key_rate_per=timedelta(seconds=1), key_burst=1)
    gate.arrive(["a", "a", "b"])
    assert gate.settle_down() == 2
    gate.engine.claim(1)
    assert gate.settle_down() == 0
    gate.later(1)
    assert gate.settle_down() == 1
    gate.engine.claim(1)
    gate.later(2)
    gate.settle_down()
    gate.later(2)
    gate.settle_down()


def test_a_job_can_cost_more_than_one(gate: Gate) -> None:
    gate.declare(rate=10, rate_per=timedelta(seconds=10), burst=10)
    gate.arrive(["", ""], cost=8)
    assert gate.settle_down() == 1
    gate.engine.claim(1)
    gate.later(5)
    assert gate.settle_down() == 0
    gate.later(1)
    assert gate.settle_down() == 1


def test_a_cost_above_the_burst_waits_for_a_full_bucket_and_leaves_a_debt(gate: Gate) -> None:
    gate.declare(rate=10, rate_per=timedelta(seconds=10), burst=5)
    gate.arrive(["", ""], cost=20)
    assert gate.settle_down() == 1
    gate.engine.claim(1)
    gate.later(19)
    assert gate.settle_down() == 0
    gate.later(1)
    assert gate.settle_down() == 1


def test_what_a_run_has_spent_besides_delays_the_next(gate: Gate) -> None:
    gate.declare(rate=10, rate_per=timedelta(seconds=10), burst=2)
    gate.arrive([""])
    gate.settle_down()
    gate.engine.claim(1)
    gate.knock("", spent=9)
    gate.arrive([""])
    assert gate.settle_down() == 0
    gate.later(8)
    assert gate.settle_down() == 0
    gate.later(1)
    assert gate.settle_down() == 1


def breaker(per_key: bool = False) -> str:
    return '{"failures": 3, "pause": 30, "per_key": %s}' % ("true" if per_key else "false")


@pytest.mark.parametrize("per_key", [False, True], ids=["limit", "key"])
def test_a_breaker_opens_after_failures_in_a_row_probes_and_closes(gate: Gate, per_key: bool) -> None:
    gate.declare(per_key=5, breaker=breaker(per_key))
    gate.arrive(["a"] * 30)

    def run(count: int, **verdict: object) -> None:
        rows = gate.engine.claim(1, limit=count)
        assert len(rows) == count
        for row in rows:
            assert row.job is not None
            gate.end(row.job, "a", **verdict)

    gate.settle_down()
    run(2, failures=1)
    gate.settle_down()
    run(1, is_success=True, failures=0)
    gate.settle_down()
    run(2, failures=1)
    assert gate.settle_down() == 2, "a success in between: two in a row do not open it"
    run(1, failures=1)
    gate.settle_down()
    rest = gate.engine.claim(1, limit=10)
    for row in rest:
        assert row.job is not None
        gate.end(row.job, "a")
    assert gate.settle_down() == 0
    turn = gate.turn()
    assert turn.again_in is None or turn.again_in > 0
    gate.later(31)
    assert gate.settle_down() == 1, "one probe"
    run(1, failures=1)
    assert gate.settle_down() == 0, "it failed: open again"
    gate.later(31)
    assert gate.settle_down() == 1
    assert gate.settle_down() == 0
    run(1, is_success=True, failures=0)
    assert gate.settle_down() == 5, "closed again"


def test_a_breaker_of_a_key_leaves_other_keys_alone(gate: Gate) -> None:
    gate.declare(per_key=5, breaker=breaker(per_key=True))
    bad = gate.arrive(["bad"] * 10)
    gate.settle_down()
    gate.engine.claim(1, limit=5)
    for job in bad[:5]:
        gate.end(job, "bad", failures=1)
    gate.arrive(["good"] * 5)
    assert gate.settle_down() == 5


def test_a_key_that_a_handler_has_closed_waits_until_then(gate: Gate) -> None:
    gate.declare(per_key=1, rate=1000, rate_per=timedelta(seconds=1), burst=1000)
    gate.arrive(["a", "a", "b"])
    assert gate.settle_down() == 2
    [first, second] = gate.engine.claim(1)
    assert first.job is not None
    assert second.job is not None
    gate.end(first.job, "a", closed_for=timedelta(seconds=30))
    gate.end(second.job, "b")
    assert gate.settle_down() == 0
    gate.later(29)
    assert gate.settle_down() == 0
    gate.later(2)
    assert gate.settle_down() == 1


def test_a_closed_limit_lets_nothing_pass_until_its_time(gate: Gate) -> None:
    gate.declare(total=5, closed_at=gate.engine.now, closed_until=gate.engine.now + timedelta(seconds=60))  # type: ignore[operator]
    gate.arrive(["", ""])
    turn = gate.turn()
    assert turn.admitted == 0
    assert gate.turn().again_in == pytest.approx(60)
    gate.later(60)
    assert gate.settle_down() == 2


def test_a_closed_key_lets_nothing_pass_and_others_do(gate: Gate) -> None:
    gate.declare(total=5, per_key=5)
    gate.set_key("a", closed_at=gate.engine.now)
    gate.arrive(["a", "b"])
    assert gate.settle_down() == 1
    assert gate.held() == {"b": 1}


def test_a_limit_that_nobody_has_declared_lets_everything_pass_and_counts(gate: Gate) -> None:
    gate.arrive(["a"] * 12)
    assert gate.settle_down() == 12
    assert gate.total() == 12
    gate.later(1)
    gate.declare(per_key=2)
    gate.arrive(["a"])
    assert gate.settle_down() == 0
    assert gate.held() == {"a": 12}, "those that passed before are still counted"


def test_lowering_and_raising_converge_and_never_admit_too_many(gate: Gate) -> None:
    gate.declare(total=10)
    keys = [""] * 100
    gate.arrive(keys)
    assert gate.settle_down() == 10
    gate.later(1)
    gate.declare(total=2)
    gate.knock("")
    assert gate.settle_down() == 0
    rows = gate.engine.claim(1, limit=10)
    for row in rows[:8]:
        assert row.job is not None
        gate.end(row.job, "")
        assert gate.settle_down() == 0
    assert rows[8].job is not None
    gate.end(rows[8].job, "")
    assert gate.settle_down() == 1
    gate.later(1)
    gate.declare(total=50)
    gate.knock("")
    assert gate.settle_down() == 48


def test_a_plain_limit_becomes_direct_when_its_lanes_fit(gate: Gate) -> None:
    gate.declare(per_key=1, may_be_direct=True)
    gate.arrive(["a", "a", "b"])
    assert gate.settle_down() == 2
    assert gate.engine.connection.execute("select is_direct from holdfast.limit_rule").fetchall() == [(True,)]
    assert gate.engine.connection.execute(
        "select key, held, awaited from holdfast.lane order by key"
    ).fetchall() == [
        ("a", 1, True),
        ("b", 1, True),
    ]
    assert gate.engine.connection.execute("select count(*) from holdfast.limit_state").fetchall() == [(0,)]


def test_a_job_with_two_limits_goes_to_the_second_gate_and_knocks(gate: Gate) -> None:
    gate.declare(total=2, per_key=2)
    [job] = gate.arrive(["a"], then="zebra")
    turn = gate.turn()
    assert turn.knocked == ("zebra",)
    rows = gate.engine.connection.execute(
        "select job, segment, limit_name, limit_key, next_limit from holdfast.ready"
    ).fetchall()
    assert rows == [(job, 8, "zebra", "a", None)]
    second = Gate(gate.engine, "zebra")
    assert second.settle_down() == 1
    assert [row.job for row in gate.engine.claim(1)] == [job]


def test_jobs_that_no_worker_takes_hold_no_permit(gate: Gate) -> None:
    gate.declare(total=1, per_key=1)
    gate.arrive(["a"])
    gate.engine.connection.execute("update holdfast.ready_gated set kind = 'unknown'")
    other = gate.arrive(["a"])
    assert gate.settle_down() == 1
    assert [row.job for row in gate.engine.claim(1)] == other


def test_without_a_worker_nothing_is_admitted(engine: Engine) -> None:
    gate = Gate(engine)
    gate.declare(rate=100, rate_per=timedelta(seconds=1), burst=10)
    gate.arrive([""] * 5)
    assert gate.settle_down() == 0


def test_a_job_that_another_transaction_has_locked_is_admitted_later(gate: Gate, dsn: str) -> None:
    import psycopg

    gate.declare(total=5, per_key=5)
    gate.arrive(["a", "a"])
    with psycopg.connect(dsn) as other:
        other.execute("select from holdfast.ready_gated order by job limit 1 for update")
        assert gate.turn().admitted == 1
        other.rollback()
    assert gate.settle_down() == 1
