"""Breaks: small changes of the source, each of which takes a promise away, with the tests that must notice.

Each `old` stands exactly once in its file: `test_breaks.py` makes sure of that, and that the tests exist.
When you change a line that is named here, change the break too: it says what the line is there for.
"""

from typing import NamedTuple


class Break(NamedTuple):
    """`file` is below `src/holdfast`; a test is the part of its id below `tests/`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


_CHORES = "acceptance/test_chores_of_a_worker.py::"
_LEADING = "acceptance/test_leadership.py::"
_LEASES = "acceptance/test_lost_leases.py::"
_ROWS = "acceptance/test_stored_jobs_under_new_code.py::"
_WAKES = "acceptance/test_notifications_wake_workers.py::"
_OWN_CONNECTIONS = "acceptance/test_handler_transaction_on_own_connection.py::"
_DEFAULTS = "acceptance/test_defaults_of_a_worker.py::"
_GIVEN = "connections/test_returned_connections.py::"
_QUEUE = "connections/test_pool_queue.py::"
_RACES = "schedules/test_races.py::"
_SLEPT = _RACES + "test_a_leader_that_slept_between_reading_and_firing_fires_nothing_that_another_has_fired"
_REFUSED = (
    "schedules/test_declared_schedules.py::"
    "test_one_that_the_database_refuses_is_told_and_tried_again_while_the_others_go_on"
)
_CLOCK = "schedules/test_databases_clock.py::"

BREAKS = (
    # Chores of a running worker
    Break(
        "a worker does not prune",
        "leader_chores.py",
        "    PRUNE,  #",
        "    #",
        (_CHORES + "test_a_worker_prunes_until_nothing_is_left_and_comes_back_for_more",),
    ),
    Break(
        "a worker does not fold failures",
        "leader_chores.py",
        "    FOLD_FAILURES,  #",
        "    #",
        ("insights/test_failures.py::test_the_leader_counts_failures_by_itself",),
    ),
    Break(
        "a dead letter does not know its group",
        "storage/sql/settle.sql",
        "select job, run, clock.now, asked.fingerprints[place]",
        "select job, run, clock.now, null",
        ("insights/test_failures.py::test_retrying_a_group_runs_its_jobs_again",),
    ),
    Break(
        "the pruner does not loop",
        "worker/chores/job_pruner.py",
        "return Did(done.moved, is_more=done.moved == _PRUNED)",
        "return Did(done.moved)",
        (_CHORES + "test_a_worker_prunes_until_nothing_is_left_and_comes_back_for_more",),
    ),
    Break(
        "the pruner is a hundred times slower",
        "worker/chores/job_pruner.py",
        "    shortest=5,\n    longest=60,\n",
        "    shortest=500,\n    longest=6000,\n",
        (_CHORES + "test_a_worker_prunes_until_nothing_is_left_and_comes_back_for_more",),
    ),
    Break(
        "a worker does not time overdue runs out",
        "leader_chores.py",
        "    ENFORCE_TIMEOUTS,  #",
        "    #",
        (_CHORES + "test_a_leader_takes_away_what_its_worker_did_not_time_out",),
    ),
    Break(
        "overdue runs have no grace",
        "worker/chores/timeout_enforcer.py",
        "_GRACE = timedelta(seconds=30)",
        "_GRACE = timedelta()",
        (_CHORES + "test_a_run_within_its_timeout_is_left_alone",),
    ),
    Break(
        "the promoter passes no bound",
        "worker/chores/job_promoter.py",
        "promote(self._schema, since=since, limit=_PROMOTED)",
        "promote(self._schema, since=since, limit=1_000_000)",
        (_CHORES + "test_a_worker_promotes_a_flood_in_bounded_passes",),
    ),
    Break(
        "a worker does not expire what is late",
        "leader_chores.py",
        "    EXPIRE,  #",
        "    #",
        (_CHORES + "test_a_worker_expires_what_waits_past_its_deadline",),
    ),
    Break(
        "a worker does not fold what was counted",
        "leader_chores.py",
        "    FOLD_COUNTERS,  #",
        "    #",
        (_CHORES + "test_a_worker_folds_what_was_counted",),
    ),
    Break(
        "a worker does not turn the ring",
        "leader_chores.py",
        "    TURN_RING,  #",
        "    #",
        (_CHORES + "test_a_worker_turns_the_ring_and_gives_space_back",),
    ),
    Break(
        "expired jobs are kept by default, not as told",
        "worker/chores/job_expirer.py",
        "expire(self._schema, since=since, retention=self._retention)",
        "expire(self._schema, since=since)",
        (_DEFAULTS + "test_finished_jobs_are_kept_for_as_long_as_the_worker_was_told",),
    ),
    # Leadership
    Break(
        "is_leader stays true",
        "worker/chores/leader.py",
        "            self.is_leader = False\n            self._emitter.emit(",
        "            self._emitter.emit(",
        (_LEADING + "test_a_worker_says_when_it_leads_when_it_does_no_longer_and_when_it_does_again",),
    ),
    Break(
        "a leader counts its lease from the reply",
        "worker/chores/leader.py",
        "return sent_at + self._lease.total_seconds()",
        "return monotonic() + self._lease.total_seconds()",
        (_LEADING + "test_a_leader_counts_its_lease_from_before_it_asked",),
    ),
    Break(
        "a renewal of leadership may hang past the lease",
        "worker/chores/leader.py",
        "await self._try(max(until - lease / 10 - monotonic(), 0.05))",
        "await self._try(lease)",
        (_LEADING + "test_a_leader_that_cannot_renew_stops_its_chores_before_its_lease_ends",),
    ),
    Break(
        "no worker hears that the leader has left",
        "worker/notification_wiring.py",
        "            leader.is_wanted()\n",
        "            pass\n",
        (_LEADING + "test_a_worker_that_waits_to_lead_hears_that_the_place_is_vacant",),
    ),
    Break(
        "a leader that stops keeps its place",
        "worker/chores/leader.py",
        "await through_cancellation(self._step_down())",
        "pass",
        (_LEADING + "test_a_worker_that_waits_to_lead_hears_that_the_place_is_vacant",),
    ),
    Break(
        "a worker that may not lead does",
        "worker/service_wiring.py",
        "*([leader] if self._options.is_leading_allowed else []),",
        "leader,",
        (_LEADING + "test_a_worker_that_may_not_lead_does_not",),
    ),
    # Leases
    Break(
        "a lease that is taken away does not cancel its handler",
        "worker/service_wiring.py",
        "                attempts.lose(news.missing)\n",
        "",
        (_LEASES + "test_a_run_that_is_taken_away_is_cancelled_and_the_other_runs_go_on",),
    ),
    Break(
        "a worker counts its lease from the reply",
        "worker/lease_keeper.py",
        "self._lease.believed_until = self._believed_from(sent_at)",
        "self._lease.believed_until = self._believed_from(monotonic())",
        (_LEASES + "test_a_lease_is_counted_from_before_its_renewal_was_sent",),
    ),
    Break(
        "a run that could not be settled is not said to be done again",
        "telemetry/log.py",
        "could not {event.doing}{then}",
        "could not {event.doing}",
        (_LEASES + "test_a_run_that_ended_but_could_not_be_settled_is_said_to_be_done_again",),
    ),
    Break(
        "what a worker does not know of is not given back",
        "worker/lease_keeper.py",
        "                self._give_back(worker, news)\n",
        "",
        (_WAKES + "test_a_run_that_is_given_back_is_claimed_again_by_the_same_worker_at_once",),
    ),
    Break(
        "no worker looks for what was given back",
        "worker/service_wiring.py",
        "on_released=fetcher.wake,",
        "on_released=lambda: None,",
        (_WAKES + "test_a_run_that_is_given_back_is_claimed_again_by_the_same_worker_at_once",),
    ),
    Break(
        "a cancel request is not heard before the next beat",
        "worker/notification_wiring.py",
        "    listener.subscribe(Channel.CANCEL.in_schema(schema), cancelled)\n",
        "",
        ("acceptance/test_cancel.py::test_a_cancel_request_reaches_a_running_coroutine_by_notification",),
    ),
    Break(
        "a cancel request is heard and not handed on",
        "worker/service_wiring.py",
        "                attempts.cancel(news.to_cancel)\n",
        "",
        ("acceptance/test_cancel.py::test_a_cancel_request_reaches_a_running_coroutine_by_notification",),
    ),
    # Rows and code
    Break(
        "the code's max_attempts counts, not the row's",
        "worker/attempt_runner.py",
        "Run(row.attempt, row.max_attempts, from_json(row.backoff))",
        "Run(row.attempt, claimed.kind.policy.max_attempts, from_json(row.backoff))",
        (_ROWS + "test_the_limit_of_attempts_is_the_one_that_was_stored_with_the_job",),
    ),
    Break(
        "a rescue ignores the limit of attempts",
        "storage/chores.py",
        "return Run(lease.attempt, lease.max_attempts,",
        "return Run(lease.attempt, 99,",
        (_ROWS + "test_a_run_that_is_lost_is_tried_as_often_as_its_row_says",),
    ),
    Break(
        "a bad row drops the rest of its batch",
        "worker/attempts.py",
        "            claimed = self.runs[row.run] = ClaimedRun(lease.worker",
        "            try:\n                kind.signature.decode(row.args)\n"
        "            except Undecodable:\n                break\n"
        "            claimed = self.runs[row.run] = ClaimedRun(lease.worker",
        (_ROWS + "test_a_row_that_cannot_be_read_holds_up_no_other_row_of_its_claim",),
    ),
    # Wake-ups
    Break(
        "new jobs are found by polling only",
        "worker/notification_wiring.py",
        "    listener.subscribe(Channel.READY.in_schema(schema), ready)\n",
        "",
        (_WAKES + "test_a_job_that_another_program_wrote_in_sql_wakes_a_worker_that_sleeps",),
    ),
    Break(
        "the leader does not hear of an earlier due time",
        "worker/chores/job_promoter.py",
        "woken_by=(Channel.DUE, ",
        "woken_by=(",
        (_WAKES + "test_a_job_that_is_due_sooner_wakes_a_leader_that_sleeps",),
    ),
    Break(
        "the planner does not hear of a new schedule",
        "schedules/planner.py",
        "    woken_by=(Channel.PLAN,),\n",
        "",
        (_WAKES + "test_a_schedule_that_is_new_wakes_the_planner",),
    ),
    Break(
        "what was parked does not come back",
        "leader_chores.py",
        "    UNPARK,  #",
        "    #",
        (_WAKES + "test_a_worker_gets_what_was_parked_for_want_of_it",),
    ),
    Break(
        "the listener waits for up to ten minutes",
        "postgres/listener.py",
        "cap=timedelta(seconds=5)",
        "cap=timedelta(minutes=10)",
        ("listener/test_losing_the_connection.py::test_the_waits_between_tries_never_exceed_five_seconds",),
    ),
    # Connections
    Break(
        "a caller that came last is served first",
        "postgres/pool_core.py",
        "self._waiters.popitem(last=False)",
        "self._waiters.popitem(last=True)",
        (
            _QUEUE + "test_callers_are_served_in_the_order_in_which_they_came",
            _QUEUE + "test_threads_are_served_in_the_order_in_which_they_came",
        ),
    ),
    Break(
        "a connection is lent in the middle of a transaction",
        "postgres/pool_core.py",
        "is_ready = connection.pgconn.transaction_status == TransactionStatus.IDLE",
        "is_ready = not connection.closed",
        (_QUEUE + "test_what_a_caller_left_in_the_middle_is_closed_and_replaced",),
    ),
    Break(
        "a cancelled caller keeps the connection that it is handed",
        "postgres/pool.py",
        "if connection := self.core.leave_queue(waiter):",
        "if (connection := self.core.leave_queue(waiter)) and not self:",
        (_GIVEN + "test_users_cancelled_at_any_time_leave_every_connection_to_the_others",),
    ),
    Break(
        "a cancellation is forgotten when the connection is cut",
        "postgres/pool.py",
        "self._task.cancelling() > self._before",
        "self._task.cancelling() > self._before + 1",
        ("connections/test_cancellation.py::test_a_cancellation_is_not_lost_when_the_connection_is",),
    ),
    # Retention and numbers
    Break(
        "the settler keeps jobs by default, not as told",
        "worker/service_wiring.py",
        "Settler(hot, self._schema, self._options.retention)",
        "Settler(hot, self._schema, type(self._options.retention)())",
        (_DEFAULTS + "test_finished_jobs_are_kept_for_as_long_as_the_worker_was_told",),
    ),
    Break(
        "a handler's own commit keeps jobs by default, not as told",
        "worker/completion.py",
        "complete_one_or_fail(self._schema, self._run(), retention=self._retention)",
        "complete_one_or_fail(self._schema, self._run(), retention=type(self._retention)())",
        (_DEFAULTS + "test_finished_jobs_are_kept_for_as_long_as_the_worker_was_told",),
    ),
    Break(
        "what succeeded is kept for two days",
        "domain/retention.py",
        "succeeded: timedelta = timedelta(hours=24)",
        "succeeded: timedelta = timedelta(hours=48)",
        (_DEFAULTS + "test_finished_jobs_are_kept_for_a_day_three_days_or_thirty",),
    ),
    Break(
        "a worker's lease lasts twice as long",
        "worker/lease_keeper.py",
        "lease: timedelta = timedelta(seconds=30)",
        "lease: timedelta = timedelta(seconds=60)",
        (_DEFAULTS + "test_leases_last_half_a_minute_for_a_worker_and_ten_seconds_for_the_leader",),
    ),
    # Schedules
    Break(
        "a plan is fired without its compare-and-swap",
        "storage/sql/plan_fire.sql",
        "        and last_plan_at is not distinct from a.was_last\n",
        "",
        (
            _RACES
            + "test_a_leader_that_slept_between_reading_and_firing_fires_nothing_that_another_has_fired",
        ),
    ),
    Break(
        "a plan that is written already fires again",
        "storage/sql/plan_fire.sql",
        "   cross join lateral generate_series(t.first, t.last) as n\n"
        "  on conflict on constraint plan_identity do nothing\n",
        "   cross join lateral generate_series(t.first, t.last) as n\n"
        "  on conflict on constraint plan_identity do update set count = excluded.count\n",
        (_RACES + "test_a_plan_that_was_backfilled_meanwhile_does_not_fire_again",),
    ),
    Break(
        "the planner goes by the clock of its process",
        "schedules/planner.py",
        "decide_all(due_rows, rows[0].now.astimezone(UTC))",
        "decide_all(due_rows, datetime.now(UTC))",
        (_CLOCK + "test_what_is_due_is_decided_by_the_clock_of_the_database",),
    ),
    Break(
        "without the database's clock the planner goes on",
        "schedules/planner.py",
        "        wait = await self._database.run_one(next_look(self._schema))\n"
        "        if wait is None or wait:",
        "        try:\n            wait = await self._database.run_one(next_look(self._schema))\n"
        "        except Exception:\n            return Did()\n        if wait is None or wait:",
        (_CLOCK + "test_while_the_database_tells_no_time_a_worker_plans_nothing",),
    ),
    Break(
        "a declaration that fails takes the others along",
        "schedules/declarer.py",
        '            await self._tell(one, f"{type(error).__name__}: {error}")\n            return False',
        "            raise",
        (_REFUSED,),
    ),
    # The engine
    Break(
        "a claim goes by id and not by priority",
        "storage/sql/claim.sql",
        "   order by priority, job\n   limit",
        "   order by job\n   limit",
        ("storage/test_claim.py",),
    ),
    Break(
        "a lost worker goes on claiming",
        "storage/sql/claim.sql",
        "   where id = %(worker)s::bigint and lost_at is null\n",
        "   where id = %(worker)s::bigint\n",
        ("storage/test_workers_and_leader.py", "storage/test_claim.py"),
    ),
    Break(
        "a paused queue is claimed from",
        "storage/sql/claim.sql",
        "            where name = %(queue)s::text and paused_at is not null\n",
        "            where name = %(queue)s::text and paused_at is null and paused_at is not null\n",
        ("storage/test_operators.py", "storage/test_claim.py"),
    ),
    Break(
        "a job past its deadline is claimed",
        "storage/sql/claim.sql",
        "     and (deadline_at is null or deadline_at > (select now from clock))\n",
        "",
        ("storage/test_promote_expire.py", "storage/test_claim.py"),
    ),
    Break(
        "a settle does not ask whose run it is",
        "storage/sql_parts/fence.sql",
        "     and run = (select runs from asked)[width_bucket(run, (select runs from asked))]\n",
        "",
        ("storage/test_settle.py",),
    ),
    Break(
        "a lost worker renews its lease",
        "storage/sql/renew.sql",
        "where w.id = %(worker)s::bigint and w.lost_at is null",
        "where w.id = %(worker)s::bigint",
        ("storage/test_workers_and_leader.py",),
    ),
    Break(
        "leadership is taken from a leader that renews",
        "storage/sql/lead.sql",
        " where l.worker = excluded.worker or l.expires_at <=",
        " where true or l.expires_at <=",
        ("storage/test_workers_and_leader.py",),
    ),
    Break(
        "the term stays when the leader changes",
        "storage/sql/lead.sql",
        "term = least(l.term, 9223372036854775806) + (l.worker <> excluded.worker)::int,",
        "term = l.term,",
        ("storage/test_workers_and_leader.py",),
    ),
    Break(
        "a key that is held is given to the next job",
        "storage/sql_parts/job_that_keeps_the_key.sql",
        "then excluded.job else held.job end",
        "then excluded.job else excluded.job end",
        ("storage/test_unique.py",),
    ),
    Break(
        "pruning takes what was to be kept for longer",
        "storage/sql/prune.sql",
        "   where is_final and keep_until <= coalesce",
        "   where is_final and keep_until - interval '12 hours' <= coalesce",
        ("storage/test_retention.py",),
    ),
    Break(
        "a run is taken away before its timeout",
        "storage/sql/overdue_leases.sql",
        "where timeout_at < coalesce(",
        "where started_at < coalesce(",
        ("storage/test_rescue.py",),
    ),
    Break(
        "on_lost is not asked",
        "storage/chores.py",
        'from_json(lease.backoff), lease.on_lost or "retry")',
        'from_json(lease.backoff), "retry")',
        ("storage/test_rescue.py",),
    ),
    # Attempts, slots, stopping
    Break(
        "a worker takes all of its slots at once",
        "worker/slots.py",
        "        return min(self.free(queue), most, self._half(queue))",
        "        return most",
        ("worker/test_fetcher.py", "acceptance/test_signals.py"),
    ),
    Break(
        "a stop does not wait for what runs",
        "worker/worker.py",
        "await self.stopping.unless_hurried(attempts.ended())",
        "pass",
        ("acceptance/test_signals.py::test_a_worker_told_to_stop_finishes_what_it_runs_and_claims_no_more",),
    ),
    Break(
        "a second signal waits for the grace",
        "worker/stopping.py",
        "            self.hurried.set()\n",
        "            pass\n",
        ("acceptance/test_signals.py::test_a_second_signal_does_not_wait_for_the_grace",),
    ),
    Break(
        "the poll is left out",
        "worker/fetcher.py",
        "                    await self._look()\n",
        "                    pass\n",
        (
            "acceptance/test_worker_inside_a_program.py::test_a_job_without_a_notification_is_found_by_polling",
        ),
    ),
    Break(
        "a chore that fails ends all of them",
        "worker/chores/chore_loop.py",
        "await self._alarm.sleep(min(_AFTER_FAILURE, self._longest))\n                continue",
        "raise",
        (
            "acceptance/test_worker_inside_a_program.py::test_a_chore_that_fails_stops_neither_itself_nor_the_others",
        ),
    ),
    Break(
        "a handler's own commit is not fenced",
        "storage/completions.py",
        "else (select '{_REFUSAL}, noticed at ' || now from clock)::int::text",
        "else 'settled'",
        (_LEASES + "test_a_handlers_transaction_is_rolled_back_when_its_run_was_taken_away",),
    ),
    Break(
        "the commit of a connection that a handler passes is not fenced",
        "worker/completion.py",
        '        if answers != ["settled"]:\n            raise self._lost("commit")',
        "        pass",
        (_OWN_CONNECTIONS + "test_a_run_that_has_lost_its_lease_commits_nothing",),
    ),
    # What callers write, and what they read
    Break(
        "a connection of a block is lent to other tasks and threads",
        "producer/ambient_connection.py",
        "if self._place != _here():",
        "if False:",
        (
            "api/test_ambient_connection.py::test_a_task_that_is_started_inside_is_refused_also_after_the_block",
            (
                "api/test_ambient_connection.py::"
                "test_a_thread_and_a_callback_that_have_the_blocks_variables_are_refused"
            ),
        ),
    ),
    Break(
        "an app that requires a connection writes without one",
        "job_writer.py",
        "        if self._is_conn_required:\n",
        "        if False:\n",
        (
            (
                "api/test_ambient_connection.py::"
                "test_an_app_that_requires_a_connection_writes_nothing_without_one"
            ),
        ),
    ),
    Break(
        "a message writes lines of its own into the log",
        "telemetry/log_lines.py",
        "    return _encodable(_TREACHEROUS.sub(",
        '    return _encodable(re.compile(r"(?!)").sub(',
        ("worker/test_log_lines.py::test_no_message_passes_for_a_line_of_the_log",),
    ),
    Break(
        "jobs that take their time are claimed beyond the standard number",
        "worker/slots.py",
        "have_ended = queue in self._was_full and ",
        "have_ended = ",
        (
            (
                "worker/test_slots.py::"
                "test_jobs_that_take_their_time_are_claimed_up_to_the_number_and_no_further"
            ),
        ),
    ),
    Break(
        "a number of slots that was set is exceeded",
        "worker/slots.py",
        "        if queue in self._elastic:",
        "        if queue:",
        ("worker/test_slots.py::test_a_number_that_was_set_holds_whatever_jobs_do",),
    ),
    Break(
        "lines that wait to be written are lost when a worker ends",
        "telemetry/batching_handler.py",
        "and self._writer.close()",
        "and self._writer is not None",
        ("cli/test_worker_log.py::test_an_error_that_ends_the_process_comes_behind_every_line",),
    ),
    Break(
        "lines that wait to be written are lost with the third signal",
        "stop_signals.py",
        "            write_out()\n            os._exit(1)",
        "            os._exit(1)",
        ("cli/test_worker_log.py::test_a_third_signal_leaves_no_line_behind",),
    ),
    Break(
        "a forked process writes nothing to the log",
        "telemetry/batching_handler.py",
        ", after_in_child=_in_fork",
        "",
        ("cli/test_worker_log.py::test_the_lines_of_a_job_come_in_the_order_in_which_they_were_logged",),
    ),
    Break(
        "lines that nobody reads fill the memory",
        "telemetry/line_writer.py",
        "        if waiting > (",
        "        if waiting < 0 * (",
        ("worker/test_line_writer.py::test_a_reader_that_stops_reading_costs_lines_and_is_told_how_many",),
    ),
    Break(
        "a second Ctrl-C ends a script in the middle of its worker",
        "background_worker.py",
        'is_taken=told == "one" and worker.started.is_set()',
        "is_taken=False",
        (
            (
                "api/test_interrupted_scripts.py::"
                "test_the_first_one_says_at_once_what_is_waited_for_and_the_second_gives_it_back"
            ),
        ),
    ),
)
